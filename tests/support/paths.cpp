#include "support/paths.hpp"

#include <cstdlib>

namespace lockstep::testing {

std::string lockstep_program() { return LOCKSTEP_BINARY; }
std::string source_tree() { return LOCKSTEP_SOURCE_DIR; }
std::filesystem::path real_data() {
  if (const char* const given = std::getenv("LOCKSTEP_TEST_DATA");
      given != nullptr && *given != '\0')
    return given;
  return std::filesystem::path(source_tree()).parent_path() / "shared/data";
}
std::string test_tool(const std::string& name) { return LOCKSTEP_TEST_TOOLS "/" + name; }

}  // namespace lockstep::testing
