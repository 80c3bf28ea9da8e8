// What holds for the whole tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

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
      EXPECT_EQ(text.find("GetPcieThroughput"), std::string::npos)
          << file << ": it blocks for 20 ms (measured on an H200)";
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

// Two types of one name in one namespace are one type to the linker: it keeps the members of
// either, and the other's are read out of bounds. Seen once, with two classes called Node.
TEST(Tree, NoTwoTypesShareAName) {
  static const std::regex kType(
      R"(^(?:struct|class|enum class) (\w+)(?: final)?(?: :[^:].*)? \{.*)");
  std::map<std::string, fs::path> seen;
  for_each_source([&](const fs::path& file, const std::string& text) {
    if (!fs::relative(file, kRoot / "tests").string().starts_with("..")) return;
    std::istringstream lines(text);
    bool is_own_affair = false;
    for (std::string line; std::getline(lines, line);) {
      if (line == "namespace {") is_own_affair = true;
      if (line == "}  // namespace") is_own_affair = false;
      std::smatch found;
      if (is_own_affair || !std::regex_match(line, found, kType)) continue;
      const auto [place, is_new] = seen.emplace(found[1], file);
      EXPECT_TRUE(is_new) << found[1] << " is in " << file << " and in " << place->second;
    }
  });
  EXPECT_GT(seen.size(), 300U) << "the pattern finds the types no more";
}

// Sources of a layer are compiled as one, sixteen at a time here and sixty-four under the
// sanitizers: two constants of one name stop the build that has both in one unit.
TEST(Tree, NoTwoFilesOfALayerShareAConstant) {
  static const std::regex kConstant(R"(^constexpr [^=({]*\b(k[A-Z]\w+)\b *[={(].*)");
  std::map<std::pair<std::string, std::string>, fs::path> seen;
  for_each_source([&](const fs::path& file, const std::string& text) {
    const fs::path within = fs::relative(file, kRoot / "src");
    if (within.string().starts_with("..") || file.extension() != ".cpp") return;
    auto part = within.begin();
    std::string layer = part->string();
    if (layer == "render") layer += "/" + (++part)->string();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::smatch found;
      if (!std::regex_match(line, found, kConstant)) continue;
      const auto [place, is_new] = seen.emplace(std::pair(layer, found[1].str()), file);
      EXPECT_TRUE(is_new || place->second == file)
          << found[1] << " is in " << file << " and in " << place->second;
    }
  });
  EXPECT_GT(seen.size(), 300U) << "the pattern finds the constants no more";
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
