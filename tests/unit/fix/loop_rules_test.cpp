// Rules about training loops, on the scripts in tests/fixes: `#: S301` at the end of a line says what must be found on it, and nothing else may be
// found anywhere. What everything that is not manual makes of a script stands beside it as NAME.fixed (LOCKSTEP_UPDATE_FIXES=1 writes them anew).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "support/fix_project.hpp"
#include "support/paths.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
namespace fs = std::filesystem;

const fs::path kFolder = fs::path(testing::source_tree()) / "tests/fixes";

std::string text_at(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A script of its own, or the files of a folder.
std::vector<fs::path> files_of(const fs::path& entry) {
  if (!fs::is_directory(entry)) return {entry};
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(entry))
    if (file.path().extension() != ".fixed") files.push_back(file.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> entries() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() != ".fixed") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// "S301 train.py:12" for each `#: S301`; `#: ^ S301` alone on a line speaks of the line above.
std::vector<std::string> expected_in(const fs::path& file) {
  std::vector<std::string> expected;
  int number = 0;
  const std::string text = text_at(file);
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const auto mark = line.find("#: ");
    if (mark == std::string_view::npos) continue;
    int of_line = number;
    for (const std::string_view word : split(trim(line.substr(mark + 3)), ' '))
      if (word == "^") of_line = number - 1;
      else expected.push_back(std::string(word) + " " + file.filename().string() + ":" + std::to_string(of_line));
  }
  return expected;
}

class ScriptsOfTestsFixes : public ::testing::TestWithParam<std::string> {};

TEST_P(ScriptsOfTestsFixes, HaveTheFindingsTheirLinesNameAndThePatchBesideThem) {
  const fs::path entry = kFolder / GetParam();
  FixProject project;
  std::vector<std::string> expected;
  for (const fs::path& file : files_of(entry)) {
    project.file(file.filename().string(), text_at(file));
    for (std::string& line : expected_in(file)) expected.push_back(std::move(line));
  }
  auto found = project.findings();
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);

  for (const fs::path& file : files_of(entry)) {
    const std::string after = project.after(file.filename().string());
    const fs::path golden = file.string() + ".fixed";
    const bool changed = after != text_at(file);
    if (std::getenv("LOCKSTEP_UPDATE_FIXES") != nullptr) {
      if (changed) std::ofstream(golden, std::ios::binary) << after;
      else fs::remove(golden);
      continue;
    }
    EXPECT_EQ(fs::exists(golden), changed) << file;
    if (changed && fs::exists(golden)) {
      EXPECT_EQ(after, text_at(golden));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScriptsOfTestsFixes, ::testing::ValuesIn(entries()), [](const auto& entry) { return entry.param.substr(0, entry.param.find('.')); });

}  // namespace
}  // namespace lockstep
