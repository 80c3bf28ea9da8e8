// Processes as /proc shows them, for tests that look for what was left behind.
#pragma once

#include <string>
#include <vector>

namespace lockstep::testing {

// Living processes whose environment holds NAME=value: the mark stays on every descendant, wherever
// it went.
std::vector<int> processes_with(const std::string& entry);
std::vector<int> living_children_of(int pid);

}  // namespace lockstep::testing
