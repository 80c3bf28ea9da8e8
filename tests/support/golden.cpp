#include "support/golden.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace lockstep::testing {

namespace fs = std::filesystem;

bool updates_golden_files() { return std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr; }

void expect_golden(const fs::path& file, const std::string& content) {
  if (updates_golden_files()) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return;
  }
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << file << " is not there; LOCKSTEP_UPDATE_GOLDEN=1 makes it from\n"
                      << content;
  const std::string expected{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(content, expected) << file
                               << " says otherwise; LOCKSTEP_UPDATE_GOLDEN=1 writes it anew";
}

}  // namespace lockstep::testing
