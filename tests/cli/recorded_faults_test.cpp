// Programs with one known fault each, recorded from outside on an H200, with the step time without
// the fault and with it from the same run (tests/recordings/faults): the right cause is named,
// nobody else is blamed, and the cost is what was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "recording/line_stream.hpp"
#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace testing;
namespace fs = std::filesystem;

constexpr double kPoints = 0.1;        // of the throughput
constexpr double kMostUnknown = 0.15;  // of the GPU time

fs::path folder_of_faults() { return fs::path(source_tree()) / "tests/recordings/faults"; }

json faults() {
  std::ifstream stream(folder_of_faults() / "corpus.json");
  return json::parse(stream);
}

std::vector<std::string> names_of_faults() {
  const json all = faults();
  std::vector<std::string> names;
  for (const auto& [name, facts] : all.items()) names.push_back(name);
  return names;
}

json report_on(const fs::path& recording) {
  const ProgramEnd end = run_lockstep({"diagnose", recording.string(), "--json", "--quiet"});
  json report = json::parse(end.out, nullptr, false);
  EXPECT_TRUE(report.is_object()) << recording << ": " << end.err;
  return report;
}

// The same run as it is seen where py-spy is not installed.
void leave_out_stacks(const fs::path& recording, const fs::path& to) {
  auto lines = LineStream::open(recording);
  ASSERT_TRUE(lines);
  std::ofstream out(to);
  while (const auto line = lines->next()) {
    json record = json::parse(*line);
    if (record.contains("processes"))
      for (json& process : record["processes"]) process.erase("stacks");
    out << record.dump() << '\n';
  }
}

bool is_in(const json& list, const json& code) {
  return std::ranges::find(list, code) != list.end();
}

class RecordedFault : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedFault, IsNamedWithItsCostAndNobodyElseIsBlamed) {
  const json facts = faults()[GetParam()];
  const json report = report_on(folder_of_faults() / (GetParam() + ".jsonl.zst"));

  double cost = 0;
  bool named = false;
  for (const json& finding : report["findings"]) {
    const bool right = is_in(facts["right"], finding["code"]);
    EXPECT_TRUE(right || is_in(facts["beside"], finding["code"])) << finding["code"];
    named = named || right;
    if (right) cost = std::max(cost, finding["lost_throughput"].get<double>());
  }
  EXPECT_EQ(named, !facts["right"].empty()) << report["findings"];
  if (named && !facts["true_loss"].is_null()) {
    EXPECT_NEAR(cost, facts["true_loss"].get<double>(), kPoints);
  }
  for (const json& part : report["jobs"][0]["ledger"]["parts"])
    EXPECT_TRUE(part["name"] != "unknown" || part["share"].get<double>() <= kMostUnknown) << part;
}

TEST_P(RecordedFault, BlamesNobodyElseWithoutPythonStacksEither) {
  const json facts = faults()[GetParam()];
  const TemporaryFolder folder;
  const fs::path bare = folder.path() / "bare.jsonl";
  leave_out_stacks(folder_of_faults() / (GetParam() + ".jsonl.zst"), bare);

  const json report = report_on(bare);
  for (const json& finding : report["findings"])
    EXPECT_TRUE(is_in(facts["right"], finding["code"]) || is_in(facts["beside"], finding["code"]) ||
                is_in(facts["without_stacks"], finding["code"]))
        << finding["code"];
}

INSTANTIATE_TEST_SUITE_P(OnAnH200, RecordedFault, ::testing::ValuesIn(names_of_faults()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
