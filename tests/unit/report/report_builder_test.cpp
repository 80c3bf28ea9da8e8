#include "report/report_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Timeline two_gpus() {
  Timeline timeline;
  timeline.gpus.resize(2);
  timeline.gpus[1].info.index = 1;
  return timeline;
}

TEST(Report, AGpuIsLostUntilItRecovers) {
  Timeline timeline = two_gpus();
  timeline.events = {{0, {"lost", 0, ""}}, {1, {"lost", 1, ""}}, {2, {"recovered", 1, ""}}};

  const Report report = build_report(timeline, {});

  EXPECT_TRUE(report.gpus[0].lost);
  EXPECT_FALSE(report.gpus[1].lost);
}

TEST(Report, SaysWhenAProbeStoppedOrLostRecords) {
  Timeline timeline = two_gpus();
  for (int index = 0; index < 6; ++index) {
    StepMark step;
    step.rank = 1;
    step.index = index;
    timeline.steps.push_back({100.0 * index, step});
  }
  timeline.facts = {
      {450, {7, 1, "stopped", {{"doing", "stack_samples"}, {"why", "TypeError:_no_line"}}}},
      {500, {6, 0, "lost", {{"records", "12"}}}},
      {600, {6, 0, "lost", {{"records", "3"}}}}};

  const Report report = build_report(timeline, {}, {});

  EXPECT_TRUE(report.probes_broke_off);
  std::vector<std::string> told;
  for (const NotMeasured& one : report.not_measured)
    if (one.signal == "python") told.push_back(one.reason);
  EXPECT_THAT(told, ElementsAre("the Python probe of rank 1 stopped after 5 steps (stack samples: "
                                "TypeError: no line): what came later is not in this report",
                                "rank 0 made more records than could be kept: 15 are missing"));
}

TEST(Report, WhatAMachineFoundItselfIsNoEvent) {
  Timeline timeline = two_gpus();
  timeline.events = {{0, {"finding", 0, "D201 0.25 0.9 0,1 info"}}, {1, {"xid", 1, "79"}}};

  ASSERT_EQ(build_report(timeline, {}).events.size(), 1U)
      << "it is repeated at every scrape, and stands among the findings";
  EXPECT_EQ(build_report(timeline, {}).events.front().kind.text(), "xid");
}

TEST(Report, AJobsBusyTimeIsThatOfTheGpusThatWereRead) {
  Signals signals;
  signals.jobs.emplace_back();
  signals.jobs.front().gpus = {0, 1};
  signals.jobs.front().members = {{.index = 0, .busy = 0.8}, {.index = 1, .busy = std::nullopt}};
  Diagnosis diagnosis;
  diagnosis.verdicts.emplace_back();

  EXPECT_DOUBLE_EQ(build_report(two_gpus(), signals, diagnosis).jobs.at(0).busy.value_or(0), 0.8);
}

// Two minutes, of which the job worked until `to_ms` and held 10 GB of each GPU.
std::optional<double> held_after(double to_ms, double memory_at_the_end, int looks = 5) {
  Timeline timeline = two_gpus();
  timeline.to_ms = 120'000;
  for (GpuTrack& gpu : timeline.gpus)
    for (int look = 0; look < looks; ++look) {
      gpu.memory_used_bytes.t_ms.push_back(look * timeline.to_ms / (looks - 1));
      gpu.memory_used_bytes.values.push_back(look + 1 < looks ? 10e9 : memory_at_the_end);
    }
  Signals signals;
  signals.jobs.emplace_back();
  signals.jobs.front().gpus = {0, 1};
  signals.jobs.front().members = {{.index = 0, .memory_bytes = 10e9},
                                  {.index = 1, .memory_bytes = 10e9}};
  signals.jobs.front().to_ms = to_ms;
  Diagnosis diagnosis;
  diagnosis.verdicts.emplace_back();
  return build_report(timeline, signals, diagnosis).jobs.at(0).held_after_s;
}

TEST(Report, SaysHowLongAJobThatRunsNoMoreHoldsItsMemory) {
  EXPECT_DOUBLE_EQ(held_after(60'000, 10e9).value_or(0), 60);
  EXPECT_EQ(held_after(60'000, 0), std::nullopt) << "it has ended and let go";
  EXPECT_EQ(held_after(100'000, 10e9), std::nullopt) << "it may save or evaluate";
  EXPECT_EQ(held_after(120'000, 10e9), std::nullopt) << "it works to the end";
  EXPECT_EQ(held_after(60'000, 10e9, 3), std::nullopt) << "two looks are no job";
}

TEST(Report, SaysOnceWhatNoGpuGave) {
  Timeline timeline = two_gpus();
  for (GpuTrack& gpu : timeline.gpus) gpu.missing = {{"sm", ReadingState::not_supported}};

  EXPECT_THAT(build_report(timeline, {}).not_measured,
              ElementsAre(NotMeasured{"sm", "no value in the input for GPU 0, 1"}));
}

TEST(Report, DoesNotRepeatWhatTheSourceExplained) {
  Timeline timeline = two_gpus();
  timeline.gpus[0].missing = {{"tensor", ReadingState::not_supported},
                              {"pcie_rx_bytes", ReadingState::not_supported}};
  timeline.not_measured = {{"sm, tensor, dram", "no GPM"}, {"pcie_rx_bytes, pcie_tx_bytes", "no"}};

  EXPECT_EQ(build_report(timeline, {}).not_measured.size(), 2U);
}

TEST(Report, ShowsTheNewestProcesses) {
  Timeline timeline = two_gpus();
  ProcessSample early;
  early.pid = 1;
  ProcessSample late;
  late.pid = 2;
  timeline.process_lists = {{0, {early}}, {1, {late}}};

  EXPECT_EQ(build_report(timeline, {}).processes.at(0).pid, 2);
}

TEST(Report, JudgesNothingByItself) {
  const Report report = build_report(two_gpus(), {});

  EXPECT_FALSE(report.verdict);
  EXPECT_THAT(report.findings, IsEmpty());
}

}  // namespace
}  // namespace lockstep
