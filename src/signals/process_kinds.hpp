// What a process is by its command: a rank, a server or a part of one, a notebook, a desktop's
// program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/sample.hpp"

namespace lockstep {

// An inference server, by its program or the title that it gives itself.
bool is_server(const std::vector<std::string>& command);
// "VLLM::Worker_TP0" and "VLLM::Worker_TP1" of one parent serve one model; engines beside each
// other ("VLLM::EngineCore_DP1", "ray::ServeReplica") have requests of their own.
bool holds_a_part_of_a_model(const ProcessSample& process);
bool is_an_engine(const ProcessSample& process);
bool is_notebook(const ProcessSample& process);
bool draws_a_screen(const ProcessSample& process);
// "train.py --local_rank=0" and "train.py --local_rank=1".
bool are_ranks_by_their_commands(const ProcessSample& a, const ProcessSample& b);

// Nothing: no number, or one of more than seven digits.
std::optional<int> small_number(const std::string& text);

}  // namespace lockstep
