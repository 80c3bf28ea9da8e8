#include "sources/host/launcher.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Launcher, IsKnownByItsCommandLine) {
  EXPECT_EQ(launcher_named_by({"/v/bin/python3", "/v/bin/torchrun", "--standalone", "train.py"}),
            "torchrun");
  EXPECT_EQ(launcher_named_by({"python", "-m", "torch.distributed.run", "train.py"}), "torchrun");
  EXPECT_EQ(launcher_named_by({"python3", "-u", "-m", "torch.distributed.launch", "t.py"}),
            "torchrun");
  EXPECT_EQ(launcher_named_by({"python", "/v/bin/accelerate", "launch", "t.py"}), "accelerate");
  EXPECT_EQ(launcher_named_by({"python", "-m", "accelerate.commands.launch", "t.py"}),
            "accelerate");
  EXPECT_EQ(
      launcher_named_by({"python", "-u", "-m", "deepspeed.launcher.launch", "--world_info=x"}),
      "deepspeed");
  EXPECT_EQ(launcher_named_by({"/usr/bin/lockstep", "launch", "t.py"}), "lockstep");
  EXPECT_EQ(launcher_named_by({"slurmstepd: [42.0]"}), "srun");
  EXPECT_EQ(launcher_named_by({"mpirun", "-np", "2", "python", "t.py"}), "mpirun");
}

TEST(Launcher, IsNotAnyProgramThatMentionsOne) {
  EXPECT_EQ(launcher_named_by({"python", "train.py", "torchrun"}), std::nullopt);
  EXPECT_EQ(launcher_named_by({"vim", "torchrun"}), std::nullopt);
  EXPECT_EQ(launcher_named_by({"lockstep", "record", "-o", "x"}), std::nullopt);
  EXPECT_EQ(launcher_named_by({"python", "-c", "import torch.distributed.run"}), std::nullopt);
  EXPECT_EQ(launcher_named_by({}), std::nullopt);
}

TEST(Ranks, ComeFromTorchBeforeMpiBeforeSlurm) {
  const Environment both = {{"RANK", "3"},
                            {"LOCAL_RANK", "1"},
                            {"WORLD_SIZE", "4"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_NTASKS", "2"}};
  EXPECT_EQ(ranks_in(both).rank, 3);
  EXPECT_EQ(ranks_in(both).world_size, 4);

  const Environment slurm = {{"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "2"}};
  EXPECT_EQ(ranks_in(slurm).rank, 1);
  EXPECT_EQ(ranks_in(slurm).world_size, 2);
}

TEST(Ranks, OfABatchScriptAreNone) {
  const Environment batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};

  EXPECT_EQ(ranks_in(batch).rank, std::nullopt);
}

TEST(Ranks, ThatAreNoNumbersAreNone) {
  EXPECT_EQ(ranks_in({{"RANK", "one"}}).rank, std::nullopt);
  EXPECT_EQ(ranks_in({{"RANK", "-1"}}).rank, std::nullopt);
  EXPECT_EQ(ranks_in({{"RANK", "99999999999999999999"}}).rank, std::nullopt);
}

TEST(LauncherHint, SetByHandIsNotTorchrun) {
  EXPECT_EQ(launcher_hinted_by({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "environment");
  EXPECT_EQ(launcher_hinted_by({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "x"}}),
            "torchrun");
  EXPECT_EQ(launcher_hinted_by({{"OMPI_COMM_WORLD_RANK", "0"}}), "mpirun");
  EXPECT_EQ(launcher_hinted_by({{"RANK", "0"}}), std::nullopt);
}

}  // namespace
}  // namespace lockstep
