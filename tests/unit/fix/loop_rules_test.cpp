// Rules about training loops, on the scripts in tests/fixes: `#: S301` at the end of a line says
// what must be found on it, and nothing else may be found anywhere. What everything that is not
// manual makes of a script stands beside it as NAME.fixed (LOCKSTEP_UPDATE_GOLDEN=1 writes them
// anew).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "support/fix_project.hpp"
#include "support/golden.hpp"
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
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> entries() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() != ".fixed") names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
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
      if (word == "^")
        of_line = number - 1;
      else
        expected.push_back(std::string(word) + " " + file.filename().string() + ":" +
                           std::to_string(of_line));
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
  std::ranges::sort(found);
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);

  for (const fs::path& file : files_of(entry)) {
    const std::string after = project.after(file.filename().string());
    const fs::path golden = file.string() + ".fixed";
    const bool changed = after != text_at(file);
    if (testing::updates_golden_files() && !changed) fs::remove(golden);
    if (changed)
      testing::expect_golden(golden, after);
    else
      EXPECT_FALSE(fs::exists(golden)) << golden << " is left over: nothing is changed";
  }
}

// Whether memory is short is not in the code: it is said.
class WhereMemoryIsShort : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(WhereMemoryIsShort, ALoopMakesTwoPassesAnUpdateAndIsOnlyShown) {
  const auto& [script, expected] = GetParam();
  FixProject project;
  project.file("train.py", script).filter({{FindingCode::out_of_memory}, {}});
  EXPECT_TRUE(project.findings().empty());

  Wishes wishes;
  wishes.short_of_memory = FindingCode::out_of_memory;
  project.wish(wishes);
  const FixPlan plan = project.plan();

  ASSERT_EQ(plan.groups.size(), expected.empty() ? 0 : 1);
  if (expected.empty()) return;
  EXPECT_EQ(plan.groups.front().safety, FixSafety::manual);
  EXPECT_NE(plan.findings.front().ways.front().description.find(
                "16 samples a pass and 2 passes an update: the effective batch stays 32"),
            std::string::npos);
  const auto& [file, edits] = *plan.groups.front().edits.begin();
  EXPECT_EQ(edited(script, edits), expected);
}
INSTANTIATE_TEST_SUITE_P(
    Loops, WhereMemoryIsShort,
    ::testing::Values(
        std::pair<std::string, std::string>{
            "import torch\nfrom torch.utils.data import DataLoader\n\nmodel = torch.nn.Linear(4, "
            "4).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "loader = DataLoader(data, batch_size=32, num_workers=2)\nfor x, y in loader:\n    "
            "optimizer.zero_grad()\n    loss = model(x).sum()\n    loss.backward()\n    "
            "optimizer.step()\n    scheduler.step()\n    seen += 1\n",
            "import torch\nfrom torch.utils.data import DataLoader\n\nmodel = torch.nn.Linear(4, "
            "4).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "loader = DataLoader(data, batch_size=16, num_workers=2)\nfor turn, (x, y) in "
            "enumerate(loader):\n    loss = model(x).sum()\n    (loss / 2).backward()\n    if "
            "(turn + 1) % 2 == 0 or turn + 1 == len(loader):\n        optimizer.step()\n        "
            "scheduler.step()\n        optimizer.zero_grad()\n    seen += 1\n"},
        // It accumulates already: how far is its author's business.
        std::pair<std::string, std::string>{
            "import torch\nfrom torch.utils.data import DataLoader\n\nmodel = torch.nn.Linear(4, "
            "4).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "loader = DataLoader(data, batch_size=32, num_workers=2)\nfor i, x in "
            "enumerate(loader):\n    loss = model(x).sum() / 4\n    loss.backward()\n    if (i + "
            "1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
            ""}));

INSTANTIATE_TEST_SUITE_P(All, ScriptsOfTestsFixes, ::testing::ValuesIn(entries()),
                         [](const auto& entry) {
                           return entry.param.substr(0, entry.param.find('.'));
                         });

}  // namespace
}  // namespace lockstep
