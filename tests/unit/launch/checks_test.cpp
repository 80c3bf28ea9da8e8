// What is said before a rank is started: where it is wrong, where it is nearly wrong, where all is
// well.
#include "launch/arguments/checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launch/arguments/machine_facts.hpp"
#include "launch/rendezvous/line_socket.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

CheckedMachine with_gpus(std::optional<int> gpus) { return {gpus, 16ULL << 30U, 16ULL << 30U}; }

TEST(GpuCount, IsRefusedWhereRanksWouldShareAGpu) {
  const auto note = check_gpu_count(4, {{"CUDA_VISIBLE_DEVICES", "0,1"}}, with_gpus(2));

  ASSERT_TRUE(note);
  EXPECT_TRUE(note->refuses);
  EXPECT_THAT(
      in_words(*note),
      HasSubstr("L805 more-ranks-than-gpus: 4 ranks and 2 GPUs (CUDA_VISIBLE_DEVICES=0,1)"));
}

TEST(GpuCount, IsFineWhereThereAreEnoughOrNone) {
  EXPECT_FALSE(check_gpu_count(2, {}, with_gpus(2)));
  EXPECT_FALSE(check_gpu_count(4, {}, with_gpus(std::nullopt))) << "a job for the CPU";
  EXPECT_FALSE(check_gpu_count(4, {{"CUDA_VISIBLE_DEVICES", ""}}, with_gpus(0)))
      << "and one that says so";
}

TEST(SharedMemory, IsTooSmallAsDockerGivesIt) {
  const auto docker = check_shared_memory(1, {2, 64ULL << 20U, 64ULL << 20U});
  ASSERT_TRUE(docker);
  EXPECT_FALSE(docker->refuses);
  EXPECT_THAT(docker->next, HasSubstr("--shm-size"));
  EXPECT_TRUE(check_shared_memory(8, {8, 16ULL << 30U, 100ULL << 20U})) << "full";
  EXPECT_FALSE(check_shared_memory(8, {8, 16ULL << 30U, 15ULL << 30U}));
}

TEST(Leftovers, AreNamedByWhatTheyAre) {
  EXPECT_EQ(check_leftovers({}, {{"RANK", "0"}, {"WORLD_SIZE", "4"}})->code,
            FindingCode::ranks_missing);
  EXPECT_EQ(
      check_leftovers({}, {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"TORCHELASTIC_RUN_ID", "x"}})->code,
      FindingCode::nested_launch);
  EXPECT_FALSE(check_leftovers({}, {{"WORLD_SIZE", "4"}})) << "without a rank nobody waits";
  EXPECT_FALSE(check_leftovers({}, {}));
}

TEST(NestedLaunch, IsSaidOfScriptsThatSpawnByThemselves) {
  const std::string spawns =
      "import torch.multiprocessing as mp\n\nif __name__ == '__main__':\n    mp.spawn(main, "
      "nprocs=2)\n";

  const auto note = check_nested("train.py", spawns, 2);

  ASSERT_TRUE(note);
  EXPECT_THAT(in_words(*note), HasSubstr("L807 nested-launch: train.py:4"));
  EXPECT_FALSE(check_nested("train.py", spawns, 1)) << "one rank may";
  EXPECT_FALSE(
      check_nested("train.py", "# mp.spawn(main)\n\"\"\"\nmp.spawn(x)\n\"\"\"\nprint(1)\n", 2))
      << "a comment is no call";
  EXPECT_FALSE(
      check_nested("train.py", "if 'LOCAL_RANK' not in os.environ:\n    mp.spawn(main)\n", 2))
      << "it asks first";
}

TEST(Accumulation, IsSaidWhereTheScriptDividesWhatDoesNotDivide) {
  LaunchSettings settings;
  settings.script = "train.py";
  settings.script_arguments = {"--gradient-accumulation-steps", "40"};
  const std::string divides =
      "assert gradient_accumulation_steps % ddp_world_size == 0\ngradient_accumulation_steps //= "
      "ddp_world_size\n";

  const auto note = check_accumulation(settings, divides, 3);

  ASSERT_TRUE(note);
  EXPECT_THAT(in_words(*note), HasSubstr("X704 accumulation-not-divisible"));
  EXPECT_THAT(note->next, HasSubstr("42"));
  EXPECT_FALSE(check_accumulation(settings, divides, 4));
  EXPECT_FALSE(check_accumulation(settings, "args.gradient_accumulation_steps\n", 3))
      << "each rank's own: nothing is divided";
}

TEST(FreePort, IsNoneThatTheKernelHandsOutToOthers) {
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  if (!(range >> first) || first <= 20000) GTEST_SKIP() << "all ports are handed out here";
  for (int i = 0; i < 20; ++i) {
    const auto port = free_port();
    ASSERT_TRUE(port);
    EXPECT_LT(*port, first);
    EXPECT_EQ(cannot_listen_on(*port), 0);
  }
}

TEST(EndpointCheck, RefusesAPortThatSomebodyHas) {
  const int port = free_port().value();
  const auto holder = ListeningSocket::on(port);
  ASSERT_TRUE(holder);

  const auto note = check_endpoint({}, {"127.0.0.1", port});
  LaunchSettings other_node;
  other_node.max_nodes = 2;
  other_node.node_rank = 1;

  ASSERT_TRUE(note);
  EXPECT_TRUE(note->refuses);
  EXPECT_THAT(in_words(*note), HasSubstr("L801 port-in-use"));
  EXPECT_THAT(in_words(*note), HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_FALSE(check_endpoint(other_node, {"127.0.0.1", port})) << "the port is machine 0's";
  EXPECT_FALSE(check_endpoint(LaunchSettings{.standalone = true}, {"127.0.0.1", port}));
}

TEST(EndpointCheck, RefusesANameThatMeansNothing) {
  LaunchSettings settings;
  settings.max_nodes = 2;

  EXPECT_EQ(check_endpoint(settings, {"no.such.host.invalid", 29500})->code,
            FindingCode::host_name_unresolvable);
  EXPECT_FALSE(check_endpoint(settings, {"127.0.0.1", free_port().value()}));
}

}  // namespace
}  // namespace lockstep
