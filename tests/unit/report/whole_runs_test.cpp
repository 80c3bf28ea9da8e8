// What is said of whole runs as the driver shows them: from readings to findings.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <random>

#include "detectors/diagnosis.hpp"
#include "signals/derive_signals.hpp"
#include "support/simulated_run.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

Diagnosis diagnosed(const std::vector<Behaviour>& gpus, double seconds,
                    ProcessTick processes = {}) {
  Timeline timeline = simulate(gpus, {.seconds = seconds});
  const auto ranks = static_cast<int>(gpus.size());
  if (processes.empty())
    for (int rank = 0; rank < ranks; ++rank) processes.push_back(rank_on_gpu(rank, ranks, rank));
  put_processes(timeline, processes);
  return diagnose(derive_signals(timeline));
}

std::vector<FindingCode> codes_of(const Diagnosis& diagnosis) {
  std::vector<FindingCode> codes;
  for (const Finding& finding : diagnosis.findings) codes.push_back(finding.code);
  return codes;
}

Doing always_spins(double) { return Doing::spinning; }
Doing never_runs(double) { return Doing::nothing; }

// Steps that end with the slowest rank; the others spin until then.
std::vector<Behaviour> uneven_steps(std::size_t ranks, double step_ms, double spread,
                                    double seconds) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> length(0, spread);
  struct Step {
    double begins = 0;
    std::vector<double> works;
  };
  auto steps = std::make_shared<std::vector<Step>>();
  for (double t = 0; t < seconds * 1e3;) {
    Step step{t, {}};
    for (std::size_t rank = 0; rank < ranks; ++rank) step.works.push_back(step_ms * length(random));
    t += std::ranges::max(step.works) + 10;
    steps->push_back(std::move(step));
  }
  std::vector<Behaviour> behaviours;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    behaviours.emplace_back([steps, rank](double t) {
      const auto step = std::ranges::upper_bound(*steps, t, {}, &Step::begins) - 1;
      return t < step->begins + step->works[rank] ? Doing::working : Doing::spinning;
    });
  return behaviours;
}

TEST(WholeRuns, ThatHungBeforeTheyWereWatchedWaitForTheRankThatDoesNothing) {
  const auto diagnosis = diagnosed({always_spins, never_runs, always_spins, always_spins}, 40);

  EXPECT_THAT(codes_of(diagnosis), Contains(FindingCode::stuck_collective));
  EXPECT_THAT(codes_of(diagnosis), Not(Contains(FindingCode::straggler_rank)));
}

TEST(WholeRuns, InWhichTheOthersWorkHaveNoRankThatHangs) {
  const Behaviour works = working_else_spinning(400, 0.7);
  const auto diagnosis = diagnosed({works, never_runs, works, works}, 40);

  EXPECT_THAT(codes_of(diagnosis), Not(Contains(FindingCode::stuck_collective)));
}

TEST(WholeRuns, OfUnevenStepsAreInStepHoweverLongTheStepsAre) {
  for (const double step_ms : {300.0, 1600.0, 2500.0}) {
    const double seconds = 60 * step_ms / 1e3;
    const auto diagnosis = diagnosed(uneven_steps(4, step_ms, 0.3, seconds), seconds);

    EXPECT_EQ(diagnosis.verdict.pattern, Pattern::in_step) << step_ms;
    EXPECT_THAT(codes_of(diagnosis), Contains(FindingCode::uneven_work)) << step_ms;
  }
}

TEST(WholeRuns, OfEvenStepsHaveNoUnevenWork) {
  const auto diagnosis = diagnosed(uneven_steps(4, 1600, 0.01, 60), 60);

  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::in_step);
  EXPECT_THAT(codes_of(diagnosis), IsEmpty());
}

TEST(WholeRuns, OfRanksThatSpinForTheirTurnTakeTurns) {
  const auto diagnosis =
      diagnosed({working_else_spinning(1000, 0.5), working_else_spinning(1000, 0.5, 500)}, 30);

  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::taking_turns);
  EXPECT_THAT(codes_of(diagnosis), Contains(FindingCode::taking_turns));
}

TEST(WholeRuns, OfStagesThatSpinHaveBubblesAllTheSame) {
  std::vector<Behaviour> stages;
  for (int stage = 0; stage < 4; ++stage)
    stages.push_back(working_else_spinning(1000, 0.6, 130 * stage));
  const auto diagnosis = diagnosed(stages, 30);

  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::pipeline);
  EXPECT_THAT(codes_of(diagnosis), Contains(FindingCode::pipeline_bubbles));
}

// Eight seconds in which rank 0 works alone: that it evaluates cannot be told from once, and late
// step after step it is not.
TEST(WholeRuns, WithOneLongWaitHaveNoLateRank) {
  const Behaviour works = working_else_spinning(400, 0.95);
  const auto in_the_stretch = [](double t) { return t > 30'000 && t < 38'000; };
  const auto waits = [=](double t) { return in_the_stretch(t) ? Doing::spinning : works(t); };
  const auto evaluates = [=](double t) { return in_the_stretch(t) ? Doing::working : works(t); };
  const auto diagnosis = diagnosed({evaluates, waits, waits, waits}, 60);

  EXPECT_THAT(codes_of(diagnosis), Not(Contains(FindingCode::straggler_rank)));
}

ProcessTick processes_named(const std::vector<std::vector<std::string>>& commands) {
  ProcessTick processes;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    ProcessSample process = process_on_gpus(2000 + static_cast<int>(i), {static_cast<int>(i)});
    process.environment.reset();  // another user's
    process.command = commands[i];
    processes.push_back(std::move(process));
  }
  return processes;
}

TEST(WholeRuns, OfRanksThatTheirCommandsNameAreOneJob) {
  const Behaviour works = working_else_spinning(400, 0.9);
  const auto by_argument = diagnosed({works, works}, 20,
                                     processes_named({{"python", "train.py", "--local_rank=0"},
                                                      {"python", "train.py", "--local_rank=1"}}));
  const auto by_title =
      diagnosed({works, works}, 20, processes_named({{"train: rank 0/2"}, {"train: rank 1/2"}}));
  const auto strangers = diagnosed(
      {works, works}, 20,
      processes_named({{"python", "a.py", "--rank", "0"}, {"python", "b.py", "--rank", "1"}}));

  EXPECT_EQ(by_argument.verdict.pattern, Pattern::in_step);
  EXPECT_EQ(by_title.verdict.pattern, Pattern::in_step);
  EXPECT_EQ(strangers.verdict.pattern, Pattern::independent);
}

TEST(WholeRuns, OfServersBesideEachOtherAreJobsOfTheirOwn) {
  const auto engines = diagnosed({working_part(700, 0.4), working_part(900, 0.5, 100)}, 20,
                                 processes_named({{"VLLM::EngineCore"}, {"VLLM::EngineCore"}}));
  const auto parts = diagnosed({working_part(700, 0.4), working_part(700, 0.4)}, 20,
                               processes_named({{"VLLM::Worker_TP0"}, {"VLLM::Worker_TP1"}}));

  EXPECT_EQ(engines.verdict.pattern, Pattern::independent);
  EXPECT_EQ(parts.verdict.pattern, Pattern::in_step);
}

TEST(WholeRuns, OfASplitModelInANotebookAreToldWhatItCosts) {
  ProcessSample kernel = process_on_gpus(3000, {0, 1});
  kernel.command = {"python", "-m", "ipykernel_launcher", "-f", "kernel.json"};
  const auto diagnosis =
      diagnosed({working_part(1200, 0.5), working_part(1200, 0.5, 600)}, 30, {kernel});

  EXPECT_THAT(codes_of(diagnosis), Contains(FindingCode::taking_turns));
}

// A pass at full power, then an optimizer at a third of it: the counters say that both fill the
// SMs.
TEST(WholeRuns, WithLowPowerAndFullCountersWork) {
  const Behaviour works = working_else_spinning(600, 0.6);
  for (const bool counted : {false, true}) {
    Timeline timeline = simulate({works, works}, {.seconds = 20});
    for (GpuTrack& track : timeline.gpus)
      for (double t = 100; counted && t < 20'000; t += 100) {
        track.sm.t_ms.push_back(t);
        track.sm.values.push_back(0.97);
      }
    put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});

    const auto diagnosis = diagnose(derive_signals(timeline));

    EXPECT_NEAR(diagnosis.ledgers.front()[LedgerPart::link], counted ? 0.03 : 0.4, 0.05);
  }
}

// Twenty seconds of generating at the end, at the power of a GPU that spins: by its counters it
// works.
TEST(WholeRuns, ThatEndWithLightWorkDoNotHang) {
  const Behaviour works = working_else_spinning(400, 0.95);
  const Behaviour then_generates = [works](double t) {
    return t < 25'000 ? works(t) : Doing::spinning;
  };
  for (const bool generates : {false, true}) {
    Timeline timeline = simulate({then_generates, then_generates}, {.seconds = 45});
    for (GpuTrack& track : timeline.gpus)
      for (double t = 1000; t <= 45'000; t += 1000) {
        track.sm.t_ms.push_back(t);
        track.sm.values.push_back(t <= 25'000 ? 0.9 : generates ? 0.5 : 0.1);
      }
    put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});

    const auto codes = codes_of(diagnose(derive_signals(timeline)));

    EXPECT_EQ(std::ranges::count(codes, FindingCode::stuck_collective), generates ? 0 : 1);
  }
}

TEST(WholeRuns, OfASweepAreNoJobsThatShareAGpu) {
  Timeline timeline = simulate({working_part(300, 0.9)}, {.seconds = 30});
  ProcessSample first = process_on_gpus(100, {0});
  ProcessSample second = process_on_gpus(200, {0});
  first.command = {"python", "train.py", "--seed", "1"};
  second.command = {"python", "train.py", "--seed", "2"};
  ProcessSample other = process_on_gpus(300, {});  // is there all the time
  for (double t = 0; t <= 30'000; t += 2000)
    timeline.process_lists.push_back({t, {t < 14'000 ? first : second, other}});

  const auto diagnosis = diagnose(derive_signals(timeline));

  EXPECT_THAT(codes_of(diagnosis), Not(Contains(FindingCode::gpu_held_by_others)));
  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::single_gpu);
}

TEST(WholeRuns, BesideADesktopAreOneJob) {
  ProcessSample training = process_on_gpus(100, {0});
  ProcessSample editor = process_on_gpus(200, {0});
  editor.command = {"/usr/share/code/code", "--type=gpu-process"};

  const auto diagnosis = diagnosed({working_part(300, 0.9)}, 20, {training, editor});

  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::single_gpu);
}

// Short steps of strangers begin within 50 ms of each other half of the time.
TEST(WholeRuns, OfStrangersWithOneCommandAreNotInStep) {
  const auto diagnosis =
      diagnosed({working_else_spinning(143, 0.8), working_else_spinning(151, 0.8)}, 30,
                processes_named({{"python", "train.py"}, {"python", "train.py"}}));

  EXPECT_NE(diagnosis.verdict.pattern, Pattern::in_step);
}

}  // namespace
}  // namespace lockstep
