// Recordings of several machines as one, and the clocks that they were made by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "recording/writer.hpp"
#include "sources/merged/clock_alignment.hpp"
#include "sources/merged/merged_recordings.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr double kUnixStart_ms = 1.7e12;

// A machine with two GPUs that trains two ranks of four in step with the other, 100 ms per step,
// its clock so far ahead.
std::string recording_of(const std::string& host, int first_rank, double ahead_ms,
                         double drift_ppm = 0, double unrest_ms = 1, int steps = 100) {
  Machine machine = testing::two_gpu_machine();
  machine.host = host;
  machine.started_unix_ns = static_cast<std::int64_t>((kUnixStart_ms + ahead_ms) * 1e6);
  for (GpuInfo& gpu : machine.gpus) gpu.uuid = "GPU-" + host + std::to_string(gpu.index);
  std::vector<Record> records;
  for (int step = 0; step < steps; ++step) {
    const double true_ms = 100.0 * (step + 1);
    const double own_ms = true_ms * (1 + drift_ppm * 1e-6);
    records.push_back(
        {own_ms - 50, GpuTick{testing::steady_sample(0, 0.9), testing::steady_sample(1, 0.9)}});
    if (step % 20 == 0) {
      ProcessTick processes;
      for (int local = 0; local < 2; ++local) {
        ProcessSample process;
        process.pid = 40 + local;  // the same on both machines, as in containers
        process.parent_pid = 1;
        process.gpus = {{local, 1'000'000'000}};
        process.rank = first_rank + local;
        process.local_rank = local;
        process.world_size = 4;
        processes.push_back(process);
      }
      records.push_back({own_ms - 40, processes});
    }
    for (int local = 0; local < 2; ++local) {
      StepMark mark;
      mark.rank = first_rank + local;
      mark.index = step;
      mark.duration_ms = 100;
      records.push_back({own_ms + unrest_ms * std::sin(step * 7.0 + local), mark});
    }
  }
  std::ranges::stable_sort(records,
                           [](const Record& a, const Record& b) { return a.t_ms < b.t_ms; });
  return testing::recording_text(machine, records);
}

std::vector<Record> everything(Source& source) {
  std::vector<Record> records;
  while (true) {
    auto next = source.next(std::chrono::milliseconds(0));
    if (!next || !std::holds_alternative<Record>(*next)) return records;
    records.push_back(std::move(std::get<Record>(*next)));
  }
}

TEST(MergedRecordings, AClockThatIsAheadIsFoundBySteps) {
  const TemporaryFolder folder;
  const auto source =
      open_merged_recordings({folder.write("a.jsonl", recording_of("alpha", 0, 0)),
                              folder.write("b.jsonl", recording_of("beta", 2, 2345.6))});
  ASSERT_TRUE(source);
  const auto& clocks = (*source)->machine().clocks;
  ASSERT_EQ(clocks.size(), 2U);
  EXPECT_EQ(clocks[1].host, "beta");
  EXPECT_NEAR(clocks[1].ahead_ms, 2345.6, 1);
  EXPECT_EQ(clocks[1].matched_steps, 100);
  ASSERT_TRUE(clocks[1].error_ms);
  EXPECT_LT(*clocks[1].error_ms, 3);
  // The same step ends at the same time on both.
  std::map<std::int64_t, std::vector<double>> ends;
  for (const Record& record : everything(**source))
    if (const auto* step = std::get_if<StepMark>(&record.content))
      ends[step->index].push_back(record.t_ms);
  ASSERT_EQ(ends.size(), 100U);
  for (const auto& [index, times] : ends) {
    ASSERT_EQ(times.size(), 4U);
    EXPECT_LT(*std::ranges::max_element(times) - *std::ranges::min_element(times), 5) << index;
  }
}

TEST(MergedRecordings, AClockThatGoesFasterIsFoundToo) {
  const TemporaryFolder folder;
  const auto source = open_merged_recordings(
      {folder.write("a.jsonl", recording_of("alpha", 0, 0, 0, 0.2, 2000)),
       folder.write("b.jsonl", recording_of("beta", 2, -500, 80, 0.2, 2000))});
  ASSERT_TRUE(source);
  EXPECT_NEAR((*source)->machine().clocks[1].drift_ppm, 80, 5);
  EXPECT_NEAR((*source)->machine().clocks[1].ahead_ms, -500, 1);
}

TEST(MergedRecordings, StepsThatDoNotEndTogetherAlignNothing) {
  const TemporaryFolder folder;
  const auto source =
      open_merged_recordings({folder.write("a.jsonl", recording_of("alpha", 0, 0)),
                              folder.write("b.jsonl", recording_of("beta", 2, 2345.6, 0, 400))});
  ASSERT_TRUE(source);
  EXPECT_FALSE((*source)->machine().clocks[1].error_ms);
  ASSERT_FALSE((*source)->not_measured().empty());
  EXPECT_THAT((*source)->not_measured().front().reason, HasSubstr("taken as it is"));
}

TEST(MergedRecordings, GpusAndProcessesOfTwoMachinesAreToldApart) {
  const TemporaryFolder folder;
  const auto source =
      open_merged_recordings({folder.write("a.jsonl", recording_of("alpha", 0, 0)),
                              folder.write("b.jsonl", recording_of("beta", 2, 1000))});
  ASSERT_TRUE(source);
  const auto& gpus = (*source)->machine().gpus;
  ASSERT_EQ(gpus.size(), 4U);
  EXPECT_EQ(gpus[3].index, 3);
  EXPECT_EQ(gpus[3].host, "beta");
  EXPECT_EQ(gpus[3].host_index, 1);
  double last = -1e9;
  std::size_t most = 0;
  for (const Record& record : everything(**source)) {
    EXPECT_GE(record.t_ms, last) << "records go back in time";
    last = record.t_ms;
    const auto* list = std::get_if<ProcessTick>(&record.content);
    if (list == nullptr) continue;
    std::set<int> pids;
    for (const ProcessSample& process : *list) {
      pids.insert(process.pid);
      EXPECT_EQ(process.rank, process.gpus.front().index);
    }
    EXPECT_EQ(pids.size(), list->size());
    most = std::max(most, list->size());
  }
  EXPECT_EQ(most, 4U);
}

TEST(MergedRecordings, TwoFilesOfOneMachineTellEachThingOnce) {
  const TemporaryFolder folder;
  const std::string text = recording_of("alpha", 0, 0);
  const auto source =
      open_merged_recordings({folder.write("a.jsonl", text), folder.write("again.jsonl", text)});
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->machine().gpus.size(), 2U);
  EXPECT_TRUE((*source)->machine().clocks.empty());
  std::size_t steps = 0;
  std::size_t ticks = 0;
  for (const Record& record : everything(**source)) {
    if (std::holds_alternative<StepMark>(record.content)) ++steps;
    if (std::holds_alternative<GpuTick>(record.content)) ++ticks;
  }
  EXPECT_EQ(steps, 200U);
  EXPECT_EQ(ticks, 100U);
}

TEST(MergedRecordings, OneRankOnTwoMachinesIsSaid) {
  const TemporaryFolder folder;
  const auto source = open_merged_recordings({folder.write("a.jsonl", recording_of("alpha", 0, 0)),
                                              folder.write("b.jsonl", recording_of("beta", 0, 0))});
  ASSERT_TRUE(source);
  const auto missing = (*source)->not_measured();
  ASSERT_EQ(missing.size(), 3U) << "the clock, and the steps of two ranks";
  EXPECT_THAT(missing.front().reason, HasSubstr("not of one job"));
  EXPECT_EQ(missing.back().signal, "steps of beta");
  EXPECT_THAT(missing.back().reason, HasSubstr("alpha has a rank 1, too"));
  EXPECT_FALSE((*source)->machine().clocks[1].error_ms)
      << "equal steps of strangers end together by chance";
}

TEST(MergedRecordings, WhatAMachineFoundItselfIsOfTheSameGpusStill) {
  const TemporaryFolder folder;
  const std::string found = record_line({10'500, Event{"finding", 1, "D201 0.25 0.9 0,1 info"}});
  const auto source =
      open_merged_recordings({folder.write("a.jsonl", recording_of("alpha", 0, 0)),
                              folder.write("b.jsonl", recording_of("beta", 2, 0) + found)});
  ASSERT_TRUE(source);

  const std::vector<Record> records = everything(**source);

  const auto& event = std::get<Event>(records.back().content);
  EXPECT_EQ(event.detail, "D201 0.25 0.9 2,3 info");
  EXPECT_EQ(event.gpu, 2);
}

TEST(MergedRecordings, MachinesOfOneNameAreToldApartByTheirGpus) {
  const TemporaryFolder folder;
  std::string other = recording_of("localhost", 2, 0);
  for (auto at = other.find("GPU-localhost"); at != std::string::npos;
       at = other.find("GPU-localhost"))
    other.replace(at, 13, "GPU-elsewhere");
  const auto source = open_merged_recordings(
      {folder.write("a.jsonl", recording_of("localhost", 0, 0)), folder.write("b.jsonl", other)});
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->machine().gpus.size(), 4U);
  ASSERT_EQ((*source)->machine().clocks.size(), 2U);
  EXPECT_NE((*source)->machine().clocks[0].host, (*source)->machine().clocks[1].host);
}

TEST(MergedRecordings, TheFirstMachineThatTellsStepsGivesTheClock) {
  const TemporaryFolder folder;
  const std::string silent = testing::recording_text(
      [] {
        Machine machine = testing::two_gpu_machine();
        machine.host = "silent";
        machine.started_unix_ns = static_cast<std::int64_t>(kUnixStart_ms * 1e6);
        for (GpuInfo& gpu : machine.gpus) gpu.uuid = "GPU-silent" + std::to_string(gpu.index);
        return machine;
      }(),
      testing::plateau({0.5, 0.5}, 3));
  const auto source = open_merged_recordings(
      {folder.write("s.jsonl", silent), folder.write("a.jsonl", recording_of("alpha", 0, 0)),
       folder.write("b.jsonl", recording_of("beta", 2, 77))});
  ASSERT_TRUE(source);
  const auto& clocks = (*source)->machine().clocks;
  ASSERT_EQ(clocks.size(), 3U);
  EXPECT_EQ(clocks[0].host, "alpha");
  EXPECT_NEAR(clocks[2].ahead_ms, 77, 1);
}

TEST(MergedRecordings, ARecordingThatDoesNotSayWhenItBeganBeginsWithTheFirst) {
  const TemporaryFolder folder;
  std::string timeless = recording_of("beta", 2, 0, 0, 400);
  const auto at = timeless.find("\"started_unix_ns\":") + 18;
  timeless.replace(at, timeless.find(',', at) - at, "0");
  const auto source = open_merged_recordings(
      {folder.write("a.jsonl", recording_of("alpha", 0, 0)), folder.write("b.jsonl", timeless)});
  ASSERT_TRUE(source);
  for (const Record& record : everything(**source)) EXPECT_LT(record.t_ms, 20'000);
}

TEST(MergedRecordings, AFileCutAnywhereIsReadAsFarAsItGoes) {
  const TemporaryFolder folder;
  const std::string text = recording_of("beta", 2, 10);
  for (const std::size_t share : {3U, 7U, 50U, 99U}) {
    const auto source = open_merged_recordings(
        {folder.write("a.jsonl", recording_of("alpha", 0, 0)),
         folder.write("b.jsonl", text.substr(0, text.size() * share / 100))});
    ASSERT_TRUE(source) << share;
    EXPECT_FALSE(everything(**source).empty());
    EXPECT_TRUE((*source)->repair_note());
  }
}

TEST(ClockAlignment, AFewStepsAreTooFew) {
  StepEnds first;
  StepEnds other;
  for (int step = 0; step < 5; ++step) first.end_ms[step] = other.end_ms[step] = step * 100.0;
  EXPECT_FALSE(align_clocks(first, other));
}

TEST(ClockAlignment, OneLateStepMovesNothing) {
  StepEnds first;
  StepEnds other;
  first.usual_ms = other.usual_ms = 100;
  for (int step = 0; step < 30; ++step) {
    first.end_ms[step] = step * 100.0;
    other.end_ms[step] = step * 100.0 + 40 + (step == 11 ? 5000 : 0);
  }
  const auto offset = align_clocks(first, other);
  ASSERT_TRUE(offset);
  EXPECT_NEAR(offset->ahead_ms, 40, 1e-6);
}

}  // namespace
}  // namespace lockstep
