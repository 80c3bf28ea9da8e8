// Advice in the words of the program that was seen, and for the machine that it runs on.
#include <gtest/gtest.h>

#include "advice/advice_table.hpp"

namespace lockstep {
namespace {

std::string fix_of(FindingCode code, const ProbeSettings& settings) {
  Signals signals;
  JobSignals job;
  job.settings = settings;
  signals.jobs.push_back(job);
  Diagnosis diagnosis;
  Finding finding;
  finding.code = code;
  diagnosis.findings.push_back(finding);
  add_advice(diagnosis, signals);
  return diagnosis.findings.front().fixes.back().description;
}

ProbeSettings program(const std::string& framework, double cores) {
  ProbeSettings settings;
  settings.framework = framework;
  settings.cores_a_rank = cores;
  return settings;
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(SuitedAdvice, NamesTheSettingOfTheFrameworkAndNoOther) {
  const FindingCode logs = FindingCode::logging_too_often;
  EXPECT_TRUE(says(fix_of(logs, program("transformers", 8)), "logging_steps=50"));
  const std::string lightning = fix_of(logs, program("lightning", 8));
  EXPECT_TRUE(says(lightning, "log_every_n_steps=50"));
  EXPECT_FALSE(says(lightning, "logging_steps"));
  EXPECT_FALSE(says(fix_of(logs, program("none", 8)), "_steps="));
  const std::string unknown = fix_of(logs, ProbeSettings{});
  EXPECT_TRUE(says(unknown, "logging_steps=50") && says(unknown, "log_every_n_steps=50"));
}

TEST(SuitedAdvice, AsksForNoMoreWorkersThanThereAreCores) {
  const FindingCode starved = FindingCode::input_starved;
  EXPECT_TRUE(says(fix_of(starved, program("none", 16)), "num_workers=4 or more"));
  EXPECT_TRUE(says(fix_of(starved, program("none", 2)), "num_workers=1,"));
  EXPECT_FALSE(says(fix_of(starved, program("none", 1)), "num_workers"));
  EXPECT_TRUE(says(fix_of(starved, program("transformers", 4)), "dataloader_num_workers=3"));
  EXPECT_TRUE(
      says(fix_of(FindingCode::loader_without_workers, program("none", 2)), "num_workers=1"));
}

}  // namespace
}  // namespace lockstep
