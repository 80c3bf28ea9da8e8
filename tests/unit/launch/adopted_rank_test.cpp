// Ranks and machines that other launchers have numbered already.
#include "launch/guard/adopted_rank.hpp"
#include "base/slurm.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Variables one_task_a_rank() {
  return {{"SLURM_PROCID", "5"},
          {"SLURM_NTASKS", "7"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_NNODES", "2"},
          {"SLURM_TASKS_PER_NODE", "4,3"},
          {"SLURM_JOB_NODELIST", "gpu[07-08]"},
          {"SLURM_JOB_ID", "14711"},
          {"SLURM_STEP_ID", "0"}};
}

TEST(AdoptedRanks, AreThoseOfSrunTasks) {
  LaunchSettings settings;

  ASSERT_TRUE(adopt(one_task_a_rank(), settings));

  ASSERT_TRUE(settings.adopted);
  EXPECT_EQ(settings.adopted->rank, 5);
  EXPECT_EQ(settings.adopted->world, 7);
  EXPECT_EQ(settings.adopted->local_rank, 1);
  EXPECT_EQ(settings.adopted->local_world, 3) << "the second machine of 4,3";
  EXPECT_EQ(settings.master_address, "gpu07");
  EXPECT_EQ(settings.master_port, 29422) << "the same on every machine, by the job's number";
}

TEST(AdoptedRanks, AreNotAnSbatchScripts) {
  Variables batch = one_task_a_rank();
  batch.erase("SLURM_STEP_ID");
  batch["ENVIRONMENT"] = "BATCH";
  LaunchSettings settings;

  ASSERT_TRUE(adopt(batch, settings));

  EXPECT_FALSE(settings.adopted);
}

TEST(AdoptedRanks, GiveWayToWhatTheUserSays) {
  LaunchSettings standalone;
  standalone.standalone = true;
  LaunchSettings numbered;
  numbered.given = {"--nnodes"};

  ASSERT_TRUE(adopt(one_task_a_rank(), standalone));
  ASSERT_TRUE(adopt(one_task_a_rank(), numbered));

  EXPECT_FALSE(standalone.adopted || numbered.adopted);
}

TEST(AdoptedRanks, BecomeMachinesWhereEachHasOneTaskAndSeveralRanks) {
  Variables around = one_task_a_rank();
  around["SLURM_NTASKS"] = "2";
  around["SLURM_PROCID"] = "1";
  LaunchSettings settings;
  settings.given = {"--nproc-per-node"};

  ASSERT_TRUE(adopt(around, settings));

  EXPECT_FALSE(settings.adopted);
  EXPECT_EQ(settings.max_nodes, 2);
  EXPECT_EQ(settings.node_rank, 1);
  EXPECT_EQ(settings.master_address, "gpu07");
  LaunchSettings shell_in_a_step{.given = {"--nproc-per-node"}};
  ASSERT_TRUE(adopt(one_task_a_rank(), shell_in_a_step));
  EXPECT_EQ(shell_in_a_step.max_nodes, 1);
  EXPECT_EQ(shell_in_a_step.notes.size(), 1U)
      << "each launcher is a job of its own, and that is said";
}

TEST(AdoptedRanks, AreThoseOfMpi) {
  LaunchSettings open_mpi;
  LaunchSettings other_mpi;
  LaunchSettings apart;
  ASSERT_TRUE(adopt({{"OMPI_COMM_WORLD_RANK", "3"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
                    open_mpi));
  ASSERT_TRUE(adopt({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, other_mpi));

  EXPECT_EQ(open_mpi.adopted->local_rank, 3);
  EXPECT_EQ(open_mpi.master_address, "127.0.0.1") << "all of them are here";
  EXPECT_EQ(other_mpi.adopted->rank, 1);
  EXPECT_FALSE(adopt({{"OMPI_COMM_WORLD_RANK", "3"},
                      {"OMPI_COMM_WORLD_SIZE", "8"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
                     apart))
      << "nothing says where rank 0 is";
}

TEST(AdoptedRanks, AreMpisWithinASlurmJob) {
  Variables around = one_task_a_rank();
  around.insert({{"OMPI_COMM_WORLD_RANK", "2"},
                 {"OMPI_COMM_WORLD_SIZE", "4"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  LaunchSettings settings;
  ASSERT_TRUE(adopt(around, settings));
  EXPECT_EQ(settings.adopted->rank, 2) << "srun started mpirun's daemon, not the rank";

  Variables of_srun = one_task_a_rank();
  of_srun.insert({{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}});
  LaunchSettings by_srun;
  ASSERT_TRUE(adopt(of_srun, by_srun));
  EXPECT_EQ(by_srun.adopted->launcher, "srun") << "srun --mpi=pmi2 says nothing of machines";
}

TEST(FirstHost, IsReadFromSlurmsLists) {
  EXPECT_EQ(first_host("gpu07"), "gpu07");
  EXPECT_EQ(first_host("gpu[03-05"), "") << "a list that is cut";
  EXPECT_EQ(first_host("gpu[03-05,9],login1"), "gpu03");
  EXPECT_EQ(first_host("a1,b[2-3]"), "a1");
  EXPECT_EQ(first_host("rack[1-2]-ib"), "rack1-ib");
  EXPECT_EQ(first_host(""), "");
  EXPECT_EQ(first_host("gpu[03"), "");
}

}  // namespace
}  // namespace lockstep
