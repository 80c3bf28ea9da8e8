// Every recording of the tests has its reports beside it, as text, Markdown and JSON: a change of
// judgement or of words is seen in the diff. After a change that is meant:
//   LOCKSTEP_UPDATE_GOLDEN=1 ctest --preset dev -R GoldenReports
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/golden.hpp"
#include "support/paths.hpp"
#include "support/run_program.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace testing;

struct ReportFormat {
  std::string name;
  std::string suffix;
};
const std::vector<ReportFormat> kReportFormats = {
    {"text", ".txt"}, {"markdown", ".md"}, {"json", ".json"}};

std::vector<fs::path> all_recordings() {
  std::vector<fs::path> found;
  for (const char* folder : {"tests/recordings/h200", "tests/screens"})
    for (const auto& entry : fs::directory_iterator(fs::path(source_tree()) / folder))
      if (entry.path().string().ends_with(".jsonl.zst")) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

class GoldenReports : public ::testing::TestWithParam<fs::path> {};

TEST_P(GoldenReports, AreWhatDiagnoseSays) {
  const fs::path& recording = GetParam();
  const std::string name = recording.stem().stem().string();

  for (const ReportFormat& format : kReportFormats) {
    // from its own folder, so that the report names the file and not this machine's path to it
    const ProgramEnd end = run_lockstep_in(
        recording.parent_path(),
        {"diagnose", recording.filename().string(), "--quiet", "--format", format.name});

    EXPECT_TRUE(end.code == 0 || end.code == 1) << end.err;
    expect_golden(recording.parent_path() / "reports" / (name + format.suffix), end.out);
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, GoldenReports, ::testing::ValuesIn(all_recordings()),
                         [](const auto& test) {
                           std::string name = test.param.stem().stem().string();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(GoldenReportFiles, BelongToARecording) {
  for (const char* folder : {"tests/recordings/h200", "tests/screens"}) {
    const fs::path reports = fs::path(source_tree()) / folder / "reports";
    for (const auto& entry : fs::directory_iterator(reports))
      EXPECT_TRUE(fs::exists(reports.parent_path() / (entry.path().stem().string() + ".jsonl.zst")))
          << entry.path() << " is the report of no recording";
  }
}

}  // namespace
}  // namespace lockstep
