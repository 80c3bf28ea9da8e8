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
  EXPECT_THAT(effects(""), HasSubstr("the host queues the next step"));
  EXPECT_THAT(effects("    last = loss.item()\n"), HasSubstr("another waits still"));
  EXPECT_THAT(effects("    last = loss.item()\n"), Not(HasSubstr("the host queues")));
}

}  // namespace
}  // namespace lockstep
