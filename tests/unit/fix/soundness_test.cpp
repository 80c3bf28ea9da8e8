// What a patch may lean on: names that have a value there, conditions it stands under, state that
// is alike on all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fix/python/bindings.hpp"
#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::Not;

// Whether `here` may be leaned on where `use(here)` stands.
bool is_bound_in(const std::string& text) {
  const auto tree = SyntaxTree::parse(Language::python, text);
  for (const Node& call : tree->root().descendants("call"))
    if (call.field("function").text() == "use")
      return is_certainly_bound(call.field("arguments").child(0), "here");
  ADD_FAILURE() << "no use(here) in " << text;
  return false;
}

TEST(Bindings, HoldWhereEveryWayGivesAValue) {
  EXPECT_TRUE(is_bound_in("here = 1\nuse(here)\n"));
  EXPECT_TRUE(is_bound_in("if x:\n    here = 1\nelse:\n    here = 2\nuse(here)\n"));
  EXPECT_TRUE(is_bound_in("if x:\n    raise ValueError\nelse:\n    here = 2\nuse(here)\n"));
  EXPECT_TRUE(is_bound_in("for here, b in x:\n    use(here)\n"));
  EXPECT_TRUE(is_bound_in("with open(f) as here:\n    use(here)\n"));
  EXPECT_TRUE(is_bound_in("def f(a, here=1):\n    use(here)\n"));
  EXPECT_TRUE(is_bound_in("def f():\n    use(here)\nif x:\n    here = 1\nf()\n"))
      << "seen when it runs";
  EXPECT_TRUE(is_bound_in("import a.b as here\nuse(here)\n"));
  EXPECT_TRUE(is_bound_in("from a import *\nuse(here)\n"));
  EXPECT_TRUE(is_bound_in("try:\n    here = 1\nexcept E:\n    here = None\nuse(here)\n"));
  EXPECT_TRUE(is_bound_in("y = [use(here) for here in x]\n"));
  EXPECT_TRUE(is_bound_in("def f():\n    global here\n    use(here)\n    here = 1\nhere = 0\n"));
}

TEST(Bindings, DoNotHoldWhereOneWayGivesNone) {
  EXPECT_FALSE(is_bound_in("use(here)\nhere = 1\n"));
  EXPECT_FALSE(is_bound_in("if x:\n    here = 1\nuse(here)\n"));
  EXPECT_FALSE(is_bound_in("for here in x:\n    pass\nuse(here)\n")) << "it may have no turn";
  EXPECT_FALSE(is_bound_in("here = 0\ndef f():\n    use(here)\n    here = 1\n"))
      << "a name of the function's own";
  EXPECT_FALSE(is_bound_in("try:\n    here = 1\nexcept E:\n    pass\nuse(here)\n"));
  EXPECT_FALSE(is_bound_in("y = [here for here in x]\nuse(here)\n"));
  EXPECT_FALSE(is_bound_in("x.here = 1\nuse(here)\n"));
}

std::string under_ddp(const std::string& lines) {
  return "import os, torch\n"
         "import torch.distributed as dist\n"
         "from torch.utils.data import DataLoader\n"
         "from torch.utils.data.distributed import DistributedSampler\n"
         "from torch.nn.parallel import DistributedDataParallel as DDP\n"
         "dist.init_process_group(\"nccl\")\n"
         "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))\n"
         "net = torch.nn.Linear(8, 8).cuda()\n"
         "model = DDP(net)\n"
         "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
         "scaler = torch.amp.GradScaler()\n" +
         lines;
}

std::string patched_text(const std::string& script) {
  FixProject project;
  project.file("train.py", script);
  return project.after("train.py");
}

TEST(Soundness, TheEpochIsToldOnlyToASamplerThatIsThere) {
  const auto loop = [](const std::string& sampler) {
    return under_ddp(sampler +
                     "loader = DataLoader(data, sampler=sampler)\n"
                     "for epoch in range(3):\n"
                     "    for x in loader:\n"
                     "        model(x).sum().backward()\n"
                     "        optimizer.step()\n");
  };
  EXPECT_THAT(patched_text(loop("sampler = DistributedSampler(data)\n")),
              HasSubstr("sampler.set_epoch(epoch)"));
  EXPECT_THAT(patched_text(loop("if many:\n    sampler = DistributedSampler(data)\n")),
              Not(HasSubstr("    sampler.set_epoch(epoch)\n    for")));
}

TEST(Soundness, ALineIsMadeRareByACounterThatIsStillItsOwn) {
  const auto loop = [](const std::string& inner) {
    return under_ddp("for i, x in enumerate(loader):\n" + inner +
                     "    loss = model(x).sum()\n"
                     "    loss.backward()\n"
                     "    optimizer.step()\n"
                     "    print(loss.item())\n");
  };
  EXPECT_THAT(patched_text(loop("")), HasSubstr("if i % 50 == 0:"));
  EXPECT_THAT(patched_text(loop("    for i in range(3):\n        x = x + i\n")),
              Not(HasSubstr("if i % 50 == 0:")));
}

TEST(Soundness, GradientsAreUnscaledUnderTheConditionOfTheirScaler) {
  const auto loop = [](const std::string& step) {
    return under_ddp(
        "for i, x in enumerate(loader):\n"
        "    scaler.scale(model(x).sum()).backward()\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n" +
        step);
  };
  EXPECT_THAT(patched_text(loop("    scaler.step(optimizer)\n")),
              HasSubstr("scaler.unscale_(optimizer)"));
  EXPECT_THAT(patched_text(loop("    if scale_grads:\n        scaler.step(optimizer)\n")),
              Not(HasSubstr("unscale_")));
}

bool finds_saves(const std::string& save) {
  FixProject project;
  project.file("train.py", under_ddp("for x in loader:\n"
                                     "    loss = model(x).sum()\n"
                                     "    loss.backward()\n"
                                     "    optimizer.step()\n" +
                                     save));
  return project.finds("X707 train.py");
}

TEST(Soundness, OnlyWhatIsAlikeOnAllRanksIsLeftToRankZero) {
  EXPECT_TRUE(finds_saves("torch.save(net.state_dict(), \"last.pt\")\n"));
  EXPECT_FALSE(finds_saves("torch.save(x, \"batch.pt\")\n")) << "a rank's own batch";
  EXPECT_FALSE(
      finds_saves("    if torch.isnan(loss):\n"
                  "        torch.save(net.state_dict(), \"nan.pt\")\n"))
      << "where this rank's own loss has it";
  EXPECT_FALSE(
      finds_saves("try:\n    test()\nexcept RuntimeError:\n"
                  "    torch.save(net.state_dict(), \"crash.pt\")\n"));
}

TEST(Soundness, ALoopThatWritesForEachSampleIsNotSharedOutUnread) {
  const auto shared_out = [](const std::string& write) {
    return patched_text(
        under_ddp("data = torch.randn(64, 8)\nloader = DataLoader(data)\n"
                  "for x in loader:\n"
                  "    loss = model(x).sum()\n"
                  "    loss.backward()\n"
                  "    optimizer.step()\n" +
                  write));
  };
  EXPECT_THAT(shared_out(""), HasSubstr("sampler=DistributedSampler(data"));
  EXPECT_THAT(shared_out("    np.save(name_of(x), x.cpu())\n"),
              Not(HasSubstr("sampler=DistributedSampler(data")));
}

TEST(Soundness, AWaitIsTheLastOneOnlyWhereNoOtherIsLeft) {
  const auto effects = [](const std::string& more) {
    FixProject project;
    project.file("train.py", under_ddp("total = 0\nfor x in loader:\n"
                                       "    loss = model(x).sum()\n"
                                       "    loss.backward()\n"
                                       "    optimizer.step()\n"
                                       "    total += loss.item()\n" +
                                       more + "print(total)\n"));
    std::string words;
    for (const CodeFinding& finding : project.plan().findings)
      if (finding.code == FindingCode::host_sync_every_step)
        words += finding.ways.front().effect + "\n";
    return words;
  };
  EXPECT_THAT(effects(""), HasSubstr("where nothing else in the step waits"));
  EXPECT_THAT(effects("    last = loss.item()\n"), HasSubstr("another read waits still"));
  EXPECT_THAT(effects("    last = loss.item()\n"), Not(HasSubstr("the host queues")));
}

// ---- what strict readers of public repositories found ----

TEST(PublicCode, ALossThatApexScalesIsDividedBefore) {
  EXPECT_THAT(patched_text(under_ddp("for i, x in enumerate(loader):\n"
                                     "    loss = model(x).sum()\n"
                                     "    loss = loss / steps\n"
                                     "    with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
                                     "        scaled_loss.backward()\n"
                                     "    if (i + 1) % steps == 0:\n"
                                     "        optimizer.step()\n")),
              Not(HasSubstr("scaled_loss /")));
}

TEST(PublicCode, ASaveIntoMemoryIsEveryRanksOwn) {
  EXPECT_FALSE(finds_saves("file = io.BytesIO()\ntorch.save(net.state_dict(), file)\n"));
  EXPECT_FALSE(finds_saves("if is_root:\n    torch.save(net.state_dict(), \"last.pt\")\n"));
  EXPECT_FALSE(
      finds_saves("if tpu:\n    xm.save(net)\nelif self.is_world_master():\n"
                  "    torch.save(net.state_dict(), \"last.pt\")\n"));
}

TEST(PublicCode, AMethodsOwnIsNoNameOfAFunction) {
  EXPECT_FALSE(is_certainly_bound(
      SyntaxTree::parse(Language::python, "from x import *\nself\n")->root(), "self"));
}

TEST(PublicCode, ADatasetThatShufflesItselfNeedsNoEpoch) {
  FixProject project;
  project.file("train.py", under_ddp("sampler = DistributedSampler(data)\n"
                                     "loader = DataLoader(data, sampler=sampler)\n"
                                     "for epoch in range(3):\n"
                                     "    data.shuffle(epoch)\n"
                                     "    for x in loader:\n"
                                     "        model(x).sum().backward()\n"
                                     "        optimizer.step()\n"));
  EXPECT_FALSE(project.finds("D205 train.py"));
}

TEST(PublicCode, ASamplerOfTheProjectsOwnMayFollowTheTraining) {
  const auto safety = [](const std::string& sampler) {
    FixProject project;
    project.file("train.py",
                 "import torch\nfrom torch.utils.data import DataLoader\n"
                 "class Adaptive:\n    def update(self, loss):\n        self.x = loss\n"
                 "if __name__ == \"__main__\":\n"
                 "    model = torch.nn.Linear(8, 8).cuda()\n"
                 "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                 "    loader = DataLoader(make(), batch_sampler=" +
                     sampler +
                     ")\n"
                     "    for x in loader:\n"
                     "        model(x.cuda()).sum().backward()\n"
                     "        optimizer.step()\n");
    return project.safety(FindingCode::loader_without_workers);
  };
  EXPECT_EQ(safety("Adaptive()"), FixSafety::manual);
  EXPECT_EQ(safety("BatchSampler(order, 8, False)"), FixSafety::unsafe);
}

std::string with_device(const std::string& rank, const std::string& more) {
  return patched_text(
      "import os, torch\nimport torch.distributed as dist\n"
      "rank = " +
      rank +
      "\ndist.init_process_group(\"nccl\")\n"
      "torch.cuda.set_device(rank)\n" +
      more +
      "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda())\n"
      "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
      "for x in loader:\n    model(x).sum().backward()\n    optimizer.step()\n");
}

TEST(PublicCode, ARankIsAGpusNumberOnlyRightBehindCuda) {
  EXPECT_THAT(
      with_device("int(os.environ[\"RANK\"])", "print(f\"rank {rank}, using cuda: yes\")\n"),
      HasSubstr("print(f\"rank {rank}, using"));
  EXPECT_THAT(with_device("int(os.environ[\"RANK\"])", "place = f\"{device}:{rank}\"\n"),
              HasSubstr("torch.cuda.set_device(rank)"))
      << "the other place would no longer agree";
  EXPECT_THAT(with_device("int(os.environ.get(\"RANK\", 0))", ""),
              HasSubstr("set_device(int(os.environ.get(\"LOCAL_RANK\", 0)))"))
      << "a run without a launcher goes on as it did";
}

TEST(PublicCode, ACollatorThatMovesBatchesToTheGpuHasNoWorkers) {
  FixProject project;
  project.file("train.py",
               "from transformers import AutoModel, Trainer, TrainingArguments\n"
               "def collate(examples):\n    return tokens(examples).to(device)\n"
               "model = AutoModel.from_pretrained(\"x\")\n"
               "args = TrainingArguments(output_dir=\"out\", dataloader_pin_memory=False)\n"
               "Trainer(model=model, args=args, data_collator=collate).train()\n");
  EXPECT_FALSE(project.finds("D202 train.py"));
  EXPECT_FALSE(project.finds("D203 train.py"));
}

TEST(PublicCode, ABarrierOnEachOfTwoWaysIsOneBarrier) {
  const auto finds = [](const std::string& last) {
    FixProject project;
    project.file("train.py", under_ddp("rank = dist.get_rank()\n"
                                       "if rank != 0:\n    dist.barrier()\n"
                                       "if name == \"a\":\n    data = load_a()\n"
                                       "    if rank == 0:\n        dist.barrier()\n"
                                       "elif name == \"b\":\n    data = load_b()\n" +
                                       last +
                                       "for x in loader:\n    model(x).sum().backward()\n"
                                       "    optimizer.step()\n"));
    return project.finds("C407 train.py");
  };
  EXPECT_FALSE(finds("    if rank == 0:\n        dist.barrier()\n"));
  EXPECT_TRUE(finds("    if rank == 0:\n        dist.all_reduce(data)\n"));
}

TEST(TrainersAsClasses, AreFollowedFromTheirLoopToTheirTurn) {
  const auto trainer = [](const std::string& sampler, const std::string& read) {
    return under_ddp(
        "class Trainer:\n"
        "    def __init__(self, model, loader):\n"
        "        self.model = DDP(model)\n"
        "        self.loader = loader\n"
        "    def _run_batch(self, x):\n"
        "        loss = self.model(x).sum()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n" +
        read +
        "    def _run_epoch(self, epoch):\n"
        "        for x in self.loader:\n"
        "            self._run_batch(x.cuda())\n"
        "    def train(self):\n"
        "        for epoch in range(3):\n"
        "            self._run_epoch(epoch)\n"
        "data = torch.randn(64, 8)\n"
        "Trainer(net, DataLoader(data" +
        sampler + ")).train()\n");
  };
  const auto finds = [](const std::string& script, const std::string& finding) {
    FixProject project;
    project.file("train.py", script);
    return project.finds(finding);
  };
  EXPECT_TRUE(finds(trainer("", ""), "D204 train.py"));
  EXPECT_TRUE(finds(trainer(", sampler=DistributedSampler(data)", ""), "D205 train.py"));
  EXPECT_FALSE(finds(trainer(", sampler=DistributedSampler(data)", ""), "D204 train.py"));
  EXPECT_TRUE(finds(trainer("", "        print(loss.item())\n"), "S301 train.py"));
  EXPECT_FALSE(finds(trainer("", ""), "S301 train.py"));
}

}  // namespace
}  // namespace lockstep
