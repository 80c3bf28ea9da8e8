// Where this build lies. In one file, so that the others compile the same wherever the tree is.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::testing {

std::string lockstep_program();  // the one under test
std::string source_tree();
// Real runs, logs and traces that are not part of the project: LOCKSTEP_TEST_DATA, else beside it.
// It may not be there.
std::filesystem::path real_data();
std::string test_tool(const std::string& name);  // a program or library of the tests' own

}  // namespace lockstep::testing
