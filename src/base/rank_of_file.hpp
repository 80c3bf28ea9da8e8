// Which rank a file is of, as launchers and PyTorch name them.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

// "/tmp/nccl_trace_rank_3", "rank2.log"; torchrun's "attempt_0/3/stderr.log" by its folder.
std::optional<int> rank_of_file(const std::string& path);

}  // namespace lockstep
