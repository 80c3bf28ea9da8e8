// What a strict reader found in 119 public repositories (round 9), each as a small script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fix/rules/launching/model_size.hpp"
#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::Not;

const char* const kImports =
    "import os, torch\n"
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\n";

// What is said of the ways out of a finding.
std::string words_about(const FixProject& project, FindingCode code) {
  std::string words;
  for (const CodeFinding& finding : project.plan().findings)
    if (finding.code == code)
      for (const Way& way : finding.ways)
        words += finding.reason + "|" + way.description + "|" + way.effect + "|" + way.changes;
  return words;
}

TEST(FreshCode, AFunctionCalledTrainIsNoModelsTrain) {
  const std::string script =
      std::string(kImports) +
      "def train(rank, world_size):\n"
      "    dist.init_process_group(\"nccl\", rank=rank, world_size=world_size)\n"
      "    torch.cuda.set_device(rank)\n"
      "    model = DDP(torch.nn.Linear(1, 1).cuda(), device_ids=[rank])\n"
      "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
      "    for epoch in range(3):\n"
      "        model.train()\n"
      "        for x in DataLoader(make(), batch_size=8):\n"
      "            model(x).sum().backward()\n"
      "            optimizer.step()\n"
      "if __name__ == \"__main__\":\n"
      "    train(int(os.environ[\"SLURM_PROCID\"]), int(os.environ[\"SLURM_NTASKS\"]))\n";

  EXPECT_TRUE(FixProject({{"train.py", script}}).finds("X710 train.py"))
      << "model.train() passes no rank, and is another function";
}

TEST(FreshCode, DeepSpeedsEngineUpdatesUnderAnyName) {
  const std::string script =
      "import deepspeed, torch\n"
      "from torch.utils.data import DataLoader\n"
      "from torch.utils.data.distributed import DistributedSampler\n"
      "def main():\n"
      "    data = make()\n"
      "    loader = DataLoader(data, sampler=DistributedSampler(data), num_workers=2)\n"
      "    net, _, _, _ = deepspeed.initialize(model=build())\n"
      "    for epoch in range(3):\n"
      "        for x in loader:\n"
      "            loss = net(x.cuda())\n"
      "            net.backward(loss)\n"
      "            net.step()\n"
      "if __name__ == \"__main__\":\n"
      "    main()\n";

  EXPECT_TRUE(FixProject({{"train.py", script}}).finds("D205 train.py"));
}

std::string summing(const std::string& before, const std::string& in_turn,
                    const std::string& copy = "x = x.cuda(non_blocking=True)") {
  return std::string(kImports) + before +
         "dist.init_process_group(\"nccl\")\n"
         "model = DDP(torch.nn.Linear(1, 1).cuda())\n"
         "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
         "total = 0\n"
         "for x in DataLoader(make(), batch_size=8):\n"
         "    " +
         copy +
         "\n"
         "    loss = model(x).sum()\n"
         "    loss.backward()\n" +
         in_turn +
         "    optimizer.step()\n"
         "    total += loss.item()\n"
         "print(total)\n";
}

TEST(FreshCode, SaysWhatElseAStepWaitsFor) {
  const auto effect = [](const std::string& in_turn, const std::string& copy) {
    return words_about(FixProject({{"train.py", summing("", in_turn, copy)}}),
                       FindingCode::host_sync_every_step);
  };
  const std::string queued = "x = x.cuda(non_blocking=True)";

  EXPECT_THAT(effect("", queued), HasSubstr("where nothing else in the step waits"));
  EXPECT_THAT(effect("", "x = x.cuda()"), HasSubstr("the batch's copies wait still"));
  EXPECT_THAT(effect("    clip(model.parameters(), 1, error_if_nonfinite=True)\n", queued),
              HasSubstr("clip_grad_norm_(error_if_nonfinite=True) waits still"));
  EXPECT_THAT(effect("    writer.add_scalar(\"loss\", loss, 1)\n", queued),
              Not(HasSubstr("where nothing else in the step waits")));
}

TEST(FreshCode, ReadsInLoopsOfALibraryAreSeen) {
  const auto script = [](const std::string& read) {
    return "import torch\n"
           "from accelerate import Accelerator\n"
           "from torch.utils.data import DataLoader\n"
           "def main():\n"
           "    accelerator = Accelerator()\n"
           "    device = \"cuda\"\n"
           "    model, optimizer, loader = accelerator.prepare(net(), adam(), "
           "DataLoader(make(), num_workers=2))\n"
           "    total = 0\n"
           "    for x in loader:\n"
           "        loss = model(x).sum()\n"
           "        accelerator.backward(loss)\n"
           "        optimizer.step()\n" +
           read +
           "    print(total)\n"
           "if __name__ == \"__main__\":\n"
           "    main()\n";
  };
  EXPECT_TRUE(
      FixProject({{"train.py", script("        total += loss.item()\n")}}).finds("S301 train.py"));
  EXPECT_FALSE(FixProject({{"train.py", script("        total += loss.detach()\n")}})
                   .finds("S301 train.py"));
}

TEST(FreshCode, ABatchThatACollateFunctionMakesKeepsItsOwnTo) {
  const auto copies = [](const std::string& more) {
    return words_about(
        FixProject({{"train.py", std::string(kImports) +
                                     "dist.init_process_group(\"nccl\")\n"
                                     "model = DDP(torch.nn.Linear(1, 1).cuda())\n"
                                     "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                                     "for x in DataLoader(make(), pin_memory=True" +
                                     more +
                                     "):\n"
                                     "    x = x.to(\"cuda\")\n"
                                     "    model(x).sum().backward()\n"
                                     "    optimizer.step()\n"}}),
        FindingCode::pageable_copies);
  };
  EXPECT_THAT(copies(""), HasSubstr("non_blocking"));
  EXPECT_EQ(copies(", collate_fn=pad"), "") << "BatchEncoding.to() took no non_blocking for long";
}

TEST(FreshCode, AHalfSumIsNotAddedUpInHalf) {
  EXPECT_THAT(FixProject({{"train.py", summing("", "")}}).after("train.py"),
              HasSubstr("total += loss.detach()\n"));
  EXPECT_THAT(FixProject({{"train.py", summing("half = False\n", "")}}).after("train.py"),
              HasSubstr("total += loss.detach().float()\n"));
}

TEST(FreshCode, ALossOfPartsThatAreDividedIsDivided) {
  const auto script = [](const std::string& parts) {
    return std::string(kImports) +
           "dist.init_process_group(\"nccl\")\n"
           "model = DDP(torch.nn.Linear(1, 1).cuda())\n"
           "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
           "for i, x in enumerate(DataLoader(make(), batch_size=8)):\n" +
           parts +
           "    loss = first + second\n"
           "    loss.backward()\n"
           "    if (i + 1) % steps == 0:\n"
           "        optimizer.step()\n"
           "        optimizer.zero_grad()\n";
  };

  EXPECT_TRUE(FixProject({{"train.py", script("    first = model(x).mean()\n"
                                              "    second = model(x).mean()\n")}})
                  .finds("X714 train.py"));
  EXPECT_FALSE(FixProject({{"train.py", script("    first = model(x).mean() / steps\n"
                                               "    second = model(x).mean() / steps\n")}})
                   .finds("X714 train.py"));
  EXPECT_FALSE(FixProject({{"train.py", script("    # do not divide: the tracker wants the sum\n"
                                               "    first = model(x).mean()\n"
                                               "    second = model(x).mean()\n")}})
                   .finds("X714 train.py"));
}

TEST(FreshCode, AMapOfTheMergeAfterTheTrainingSplitsNoTraining) {
  const std::string after =
      "trainer.train()\n"
      "model = AutoModelForCausalLM.from_pretrained(\"out\", device_map=\"auto\")\n"
      "model.merge_and_unload().save_pretrained(\"merged\")\n";
  const std::string script =
      "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
      "model = AutoModelForCausalLM.from_pretrained(\"gpt2\")\n"
      "trainer = Trainer(model=model, args=TrainingArguments(\"out\"), train_dataset=data)\n";

  EXPECT_FALSE(FixProject({{"train.py", script + after}}).finds("P101 train.py"));
}

TEST(FreshCode, AScriptThatLaunchesOthersIsNotLaunched) {
  const std::string launcher =
      "import subprocess\n"
      "from transformers import Trainer, TrainingArguments\n"
      "def main():\n"
      "    subprocess.run(\"python -m torch.distributed.launch train.py\", shell=True)\n"
      "    Trainer(model=model, args=TrainingArguments(\"out\")).train()\n"
      "if __name__ == \"__main__\":\n"
      "    main()\n";

  EXPECT_FALSE(
      FixProject({{"task.py", launcher}, {"run.sh", "python task.py\n"}}).finds("X701 run.sh"));
}

TEST(FreshCode, AnUnderscoreIsTheDecimalPointOfASize) {
  EXPECT_EQ(billions_in_name("Qwen/Qwen-1_8B-Chat"), 1.8);
  EXPECT_EQ(billions_in_name("meta-llama/Llama-2-7b"), 7);
}

}  // namespace
}  // namespace lockstep
