// Jobs that a cluster placed over machines, seen through scrapes.
#include "detectors/collectives/slow_host.hpp"
#include "detectors/split/cluster_pattern.hpp"
#include "detectors/split/pattern.hpp"
#include "detectors/told/reported_findings.hpp"
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One job over so many machines with eight GPUs each, 97 % busy, read every 15 s for ten minutes.
Signals fleet_job(int hosts) {
  Signals signals;
  signals.ticks = 40;
  signals.tick_ms = 15'000;
  JobSignals job;
  job.origin = JobOrigin::cluster;
  job.name = "ml/llama";
  job.active = true;
  HostSpread spread;
  spread.busy_sum = 0.97 * hosts;
  spread.turns.emplace();
  for (int host = 0; host < hosts; ++host) {
    HostInJob entry;
    entry.name = "node" + std::to_string(host + 1);
    entry.kind = "NVIDIA H100";
    entry.busy = entry.busy_early = entry.busy_late = 0.97;
    entry.sm = 0.8;
    entry.clock_mhz = 1755 + 5 * (host % 3);
    for (int gpu = 0; gpu < 8; ++gpu) {
      GpuSignals one;
      one.index = host * 8 + gpu;
      one.info.index = one.index;
      one.info.host = entry.name;
      one.info.host_index = gpu;
      one.busy_fraction = one.busy_highest = 0.97;
      one.looks = 40;
      signals.gpus.push_back(one);
      entry.gpus.push_back(one.index);
      job.gpus.push_back(one.index);
      job.members.push_back({.index = one.index, .busy = 0.97});
    }
    spread.hosts.push_back(std::move(entry));
  }
  job.spread = std::move(spread);
  job.busy_sum = 0.97 * 8 * hosts;
  signals.jobs = {job};
  return signals;
}

void set_busy(Signals& signals, std::size_t host, double busy) {
  JobSignals& job = signals.jobs.front();
  HostInJob& changed = job.spread->hosts[host];
  changed.busy = changed.busy_early = changed.busy_late = busy;
  for (GpuInJob& member : job.members)
    if (static_cast<std::size_t>(member.index) / 8 == host) member.busy = busy;
  for (GpuSignals& gpu : signals.gpus)
    if (static_cast<std::size_t>(gpu.index) / 8 == host)
      gpu.busy_fraction = gpu.busy_highest = busy;
}

std::vector<Finding> idle_of(const Signals& signals) { return found_by(find_idle_gpus, signals); }

TEST(SlowHost, IsTheOneWhoseGpusRestWhileTheOthersSpin) {
  Signals signals = fleet_job(4);
  set_busy(signals, 1, 0.6);

  const auto finding = find_slow_host(signals.jobs.front());

  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->gpus.front(), 8);
  EXPECT_NEAR(finding->lost_throughput, 0.37, 0.01);
  EXPECT_TRUE(is_stood_behind(*finding));
}

TEST(SlowHost, IsTheOneWithTheLowerClock) {
  Signals signals = fleet_job(4);
  signals.jobs.front().spread->hosts[3].clock_mhz = 1400;

  const auto finding = find_slow_host(signals.jobs.front());

  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->gpus.front(), 24);
}

TEST(SlowHost, IsTheOneThatWorksWhileTheOthersWait) {
  Signals signals = fleet_job(4);
  for (const std::size_t host : {0U, 1U, 3U}) signals.jobs.front().spread->hosts[host].sm = 0.55;

  const auto finding = find_slow_host(signals.jobs.front());

  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->gpus.front(), 16);
}

TEST(SlowHost, IsNobodyInAHealthyJob) { EXPECT_FALSE(find_slow_host(fleet_job(8).jobs.front())); }

TEST(SlowHost, IsNobodyWhereHostsDifferAmongThemselves) {
  Signals signals = fleet_job(4);
  for (std::size_t host = 0; host < 4; ++host)
    signals.jobs.front().spread->hosts[host].clock_mhz = 1800.0 - 120.0 * static_cast<double>(host);

  EXPECT_FALSE(find_slow_host(signals.jobs.front()))
      << "stages of a pipeline, or a mixed fleet: no one is odd";
}

TEST(SlowHost, IsNobodyAmongUnlikeGpus) {
  Signals signals = fleet_job(4);
  HostInJob& fast = signals.jobs.front().spread->hosts[3];
  fast.kind = "NVIDIA H200";
  fast.clock_mhz = 1300;
  fast.sm = 0.95;

  EXPECT_FALSE(find_slow_host(signals.jobs.front())) << "a faster GPU runs at a lower clock";
}

TEST(SlowHost, IsNotTheOneThatStoppedWorking) {
  Signals signals = fleet_job(4);
  HostInJob& stopped = signals.jobs.front().spread->hosts[2];
  stopped.busy = 0.65;
  stopped.busy_late = 0.3;

  EXPECT_FALSE(find_slow_host(signals.jobs.front()))
      << "it was in step for half of the time: it crashed, or has ended";
}

TEST(SlowHost, IsNobodyOfTwo) {
  Signals signals = fleet_job(2);
  set_busy(signals, 1, 0.6);

  EXPECT_FALSE(find_slow_host(signals.jobs.front())) << "which of two is the odd one?";
}

TEST(SlowHost, IsNotTheOneThatNeverWorks) {
  Signals signals = fleet_job(4);
  set_busy(signals, 3, 0);

  EXPECT_FALSE(find_slow_host(signals.jobs.front()));
}

TEST(SlowHost, IsNobodyWhereAllRestALittle) {
  Signals signals = fleet_job(4);
  for (std::size_t host = 0; host < 4; ++host) set_busy(signals, host, host == 2 ? 0.5 : 0.7);

  EXPECT_FALSE(find_slow_host(signals.jobs.front()))
      << "nobody spins: they wait for data, one a little more";
}

TEST(ClusterJob, WorksInStepWhenAllHostsAreBusyAlike) {
  const JobVerdict verdict = judge_cluster_job(fleet_job(4).jobs.front(), fleet_job(4));

  EXPECT_EQ(verdict.verdict.pattern, Pattern::in_step);
  EXPECT_THAT(verdict.verdict.sentence, HasSubstr("job ml/llama (32 GPUs on 4 hosts)"));
}

TEST(ClusterJob, TakesTurnsWhenHostsHandTheWorkToAndFro) {
  Signals signals = fleet_job(2);
  for (std::size_t host = 0; host < 2; ++host) set_busy(signals, host, 0.48);
  signals.jobs.front().spread->busy_sum = 0.96;
  signals.jobs.front().spread->turns = TurnSignals{
      .exclusive_busy = 0.98, .exclusive_by_chance = 0.5, .hand_overs = 9, .hand_backs = 8};

  EXPECT_EQ(judge_cluster_job(signals.jobs.front(), signals).verdict.pattern,
            Pattern::taking_turns);
}

TEST(ClusterJob, IsUnclearWhenItIsBusyLikeOneHostAndNoTurnsAreSeen) {
  Signals signals = fleet_job(2);
  for (std::size_t host = 0; host < 2; ++host) set_busy(signals, host, 0.48);
  signals.jobs.front().spread->busy_sum = 0.96;
  signals.jobs.front().spread->turns = TurnSignals{
      .exclusive_busy = 0.5, .exclusive_by_chance = 0.5, .hand_overs = 9, .hand_backs = 8};

  const JobVerdict verdict = judge_cluster_job(signals.jobs.front(), signals);

  EXPECT_EQ(verdict.verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.verdict.sentence, HasSubstr("readings 15 s apart"));
}

TEST(ClusterJob, ThatWasStartedAgainElsewhereTakesNoTurns) {
  Signals signals = fleet_job(2);
  signals.jobs.front().spread->turns = TurnSignals{
      .exclusive_busy = 0.98, .exclusive_by_chance = 0.5, .hand_overs = 1, .hand_backs = 0};

  EXPECT_NE(judge_cluster_job(signals.jobs.front(), signals).verdict.pattern,
            Pattern::taking_turns);
}

TEST(HeldAndIdle, IsWhatAJobWasGivenAndNeverUses) {
  Signals signals = fleet_job(4);
  set_busy(signals, 3, 0);

  const auto findings = idle_of(signals);

  ASSERT_TRUE(is_one(findings, FindingCode::idle_gpus, 0.2, 0.3));
  EXPECT_EQ(findings.front().gpus.size(), 8U);
}

TEST(HeldAndIdle, IsNothingInAHealthyJob) { EXPECT_THAT(idle_of(fleet_job(4)), IsEmpty()); }

TEST(HeldAndIdle, IsNothingInAFleetAtRest) {
  Signals signals = fleet_job(4);
  for (std::size_t host = 0; host < 4; ++host) set_busy(signals, host, 0);
  signals.jobs.front().active = false;

  EXPECT_THAT(idle_of(signals), IsEmpty());
}

TEST(HeldAndIdle, IsNotWhatHasJustBegun) {
  Signals signals = fleet_job(4);
  set_busy(signals, 3, 0);
  for (GpuSignals& gpu : signals.gpus) gpu.looks = 6;

  EXPECT_THAT(idle_of(signals), IsEmpty()) << "a minute and a half: it may still load its model";
}

TEST(HeldAndIdle, IsNotWhatWorkedOnce) {
  Signals signals = fleet_job(4);
  set_busy(signals, 3, 0);
  for (GpuSignals& gpu : signals.gpus)
    if (gpu.index >= 24) gpu.busy_highest = 0.4;

  EXPECT_THAT(idle_of(signals), IsEmpty()) << "an evaluation, a restart: it did use them";
}

TEST(ReportedFindings, AreTakenOverOnce) {
  Signals signals = fleet_job(2);
  signals.events = {{0, Event{"finding", 1, "D201 0.25 0.9 1,2 warning"}},
                    {15'000, Event{"finding", 1, "D201 0.3 0.95 1,2 info"}},
                    {0, Event{"finding", 0, "nonsense"}},
                    {0, Event{"finding", 0, "Z999 1 1 0 info"}}};

  const auto findings = reported_findings(signals, {});

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_DOUBLE_EQ(findings.front().lost_throughput, 0.3) << "the newest word on it";
  EXPECT_THAT(reported_findings(signals, findings), IsEmpty())
      << "what is found already is not found again";
}

}  // namespace
}  // namespace lockstep
