// What would go wrong if a script that runs as one process ran as one process a GPU.
#pragma once

#include <string>

#include "fix/rule.hpp"

namespace lockstep {

// In words, with the place: "train.py:12 gives its model a device_map that is not by rank". Empty: nothing that is seen.
std::string hazard_of_many_ranks(const Project& project, const TrainingCode& code);

// The part of it about files: written and read back, or removed, by every rank.
std::string files_that_ranks_share(const Project& project, const TrainingCode& code);

// Whether the script trains with DeepSpeed or FSDP by its arguments: those are no DDP, and have no nn.DataParallel to fall
// back to.
bool shards_by_arguments(const TrainingCode& code);

}  // namespace lockstep
