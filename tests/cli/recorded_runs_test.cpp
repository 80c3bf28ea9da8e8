// Runs that were recorded on an H200 (tests/recordings): each gets the verdict and the findings
// that it is known to deserve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/run_program.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace testing;

std::vector<std::string> codes_of(const json& list) {
  std::vector<std::string> codes;
  for (const json& finding : list) codes.push_back(finding["code"].get<std::string>());
  return codes;
}

TEST(RecordedRuns, GetTheReportsThatTheyDeserve) {
  const std::filesystem::path folder =
      std::filesystem::path(source_tree()) / "tests/recordings/h200";
  std::ifstream stream(folder / "expected.json");
  const json expected = json::parse(stream);
  ASSERT_GE(expected.size(), 14U);

  for (const auto& [name, wanted] : expected.items()) {
    const ProgramEnd end =
        run_lockstep({"diagnose", (folder / (name + ".jsonl.zst")).string(), "--json", "--quiet"});
    const json report = json::parse(end.out, nullptr, false);
    ASSERT_TRUE(report.is_object()) << name << ": " << end.err;
    EXPECT_EQ(report["verdict"]["pattern"], wanted["pattern"]) << name;
    EXPECT_THAT(
        codes_of(report["findings"]),
        ::testing::UnorderedElementsAreArray(wanted["findings"].get<std::vector<std::string>>()))
        << name;
    EXPECT_EQ(end.code, wanted["findings"].empty() ? 0 : 1) << name;
    for (const json& code : wanted.value("suspicions", json::array()))
      EXPECT_THAT(codes_of(report["suspicions"]), ::testing::Contains(code.get<std::string>()))
          << name;
  }
}

}  // namespace
}  // namespace lockstep
