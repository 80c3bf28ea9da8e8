#include "render/json/json_renderer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

nlohmann::json rendered(const Report& report) {
  return nlohmann::json::parse(JsonRenderer().render(report));
}

TEST(JsonReport, OfNothingHasEveryKey) {
  const auto json = rendered({});

  EXPECT_EQ(json.at("lockstep_report"), 1);
  EXPECT_TRUE(json.at("verdict").is_null());
  for (const char* key : {"jobs", "findings", "suspicions", "gpus", "processes", "not_measured"})
    EXPECT_TRUE(json.at(key).is_array()) << key;
}

TEST(JsonReport, NumbersAreNumbersAndMissingIsNull) {
  Report report;
  report.gpus.emplace_back();
  report.gpus[0].busy = 0.51234567;
  report.gpus[0].memory_used_bytes = 80e9;
  report.gpus[0].power_mw = std::nan("");

  const auto gpu = rendered(report).at("gpus").at(0);

  EXPECT_EQ(gpu.at("busy"), 0.5123);
  EXPECT_EQ(gpu.at("memory_used_bytes"), 80'000'000'000);
  EXPECT_TRUE(gpu.at("power_mw").is_null()) << "NaN is not JSON";
  EXPECT_TRUE(gpu.at("sm").is_null());
}

TEST(JsonReport, ShowsAFindingByCodeAndName) {
  Report report;
  Finding finding;
  finding.code = FindingCode::taking_turns;
  finding.severity = Severity::critical;
  finding.confidence = 0.98;
  finding.evidence = {{"exclusive_busy", 0.97, 0.8, "fraction"}};
  finding.fixes = {{FixKind::command,
                    FixSafety::unsafe,
                    "one process per GPU",
                    {"torchrun", "train.py"},
                    std::nullopt}};
  report.findings.push_back(finding);
  report.verdict = Verdict{Pattern::taking_turns, 0.98, "GPU 0 and 1 take turns."};

  const auto json = rendered(report);

  EXPECT_EQ(json.at("findings")[0].at("code"), "P101");
  EXPECT_EQ(json.at("findings")[0].at("name"), "taking-turns");
  EXPECT_EQ(json.at("findings")[0].at("fixes")[0].at("safety"), "unsafe");
  EXPECT_EQ(json.at("verdict").at("pattern"), "taking-turns");
}

TEST(JsonReport, SurvivesTextThatIsNoUtf8) {
  Report report;
  ProcessSample process;
  process.command = {"\xFF\xFE"};
  report.processes.push_back(process);

  EXPECT_NO_THROW(rendered(report));
}

}  // namespace
}  // namespace lockstep
