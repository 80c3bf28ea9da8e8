// The patterns of published guides on training with several GPUs, as people copy them, and what
// lockstep says of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using ::testing::Contains;
using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::Not;

FixProject of_files(const std::vector<std::pair<std::string, std::string>>& files) {
  return FixProject(files);
}

// The reasons, descriptions and changes of what is found, one string.
std::string words_of(const FixProject& project) {
  std::string words;
  for (const CodeFinding& finding : project.plan().findings) {
    words += finding.reason + "\n";
    for (const Way& way : finding.ways) words += way.description + "\n" + way.changes + "\n";
  }
  return words;
}

// ---- a script that gives up its map where there are ranks ----

std::string aware_script(const std::string& batch_lines) {
  return "import os\n"
         "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
         "batch, micro = 64, 4\n"
         "accumulation_steps = batch // micro\n"
         "device_map = \"auto\"\n"
         "world_size = int(os.environ.get(\"WORLD_SIZE\", 1))\n"
         "ddp = world_size != 1\n"
         "if ddp:\n"
         "    device_map = {\"\": int(os.environ.get(\"LOCAL_RANK\") or 0)}\n" +
         batch_lines +
         "model = AutoModelForCausalLM.from_pretrained(\"gpt2\", device_map=device_map)\n"
         "args = TrainingArguments(output_dir=\"out\", per_device_train_batch_size=micro,\n"
         "                         gradient_accumulation_steps=accumulation_steps)\n"
         "Trainer(model=model, args=args, train_dataset=data).train()\n";
}

FixProject started_by(const std::string& line, const std::string& script) {
  return of_files({{"train.py", script}, {"run.sh", line}});
}

TEST(LaunchAwareScript, StartedAsOneProcessIsModelParallelAndNotDataParallel) {
  const auto project = started_by("python train.py\n", aware_script(""));

  EXPECT_THAT(project.findings(), Contains("X701 run.sh:1"));
  EXPECT_THAT(project.findings(), Contains("P101 train.py:5"));
  EXPECT_THAT(words_of(project), Not(HasSubstr("DataParallel")));
  EXPECT_EQ(project.after("run.sh"), "torchrun --standalone --nproc_per_node=gpu train.py\n");
}

TEST(LaunchAwareScript, StartedByTorchrunIsLeftAlone) {
  const auto project =
      started_by("torchrun --standalone --nproc_per_node=4 train.py\n", aware_script(""));

  EXPECT_FALSE(project.finds("P101 train.py"));
  EXPECT_FALSE(project.finds("X701 run.sh"));
}

TEST(LaunchAwareScript, WithoutAMapIsNnDataParallelAlone) {
  std::string script = aware_script("");
  script.replace(script.find("\"auto\""), 6, "None");
  const auto project = started_by("python train.py\n", script);

  EXPECT_FALSE(project.finds("P101 train.py"));
  EXPECT_THAT(words_of(project), HasSubstr("nn.DataParallel"));
}

std::string words_on_four_gpus(const std::string& batch_lines) {
  return words_of(
      started_by("CUDA_VISIBLE_DEVICES=0,1,2,3 python train.py\n", aware_script(batch_lines)));
}

TEST(GlobalBatch, ThatTheScriptDividesByItsRanksStays) {
  EXPECT_THAT(words_on_four_gpus("    accumulation_steps = accumulation_steps // world_size\n"),
              HasSubstr("the global batch stays 64"));
}

TEST(GlobalBatch, ThatTheScriptSetsWithoutDividingIsToldInNumbers) {
  EXPECT_THAT(words_on_four_gpus("    accumulation_steps = 16\n"),
              HasSubstr("the global batch changes from 64 to 256"));
  EXPECT_THAT(words_on_four_gpus("else:\n    accumulation_steps = 16\n"),
              HasSubstr("the global batch changes from 64 to 256"));
}

TEST(GlobalBatch, OfNumbersThatTheTextDoesNotHoldIsSaidToBeUnknown) {
  const std::string words =
      words_on_four_gpus("    accumulation_steps = config.steps_for(world_size)\n");

  EXPECT_THAT(words, HasSubstr("is not known from its text"));
  EXPECT_THAT(words, Not(HasSubstr("global batch stays")));
}

// ---- loops of one's own under DDP ----

std::string ddp_script(const std::string& model, const std::string& loop,
                       const std::string& head = "") {
  return "import os, glob, random, torch\n"
         "import numpy as np\n"
         "import torch.distributed as dist\n"
         "from torch.utils.data import DataLoader, TensorDataset\n"
         "from torch.nn.parallel import DistributedDataParallel as DDP\n" +
         head +
         "dist.init_process_group(\"nccl\")\n"
         "local_rank = int(os.environ[\"LOCAL_RANK\"])\n"
         "torch.cuda.set_device(local_rank)\n"
         "net = torch.nn.Linear(8, 8).cuda(local_rank)\n" +
         model + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + loop;
}

const std::string kPlainLoop =
    "for epoch in range(3):\n"
    "    for x in loader:\n"
    "        loss = model(x).sum()\n"
    "        loss.backward()\n"
    "        optimizer.step()\n"
    "        optimizer.zero_grad()\n";

FixProject of_script(const std::string& script) { return of_files({{"train.py", script}}); }

TEST(CompiledModel, WithinTheWrapIsCompiledBeforeIt) {
  const auto finds = [](const std::string& model) {
    return of_script(ddp_script(model, kPlainLoop)).finds("X713 train.py");
  };
  EXPECT_TRUE(finds("model = DDP(torch.compile(net))\n"));
  EXPECT_TRUE(finds("net = torch.compile(net)\nmodel = DDP(net)\n"));
  EXPECT_FALSE(finds("model = DDP(net)\nmodel = torch.compile(model)\n"));
  EXPECT_FALSE(finds("model = DDP(net)\n"));
}

FixProject with_forked_loop(const std::string& condition) {
  return of_script(ddp_script("model = DDP(net)\nk = 4\n",
                              "for i, x in enumerate(loader):\n"
                              "    if " +
                                  condition +
                                  ":\n"
                                  "        with model.no_sync():\n"
                                  "            loss = model(x).sum() / k\n"
                                  "            loss.backward()\n"
                                  "    else:\n"
                                  "        loss = model(x).sum() / k\n"
                                  "        loss.backward()\n"
                                  "        optimizer.step()\n"
                                  "        optimizer.zero_grad()\n"));
}

TEST(ForkedAccumulation, ThatUpdatesAtTheFirstTurnIsOffByOne) {
  EXPECT_TRUE(with_forked_loop("i % k != 0").finds("X714 train.py"));
  EXPECT_TRUE(with_forked_loop("i % k").finds("X714 train.py"));
  EXPECT_THAT(with_forked_loop("i % k != 0").after("train.py"),
              HasSubstr("    if (i + 1) % k != 0:\n"));
}

TEST(ForkedAccumulation, ThatCountsFromOneIsRight) {
  EXPECT_FALSE(with_forked_loop("(i + 1) % k != 0").finds("X714 train.py"));
}

TEST(ForkedAccumulation, WithTheUpdateFirstIsSeenToo) {
  const std::string loop =
      "for i, x in enumerate(loader):\n"
      "    if i % 4 == 0:\n"
      "        model(x).sum().backward()\n"
      "        optimizer.step()\n"
      "        optimizer.zero_grad()\n"
      "    else:\n"
      "        with model.no_sync():\n"
      "            model(x).sum().backward()\n";
  EXPECT_TRUE(of_script(ddp_script("model = DDP(net)\n", loop)).finds("X714 train.py"));
}

FixProject with_shards(const std::string& files) {
  return of_script(
      ddp_script("files = " + files +
                     "\n"
                     "data = torch.cat([torch.load(f) for f in files])\n"
                     "loader = DataLoader(TensorDataset(data), batch_size=8, shuffle=True)\n"
                     "model = DDP(net)\n",
                 kPlainLoop));
}

TEST(ShardsByRank, AreUnevenAndNotUnshared) {
  const auto project =
      with_shards("sorted(glob.glob(\"*.pt\"))[dist.get_rank()::dist.get_world_size()]");

  EXPECT_TRUE(project.finds("X706 train.py"));
  EXPECT_FALSE(project.finds("D204 train.py"));
}

TEST(ShardsByRank, ThatNobodyMakesAreUnshared) {
  const auto project = with_shards("sorted(glob.glob(\"*.pt\"))");

  EXPECT_FALSE(project.finds("X706 train.py"));
  EXPECT_TRUE(project.finds("D204 train.py"));
}

bool finds_one_seed(const std::string& draw) {
  return of_script(ddp_script("model = DDP(net)\nloader = DataLoader(data)\n",
                              "for x in loader:\n    x = x + " + draw +
                                  "\n    loss = model(x).sum()\n    loss.backward()\n"
                                  "    optimizer.step()\n",
                              "random.seed(42)\nnp.random.seed(42)\ntorch.manual_seed(42)\n"))
      .finds("X705 train.py");
}

TEST(ConstantSeeds, OfAllThreeGeneratorsAreSeenWhereTrainingDrawsFromThem) {
  EXPECT_TRUE(finds_one_seed("np.random.uniform()"));
  EXPECT_TRUE(finds_one_seed("random.random()"));
  EXPECT_TRUE(finds_one_seed("torch.randn(8)"));
}

TEST(ConstantSeeds, ThatNothingOrOnlyAShuffleDrawsFromAreRight) {
  EXPECT_FALSE(finds_one_seed("1"));
  EXPECT_FALSE(finds_one_seed("random.shuffle(files)")) << "all ranks must shuffle alike";
}

TEST(RankAsDevice, UnderACheckForSeveralRanksIsFound) {
  EXPECT_TRUE(of_script("import os, torch\nimport torch.distributed as dist\n"
                        "ddp = int(os.environ.get(\"RANK\", -1)) != -1\n"
                        "device = \"cuda\"\n"
                        "if ddp:\n"
                        "    dist.init_process_group(\"nccl\")\n"
                        "    rank = int(os.environ[\"RANK\"])\n"
                        "    device = f\"cuda:{rank}\"\n"
                        "    torch.cuda.set_device(device)\n"
                        "model = torch.nn.Linear(8, 8).to(device)\n"
                        "if ddp:\n"
                        "    model = torch.nn.parallel.DistributedDataParallel(model, "
                        "device_ids=[rank])\n"
                        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                        "for x in loader:\n"
                        "    model(x).sum().backward()\n"
                        "    optimizer.step()\n")
                  .finds("X710 train.py"));
}

// ---- ranks that a script starts one by one ----

bool finds_ranks_by_hand(const std::string& head, const std::string& prefix) {
  return of_files({{"train.py", ddp_script("model = DDP(net)\n", kPlainLoop)},
                   {"run.sh", "#!/bin/bash\n" + head + prefix +
                                  "WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 python train.py &\n" + prefix +
                                  "WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 python train.py &\nwait\n"}})
      .finds("X701 run.sh");
}

TEST(RanksByHand, NeedAPlaceToMeet) {
  EXPECT_TRUE(finds_ranks_by_hand("", ""));
  EXPECT_FALSE(finds_ranks_by_hand("export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500\n", ""));
  EXPECT_FALSE(finds_ranks_by_hand("", "MASTER_ADDR=localhost MASTER_PORT=29500 "));
}

// ---- options of a script, on its launch line ----

const std::string kParses =
    "from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments\n"
    "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    "model = AutoModelForCausalLM.from_pretrained(\"gpt2\")\n"
    "Trainer(model=model, args=args, train_dataset=data).train()\n";

TEST(OptionsOfALaunchLine, AreReadInAzureMlsCommand) {
  const auto project = of_files(
      {{"src/train.py", kParses},
       {"job.yml",
        "code: src\ncommand: >-\n  python train.py\n  --output_dir out\n  --logging_steps 1\n"
        "  --per_device_train_batch_size 4\nenvironment: azureml:x@latest\n"
        "distribution:\n  type: pytorch\n  process_count_per_instance: 4\n"}});

  EXPECT_THAT(project.findings(), Contains("S302 job.yml:5"));
  EXPECT_THAT(project.after("job.yml"), HasSubstr("--logging_steps 10\n"));
}

TEST(OptionsOfALaunchLine, AreReadInAShellScript) {
  const auto project = started_by(
      "torchrun --nproc_per_node=2 train.py \\\n  --output_dir out \\\n"
      "  --dataloader_pin_memory False --logging_steps=1\n",
      kParses);

  EXPECT_EQ(project.after("run.sh"),
            "torchrun --nproc_per_node=2 train.py \\\n  --output_dir out \\\n"
            "  --dataloader_pin_memory True --logging_steps=10\n");
}

TEST(OptionsOfALaunchLine, ThatAreWellChosenOrOfAnEvaluationAreLeftAlone) {
  EXPECT_FALSE(started_by("torchrun --nproc_per_node=2 train.py --output_dir out "
                          "--logging_steps 50 $MORE\n",
                          kParses)
                   .finds("S302 run.sh"));
  EXPECT_FALSE(started_by("torchrun --nproc_per_node=2 train.py --output_dir out --do_eval "
                          "--logging_steps 1\n",
                          kParses)
                   .finds("S302 run.sh"));
}

}  // namespace
}  // namespace lockstep
