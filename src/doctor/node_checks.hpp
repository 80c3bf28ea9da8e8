// Whether machines reach each other: one answers, the others ask.
//
// The answering side speaks one line for each that it is sent; nothing of it stays behind. It is no
// part of training: jobs meet by torch.distributed.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/check.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// Answers on the port until `stop` says so. An error where it cannot be listened on. `asked`: told
// who asked.
Status answer_nodes(int port, const std::function<bool()>& stop,
                    const std::function<void(const std::string&)>& asked);

// Each machine's name, its port, and, where `lockstep doctor --answer` runs there, its clock and
// the way there and back.
Checks ask_nodes(const std::vector<std::string>& nodes, int port, std::chrono::milliseconds limit);

}  // namespace lockstep
