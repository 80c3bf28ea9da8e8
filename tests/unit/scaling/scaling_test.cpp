// Benchmarks: what is run, and what the runs come to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "scaling/bench_cases.hpp"
#include "scaling/scaling_fit.hpp"
#include "scaling/summarise.hpp"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BenchRow measured(int devices, Growth growth, std::vector<double> speeds) {
  BenchRow row;
  row.what.way = devices == 1 ? "single" : "ddp";
  row.what.title = row.what.way;
  row.what.devices = row.what.ranks = devices;
  row.what.growth = devices == 1 ? Growth::none : growth;
  row.what.of_curve = devices > 1;
  row.what.batch = 16;
  for (const double speed : speeds) {
    BenchRound round;
    round.speed = speed;
    round.step_ms = 1000 * 16.0 * devices / speed;
    row.rounds.push_back(round);
  }
  return row;
}

BenchReport report_of(std::vector<BenchRow> rows, int cores = 64) {
  BenchReport report;
  report.unit = "samples/s";
  report.cores = cores;
  report.on_cores = report.is_virtual = true;
  report.rounds = static_cast<int>(rows.front().rounds.size());
  report.rows = std::move(rows);
  summarise(report);
  return report;
}

// n devices whose step takes so much longer than one's: by the ring's traffic and by their number.
double speed_of(int devices, double traffic, double each) {
  return 100 * devices / (1 + traffic * 2 * (devices - 1) / devices + each * (devices - 1));
}

TEST(Summary, ARoundIsComparedWithTheSameRoundOfOneDevice) {
  // The machine was half as fast in the second round, for both.
  const BenchReport report = report_of(
      {measured(1, Growth::none, {100, 50, 100}), measured(2, Growth::weak, {190, 95, 190})});
  EXPECT_DOUBLE_EQ(report.rows[1].speedup, 1.9);
  EXPECT_DOUBLE_EQ(report.rows[1].efficiency, 0.95);
  EXPECT_DOUBLE_EQ(report.rows[1].slowest, 95);
}

TEST(Summary, RoundsThatLieFarApartAreSaid) {
  const BenchReport wild = report_of(
      {measured(1, Growth::none, {100, 70, 100}), measured(2, Growth::weak, {190, 190, 190})});
  EXPECT_THAT(wild.notes, Contains(HasSubstr("apart")));
  const BenchReport calm = report_of(
      {measured(1, Growth::none, {100, 99, 100}), measured(2, Growth::weak, {190, 188, 190})});
  EXPECT_THAT(calm.notes, ::testing::Not(Contains(HasSubstr("apart"))));
}

TEST(Summary, MoreVirtualGpusThanCoresAreMarkedAndNotFitted) {
  const BenchReport report =
      report_of({measured(1, Growth::none, {100}), measured(2, Growth::weak, {190}),
                 measured(4, Growth::weak, {195})},
                2);
  EXPECT_FALSE(report.rows[1].too_few_cores);
  EXPECT_TRUE(report.rows[2].too_few_cores);
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("more virtual GPUs than this machine has cores (2)")));
  ASSERT_TRUE(report.fit);
  EXPECT_THAT(report.fit->left_out, ElementsAre(4));
  EXPECT_GT(report.fit->weak.front().high, 6)
      << "four ranks on two cores say nothing about eight GPUs";
}

TEST(Fit, FindsBothTermsOfAnExchangeAgain) {
  std::vector<BenchRow> rows = {measured(1, Growth::none, {100})};
  for (const int devices : {2, 4, 8})
    rows.push_back(measured(devices, Growth::weak, {speed_of(devices, 0.04, 0.01)}));
  const BenchReport report = report_of(rows);
  ASSERT_TRUE(report.fit && report.fit->traffic_ms && report.fit->each_ms);
  EXPECT_NEAR(*report.fit->traffic_ms, 0.04 * 160, 0.01);
  EXPECT_NEAR(*report.fit->each_ms, 0.01 * 160, 0.01);
  EXPECT_NEAR(report.fit->weak.back().low, speed_of(16, 0.04, 0.01) / 100, 0.01);
}

TEST(Fit, WithOnePointTheRangeHoldsBothExplanations) {
  for (const auto& [traffic, each] : {std::pair{0.08, 0.0}, {0.0, 0.08}}) {
    const BenchReport report = report_of({measured(1, Growth::none, {100}),
                                          measured(2, Growth::weak, {speed_of(2, traffic, each)})});
    ASSERT_TRUE(report.fit);
    EXPECT_FALSE(report.fit->each_ms);
    for (const Expected& at : report.fit->weak) {
      EXPECT_LE(at.low, speed_of(at.devices, traffic, each) / 100 + 1e-9);
      EXPECT_GE(at.high, speed_of(at.devices, traffic, each) / 100 - 1e-9);
    }
  }
}

TEST(Fit, FindsAmdahlsShareAgain) {
  const auto amdahl = [](int devices) { return 100 / (0.1 + 0.9 / devices); };
  const BenchReport report =
      report_of({measured(1, Growth::none, {100}), measured(2, Growth::strong, {amdahl(2)}),
                 measured(4, Growth::strong, {amdahl(4)})});
  ASSERT_TRUE(report.fit && report.fit->serial);
  EXPECT_NEAR(*report.fit->serial, 0.1, 1e-6);
  EXPECT_NEAR(report.fit->strong.front().low, amdahl(8) / 100, 1e-6);
}

TEST(Fit, FasterThanDevicesIsNoNegativeExchange) {
  const BenchReport report =
      report_of({measured(1, Growth::none, {100}), measured(2, Growth::weak, {210}),
                 measured(4, Growth::weak, {430})});
  ASSERT_TRUE(report.fit);
  EXPECT_GE(*report.fit->traffic_ms, 0);
  EXPECT_LE(report.fit->weak.front().high, 8.0) << "nobody expects nine times as much of eight";
}

TEST(Fit, OneDeviceAloneSaysNothing) {
  EXPECT_FALSE(report_of({measured(1, Growth::none, {100})}).fit);
}

BenchRequest request_of(std::vector<int> devices) {
  BenchRequest request;
  request.lockstep = "lockstep";
  request.trainer = "lockstep-train";
  request.model = "tiny";
  request.devices = std::move(devices);
  request.buckets_mb = {1, 25};
  return request;
}

std::vector<std::string> titles_of(const std::vector<BenchCase>& cases) {
  std::vector<std::string> titles;
  for (const BenchCase& bench : cases)
    titles.push_back(bench.title + " " + std::to_string(bench.devices));
  return titles;
}

TEST(Cases, EveryWayIsTriedOnEveryNumberOfDevices) {
  const auto cases = scaling_cases(request_of({1, 2, 4}));
  ASSERT_TRUE(cases);
  EXPECT_THAT(titles_of(*cases),
              ElementsAre("single 1", "naive 2", "data-parallel 2", "naive 4", "data-parallel 4",
                          "DDP 2", "DDP 4", "DDP, same batch in all 2", "DDP, same batch in all 4",
                          "DDP, 4 passes, no_sync 4", "DDP, 4 passes, exchange after each 4",
                          "DDP, buckets of 1 MB 4", "DDP, buckets of 25 MB 4"));
}

TEST(Cases, TheSameBatchIsDividedAndABatchThatCannotBeIsLeftOut) {
  const auto cases = scaling_cases(request_of({1, 3, 4}));
  ASSERT_TRUE(cases);
  for (const BenchCase& bench : *cases) {
    if (bench.growth != Growth::strong) continue;
    EXPECT_EQ(bench.batch * bench.devices, 16) << bench.title;
  }
  EXPECT_EQ(std::ranges::count_if(
                *cases, [](const BenchCase& bench) { return bench.growth == Growth::strong; }),
            1);
}

TEST(Cases, OneDeviceIsMeasuredAlone) {
  const auto cases = scaling_cases(request_of({1}));
  ASSERT_TRUE(cases);
  EXPECT_THAT(titles_of(*cases), ElementsAre("single 1"));
}

TEST(Cases, PassesThatDoNotDivideTheBatchAreRefused) {
  BenchRequest request = request_of({1, 2});
  request.accumulation = 3;
  EXPECT_FALSE(scaling_cases(request));
  request.ways = {"ddp"};
  EXPECT_TRUE(scaling_cases(request)) << "nobody asked for passes";
}

TEST(Cases, AScriptIsStartedAsOneRankADevice) {
  BenchRequest request = request_of({1, 2});
  request.script = {"train.py", "--lr", "1"};
  const auto cases = scaling_cases(request);
  ASSERT_TRUE(cases);
  ASSERT_EQ(cases->size(), 2U);
  EXPECT_THAT(cases->back().command, ElementsAre("lockstep", "launch", "--standalone", "--quiet",
                                                 "--nproc-per-node", "2", "train.py", "--lr", "1"));
  request.script = {"./program"};
  EXPECT_THAT(scaling_cases(request)->back().command, Contains("--no-python"));
}

TEST(Cases, PresetsHaveSixteenSamplesAnUpdate) {
  for (const BenchCase& bench : preset_cases(request_of({1, 2})))
    EXPECT_EQ(bench.batch * bench.accumulation * bench.devices, 16) << bench.title;
}

TEST(Cases, PresetsOfAScriptAreItsArguments) {
  BenchRequest request = request_of({1, 2});
  request.script = {"train.py"};
  const auto cases = preset_cases(request);
  ASSERT_EQ(cases.size(), 4U);
  EXPECT_THAT(cases.back().command,
              ElementsAre("lockstep", "launch", "--standalone", "--quiet", "--nproc-per-node", "2",
                          "train.py", "--per_device_train_batch_size", "8",
                          "--gradient_accumulation_steps", "1", "--logging_steps", "10"));
}

}  // namespace
}  // namespace lockstep
