// The whole of a diagnosis: what a healthy job raises, what is stood behind, and when enough was
// seen.
#include "detectors/diagnosis.hpp"

#include <algorithm>

#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Finding finding_with(FindingCode code, double confidence, double lost) {
  Finding finding;
  finding.code = code;
  finding.confidence = confidence;
  finding.lost_throughput = lost;
  return finding;
}

bool has(const std::vector<Finding>& findings, FindingCode code) {
  return std::ranges::any_of(findings,
                             [&](const Finding& finding) { return finding.code == code; });
}

// Utilization is known, and everything else that may be missing is.
Signals with_nothing_but_busy(int gpus) {
  Signals signals = healthy_ranks(gpus);
  for (GpuSignals& gpu : signals.gpus) {
    const int index = gpu.index;
    gpu = {};
    gpu.index = gpu.info.index = index;
  }
  JobSignals bare;
  bare.gpus = signals.jobs.front().gpus;
  bare.active = true;
  for (const int gpu : bare.gpus) {
    bare.members.emplace_back();
    bare.members.back().index = gpu;
    bare.members.back().busy = 0.97;
    bare.processes.emplace_back();
    bare.processes.back().gpus = {{gpu, std::nullopt}};
  }
  bare.busy_sum = 0.97 * gpus;
  bare.fine = seen_by_busy_alone(signals).jobs.front().fine;
  signals.jobs = {bare};
  signals.peer_to_peer.reset();
  return signals;
}

// A second job on the same machine.
void add_job(Signals& signals, JobSignals job, int first_gpu) {
  for (std::size_t i = 0; i < job.gpus.size(); ++i)
    job.gpus[i] = job.members[i].index = first_gpu + static_cast<int>(i);
  signals.jobs.push_back(std::move(job));
}

// Ranks that seem to wait for everything at once.
Signals everything_wrong() {
  Signals signals = healthy_ranks(2);
  JobSignals& job = signals.jobs.front();
  stall_every(signals, 10'000,
              {.working_gpus = 1, .spinning_gpus = 1, .workers = {0}, .written_bytes = 1e9}, 1500);
  StallSignals& stalls = job.stalls;
  stalls.all.resize(2);
  stalls.all.front().written_bytes = 0;
  job.idle_together = 0.2;
  job.copy_while_idle = -0.8;
  job.host.loader_workers = job.host.most_loader_workers = 0;
  job.host.write_bytes_s = 20e3;
  for (const int gpu : {0, 1}) load_gpu(signals, gpu, 0.8, 0.5);
  draw_power(signals, 0.35);
  for (GpuInJob& member : job.members) member.memory_fraction = 0.3;
  for (GpuSignals& gpu : signals.gpus) {
    gpu.sm = 0.2;
    gpu.nvlink_bytes_s = 0;
    gpu.pcie_rx_bytes_s = 1.5e9;
    gpu.pcie_tx_bytes_s = 0.9e9;
  }
  return signals;
}

Signals watched_for(Signals signals, double seconds) {
  signals.jobs.front().to_ms = signals.jobs.front().from_ms + seconds * 1e3;
  return signals;
}

bool sure_of(const Signals& signals) { return is_sure(diagnose(signals), signals); }

TEST(Watching, GoesOnWhileNcclsRanksStandApart) {
  Signals signals = watched_for(healthy_ranks(2), 12);
  ASSERT_TRUE(sure_of(signals));
  CommunicatorSignals communicators;
  communicators.stuck = {{"0xab", 2, "AllReduce", 321, {1}, 233, {}, {101}, {1}, 1'000}};
  signals.jobs.front().communicators = communicators;

  EXPECT_FALSE(sure_of(signals)) << "it may be stuck, or a save that ends soon";
  EXPECT_TRUE(is_worth_waiting_for(diagnose(signals), signals));

  signals.jobs.front().communicators->stuck.front().for_ms = 21'000;
  EXPECT_FALSE(is_worth_waiting_for(diagnose(signals), signals)) << "C406 says so by now";
}

TEST(EveryDetector, StaysSilentOnHealthyRanks) {
  for (const int gpus : {2, 4, 8})
    for (const Signals& signals : {healthy_ranks(gpus), with_steps(healthy_ranks(gpus))})
      for (const Detector& detector : all_detectors())
        EXPECT_THAT(found_by(detector.inspect, signals), IsEmpty())
            << name_of(detector.code).id << " on " << gpus << " GPUs";
}

TEST(EveryDetector, StaysSilentOnAHealthyJobWithOneGpu) {
  for (const Detector& detector : all_detectors())
    EXPECT_THAT(found_by(detector.inspect, alone(1)), IsEmpty()) << name_of(detector.code).id;
}

TEST(EveryDetector, StaysSilentOnHealthyRanksSeenByUtilizationAlone) {
  for (const Detector& detector : all_detectors())
    EXPECT_THAT(found_by(detector.inspect, without_processes(seen_by_busy_alone(healthy_ranks(4)))),
                IsEmpty())
        << name_of(detector.code).id;
}

TEST(EveryDetector, StaysSilentWithoutItsData) {
  ASSERT_EQ(diagnose(with_nothing_but_busy(4)).verdict.pattern, Pattern::in_step)
      << "else most detectors would not even look";

  for (const int gpus : {1, 4})
    for (const Detector& detector : all_detectors())
      EXPECT_THAT(found_by(detector.inspect, with_nothing_but_busy(gpus)), IsEmpty())
          << name_of(detector.code).id << " on " << gpus << " GPUs";
}

TEST(EveryDetector, StaysSilentOnAServer) {
  for (const int gpus : {1, 4})
    for (const Detector& detector : all_detectors())
      EXPECT_THAT(found_by(detector.inspect, server(gpus)), IsEmpty())
          << name_of(detector.code).id << " on " << gpus << " GPUs";
}

TEST(EveryDetector, StaysSilentWhereNothingRuns) {
  Signals no_job = nothing_runs(2);
  no_job.jobs.clear();
  no_job.free_gpus = {0, 1};

  for (const Detector& detector : all_detectors()) {
    EXPECT_THAT(found_by(detector.inspect, nothing_runs(2)), IsEmpty())
        << name_of(detector.code).id;
    EXPECT_THAT(found_by(detector.inspect, no_job), IsEmpty()) << name_of(detector.code).id;
  }
}

TEST(EveryDetector, OfWaitingRanksAsksWhetherTheyTrainAndAreInStep) {
  Signals serving = everything_wrong();
  serving.jobs.front().serves = true;
  Signals unclear = everything_wrong();
  unclear.ticks = 3;

  for (const FindingCode code :
       {FindingCode::input_starved, FindingCode::loader_without_workers,
        FindingCode::pageable_copies, FindingCode::logging_too_often, FindingCode::checkpoint_stall,
        FindingCode::evaluation_stall, FindingCode::launch_bound, FindingCode::exposed_collectives,
        FindingCode::slow_link, FindingCode::batch_too_small}) {
    EXPECT_TRUE(has(inspect_all({everything_wrong(), judge_patterns(everything_wrong())}), code))
        << name_of(code).id;
    EXPECT_FALSE(has(inspect_all({serving, judge_patterns(serving)}), code))
        << name_of(code).id << " on a server";
    EXPECT_FALSE(has(inspect_all({unclear, judge_patterns(unclear)}), code))
        << name_of(code).id << " where nothing is clear";
  }
}

TEST(EveryDetector, RaisesTheCodeOfItsRow) {
  for (const Signals& signals :
       {split_model(4), data_parallel(4), pipeline_of(4), alone(4), copies_by_hand(4)})
    for (const Detector& detector : all_detectors())
      for (const Finding& finding : found_by(detector.inspect, signals))
        EXPECT_EQ(name_of(finding.code).id, name_of(detector.code).id);
}

TEST(Diagnosis, FindsNothingAtNinetyPercentMemoryAndSeventyEightPercentPower) {
  Signals signals = healthy_ranks(4);
  draw_power(signals, 0.78);
  for (GpuSignals& gpu : signals.gpus) gpu.memory_highest_fraction = 0.9;
  for (GpuInJob& member : signals.jobs.front().members) member.memory_fraction = 0.9;

  const Diagnosis diagnosis = diagnose(signals);

  EXPECT_THAT(diagnosis.findings, IsEmpty());
  EXPECT_THAT(diagnosis.suspicions, IsEmpty());
}

TEST(Diagnosis, PartsFindingsFromSuspicions) {
  Signals signals = split_model(2);
  signals.free_gpus = {2, 3};
  for (const int index : signals.free_gpus) signals.gpus.emplace_back().index = index;
  set_environment(signals, "CUDA_VISIBLE_DEVICES", "0,1");

  const Diagnosis diagnosis = diagnose(signals);

  EXPECT_TRUE(has(diagnosis.findings, FindingCode::taking_turns)) << ids_of(diagnosis.findings);
  EXPECT_TRUE(has(diagnosis.suspicions, FindingCode::idle_gpus)) << ids_of(diagnosis.suspicions);
  EXPECT_FALSE(has(diagnosis.findings, FindingCode::idle_gpus)) << "in one list or the other";
}

TEST(Diagnosis, PutsTheCostliestFirst) {
  Signals signals = split_model(4);
  limit_clock(signals, 1, ClockLimit::hw_thermal_slowdown, 0.4, 1600);

  const std::vector<Finding> findings = diagnose(signals).findings;

  ASSERT_GE(findings.size(), 2U);
  EXPECT_EQ(findings.front().code, FindingCode::taking_turns);
  EXPECT_EQ(findings.back().code, FindingCode::thermal_throttle);
}

TEST(StoodBehind, NeedsConfidenceAndALoss) {
  EXPECT_TRUE(is_stood_behind(finding_with(FindingCode::input_starved, 0.5, 0.02)));
  EXPECT_FALSE(is_stood_behind(finding_with(FindingCode::input_starved, 0.49, 0.5)));
  EXPECT_FALSE(is_stood_behind(finding_with(FindingCode::input_starved, 0.9, 0.015)));
}

TEST(StoodBehind, NeedsNoLossOfAFault) {
  EXPECT_TRUE(is_stood_behind(finding_with(FindingCode::ecc_or_xid, 0.9, 0)));
  EXPECT_TRUE(is_stood_behind(finding_with(FindingCode::gpu_lost, 0.9, 0)));
  EXPECT_FALSE(is_stood_behind(finding_with(FindingCode::gpu_lost, 0.4, 0)))
      << "a fault must be likely all the same";
}

TEST(MachineVerdict, SpeaksOfTheJobWithTheMostBusyGpus) {
  Signals signals = alone(8);
  add_job(signals, split_model(4).jobs.front(), 1);
  add_job(signals, healthy_ranks(2).jobs.front(), 5);

  const Diagnosis diagnosis = diagnose(signals);

  EXPECT_EQ(diagnosis.first_job, 1U);
  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::taking_turns);
}

TEST(MachineVerdict, DoesNotSpeakOfALargerJobThatRests) {
  Signals signals = nothing_runs(4);
  add_job(signals, healthy_ranks(2).jobs.front(), 4);

  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::in_step);
}

TEST(MachineVerdict, SpeaksOfTheLargerLossAmongEquals) {
  Signals loss_first = split_model(2);
  add_job(loss_first, healthy_ranks(2).jobs.front(), 2);
  Signals loss_last = healthy_ranks(2);
  add_job(loss_last, split_model(2).jobs.front(), 2);

  EXPECT_EQ(diagnose(loss_first).verdict.pattern, Pattern::taking_turns);
  EXPECT_EQ(diagnose(loss_last).verdict.pattern, Pattern::taking_turns);
}

TEST(MachineVerdict, SpeaksOfTheFirstGpuAmongTrueEquals) {
  Signals signals = healthy_ranks(2);
  add_job(signals, healthy_ranks(2).jobs.front(), 2);

  EXPECT_EQ(diagnose(signals).first_job, 0U);
}

TEST(MachineVerdict, IsIndependentWhereSeveralJobsHaveOneGpuEach) {
  const Verdict verdict = diagnose(copies_by_hand(3)).verdict;

  EXPECT_EQ(verdict.pattern, Pattern::independent);
  EXPECT_THAT(verdict.sentence, HasSubstr("GPU 0 to 2"));
}

TEST(MachineVerdict, IsNotIndependentWhereOneJobHasTwoGpus) {
  Signals signals = healthy_ranks(2);
  add_job(signals, alone(1).jobs.front(), 2);

  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::in_step);
}

TEST(MachineVerdict, IsNotIndependentWhereOnlyOneJobRuns) {
  Signals signals = copies_by_hand(2);
  signals.jobs[1] = nothing_runs(1).jobs.front();
  signals.jobs[1].gpus = {1};
  signals.jobs[1].members.front().index = 1;

  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::single_gpu)
      << "a notebook that holds memory does not run";
}

TEST(MachineVerdict, IsIdleWithoutAnyJobAndNotBelievedOfOneSnapshot) {
  Signals signals = nothing_runs(2);
  signals.jobs.clear();
  Signals one_look = signals;
  one_look.ticks = 1;

  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::idle);
  EXPECT_LT(diagnose(one_look).verdict.confidence, diagnose(signals).verdict.confidence);
}

TEST(MachineVerdict, DoesNotSayWhatGpusHoldWhereItIsNotRead) {
  Signals signals = nothing_runs(2);
  signals.jobs.clear();
  for (GpuSignals& gpu : signals.gpus) gpu.memory_used_bytes = 4e6;
  EXPECT_EQ(diagnose(signals).verdict.sentence, "No GPU is in use.");

  signals.gpus[1].memory_used_bytes.reset();
  EXPECT_EQ(diagnose(signals).verdict.sentence,
            "No GPU works. How many bytes they hold is not in the input.");
}

TEST(MachineVerdict, IsNotChangedByGpusWithoutAJob) {
  Signals signals = split_model(2);
  signals.free_gpus = {2, 3, 4, 5, 6, 7};

  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::taking_turns);
}

TEST(Sure, OfTurnsAfterAFewBlocksThatAgree) {
  Signals signals = watched_for(split_model(2), 2);
  signals.jobs.front().fine->hand_overs = 6;
  signals.jobs.front().fine->blocks_exclusive = 4;
  Signals too_few = signals;
  too_few.jobs.front().fine->blocks_exclusive = 3;

  EXPECT_TRUE(sure_of(signals));
  EXPECT_FALSE(sure_of(too_few)) << "wrong more often than once in a thousand";
}

TEST(Sure, NeverBeforeASecondAndAHalf) { EXPECT_FALSE(sure_of(watched_for(split_model(2), 1.2))); }

TEST(Sure, OfAHealthyJobLaterThanOfTurns) {
  EXPECT_TRUE(sure_of(watched_for(split_model(2), 2)));
  EXPECT_FALSE(sure_of(watched_for(healthy_ranks(2), 2)));
  EXPECT_TRUE(sure_of(watched_for(healthy_ranks(2), 4)));
}

TEST(Sure, NotWhereBlocksDisagree) {
  Signals signals = split_model(2);
  signals.jobs.front().fine->hand_overs = 20;
  signals.jobs.front().fine->blocks_exclusive = 10;
  signals.jobs.front().fine->blocks_together = 8;

  EXPECT_FALSE(sure_of(signals));
}

TEST(Sure, OfOneGpuAndOfSeparateJobsAfterAWhile) {
  EXPECT_TRUE(sure_of(alone(1)));
  EXPECT_TRUE(sure_of(copies_by_hand(2)));
  EXPECT_FALSE(sure_of(watched_for(alone(1), 3)));
}

TEST(Sure, NeverOfNothing) {
  Signals no_job = nothing_runs(2);
  no_job.jobs.clear();
  Signals unclear = healthy_ranks(2);
  unclear.jobs.front().fine.reset();

  EXPECT_FALSE(sure_of(no_job)) << "it may start any moment";
  EXPECT_FALSE(sure_of(nothing_runs(2)));
  EXPECT_FALSE(sure_of(unclear));
}

}  // namespace
}  // namespace lockstep
