// What holds for the whole tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "support/paths.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = testing::source_tree();

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

template <class Visit>
void for_each_source(Visit visit) {
  for (const char* tree : {"include", "src", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / tree)) {
      const std::string kind = entry.path().extension().string();
      if (kind == ".cpp" || kind == ".hpp") visit(entry.path(), text_of(entry.path()));
    }
}

TEST(Tree, TheSlowPcieCallIsNeverMade) {
  for_each_source([](const fs::path& file, const std::string& text) {
    if (fs::relative(file, kRoot / "src").string().starts_with("sources/")) {
      EXPECT_EQ(text.find("GetPcieThroughput"), std::string::npos) << file << ": it blocks for 20 ms (measured on an H200)";
    }
  });
}

TEST(Tree, EveryHeaderOpensWithItsPurpose) {
  for_each_source([](const fs::path& file, const std::string& text) {
    if (file.extension() == ".hpp") {
      EXPECT_TRUE(text.starts_with("// ")) << file;
    }
  });
}

TEST(Tree, EveryHeaderIsGuarded) {
  for_each_source([](const fs::path& file, const std::string& text) {
    if (file.extension() == ".hpp") {
      EXPECT_NE(text.find("#pragma once"), std::string::npos) << file;
    }
  });
}

TEST(Tree, EveryContractCompilesWithoutThirdParties) {
  for (const auto& entry : fs::directory_iterator(kRoot / "include/lockstep")) {
    static const std::regex kForeign(R"(#include <[^>]*/)");
    EXPECT_FALSE(std::regex_search(text_of(entry.path()), kForeign)) << entry.path();
  }
}

TEST(Tree, TheReadmeNamesItsTwoCommands) {
  const std::string readme = text_of(kRoot / "README.md");

  EXPECT_THAT(readme, ::testing::HasSubstr("scripts/try"));
  EXPECT_THAT(readme, ::testing::HasSubstr("scripts/test"));
}

}  // namespace
}  // namespace lockstep
