// Dockerfiles: what a container runs is a launch line, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTrainer =
    "from transformers import Trainer, TrainingArguments, AutoModelForCausalLM\n"
    "model = AutoModelForCausalLM.from_pretrained(\"gpt2\")\n"
    "Trainer(model=model, args=TrainingArguments(\"out\")).train()\n";

std::string fixed(const std::string& dockerfile, const std::string& name = "Dockerfile") {
  return FixProject({{"train.py", kTrainer}, {name, dockerfile}}).wish({.gpus = 2}).after(name);
}

TEST(Dockerfile, AListOfWordsStaysAList) {
  EXPECT_EQ(fixed("FROM x\nCMD [\"python\", \"-u\", \"train.py\", \"--lr=1\"]\n"),
            "FROM x\nCMD [\"torchrun\", \"--standalone\", \"--nproc_per_node=2\", \"train.py\", "
            "\"--lr=1\"]\n");
}

TEST(Dockerfile, ALineOfShellMayGoOnOverRemarks) {
  EXPECT_EQ(
      fixed("FROM x\ncmd python train.py \\\n# a remark\n    --lr 1\n", "gpu.dockerfile"),
      "FROM x\ncmd torchrun --standalone --nproc_per_node=2 train.py \\\n# a remark\n    --lr "
      "1\n");
}

TEST(Dockerfile, EntrypointTakesCmdForItsArguments) {
  EXPECT_EQ(fixed("FROM x\nENTRYPOINT [\"python\"]\nCMD [\"train.py\"]\n"),
            "FROM x\nENTRYPOINT [\"torchrun\", \"--standalone\", \"--nproc_per_node=2\"]\nCMD "
            "[\"train.py\"]\n");
  EXPECT_THAT(fixed("FROM x\nENTRYPOINT [\"./start.sh\"]\nCMD [\"python\", \"train.py\"]\n"),
              HasSubstr("CMD [\"torchrun\""))
      << "a script that runs what CMD says";
}

TEST(Dockerfile, AShellWithinAListIsRead) {
  EXPECT_THAT(fixed("FROM x\nENTRYPOINT [\"bash\", \"-c\", \"cd /app && python train.py\"]\n"),
              HasSubstr("&& torchrun --standalone --nproc_per_node=2 train.py\"]"));
}

TEST(Dockerfile, ItsEnvironmentCounts) {
  const std::string one = "FROM x\nENV CUDA_VISIBLE_DEVICES=0\nCMD [\"python\", \"train.py\"]\n";
  EXPECT_EQ(fixed(one), one) << "one GPU is chosen";
  EXPECT_THAT(fixed("FROM x\nENV CUDA_VISIBLE_DEVICES 0,1,2\nCMD python train.py\n"),
              HasSubstr("--nproc_per_node=3"));
}

TEST(Dockerfile, WhatBuildsTheImageIsLeftAlone) {
  for (const char* const text :
       {"FROM x\nRUN python train.py\n", "FROM x\nHEALTHCHECK CMD python train.py\n",
        "FROM x\nCMD [\"python\", \"tra\\\"in.py\"]\n", "CMD [\"python\"", "CMD [", "CMD",
        "\\\n\\"})
    EXPECT_EQ(fixed(text), text);
}

}  // namespace
}  // namespace lockstep
