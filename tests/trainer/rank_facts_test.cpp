#include "reference_trainer/rank_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

using Environment = std::map<std::string, std::string>;

RankFacts facts_in(const Environment& environment) {
  return rank_from_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankFacts, AreOneRankAloneWithoutALauncher) {
  const RankFacts facts = facts_in({});

  EXPECT_EQ(facts.world, 1);
  EXPECT_EQ(facts.rank, 0);
  EXPECT_TRUE(facts.launcher.empty());
}

TEST(RankFacts, ComeFromTorchrun) {
  const RankFacts facts = facts_in({{"RANK", "3"},
                                    {"WORLD_SIZE", "4"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "node0"},
                                    {"MASTER_PORT", "29512"},
                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}});

  EXPECT_EQ(facts.rank, 3);
  EXPECT_EQ(facts.world, 4);
  EXPECT_EQ(facts.local_rank, 1);
  EXPECT_EQ(facts.master_address, "node0");
  EXPECT_EQ(facts.master_port, 29512);
  EXPECT_EQ(facts.attempt, 2);
  EXPECT_TRUE(facts.launcher_has_store);
}

TEST(RankFacts, ComeFromSrunOfOneMachine) {
  const RankFacts facts = facts_in({{"SLURM_PROCID", "1"},
                                    {"SLURM_NTASKS", "2"},
                                    {"SLURM_LOCALID", "1"},
                                    {"SLURM_NNODES", "1"},
                                    {"SLURM_STEP_ID", "0"}});

  EXPECT_EQ(facts.launcher, "slurm");
  EXPECT_EQ(facts.rank, 1);
  EXPECT_EQ(facts.local_world, 2);
}

TEST(RankFacts, TakeABatchScriptForOneProcess) {
  const RankFacts facts =
      facts_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}});

  EXPECT_EQ(facts.world, 1);
  EXPECT_THAT(facts.note, ::testing::HasSubstr("no step of srun"));
}

TEST(RankFacts, ComeFromMpirun) {
  EXPECT_EQ(facts_in({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .rank,
            1);
  EXPECT_EQ(facts_in({{"PMI_RANK", "1"},
                      {"PMI_SIZE", "2"},
                      {"MPI_LOCALRANKID", "1"},
                      {"MPI_LOCALNRANKS", "2"}})
                .rank,
            1);
}

TEST(RankFacts, MeetOnSlurmsFirstMachineAtAPortOfTheJob) {
  const std::map<std::string, std::string> of_srun = {
      {"SLURM_PROCID", "3"},    {"SLURM_NTASKS", "4"},  {"SLURM_LOCALID", "1"},
      {"SLURM_NNODES", "2"},    {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[07-08]"},
      {"SLURM_JOB_ID", "14711"}};
  const RankFacts facts = facts_in(of_srun);
  EXPECT_EQ(facts.master_address, "gpu07");
  EXPECT_EQ(facts.master_port, 29422);
  auto with_pmi = of_srun;
  with_pmi.insert({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(facts_in(with_pmi).master_address, "gpu07")
      << "srun --mpi=pmi2 says nothing of machines";
  auto told = of_srun;
  told.insert({{"MASTER_ADDR", "login"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(facts_in(told).master_address, "login");
  EXPECT_EQ(facts_in(told).master_port, 1234);
}

TEST(RankFacts, AreMpisWithinASlurmJob) {
  const RankFacts facts = facts_in({{"SLURM_PROCID", "0"},
                                    {"SLURM_NTASKS", "2"},
                                    {"SLURM_NNODES", "2"},
                                    {"SLURM_STEP_ID", "0"},
                                    {"OMPI_COMM_WORLD_RANK", "3"},
                                    {"OMPI_COMM_WORLD_SIZE", "4"},
                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                    {"MASTER_ADDR", "gpu07"}});
  EXPECT_EQ(facts.rank, 3) << "srun started mpirun's daemon, not the rank";
}

TEST(RankFacts, AskForTheMeetingPointOfSeveralMachines) {
  EXPECT_THROW(facts_in({{"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "4"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NNODES", "2"},
                         {"SLURM_STEP_ID", "0"}}),
               TrainFailure);
}

TEST(RankFacts, RefuseARankThatDoesNotExist) {
  EXPECT_THROW(facts_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), TrainFailure);
  EXPECT_THROW(facts_in({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), TrainFailure);
  EXPECT_THROW(facts_in({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), TrainFailure);
  EXPECT_THROW(facts_in({{"WORLD_SIZE", "2"}}), TrainFailure);
}

}  // namespace
}  // namespace lockstep
