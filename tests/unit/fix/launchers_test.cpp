// Accelerate's YAML and the old launcher.
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using testing::trainer_script;

const std::string kConfig =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n";

TEST(AccelerateConfig, ThatIsRightIsLeftAlone) {
  FixProject project;
  project
      .file("acc.yaml",
            kConfig +
                "mixed_precision: bf16\ngpu_ids: all\nmachine_rank: 0\nmain_training_function: "
                "main\nnum_machines: 1\nrdzv_backend: static\nsame_network: true\nuse_cpu: false\n")
      .accelerate("1.15.0");

  EXPECT_TRUE(project.findings().empty());
}

TEST(AccelerateConfig, DdpOptionsMoveToTrainingArgumentsInOneGroup) {
  FixProject project;
  project
      .file("acc.yaml", kConfig +
                            "ddp_find_unused_parameters: false\ngradient_accumulation_steps: 4  # "
                            "mine\nmixed_precision: bf16\n")
      .file("train.py", trainer_script("", ""))
      .file("run.sh", "accelerate launch --config_file acc.yaml train.py\n")
      .accelerate("1.15.0")
      .transformers("4.57.0");

  EXPECT_EQ(project.after("acc.yaml"), kConfig + "mixed_precision: bf16\n");
  EXPECT_NE(
      project.after("train.py")
          .find("    ddp_find_unused_parameters=False,\n    gradient_accumulation_steps=4,\n)"),
      std::string::npos)
      << project.after("train.py");
  EXPECT_EQ(project.plan().groups.front().edits.size(), 2U);
}

TEST(AccelerateConfig, DdpOptionsWithoutAScriptToTakeThemAreShownOnly) {
  FixProject project;
  project.file("acc.yaml", kConfig + "ddp_bucket_cap_mb: 50\n").accelerate("1.15.0");

  EXPECT_EQ(project.safety(FindingCode::unknown_accelerate_field), FixSafety::manual);
}

TEST(AccelerateConfig, MisspeltKeysGetTheNearestName) {
  FixProject project;
  project
      .file("acc.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_proceses: 2\n")
      .accelerate("1.15.0");

  EXPECT_EQ(project.after("acc.yaml"),
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n");
}

TEST(AccelerateConfig, KeysOfOldThatAreStillReadAreLeftAlone) {
  FixProject project;
  project.file("acc.yaml", kConfig + "dynamo_backend: 'NO'\nfp16: true\n").accelerate("1.15.0");

  EXPECT_TRUE(project.findings().empty());
}

TEST(AccelerateConfig, MultiCpuForGpusBecomesMultiGpu) {
  FixProject project;
  project
      .file("acc.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nnum_processes: "
            "2\nuse_cpu: false\n")
      .accelerate("1.15.0");

  EXPECT_TRUE(project.finds("X701"));
  EXPECT_NE(project.after("acc.yaml").find("distributed_type: MULTI_GPU\n"), std::string::npos);
}

TEST(AccelerateConfig, MultiCpuForTheCpuIsLeftAlone) {
  FixProject project;
  project
      .file("acc.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nnum_processes: "
            "2\nuse_cpu: true\n")
      .accelerate("1.15.0");

  EXPECT_TRUE(project.findings().empty());
}

TEST(AccelerateConfig, ProcessesAndGpusShouldBeAsMany) {
  FixProject fewer;
  fewer
      .file("acc.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: "
            "1\ngpu_ids: 0,1\n")
      .accelerate("1.15.0");
  FixProject more;
  more.file("acc.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: "
            "4\ngpu_ids: 0,1\n")
      .accelerate("1.15.0");

  EXPECT_TRUE(fewer.finds("P103"));
  EXPECT_TRUE(more.finds("L805"));
  EXPECT_NE(more.after("acc.yaml").find("num_processes: 2\n"), std::string::npos);
}

std::string legacy(const std::string& line, const std::string& script) {
  FixProject project;
  project.file("train.py", script).file("run.sh", line);
  return project.after("run.sh");
}

TEST(LegacyLauncher, WithUseEnvIsTorchrunAndSafeWhereTorchHasIt) {
  FixProject project;
  project.file("train.py", "import os\n")
      .file("run.sh",
            "python -m torch.distributed.launch --nproc_per_node=2 --use_env train.py --x 1\n");

  EXPECT_EQ(project.after("run.sh"), "torchrun --nproc_per_node=2 train.py --x 1\n");
  EXPECT_EQ(project.safety(FindingCode::legacy_launcher), FixSafety::unsafe)
      << "before PyTorch 1.10 there is no torchrun, and nothing says which one this is";
  project.file("requirements.txt", "torch==2.4.0\n");
  EXPECT_EQ(project.safety(FindingCode::legacy_launcher), FixSafety::safe);
}

TEST(LegacyLauncher, KeepsContinuationsBetweenItsOptions) {
  EXPECT_EQ(
      legacy("python3 -m torch.distributed.launch \\\n    --nproc_per_node=$N \\\n    train.py\n",
             "import os\nr = os.environ[\"LOCAL_RANK\"]\n"),
      "torchrun \\\n    --nproc_per_node=$N \\\n    train.py\n");
}

TEST(LegacyLauncher, TeachesTheScriptToReadItsRank) {
  FixProject project;
  project
      .file(
          "train.py",
          "import argparse\nparser = "
          "argparse.ArgumentParser()\nparser.add_argument(\"--local_rank\", type=int, default=0)\n")
      .file("run.sh", "python -m torch.distributed.launch --nproc_per_node=2 train.py\n");

  EXPECT_EQ(project.after("train.py"),
            "import argparse\nimport os\nparser = "
            "argparse.ArgumentParser()\nparser.add_argument(\"--local_rank\", type=int, "
            "default=int(os.environ.get(\"LOCAL_RANK\", 0)))\n");
  EXPECT_EQ(project.after("run.sh"), "torchrun --nproc_per_node=2 train.py\n");
  EXPECT_EQ(project.plan().groups.size(), 1U);
  EXPECT_EQ(project.plan().groups.front().safety, FixSafety::unsafe);
}

TEST(LegacyLauncher, OfARequiredRankIsShownOnly) {
  FixProject project;
  project.file("train.py", "parser.add_argument(\"--local_rank\", type=int, required=True)\n")
      .file("run.sh", "python -m torch.distributed.launch --nproc_per_node=2 train.py\n");

  EXPECT_EQ(project.safety(FindingCode::legacy_launcher), FixSafety::manual);
}

TEST(LegacyLauncher, OfAScriptThatHandsItsArgumentOnTeachesTheArgument) {
  FixProject project;
  project
      .file("train.py",
            "import os\nparser.add_argument(\"--local_rank\", type=int, default=0)\nif "
            "\"LOCAL_RANK\" not in os.environ:\n    os.environ[\"LOCAL_RANK\"] = "
            "str(args.local_rank)\ntorch.cuda.set_device(args.local_rank)\n")
      .file("run.sh", "python -m torch.distributed.launch --nproc_per_node=2 train.py\n");

  EXPECT_NE(project.after("train.py").find("default=int(os.environ.get(\"LOCAL_RANK\", 0))"),
            std::string::npos);
}

TEST(LegacyLauncher, OfATorchThatHasNoTorchrunIsLeftAlone) {
  FixProject project;
  project.file("train.py", "import os\n")
      .file("requirements.txt", "torch==1.7.1\n")
      .file("run.sh", "python -m torch.distributed.launch --use_env train.py\n");

  EXPECT_TRUE(project.findings().empty());
}

TEST(LegacyLauncher, TakesTheLineOfItsOldOptionWithIt) {
  EXPECT_EQ(
      legacy(
          "python -m torch.distributed.launch --nproc_per_node 4 \\\n  --use_env \\\n  train.py\n",
          "import os\n"),
      "torchrun --nproc_per_node 4 \\\n  train.py\n");
}

TEST(AccelerateConfig, OfSageMakerHasKeysOfItsOwn) {
  FixProject project;
  project
      .file("acc.yaml",
            "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: "
            "x\niam_role_name: y\nmixed_precision: 'no'\n")
      .accelerate("1.15.0");

  EXPECT_TRUE(project.findings().empty());
}

TEST(AccelerateConfig, TwoFilesThatWantTwoValuesAreShownOnly) {
  FixProject project;
  project.file("a.yaml", kConfig + "gradient_accumulation_steps: 4\n")
      .file("b.yaml", kConfig + "gradient_accumulation_steps: 2\n")
      .file("train.py", trainer_script("", ""))
      .file("run.sh",
            "accelerate launch --config_file a.yaml train.py\naccelerate launch --config_file "
            "b.yaml train.py\n")
      .accelerate("1.15.0");

  EXPECT_EQ(project.safety(FindingCode::unknown_accelerate_field), FixSafety::manual);
}

TEST(LauncherCounts, MoreProcessesThanGpusBecomeAsMany) {
  EXPECT_EQ(
      legacy("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 train.py\n", "import os\n"),
      "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py\n");
  EXPECT_EQ(
      legacy("export CUDA_VISIBLE_DEVICES=0,1\naccelerate launch --num_processes 8 train.py\n",
             "import os\n"),
      "export CUDA_VISIBLE_DEVICES=0,1\naccelerate launch --num_processes 2 train.py\n");
}

TEST(LauncherCounts, OfAJobThatAsksForAsManyGpusAreShownOnly) {
  FixProject project;
  project.file("train.py", "import os\n")
      .file("run.sh",
            "#!/bin/bash\n#SBATCH --gres=gpu:4\nexport CUDA_VISIBLE_DEVICES=0\naccelerate launch "
            "--num_processes 4 train.py\n");

  EXPECT_EQ(project.safety(FindingCode::more_ranks_than_gpus), FixSafety::manual)
      << "the mask is the mistake";
}

TEST(LauncherCounts, FewerProcessesAreShownOnly) {
  FixProject project;
  project.file("train.py", "import os\n")
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node=2 train.py\n");

  EXPECT_EQ(project.safety(FindingCode::idle_gpus), FixSafety::manual);
}

TEST(LauncherCounts, ThatMatchOrAreNotKnownAreLeftAlone) {
  for (const char* line :
       {"CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py\n",
        "CUDA_VISIBLE_DEVICES=$G torchrun --nproc_per_node=4 train.py\n",
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=$N train.py\n",
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --nnodes=2 --nproc_per_node=4 train.py\n",
        "torchrun --nproc_per_node=4 train.py\n"}) {
    FixProject project;
    project.file("train.py", "import os\n").file("run.sh", line);
    EXPECT_TRUE(project.findings().empty()) << line;
  }
}

TEST(LegacyLauncher, OfTheNewNameIsLeftAlone) {
  EXPECT_EQ(legacy("python -m torch.distributed.run --nproc_per_node=2 train.py\n", "import os\n"),
            "python -m torch.distributed.run --nproc_per_node=2 train.py\n");
}

}  // namespace
}  // namespace lockstep
