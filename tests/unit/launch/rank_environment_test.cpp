// The environment of each rank.
#include "launch/ranks/rank_environment.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

GroupPlace second_of_two_nodes() {
  GroupPlace place;
  place.node = 1;
  place.nodes = 2;
  place.first_rank = 2;
  place.local_ranks = 2;
  place.world = 4;
  place.master_address = "node0";
  place.master_port = 29500;
  place.run_id = "job";
  place.attempt = 1;
  return place;
}

TEST(RankEnvironment, CanBeTakenOffAgain) {
  const Variables around = {
      {"HOME", "/home/ada"},    {"CUDA_VISIBLE_DEVICES", "0"}, {"PMIX_RANK", "1"},
      {"SLURM_PROCID", "1"},    {"OMPI_COMM_WORLD_RANK", "1"}, {"PMI_RANK", "1"},
      {"MPI_LOCALRANKID", "1"}, {"SLURM_JOB_ID", "7"},         {"SLURM_TMPDIR", "/tmp/7"}};
  const auto rank = rank_variables(LaunchSettings{}, second_of_two_nodes(), 1, around, 4,
                                   {"", "", "/logs/error.json", ""});
  ASSERT_TRUE(rank);

  const Variables left = without_launcher(*rank);

  for (const char* const name :
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "SLURM_PROCID",
        "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MPI_LOCALRANKID", "PMIX_RANK"})
    EXPECT_FALSE(left.contains(name)) << name;
  EXPECT_EQ(value_of(left, "HOME"), "/home/ada");
  EXPECT_EQ(value_of(left, "CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(value_of(left, "SLURM_JOB_ID") + value_of(left, "SLURM_TMPDIR"), "7/tmp/7")
      << "of the job, not of the rank";
}

TEST(RankEnvironment, HasTorchrunsNames) {
  LaunchSettings settings;
  settings.max_restarts = 3;

  const auto variables = rank_variables(settings, second_of_two_nodes(), 1, {{"HOME", "/home/ada"}},
                                        4, {"", "", "/logs/error.json", ""});

  ASSERT_TRUE(variables);
  const Variables expected = {{"HOME", "/home/ada"},
                              {"RANK", "3"},
                              {"LOCAL_RANK", "1"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"GROUP_RANK", "1"},
                              {"GROUP_WORLD_SIZE", "2"},
                              {"ROLE_NAME", "default"},
                              {"ROLE_RANK", "3"},
                              {"ROLE_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "node0"},
                              {"MASTER_PORT", "29500"},
                              {"TORCHELASTIC_RESTART_COUNT", "1"},
                              {"TORCHELASTIC_MAX_RESTARTS", "3"},
                              {"TORCHELASTIC_RUN_ID", "job"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                              {"TORCHELASTIC_ERROR_FILE", "/logs/error.json"},
                              {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                              {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                              {"OMP_NUM_THREADS", "4"}};
  EXPECT_EQ(*variables, expected);
}

TEST(RankEnvironment, KeepsWhatTheUserSet) {
  const Variables around = {
      {"OMP_NUM_THREADS", "7"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}, {"RANK", "99"}};

  const auto variables = rank_variables({}, second_of_two_nodes(), 0, around, 4, {});

  ASSERT_TRUE(variables);
  EXPECT_EQ(variables->at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(variables->at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_EQ(variables->at("RANK"), "2") << "but a rank left over from another job is not kept";
}

TEST(RankEnvironment, LeavesThreadsAloneForASingleRank) {
  GroupPlace alone;
  EXPECT_FALSE(rank_variables({}, alone, 0, {}, 4, {})->contains("OMP_NUM_THREADS"));
}

TEST(RankEnvironment, GivesEachRankItsOwnGpuAsDeviceZero) {
  LaunchSettings settings;
  settings.virtual_local_rank = true;

  const auto of_list =
      rank_variables(settings, second_of_two_nodes(), 1, {{"CUDA_VISIBLE_DEVICES", "3, 5"}}, 1, {});
  const auto of_all = rank_variables(settings, second_of_two_nodes(), 1, {}, 1, {});

  ASSERT_TRUE(of_list && of_all);
  EXPECT_EQ(of_list->at("LOCAL_RANK"), "0");
  EXPECT_EQ(of_list->at("CUDA_VISIBLE_DEVICES"), "5");
  EXPECT_EQ(of_all->at("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_FALSE(
      rank_variables(settings, second_of_two_nodes(), 1, {{"CUDA_VISIBLE_DEVICES", "3"}}, 1, {}))
      << "no GPU is left for it";
}

}  // namespace
}  // namespace lockstep
