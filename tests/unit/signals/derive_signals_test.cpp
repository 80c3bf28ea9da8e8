#include "signals/derive_signals.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/several_machines.hpp"
#include "signals/job_groups.hpp"
#include "signals/process_kinds.hpp"
#include "support/simulated_run.hpp"

namespace lockstep {
namespace {

using namespace testing;

const Behaviour kAlways = [](double) { return Doing::working; };
const Behaviour kNever = [](double) { return Doing::nothing; };

TEST(JobGroups, JoinRanksOfOneMasterPort) {
  Timeline timeline = simulate({kAlways, kAlways, kAlways, kAlways});
  ProcessTick processes = {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1), rank_on_gpu(0, 2, 2),
                           rank_on_gpu(1, 2, 3)};
  for (std::size_t i = 2; i < 4; ++i) {
    processes[i].pid += 100;
    processes[i].parent_pid = 20;
    (*processes[i].environment)["MASTER_PORT"] = "29501";
  }
  put_processes(timeline, processes);

  const Signals signals = derive_signals(timeline);

  ASSERT_EQ(signals.jobs.size(), 2U) << "two jobs on one machine are judged apart";
  EXPECT_EQ(signals.jobs[0].gpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(signals.jobs[1].gpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(signals.jobs[1].ranks, (std::vector<int>{0, 1}));
}

TEST(WorkingTime, IsNoSingleReadingInMany) {
  Timeline timeline = simulate({kNever});
  GpuTrack& track = timeline.gpus[0];
  ASSERT_GT(track.busy.size(), 20U);
  track.memory_used_bytes.values.assign(track.memory_used_bytes.size(), 4e9);

  track.busy.values[track.busy.size() / 2] = 0.44;
  for (const JobSignals& job : derive_signals(timeline).jobs) EXPECT_FALSE(job.active);

  track.busy.values[track.busy.size() / 2 + 1] = 0.44;
  const Signals signals = derive_signals(timeline);
  ASSERT_EQ(signals.jobs.size(), 1U);
  EXPECT_TRUE(signals.jobs[0].active) << "two are a beginning";
}

// Two machines with a GPU each, whose recordings were put together, and a rank on each.
Timeline two_machines(const std::string& address) {
  Timeline timeline = simulate({kAlways, kAlways});
  ProcessTick processes = {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)};
  for (std::size_t i = 0; i < 2; ++i) {
    timeline.gpus[i].info.host = i == 0 ? "alpha" : "beta";
    timeline.gpus[i].info.host_index = 0;
    (*processes[i].environment)["MASTER_ADDR"] = address;
  }
  processes[1].pid = MachinePid::of(1, processes[1].pid).number();
  processes[1].parent_pid = MachinePid::of(1, 1).number();
  put_processes(timeline, processes);
  return timeline;
}

TEST(JobGroups, JoinRanksOfTwoMachinesThatMeetAtOneAddress) {
  const Signals signals = derive_signals(two_machines("alpha"));
  ASSERT_EQ(signals.jobs.size(), 1U);
  EXPECT_EQ(signals.jobs[0].gpus, (std::vector<int>{0, 1}));
}

TEST(JobGroups, KeepMachinesApartThatEachMeetAtHome) {
  for (const char* const home : {"127.0.0.1", "localhost"})
    EXPECT_EQ(derive_signals(two_machines(home)).jobs.size(), 2U) << home;
}

TEST(JobGroups, LikenessJoinsNothingOverMachines) {
  Timeline timeline = two_machines("alpha");
  for (ProcessList& list : timeline.process_lists)
    for (ProcessSample& process : list.processes) {
      process.environment.reset();
      process.rank.reset();
      process.world_size.reset();
    }
  EXPECT_EQ(derive_signals(timeline).jobs.size(), 2U);
}

TEST(JobGroups, JoinChildrenOfMpSpawnThoughNoRankIsSet) {
  Timeline timeline = simulate({kAlways, kAlways});
  ProcessTick processes = {process_on_gpus(101, {0}), process_on_gpus(102, {1})};
  for (ProcessSample& process : processes)
    process.command = {"python", "-c",
                       "from multiprocessing.spawn import spawn_main; spawn_main(...)"};
  put_processes(timeline, processes);

  const Signals signals = derive_signals(timeline);

  ASSERT_EQ(signals.jobs.size(), 1U);
  EXPECT_TRUE(signals.jobs[0].spawned);
}

TEST(JobGroups, PartWhatIsAlikeAndBeganMinutesApart) {
  const Behaviour later = [](double t_ms) {
    return t_ms < 140'000 ? Doing::nothing : Doing::working;
  };
  const Behaviour at_first = [](double t_ms) {
    return t_ms < 5'000 ? Doing::nothing : Doing::working;
  };
  SimulationOptions as_logs_are;
  as_logs_are.seconds = 1200;
  as_logs_are.tick_ms = as_logs_are.window_ms = 1000;
  as_logs_are.power_samples = false;
  const auto jobs_of = [&](const std::vector<Behaviour>& gpus) {
    Timeline timeline = simulate(gpus, as_logs_are);
    return derive_signals(timeline).jobs;
  };

  EXPECT_EQ(jobs_of({at_first, at_first, later, later}).size(), 2U);
  EXPECT_EQ(jobs_of({at_first, at_first, at_first, later}).size(), 1U)
      << "one rank may prepare the data while the others wait";
  EXPECT_EQ(jobs_of({later, later, later, later}).size(), 1U);
}

TEST(JobGroups, KeepCopiesOfOneCommandApart) {
  Timeline timeline = simulate({kAlways, kAlways});
  put_processes(timeline, {process_on_gpus(101, {0}), process_on_gpus(102, {1})});

  EXPECT_EQ(derive_signals(timeline).jobs.size(), 2U)
      << "one shell started both: they are no ranks";
}

TEST(JobGroups, IgnoreTheSmallContextThatARankOpensOnGpuZero) {
  Timeline timeline = simulate({kAlways, kAlways});
  ProcessTick processes = {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)};
  processes[1].gpus.push_back({0, 500ULL << 20U});
  put_processes(timeline, processes);

  const Signals signals = derive_signals(timeline);

  ASSERT_EQ(signals.jobs.size(), 1U);
  EXPECT_EQ(signals.jobs[0].processes[1].gpus.size(), 1U);
}

TEST(JobGroups, LeaveTheDesktopOut) {
  Timeline timeline = simulate({kAlways, kNever});
  ProcessSample desktop = process_on_gpus(50, {1});
  desktop.command = {"/usr/lib/xorg/Xorg", ":0"};
  put_processes(timeline, {process_on_gpus(101, {0}), desktop});

  EXPECT_EQ(derive_signals(timeline).jobs.size(), 1U);
}

TEST(JobGroups, WithAPartialListJoinGpusThatAreAlike) {
  Timeline timeline = simulate({kAlways, kAlways, kNever});
  timeline.machine.process_coverage = ProcessCoverage::partial;
  for (double& bytes : timeline.gpus[2].memory_used_bytes.values) bytes = 1e6;
  put_processes(timeline, {process_on_gpus(1, {0})});

  const Signals signals = derive_signals(timeline);

  ASSERT_EQ(signals.jobs.size(), 1U);
  EXPECT_EQ(signals.jobs[0].gpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(signals.jobs[0].origin, JobOrigin::partial);
  EXPECT_EQ(signals.free_gpus, (std::vector<int>{2}));
}

TEST(JobGroups, KnowServersByTheirProgramAndNotByTheirArguments) {
  EXPECT_TRUE(is_server({"python", "-m", "vllm.entrypoints.openai.api_server", "--model", "x"}));
  EXPECT_TRUE(is_server({"/usr/bin/uvicorn", "app:app"}));
  EXPECT_FALSE(is_server({"python", "train.py", "--seed", "1", "--teacher", "vllm"}));
  EXPECT_TRUE(is_server({"VLLM::Worker_TP0"}));
  EXPECT_TRUE(is_server({"sglang::scheduler_TP1"}));
  EXPECT_TRUE(is_server({"ray::RayWorkerWrapper.execute_method"}));
  EXPECT_TRUE(is_server({"/opt/tritonserver/bin/tritonserver", "--model-store", "/models"}));
  EXPECT_TRUE(is_server({"text-generation-server", "serve", "x"}));
  EXPECT_TRUE(is_server({"./llama-server", "-m", "x.gguf"}));
  EXPECT_FALSE(is_server({"ray::train_loop"})) << "training in Ray is training";
}

TEST(JobGroups, JoinTheWorkersOfOneServer) {
  Timeline timeline = simulate({kAlways, kAlways});
  ProcessTick processes = {process_on_gpus(10, {0}), process_on_gpus(11, {1})};
  for (std::size_t i = 0; i < 2; ++i) {
    processes[i].command = {"VLLM::Worker_TP" + std::to_string(i)};
    processes[i].parent_pid = 5;
    processes[i].environment.reset();
  }
  put_processes(timeline, processes);

  const Signals signals = derive_signals(timeline);

  ASSERT_EQ(signals.jobs.size(), 1U);
  EXPECT_TRUE(signals.jobs[0].serves);
}

TEST(JobGroups, KnowAProcessByItsCommandThoughItsEnvironmentIsSomebodyElses) {
  Timeline timeline = simulate({kAlways, kAlways});
  ProcessTick processes = {process_on_gpus(10, {0}), process_on_gpus(11, {1})};
  processes[0].command = {"python", "a.py"};
  processes[1].command = {"python", "b.py"};
  processes[1].parent_pid = 12;
  for (ProcessSample& process : processes) {
    process.environment.reset();
    process.rank.reset();
    process.world_size.reset();
  }
  put_processes(timeline, processes);

  const Signals signals = derive_signals(timeline);

  ASSERT_EQ(signals.jobs.size(), 2U);
  EXPECT_EQ(signals.jobs[0].origin, JobOrigin::processes);
  EXPECT_EQ(signals.jobs[1].origin, JobOrigin::processes);
}

TEST(JobGroups, TellContextsThatLeakFromReplicas) {
  Timeline timeline = simulate({kAlways, kAlways});
  ProcessTick ranks = {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)};
  ranks[0].gpus = {{0, 6'000'000'000}};
  ranks[1].gpus = {{0, 1'400'000'000}, {1, 6'000'000'000}};
  put_processes(timeline, ranks);
  Timeline replicas = simulate({kAlways, kAlways});
  ProcessSample one = process_on_gpus(10, {0, 1});
  one.gpus = {{0, 4'000'000'000}, {1, 1'400'000'000}};
  put_processes(replicas, {one});

  const JobSignals leaks = derive_signals(timeline).jobs.at(0);
  const JobSignals leads = derive_signals(replicas).jobs.at(0);

  ASSERT_EQ(leaks.leaked_contexts.size(), 1U);
  EXPECT_EQ(leaks.leaked_contexts[0].gpu, 0);
  EXPECT_FALSE(leaks.one_process_on_all);
  EXPECT_TRUE(leads.one_process_on_all) << "DataParallel's replicas lie behind its first GPU";
}

TEST(WorkingTime, LeavesOutStartUpAndTheEnd) {
  const Behaviour late = [](double t) {
    return t > 3000 && t < 8000 ? Doing::working : Doing::nothing;
  };
  const Behaviour early = [](double t) {
    return t > 1000 && t < 8000 ? Doing::working : Doing::nothing;
  };
  SimulationOptions options;
  options.seconds = 12;
  Timeline timeline = simulate({early, late}, options);
  put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});

  const JobSignals job = derive_signals(timeline).jobs.at(0);

  EXPECT_NEAR(job.from_ms, 3100, 150) << "GPU 0 compiled alone before";
  EXPECT_NEAR(job.to_ms, 8200, 150);
}

TEST(WorkingTime, HoldsTheRestOfAJobThatHasStoppedButNotEnded) {
  const Behaviour stops = [](double t) { return t < 4000 ? Doing::working : Doing::nothing; };
  SimulationOptions options;
  options.seconds = 12;
  Timeline timeline = simulate({stops}, options);
  put_processes(timeline, {process_on_gpus(10, {0})});
  timeline.process_lists.push_back(timeline.process_lists.back());
  timeline.process_lists.back().t_ms = 11'500;
  Timeline ended = timeline;
  ended.process_lists.back().processes.clear();

  const JobSignals stopped = derive_signals(timeline).jobs.at(0);
  ASSERT_TRUE(stopped.stopped_ms);
  EXPECT_NEAR(*stopped.stopped_ms, 4100, 200);
  EXPECT_GT(stopped.to_ms, 11'000);

  const JobSignals through = derive_signals(ended).jobs.at(0);
  EXPECT_FALSE(through.stopped_ms) << "its process is gone: the run is over";
  EXPECT_LT(through.to_ms, 4500);
}

TEST(IdleTogether, IsTheShareOfAStepInWhichAllWait) {
  Timeline timeline = simulate({working_part(500, 0.6), working_part(500, 0.6)});
  put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});

  EXPECT_NEAR(derive_signals(timeline).jobs.at(0).idle_together, 0.4, 0.05);
}

TEST(Hollow, IsHighOnTheRanksThatWaitAndLowOnTheLateOne) {
  // GPU 0 begins late; GPU 1 works at once and then spins until the other is through.
  Timeline timeline = simulate({working_part(600, 0.5, 300), working_else_spinning(600, 0.5)});
  put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});

  const JobSignals job = derive_signals(timeline).jobs.at(0);

  EXPECT_LT(*job.members[0].hollow, 0.15);
  EXPECT_GT(*job.members[1].hollow, 0.3);
}

TEST(Stalls, AreFoundWithWhoWorkedMeanwhile) {
  const Behaviour evaluates = kAlways;
  const Behaviour waits = [](double t) {
    return std::fmod(t, 8000) > 6000 ? Doing::spinning : Doing::working;
  };
  SimulationOptions options;
  options.seconds = 30;
  Timeline timeline = simulate({evaluates, waits, waits}, options);
  put_processes(timeline, {rank_on_gpu(0, 3, 0), rank_on_gpu(1, 3, 1), rank_on_gpu(2, 3, 2)});

  const JobSignals job = derive_signals(timeline).jobs.at(0);

  ASSERT_EQ(job.stalls.all.size(), 3U);
  EXPECT_NEAR(*job.stalls.period_ms, 8000, 300);
  EXPECT_NEAR(job.stalls.all[0].to_ms - job.stalls.all[0].from_ms, 2000, 300);
  EXPECT_EQ(job.stalls.all[0].workers, (std::vector<int>{0}));
  EXPECT_GT(job.stalls.all[0].spinning_gpus, 1.5);
}

TEST(Stalls, KnowTheBytesWrittenAroundThem) {
  const Behaviour saves = [](double t) {
    return std::fmod(t, 8000) > 6000 ? Doing::nothing : Doing::working;
  };
  SimulationOptions options;
  options.seconds = 30;
  Timeline timeline = simulate({saves, saves}, options);
  for (double t = 0; t <= 30'000; t += 1000) {
    ProcessTick processes = {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)};
    processes[0].write_bytes = static_cast<std::uint64_t>(1e9 * std::floor((t + 1000) / 8000));
    timeline.process_lists.push_back({t, processes});
  }

  const JobSignals job = derive_signals(timeline).jobs.at(0);

  ASSERT_FALSE(job.stalls.all.empty());
  EXPECT_NEAR(*job.stalls.all[0].written_bytes, 1e9, 1);
}

TEST(LongestHollow, IsThatOfARunThatGotStuck) {
  const Behaviour stuck = [](double t) { return t > 4000 ? Doing::spinning : Doing::working; };
  SimulationOptions options;
  options.seconds = 20;
  Timeline timeline = simulate({stuck, stuck}, options);
  put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});

  EXPECT_NEAR(derive_signals(timeline).jobs.at(0).longest_hollow_ms, 16'000, 500);
}

TEST(Steps, GiveSharesOfTheWholeTimeAndTheRankThatWaitsLeast) {
  Timeline timeline = simulate({kAlways, kAlways});
  put_processes(timeline, {rank_on_gpu(0, 2, 0), rank_on_gpu(1, 2, 1)});
  for (int i = 0; i < 20; ++i)
    for (int rank = 0; rank < 2; ++rank) {
      StepMark step{rank, i, 100, {}};
      step.spans_ms[0] = 20;                  // data_wait
      step.spans_ms[4] = rank == 0 ? 30 : 0;  // collective_exposed
      step.spans_ms[6] = i % 2 == 0 ? 0 : 5;  // optimizer: micro-steps have none
      timeline.steps.push_back({100.0 * (i + 1), step});
    }

  const StepSignals steps = *derive_signals(timeline).jobs.at(0).steps;

  EXPECT_EQ(steps.count, 20);
  EXPECT_NEAR(steps.share[0], 0.2, 1e-9);
  EXPECT_NEAR(steps.ranks[0].share[4], 0.3, 1e-9);
  EXPECT_NEAR(steps.ranks[1].share[4], 0.0, 1e-9);
  EXPECT_NEAR(steps.steps_without_optimizer, 0.5, 1e-9);
  EXPECT_NEAR(steps.micro_steps_with_collective, 0.5, 1e-9);
}

}  // namespace
}  // namespace lockstep
