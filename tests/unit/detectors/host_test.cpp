// S301 to S307: the host holds the GPUs up.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kGigabyte = 1e9;

Signals with_part(std::string_view part, double share) {
  Signals signals = with_steps(healthy_ranks(4));
  give_part(*signals.jobs.front().steps, part, share);
  return signals;
}

// Short gaps in every step, shared by all ranks.
Signals gaps_in_every_step() {
  Signals signals = healthy_ranks(4);
  signals.jobs.front().idle_together = 0.06;
  return signals;
}

// Every ten seconds nothing works for one and a half, and much is written.
Signals saves_every_ten_seconds() {
  Signals signals = healthy_ranks(4);
  stall_every(signals, 10'000, {.spinning_gpus = 3, .written_bytes = 2 * kGigabyte}, 1500);
  return signals;
}

// Every ten seconds GPU 0 works alone for two, and the others spin.
Signals evaluates_on_the_first() {
  Signals signals = healthy_ranks(4);
  stall_every(signals, 10'000,
              {.working_gpus = 1, .spinning_gpus = 3, .workers = {0}, .written_bytes = 18e6}, 2000);
  return signals;
}

// Kernels of microseconds from a full core: busy, and few of the SMs have work.
Signals tiny_kernels() {
  Signals signals = alone(1);
  signals.gpus.front().sm = 0.25;
  draw_power(signals, 0.37);
  return signals;
}

TEST(HostSyncEveryStep, IsMeasuredByStepMarks) {
  const auto findings = found_by(find_host_sync_every_step, with_part("sync", 0.1));

  ASSERT_TRUE(is_one(findings, FindingCode::host_sync_every_step, 0.1, 0.1));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(HostSyncEveryStep, IsNotSaidOfShortOrRareOnes) {
  Signals rare = with_part("sync", 0.1);
  for (double& present : rare.jobs.front().steps->present) present = 0.1;

  EXPECT_THAT(found_by(find_host_sync_every_step, with_part("sync", 0.04)), IsEmpty());
  EXPECT_THAT(found_by(find_host_sync_every_step, rare), IsEmpty())
      << "every tenth step is not every step";
}

TEST(HostSyncEveryStep, IsSuspectedOnlyFromOutside) {
  const auto findings = found_by(find_host_sync_every_step, gaps_in_every_step());

  ASSERT_TRUE(is_one(findings, FindingCode::host_sync_every_step, 0.05, 0.1));
  EXPECT_FALSE(is_stood_behind(findings.front()));
}

TEST(HostSyncEveryStep, IsNotSuspectedWhereInputExplainsTheGapOrTheHostIsUnknown) {
  Signals no_workers = gaps_in_every_step();
  no_workers.jobs.front().host.loader_workers = 0;
  Signals unknown = gaps_in_every_step();
  unknown.jobs.front().host = {};

  EXPECT_THAT(found_by(find_host_sync_every_step, no_workers), IsEmpty());
  EXPECT_THAT(found_by(find_host_sync_every_step, unknown), IsEmpty());
  EXPECT_THAT(found_by(find_host_sync_every_step, healthy_ranks(4)), IsEmpty());
}

TEST(LoggingTooOften, IsMeasuredByStepMarks) {
  const auto findings = found_by(find_logging_too_often, with_part("logging", 0.08));

  ASSERT_TRUE(is_one(findings, FindingCode::logging_too_often, 0.08, 0.08));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(found_by(find_logging_too_often, with_part("logging", 0.02)), IsEmpty())
      << "a line now and then is no loss";
}

TEST(LoggingTooOften, IsSuspectedOnlyFromOutside) {
  for (const double written : {1.2e3, 4e6}) {
    Signals signals = gaps_in_every_step();
    signals.jobs.front().host.write_bytes_s = written;

    const auto findings = found_by(find_logging_too_often, signals);

    ASSERT_EQ(findings.size(), 1U) << written;
    EXPECT_FALSE(is_stood_behind(findings.front()));
  }
}

TEST(LoggingTooOften, IsNotSuspectedWhereNothingOrMuchIsWrittenOrNobodyKnows) {
  for (const std::optional<double> written :
       {std::optional(800.0), std::optional(6e6), std::optional<double>()}) {
    Signals signals = gaps_in_every_step();
    signals.jobs.front().host.write_bytes_s = written;

    EXPECT_THAT(found_by(find_logging_too_often, signals), IsEmpty()) << written.value_or(-1);
  }
}

TEST(CheckpointStall, IsFoundWhereStallsComeWithABurstOfBytes) {
  const auto findings = found_by(find_checkpoint_stall, saves_every_ten_seconds());

  ASSERT_TRUE(is_one(findings, FindingCode::checkpoint_stall, 0.1, 0.2));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_NEAR(evidence_of(findings.front(), "stall_ms"), 1500, 1);
}

TEST(CheckpointStall, IsFoundOfSmallOnesThatComeOften) {
  Signals signals = healthy_ranks(2);
  stall_every(signals, 4500, {.spinning_gpus = 1, .written_bytes = 22e6}, 1000);

  EXPECT_TRUE(
      is_one(found_by(find_checkpoint_stall, signals), FindingCode::checkpoint_stall, 0.15, 0.3));
}

TEST(CheckpointStall, IsMeasuredByStepMarks) {
  EXPECT_TRUE(is_one(found_by(find_checkpoint_stall, with_part("checkpoint", 0.06)),
                     FindingCode::checkpoint_stall, 0.06, 0.06));
  EXPECT_THAT(found_by(find_checkpoint_stall, with_part("checkpoint", 0.01)), IsEmpty());
}

TEST(CheckpointStall, IsNotSaidWithoutABurst) {
  for (const std::optional<double> written : {std::optional(18e6), std::optional<double>()}) {
    Signals signals = saves_every_ten_seconds();
    for (Stall& stall : signals.jobs.front().stalls.all) stall.written_bytes = written;

    EXPECT_THAT(found_by(find_checkpoint_stall, signals), IsEmpty()) << written.value_or(-1);
  }
}

TEST(CheckpointStall, IsNotSaidOfOneStallOrOfEveryStep) {
  Signals once = saves_every_ten_seconds();
  once.jobs.front().stalls.all.resize(1);
  Signals always = saves_every_ten_seconds();
  always.jobs.front().stalls.period_ms = 3600;

  EXPECT_THAT(found_by(find_checkpoint_stall, once), IsEmpty());
  EXPECT_THAT(found_by(find_checkpoint_stall, always), IsEmpty());
}

TEST(CheckpointStall, IsSuspectedOnlyFromReadingsFarApart) {
  Signals signals = saves_every_ten_seconds();
  signals.tick_ms = 5000;

  for (const Finding& finding : found_by(find_checkpoint_stall, signals))
    EXPECT_FALSE(is_stood_behind(finding));
}

TEST(EvaluationStall, NamesTheRankThatWorksWhileTheOthersWait) {
  const auto findings = found_by(find_evaluation_stall, evaluates_on_the_first());

  ASSERT_TRUE(is_one(findings, FindingCode::evaluation_stall, 0.15, 0.25));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0));
}

TEST(EvaluationStall, IsSuspectedOnlyWhereTheOthersWaitBetweenTheStallsToo) {
  Signals signals = evaluates_on_the_first();
  JobSignals& job = signals.jobs.front();
  const double share = job.stalls.share;
  job.time = JobTime{0, 0, true, true, 0};
  job.members[0].time = GpuTime{1, 0, 0, 1};
  for (std::size_t i = 1; i < job.members.size(); ++i)
    job.members[i].time = GpuTime{1 - share, share, 0, 0};
  ASSERT_EQ(found_by(find_evaluation_stall, signals).size(), 1U);
  EXPECT_TRUE(is_stood_behind(found_by(find_evaluation_stall, signals).front()));

  for (std::size_t i = 1; i < job.members.size(); ++i)
    job.members[i].time = GpuTime{1 - 1.7 * share, 1.7 * share, 0, 0};
  for (const Finding& finding : found_by(find_evaluation_stall, signals))
    EXPECT_FALSE(is_stood_behind(finding)) << "a rank that is late in every step";
}

TEST(EvaluationStall, IsMeasuredByStepMarks) {
  Signals one = with_steps(healthy_ranks(4));
  give_part_to_rank(*one.jobs.front().steps, 0, "evaluation", 0.15);

  EXPECT_TRUE(
      is_one(found_by(find_evaluation_stall, one), FindingCode::evaluation_stall, 0.15, 0.15));
  EXPECT_THAT(found_by(find_evaluation_stall, with_part("evaluation", 0.15)), IsEmpty())
      << "evaluation on all ranks is work";
}

TEST(EvaluationStall, IsNotSaidWhereBytesAreWritten) {
  Signals signals = evaluates_on_the_first();
  for (Stall& stall : signals.jobs.front().stalls.all) stall.written_bytes = 22e6;

  EXPECT_THAT(found_by(find_evaluation_stall, signals), IsEmpty());
}

TEST(EvaluationStall, IsNotSaidWhereNobodyOrEverybodyWorks) {
  for (const std::vector<int>& workers : {std::vector<int>{}, std::vector<int>{0, 1, 2, 3}}) {
    Signals signals = evaluates_on_the_first();
    for (Stall& stall : signals.jobs.front().stalls.all) stall.workers = workers;

    EXPECT_THAT(found_by(find_evaluation_stall, signals), IsEmpty()) << workers.size() << " work";
  }
}

TEST(EvaluationStall, IsNotSaidWhereNobodyIsSeenToSpinOrItComesOnce) {
  Signals no_power = evaluates_on_the_first();
  for (Stall& stall : no_power.jobs.front().stalls.all) stall.spinning_gpus = 0;
  Signals once = evaluates_on_the_first();
  once.jobs.front().stalls.all.resize(1);

  EXPECT_THAT(found_by(find_evaluation_stall, no_power), IsEmpty());
  EXPECT_THAT(found_by(find_evaluation_stall, once), IsEmpty());
}

TEST(LaunchBound, IsSuspectedWhereAFullCoreFeedsTinyKernels) {
  const auto findings = found_by(find_launch_bound, tiny_kernels());

  ASSERT_TRUE(is_one(findings, FindingCode::launch_bound, 0.2, 0.5));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0));
  EXPECT_FALSE(is_stood_behind(findings.front()))
      << "a spinning thread fills a core too: a trace decides";
}

TEST(LaunchBound, IsSuspectedByPowerWhereSmIsUnknown) {
  Signals signals = tiny_kernels();
  signals.gpus.front().sm.reset();

  EXPECT_TRUE(is_one(found_by(find_launch_bound, signals), FindingCode::launch_bound, 0.2, 0.5));
}

TEST(LaunchBound, IsNotSuspectedOfAHostWithTimeOrAGpuWithWork) {
  Signals sleeps = tiny_kernels();
  sleeps.jobs.front().host.main_cpu = 0.6;
  Signals works = tiny_kernels();
  works.gpus.front().sm = 0.35;
  Signals rests = tiny_kernels();
  load_gpu(rests, 0, 0.1, 0.02);
  Signals draws_power = tiny_kernels();
  draws_power.gpus.front().sm.reset();
  draw_power(draws_power, 0.43);

  EXPECT_THAT(found_by(find_launch_bound, rests), IsEmpty());
  EXPECT_THAT(found_by(find_launch_bound, draws_power), IsEmpty());
  EXPECT_THAT(found_by(find_launch_bound, sleeps), IsEmpty());
  EXPECT_THAT(found_by(find_launch_bound, works), IsEmpty());
}

TEST(LaunchBound, IsNotSuspectedWithoutTheHostOrWithoutPowerAndSm) {
  Signals no_host = tiny_kernels();
  no_host.jobs.front().host.main_cpu.reset();
  Signals no_load = tiny_kernels();
  no_load.gpus.front().sm.reset();
  no_load.jobs.front().members.front().power_of_limit.reset();

  EXPECT_THAT(found_by(find_launch_bound, no_host), IsEmpty());
  EXPECT_THAT(found_by(find_launch_bound, no_load), IsEmpty());
}

TEST(StoppedByCollector, IsMeasuredByStepMarksAlone) {
  const auto findings = found_by(find_stopped_by_collector, with_part("gc", 0.05));

  ASSERT_TRUE(is_one(findings, FindingCode::stopped_by_collector, 0.05, 0.05));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(found_by(find_stopped_by_collector, with_part("gc", 0.01)), IsEmpty());
  EXPECT_THAT(found_by(find_stopped_by_collector, gaps_in_every_step()), IsEmpty())
      << "without marks nobody knows";
}

TEST(StepShares, NeedFiveSteps) {
  Signals signals = with_part("gc", 0.5);
  signals.jobs.front().steps->count = 4;

  EXPECT_THAT(found_by(find_stopped_by_collector, signals), IsEmpty());
}

// All GPUs rest 40 % of the time, and looks at the main threads say what they do then.
Signals rests(const HostDoing& doing, int workers) {
  Signals signals = healthy_ranks(4);
  JobSignals& job = signals.jobs.front();
  job.idle_together = 0.4;
  job.host.loader_workers = workers;
  job.host.main_cpu = 0.3;
  job.host.doing = doing;
  job.host.doing->looks = 200;
  job.host.doing->joined = true;
  return signals;
}

TEST(SlowHostCode, IsSleepWhileTheGpusRestAndTheLoadersWorkersDoToo) {
  const Signals signals = rests({.sleeping = 0.38, .workers_at_work = 0.02}, 4);
  const auto findings = found_by(find_slow_host_code, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::slow_host_code, 0.37, 0.39));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(found_by(find_input_starved, signals), IsEmpty()) << "full queues: not the loader";
}

TEST(SlowHostCode, IsLessSureWhereTheMainThreadLoadsTheData) {
  const auto findings = found_by(find_slow_host_code, rests({.sleeping = 0.38}, 0));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LT(findings.front().confidence, 0.6);
}

TEST(SlowHostCode, IsNotALoaderThatIsSlowNorAHealthyRunNorOneWithoutLooks) {
  const Signals starved =
      rests({.for_another = 0.36, .sleeping = 0.01, .workers_at_work = 0.95}, 4);
  EXPECT_THAT(found_by(find_slow_host_code, starved), IsEmpty());
  EXPECT_TRUE(
      is_one(found_by(find_input_starved, starved), FindingCode::input_starved, 0.35, 0.37));
  EXPECT_THAT(found_by(find_slow_host_code, healthy_ranks(4)), IsEmpty());
}

TEST(SlowHostCode, IsASuspicionWhereNoMomentCouldBeJoinedWithTheGpusRest) {
  Signals signals = rests({.sleeping = 0.38, .workers_at_work = 0.02}, 4);
  signals.jobs.front().host.doing->joined = false;
  const auto findings = found_by(find_slow_host_code, signals);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LT(findings.front().confidence, 0.5) << "it may be hidden behind the GPU's work";
}

TEST(InputStarved, IsNotDecidedByWorkersThatWorkNowAndThen) {
  const Signals signals = rests({.for_another = 0.36, .workers_at_work = 0.5}, 4);
  const auto findings = found_by(find_input_starved, signals);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LT(findings.front().confidence, 0.56);
}

// Stacks of moments of rest: 24 of them, so many in one part.
Signals stands_in(StepPart part, int samples, double syncs = 0) {
  Signals signals = rests({}, 4);
  HostDoing& doing = *signals.jobs.front().host.doing;
  doing.stacks_at_rest = 24;
  doing.all_stacks = {{StepPart::sync, syncs, {}, 1}};
  doing.stacks = {{part, 0.4 * samples / 24, {"/home/ada/train.py", 31, "time.sleep"}, samples}};
  return signals;
}

TEST(PythonStacksFromOutside, NameTheCauseAndItsLine) {
  for (const auto& [part, detector, code] :
       std::initializer_list<std::tuple<StepPart, Inspect, FindingCode>>{
           {StepPart::logging, find_logging_too_often, FindingCode::logging_too_often},
           {StepPart::checkpoint, find_checkpoint_stall, FindingCode::checkpoint_stall},
           {StepPart::gc, find_stopped_by_collector, FindingCode::stopped_by_collector},
           {StepPart::other, find_slow_host_code, FindingCode::slow_host_code},
           {StepPart::data_wait, find_input_starved, FindingCode::input_starved}}) {
    const auto findings = found_by(detector, stands_in(part, 20));
    ASSERT_TRUE(is_one(findings, code, 0.3, 0.36)) << name_of(code).id;
    EXPECT_TRUE(is_stood_behind(findings.front()));
    ASSERT_EQ(findings.front().where.size(), 1U);
    EXPECT_EQ(findings.front().where.front().line, 31);
    EXPECT_THAT(found_by(detector, stands_in(part, 1)), IsEmpty()) << "one may be a chance";
  }
}

TEST(PythonStacksFromOutside, TellLaunchingAfterASyncFromLaunchingAlone) {
  const Signals launches = stands_in(StepPart::forward, 20);
  EXPECT_TRUE(is_one(found_by(find_launch_bound, launches), FindingCode::launch_bound, 0.3, 0.36));
  EXPECT_THAT(found_by(find_host_sync_every_step, launches), IsEmpty());

  const Signals syncs = stands_in(StepPart::forward, 20, 0.3);
  EXPECT_TRUE(is_one(found_by(find_host_sync_every_step, syncs), FindingCode::host_sync_every_step,
                     0.3, 0.36));
  EXPECT_LT(found_by(find_launch_bound, syncs).front().confidence, 0.5);
}

TEST(PythonStacksFromOutside, CountWaitsInLinesThatLeaveTheGpuAtRest) {
  Signals signals = stands_in(StepPart::sync, 14, 0.7);
  signals.jobs.front().host.doing->stacks.push_back({StepPart::backward, 0.1, {}, 6});

  EXPECT_TRUE(is_one(found_by(find_host_sync_every_step, signals),
                     FindingCode::host_sync_every_step, 0.32, 0.34))
      << "p.grad.norm().item() for each parameter";
}

TEST(PythonStacksFromOutside, TakeCodeThatWritesMuchForASave) {
  Signals signals = stands_in(StepPart::other, 20);
  signals.jobs.front().host.write_bytes_s = 2e8;
  EXPECT_TRUE(
      is_one(found_by(find_checkpoint_stall, signals), FindingCode::checkpoint_stall, 0.3, 0.36))
      << "copies, pickle.dump and os.replace in a function called write_out";
  EXPECT_THAT(found_by(find_slow_host_code, signals), IsEmpty());

  signals.jobs.front().host.write_bytes_s = 2e6;
  EXPECT_THAT(found_by(find_checkpoint_stall, signals), IsEmpty()) << "a log";
  EXPECT_THAT(found_by(find_slow_host_code, signals), SizeIs(1));
}

TEST(PythonStacksFromOutside, SayOfAProcessWithoutWorkersWhetherItLoads) {
  Signals collects = stands_in(StepPart::gc, 8);
  HostSignals& host = collects.jobs.front().host;
  host.doing->stacks_at_rest = 8;
  host.loader_workers = host.most_loader_workers = 0;
  host.main_cpu = 1;
  EXPECT_THAT(found_by(find_input_starved, collects), IsEmpty()) << "eight of eight collect";
  EXPECT_THAT(found_by(find_loader_without_workers, collects), IsEmpty());

  Signals loads = collects;
  loads.jobs.front().host.doing->stacks.front().part = StepPart::data_wait;
  EXPECT_THAT(found_by(find_input_starved, loads), SizeIs(1));
  ASSERT_THAT(found_by(find_loader_without_workers, loads), SizeIs(1));
  EXPECT_GT(found_by(find_loader_without_workers, loads).front().confidence, 0.8);

  Signals no_stacks = loads;
  no_stacks.jobs.front().host.doing->stacks.clear();
  ASSERT_THAT(found_by(find_loader_without_workers, no_stacks), SizeIs(1));
  EXPECT_LT(found_by(find_loader_without_workers, no_stacks).front().confidence, 0.5)
      << "a full core may do anything";
  no_stacks.jobs.front().host.doing->reading = 0.2;
  EXPECT_GT(found_by(find_loader_without_workers, no_stacks).front().confidence, 0.5)
      << "it reads files while the GPUs rest";
}

TEST(LoggingTooOften, IsAMainThreadThatTheDiskHoldsUpWithFewBytes) {
  Signals signals = rests({.writing = 0.12, .workers_at_work = 0.02}, 4);
  signals.jobs.front().host.write_bytes_s = 2e4;
  EXPECT_TRUE(is_one(found_by(find_logging_too_often, signals), FindingCode::logging_too_often,
                     0.11, 0.13));

  signals.jobs.front().host.write_bytes_s = 4e8;
  EXPECT_THAT(found_by(find_checkpoint_stall, signals),
              ::testing::Contains(::testing::Field(&Finding::code, FindingCode::checkpoint_stall)))
      << "many bytes are no log";
}

// Rests too short to be seen one by one: what the host does all the time, by a hundred stacks.
Signals always_does(std::vector<StackPart> parts, double idle, double busy) {
  Signals signals = healthy_ranks(1);
  load_gpu(signals, 0, busy, 0.05);
  JobSignals& job = signals.jobs.front();
  job.idle_together = idle;
  HostDoing doing;
  doing.looks = 200;
  doing.stacks_in_all = 100;
  doing.all_stacks = std::move(parts);
  job.host.doing = doing;
  return signals;
}

TEST(HostSyncEveryStep, IsALineThatWaitsForTheGpuMostOfTheTimeWhileTheGpuStillRests) {
  const CodePlace line = {"/home/ada/train.py", 141, ".item"};
  const Signals items =
      always_does({{StepPart::sync, 0.7, line, 70}, {StepPart::forward, 0.3, {}, 30}}, 0.14, 0.86);
  const auto findings = found_by(find_host_sync_every_step, items);
  ASSERT_TRUE(is_one(findings, FindingCode::host_sync_every_step, 0.13, 0.15));
  ASSERT_EQ(findings.front().where.size(), 1U);
  EXPECT_EQ(findings.front().where.front().line, 141);
  EXPECT_THAT(found_by(find_launch_bound, items), IsEmpty());

  EXPECT_THAT(found_by(find_host_sync_every_step,
                       always_does({{StepPart::sync, 0.7, line, 70}}, 0.02, 0.98)),
              IsEmpty())
      << "a loss that is read in each step, and costs nothing";
  EXPECT_THAT(
      found_by(find_host_sync_every_step, always_does({{StepPart::sync, 0.3, line, 30}}, 0.6, 0.4)),
      IsEmpty())
      << "the host needs longer for the rest than the GPU for all";
}

TEST(LaunchBound, IsAHostThatDoesNothingButLaunchWhileTheGpuRests) {
  const std::vector<StackPart> launches = {{StepPart::backward, 0.5, {}, 50},
                                           {StepPart::forward, 0.4, {}, 40}};
  EXPECT_TRUE(is_one(found_by(find_launch_bound, always_does(launches, 0.7, 0.3)),
                     FindingCode::launch_bound, 0.6, 0.65));
  EXPECT_THAT(found_by(find_launch_bound, always_does(launches, 0.03, 0.97)), IsEmpty())
      << "it launches ahead of a GPU that always works";
  std::vector<StackPart> waits = launches;
  waits.push_back({StepPart::data_wait, 0.12, {}, 12});
  EXPECT_THAT(found_by(find_launch_bound, always_does(waits, 0.7, 0.3)), IsEmpty())
      << "what it waits for may be the cause";
}

// As the corpus of an H200 has it: looks alone, without stacks.
Signals rests_for_long(double computing, double written_bytes_s) {
  Signals signals = rests({.computing = computing, .workers_ever_at_work = 0.01}, 4);
  signals.jobs.front().host.write_bytes_s = written_bytes_s;
  return signals;
}

TEST(SlowHostCode, IsAMainThreadThatRunsThroughLongRests) {
  const auto findings = found_by(find_slow_host_code, rests_for_long(0.36, 2e4));
  ASSERT_TRUE(is_one(findings, FindingCode::slow_host_code, 0.35, 0.37));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(found_by(find_slow_host_code, rests_for_long(0.1, 2e4)), IsEmpty())
      << "most of the rest is something else";
}

TEST(CheckpointStall, IsAMainThreadThatRunsThroughLongRestsAndWritesMuch) {
  const Signals saves = rests_for_long(0.3, 4e8);
  EXPECT_TRUE(
      is_one(found_by(find_checkpoint_stall, saves), FindingCode::checkpoint_stall, 0.35, 0.4));
  EXPECT_THAT(found_by(find_slow_host_code, saves), IsEmpty());
  EXPECT_THAT(found_by(find_checkpoint_stall, rests_for_long(0.3, 4e6)), IsEmpty());
}

TEST(EvaluationStall, IsNamedByItsLineWhereTheGpuRestsMeanwhile) {
  EXPECT_TRUE(is_one(found_by(find_evaluation_stall, stands_in(StepPart::evaluation, 20)),
                     FindingCode::evaluation_stall, 0.3, 0.36));
  EXPECT_THAT(found_by(find_evaluation_stall, stands_in(StepPart::evaluation, 2)), IsEmpty());
}

}  // namespace
}  // namespace lockstep
