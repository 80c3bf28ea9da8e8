// What running 29 converted public scripts beside their originals brought to light (docs/fix.md),
// each as a small script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kHead =
    "import sys\n"
    "import torch\n"
    "from torch import nn\n"
    "from torch.utils.data import DataLoader, TensorDataset\n"
    "from tqdm import tqdm\n"
    "class Net(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.a = nn.Linear(4, 4)\n"
    "        self.b = nn.Linear(4, 1)\n"
    "    def forward(self, x):\n"
    "        return self.b(self.a(x))\n";

struct PlainScript {
  std::string seed = "torch.manual_seed(0)\n";
  std::string data = "data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n";
  std::string model = "model = Net().cuda()\n";
  std::string optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n";
  std::string loss = "nn.functional.mse_loss";
  std::string in_a_step;
  std::string behind_an_epoch;
  std::string head = kHead;
};

std::string script_text(const PlainScript& script) {
  return script.head + script.seed + script.data +
         "loader = DataLoader(data, batch_size=8, shuffle=True)\n" + script.model +
         script.optimizer +
         "for epoch in range(3):\n"
         "    total = 0.0\n"
         "    for x, y in tqdm(loader):\n"
         "        x, y = x.cuda(), y.cuda()\n" +
         script.in_a_step + "        loss = " + script.loss +
         "(model(x), y)\n"
         "        optimizer.zero_grad()\n"
         "        loss.backward()\n"
         "        optimizer.step()\n" +
         script.behind_an_epoch;
}

FixPlan plan_of(const PlainScript& script) {
  return FixProject({{"train.py", script_text(script)}}).wish({.gpus = 2}).plan();
}

std::string converted(const PlainScript& script) {
  return FixProject({{"train.py", script_text(script)}}).wish({.gpus = 2}).after("train.py");
}

std::string advice_about(const PlainScript& script) {
  std::string words;
  for (const CodeFinding& finding : plan_of(script).findings)
    if (finding.code == FindingCode::idle_gpus || finding.code == FindingCode::one_gpu_leads)
      for (const Way& way : finding.ways) words += way.description + "|" + way.changes;
  return words;
}

TEST(Conversion, DataThatEachRankMakesUpForItselfIsNotSharedOut) {
  EXPECT_THAT(advice_about({.seed = ""}), HasSubstr("other data on each rank"));
  EXPECT_THAT(converted({.seed = ""}), Not(HasSubstr("DistributedDataParallel(")));
  EXPECT_THAT(converted({}), HasSubstr("DistributedDataParallel(")) << "it has a seed";
  EXPECT_THAT(converted({.seed = "", .data = "data = TensorDataset(*torch.load(\"data.pt\"))\n"}),
              HasSubstr("DistributedDataParallel("))
      << "it is read";
}

TEST(Conversion, FeaturesThatAnUnseededLoaderGivesAreNotSharedOut) {
  const std::string other = "other = DataLoader(read(\"val.pt\"), shuffle=True)\n";
  const std::string data = "data = TensorDataset(*torch.load(\"data.pt\"))\n";
  EXPECT_THAT(advice_about({.seed = "", .data = other + "x = [y for y in other]\n" + data}),
              HasSubstr("other data on each rank"));
  EXPECT_THAT(
      converted({.seed = "", .data = other + data, .behind_an_epoch = "    check(model, other)\n"}),
      HasSubstr("DistributedDataParallel("))
      << "it is for validation";
}

TEST(Conversion, ALayerThatNoPassUsesIsTold) {
  std::string unused = kHead;
  unused.replace(unused.find("self.b(self.a(x))"), 17, "self.a(x)");
  EXPECT_THAT(converted({.head = unused}), HasSubstr("find_unused_parameters=True)"));
  EXPECT_THAT(converted({}), Not(HasSubstr("find_unused_parameters=True)")));
  unused.replace(unused.find("return self.a(x)"), 16, "return getattr(self, \"b\")(x)");
  EXPECT_THAT(converted({.head = unused}), Not(HasSubstr("find_unused_parameters=True)")))
      << "a name as text may be any";
}

TEST(Conversion, AScriptOfWindowsStays) {
  EXPECT_THAT(advice_about({.data = "data = folder(\"D:/datasets/train\")\n"}),
              HasSubstr("no NCCL"));
}

TEST(Conversion, AModelOnSeveralGpusStays) {
  std::string split = kHead;
  split.replace(split.find("nn.Linear(4, 4)"), 15,
                "nn.Linear(4, 4).to(torch.device(\"cuda\", torch.cuda.device_count() - 1))");
  EXPECT_THAT(advice_about({.head = split}), HasSubstr("on several GPUs"));
}

TEST(Conversion, WhatASumOfLossesBecomesIsTold) {
  const PlainScript plain{.loss = "nn.MSELoss(reduction=\"sum\")"};
  EXPECT_THAT(advice_about(plain), HasSubstr("the loss is a sum over a rank's batch"));
  const PlainScript parallel{.model = "model = nn.DataParallel(Net()).cuda()\n",
                             .loss = "nn.MSELoss(reduction=\"sum\")"};
  EXPECT_THAT(advice_about(parallel), HasSubstr("1/N of what they were"));
  EXPECT_THAT(advice_about({}), Not(HasSubstr("the loss is a sum")));
}

TEST(Conversion, Rank0AloneShowsWhatIsShown) {
  const std::string text = converted(
      {.in_a_step = "        sys.stdout.write(\".\")\n",
       .behind_an_epoch = "    print(f\"epoch {epoch} \\\n      done\")\n    print(\"next\")\n"});
  EXPECT_THAT(text, HasSubstr("tqdm(loader, disable=dist.get_rank() != 0)"));
  EXPECT_THAT(text, HasSubstr("        if dist.get_rank() == 0:\n            sys.stdout.write"));
  EXPECT_THAT(text, HasSubstr("    if dist.get_rank() == 0:\n"
                              "        print(f\"epoch {epoch} \\\n      done\")\n"
                              "        print(\"next\")\n"))
      << "a string's own lines stay as they are";
}

TEST(Conversion, MeansAreTakenOverWhatARankHasSeen) {
  const std::string text = converted({.behind_an_epoch = "    print(total / len(loader.dataset))\n"
                                                         "    print(total / len(data))\n"
                                                         "    print(epoch, len(data))\n"});
  EXPECT_THAT(text, AllOf(HasSubstr("print(total / len(loader.sampler))\n"),
                          Not(HasSubstr("/ len(data)")), HasSubstr("print(epoch, len(data))\n")));
}

TEST(Conversion, NobodyWaitsForAFileThatIsAnother) {
  const auto with = [](const std::string& read) {
    return converted({.behind_an_epoch = "    torch.save(model.state_dict(), \"last.pt\")\n"
                                         "    best = torch.load(\"" +
                                         read + "\")\n"});
  };
  EXPECT_THAT(with("last.pt"), HasSubstr("dist.barrier()  # rank 0 has written it"));
  EXPECT_THAT(with("start.pt"), Not(HasSubstr("dist.barrier()")));
}

TEST(Conversion, AnOptionForTheProcessorGoesOn) {
  const std::string text =
      converted({.model = "model = Net()\nif not args.no_cuda:\n    model.cuda()\n"});
  EXPECT_THAT(text, HasSubstr("\"nccl\" if torch.cuda.is_available() else \"gloo\""));
}

TEST(Conversion, AModelThatGivesBackItselfIsTheSame) {
  EXPECT_THAT(converted({.in_a_step = "        model = model.train()\n"}),
              HasSubstr("DistributedDataParallel("));
  EXPECT_THAT(advice_about({.in_a_step = "        model = Net().cuda()\n"}),
              HasSubstr("made anew"));
}

TEST(Conversion, PartsOfOneModelAreOneModel) {
  for (const char* const optimizer :
       {"optimizer = torch.optim.SGD([{\"params\": model.a.parameters()}, {\"params\": "
        "model.b.parameters(), \"lr\": 0.01}], lr=0.1)\n",
        "params = [p for p in model.parameters() if p.requires_grad]\n"
        "optimizer = torch.optim.SGD(params, lr=0.1)\n"})
    EXPECT_THAT(converted({.optimizer = optimizer}), HasSubstr("DistributedDataParallel("))
        << optimizer;
  EXPECT_THAT(advice_about({.model = "model, other = Net().cuda(), Net().cuda()\n",
                            .optimizer = "optimizer = torch.optim.SGD([{\"params\": "
                                         "model.parameters()}, {\"params\": "
                                         "other.parameters()}], lr=0.1)\n"}),
              HasSubstr("several models"));
}

}  // namespace
}  // namespace lockstep
