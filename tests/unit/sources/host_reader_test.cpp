#include "sources/host/host_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/canned_proc.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::CannedProc;
using testing::CannedProcess;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProcessTick on_gpus(std::initializer_list<int> pids) {
  ProcessTick tick;
  int gpu = 0;
  for (const int pid : pids) {
    ProcessSample process;
    process.pid = pid;
    process.gpus = {{gpu++, 1000}};
    tick.push_back(process);
  }
  return tick;
}

ProcessTick described(const CannedProc& proc, std::initializer_list<int> pids) {
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick tick = on_gpus(pids);
  reader.describe(tick, 0s);
  return tick;
}

TEST(HostReader, TellsRanksOfTorchrunWithTheirWorkers) {
  const CannedProc proc;
  proc.put({.pid = 10,
            .parent = 1,
            .command = {"python", "/v/bin/torchrun", "--nproc_per_node=2", "train.py"}});
  for (int rank = 0; rank < 2; ++rank) {
    const std::string number = std::to_string(rank);
    proc.put({.pid = 20 + rank,
              .parent = 10,
              .command = {"python", "-u", "train.py", "--token", "abc"},
              .environment = {"RANK=" + number, "LOCAL_RANK=" + number, "WORLD_SIZE=2",
                              "HF_TOKEN=hidden"},
              .state = 'R',
              .maps = "1-2 r-xp 0 0 0 /v/torch/lib/libtorch_cpu.so\n",
              .read_bytes = 100,
              .write_bytes = 7});
    for (int worker = 0; worker < 3; ++worker)
      proc.put({.pid = 30 + 10 * rank + worker,
                .parent = 20 + rank,
                .command = {"python", "-u", "train.py", "--token", "abc"},
                .name = "pt_data_worker",
                .read_bytes = 50});
    proc.put(
        {.pid = 60 + rank,
         .parent = 20 + rank,
         .command = {"python", "-c", "from multiprocessing.resource_tracker import main;main(3)"}});
  }

  const ProcessTick tick = described(proc, {20, 21});

  EXPECT_EQ(tick[1].rank, 1);
  EXPECT_EQ(tick[1].world_size, 2);
  EXPECT_EQ(tick[1].launcher, "torchrun");
  EXPECT_EQ(tick[1].user, "ada");
  EXPECT_EQ(tick[1].state, 'R');
  EXPECT_EQ(tick[1].parent_pid, 10);
  EXPECT_EQ(tick[1].loader_workers, 3);
  EXPECT_EQ(tick[1].read_bytes, 250U) << "the workers read for their rank";
  EXPECT_EQ(tick[1].write_bytes, 7U);
  EXPECT_THAT(*tick[1].libraries, ElementsAre("torch"));
  EXPECT_THAT(*tick[1].command, ElementsAre("python", "-u", "train.py", "--token", "\xE2\x80\xA6"));
  EXPECT_FALSE(tick[1].environment->contains("HF_TOKEN"));
}

TEST(HostReader, ChildrenOfMpSpawnAreRanksThoughTheirEnvironmentShowsNone) {
  const CannedProc proc;
  const std::vector<std::string> spawned = {
      "python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)",
      "--multiprocessing-fork"};
  proc.put({.pid = 10, .command = {"python", "train.py"}});
  proc.put(
      {.pid = 11,
       .parent = 10,
       .command = {"python", "-c", "from multiprocessing.resource_tracker import main;main(3)"},
       .start_ticks = 99});
  // the pids do not tell the order
  proc.put({.pid = 21, .parent = 10, .command = spawned, .start_ticks = 101});
  proc.put({.pid = 20, .parent = 10, .command = spawned, .start_ticks = 102});

  const ProcessTick tick = described(proc, {20, 21});

  EXPECT_EQ(tick[0].rank, 1) << "pid 20 was born second";
  EXPECT_EQ(tick[1].rank, 0);
  EXPECT_EQ(tick[0].world_size, 2);
  EXPECT_EQ(tick[0].launcher, "mp.spawn");
}

TEST(HostReader, ForkedRanksOfOneParentAreRanksToo) {
  const CannedProc proc;
  proc.put({.pid = 10, .command = {"python", "train.py"}});
  proc.put({.pid = 20, .parent = 10, .command = {"python", "train.py"}, .start_ticks = 101});
  proc.put({.pid = 21, .parent = 10, .command = {"python", "train.py"}, .start_ticks = 102});

  const ProcessTick tick = described(proc, {20, 21});

  EXPECT_EQ(tick[1].rank, 1);
  EXPECT_EQ(tick[1].launcher, "mp.spawn");
}

TEST(HostReader, PlainPythonOnTwoGpusIsNoRank) {
  const CannedProc proc;
  proc.put({.pid = 5, .command = {"bash"}, .name = "bash"});
  proc.put({.pid = 20,
            .parent = 5,
            .command = {"python", "train.py"},
            .environment = {"CUDA_VISIBLE_DEVICES=0,1"}});

  const ProcessTick tick = described(proc, {20});

  EXPECT_EQ(tick[0].rank, std::nullopt);
  EXPECT_EQ(tick[0].launcher, "python");
  EXPECT_EQ(tick[0].loader_workers, 0);
  EXPECT_EQ(tick[0].environment->at("CUDA_VISIBLE_DEVICES"), "0,1");
}

TEST(HostReader, ASbatchScriptIsNotALauncherOfWhatItStarts) {
  const CannedProc proc;
  proc.put({.pid = 5, .command = {"slurmstepd: [42.batch]"}});
  proc.put(
      {.pid = 6, .parent = 5, .command = {"/bin/bash", "/var/spool/slurmd/job00042/slurm_script"}});
  proc.put({.pid = 20, .parent = 6, .command = {"python", "train.py"}});
  proc.put({.pid = 7, .command = {"slurmstepd: [42.0]"}});
  proc.put({.pid = 21, .parent = 7, .command = {"python", "train.py"}});

  const ProcessTick tick = described(proc, {20, 21});

  EXPECT_EQ(tick[0].launcher, "python");
  EXPECT_EQ(tick[1].launcher, "srun");
}

TEST(HostReader, MeasuresCpuBetweenTwoLooks) {
  const CannedProc proc;
  CannedProcess process{.pid = 20, .command = {"python", "train.py"}, .cpu_ticks = 1000};
  proc.put(process);
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick first = on_gpus({20});
  reader.describe(first, 0s);

  // one second of CPU in two
  process.cpu_ticks += static_cast<unsigned long long>(::sysconf(_SC_CLK_TCK));
  proc.put(process);
  ProcessTick second = on_gpus({20});
  reader.describe(second, 2s);

  EXPECT_EQ(first[0].cpu, std::nullopt);
  EXPECT_DOUBLE_EQ(*second[0].cpu, 0.5);
}

TEST(HostReader, SeesLoaderWorkersThatStartLater) {
  const CannedProc proc;
  proc.put({.pid = 20, .command = {"python", "train.py"}});
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick first = on_gpus({20});
  reader.describe(first, 0s);

  for (const int worker : {21, 22})
    proc.put({.pid = worker, .parent = 20, .command = {"python", "train.py"}});
  ProcessTick second = on_gpus({20});
  reader.describe(second, 2s);

  EXPECT_EQ(first[0].loader_workers, 0);
  EXPECT_EQ(second[0].loader_workers, 2);
}

TEST(HostReader, APidThatComesBackIsAnotherProcess) {
  const CannedProc proc;
  proc.put({.pid = 20, .command = {"python", "old.py"}, .start_ticks = 100});
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick first = on_gpus({20});
  reader.describe(first, 0s);

  proc.put({.pid = 20, .command = {"python", "new.py"}, .start_ticks = 500});
  ProcessTick second = on_gpus({20});
  reader.describe(second, 10s);

  EXPECT_THAT(*second[0].command, ElementsAre("python", "new.py"));
  EXPECT_EQ(second[0].cpu, std::nullopt);
}

TEST(HostReader, SaysWhatItMayNotReadOfOthersProcesses) {
  const CannedProc proc;
  proc.put({.pid = 20,
            .command = {"python", "theirs.py"},
            .user_id = 1234,
            .environment_readable = false});
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick tick = on_gpus({20});

  reader.describe(tick, 0s);

  EXPECT_EQ(tick[0].environment, std::nullopt);
  EXPECT_EQ(tick[0].user, "1234") << "a user without an entry is shown by number";
  ASSERT_EQ(reader.not_measured().size(), 1U);
  EXPECT_EQ(reader.not_measured()[0].signal, "process 20");
  EXPECT_THAT(reader.not_measured()[0].reason, HasSubstr("user 1234"));
}

TEST(HostReader, InAContainerAPidOfTheHostIsNotMistakenForOneOfOurs) {
  const CannedProc proc;
  proc.enter_container();
  // an unrelated process of that number
  proc.put({.pid = 42, .command = {"sleep", "1000"}, .name = "sleep"});
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick tick = on_gpus({42});

  reader.describe(tick, 0s);

  EXPECT_EQ(tick[0].command, std::nullopt);
  EXPECT_THAT(reader.not_measured().at(0).reason, HasSubstr("--pid=host"));
}

TEST(HostReader, InAContainerAProcessThatHoldsTheGpuIsTheOne) {
  const CannedProc proc;
  proc.enter_container();
  proc.put({.pid = 42, .command = {"python", "train.py"}, .open_files = {"/dev/nvidia0"}});

  EXPECT_EQ(described(proc, {42})[0].launcher, "python");
}

TEST(HostReader, ResolvesAnOuterPidWhereProcShowsIt) {
  const CannedProc proc;
  proc.enter_container();
  proc.put({.pid = 17, .command = {"python", "train.py"}, .namespace_pids = {4242, 17}});

  const ProcessTick tick = described(proc, {4242});

  EXPECT_EQ(tick[0].pid, 17);
  EXPECT_EQ(tick[0].launcher, "python");
}

TEST(HostReader, AProcessThatEndedMeanwhileIsSaidToHaveEnded) {
  const CannedProc proc;
  HostReader reader({.root = proc.root(), .pid_origin = PidOrigin::driver});
  ProcessTick tick = on_gpus({20});

  reader.describe(tick, 0s);

  EXPECT_EQ(tick[0].pid, 20);
  EXPECT_THAT(reader.not_measured().at(0).reason, HasSubstr("ended"));
}

TEST(HostReader, ReadsItsOwnRealProcess) {
  HostReader reader({.root = "/", .pid_origin = PidOrigin::this_machine});
  ProcessTick tick = on_gpus({::getpid()});

  reader.describe(tick, 0s);

  ASSERT_TRUE(tick[0].command);
  EXPECT_THAT(tick[0].command->at(0), HasSubstr("unit_sources"));
  EXPECT_EQ(tick[0].parent_pid, ::getppid());
  EXPECT_THAT(reader.not_measured(), IsEmpty());
}

}  // namespace
}  // namespace lockstep
