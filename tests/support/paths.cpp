#include "support/paths.hpp"

namespace lockstep::testing {

std::string lockstep_program() { return LOCKSTEP_BINARY; }
std::string source_tree() { return LOCKSTEP_SOURCE_DIR; }
std::string test_tool(const std::string& name) { return LOCKSTEP_TEST_TOOLS "/" + name; }

}  // namespace lockstep::testing
