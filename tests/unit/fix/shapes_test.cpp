// Shapes that a strict reader found in public code and lockstep did not.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::Each;
using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string plain_loop(const std::string& device, const std::string& body,
                       const std::string& loader = "DataLoader(Data(), batch_size=8)") {
  return fmt::format(R"x(import torch
from torch.utils.data import DataLoader, Dataset
import config

class Data(Dataset):
    def __getitem__(self, i):
        return open(str(i)).read()

def main():
    device = {}
    net = torch.nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = {}
    total = 0.0
    for i, (x, y) in enumerate(loader):
{}
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    main()
)x",
                     device, loader, body);
}

constexpr const char* kPass =
    "        loss = net(x.to(device)).mean()\n        loss.backward()\n        total += "
    "loss.item()";

TEST(Shapes, ADeviceThatAnotherModuleNames) {
  FixProject project({{"train.py", plain_loop("torch.device(config.DEVICE)", kPass)},
                      {"config.py", "DEVICE = 'cuda'\n"}});
  FixProject on_the_processor(
      {{"train.py", plain_loop("'cpu'", kPass)}, {"config.py", "DEVICE = 'cpu'\n"}});

  EXPECT_THAT(project.findings(), Contains(StartsWith("S301 train.py")));
  EXPECT_THAT(project.findings(), Contains(StartsWith("D203 train.py")));
  EXPECT_THAT(on_the_processor.findings(), Each(Not(StartsWith("S301"))));
}

TEST(Shapes, APassInALoopOfItsOwnOverTheSameBatch) {
  FixProject project;
  project.file("train.py", R"x(import torch
from torch.utils.data import DataLoader
import data

def main():
    net = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(data.Images("/data"), batch_size=8)
    for x, y in loader:
        for _ in range(3):
            loss = net(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

if __name__ == "__main__":
    main()
)x");

  EXPECT_THAT(project.findings(), Contains("D202 train.py:8"));
}

TEST(Shapes, APartOfTheLoss) {
  FixProject project({{"train.py", plain_loop("'cuda'", R"x(        part = net(x.to(device)).mean()
        rest = net(y.to(device)).var()
        loss = part + 0.1 * rest
        loss.backward()
        total += part.item())x")}});

  EXPECT_THAT(project.after("train.py"), HasSubstr("total += part.detach()"));
}

TEST(Shapes, PartsOfABatchThatAreCopiedBehindTheirNames) {
  FixProject project({{"train.py", plain_loop("'cuda'", R"x(        image, more = x["image"], y
        mask = more[0]
        image = image.to(device)
        mask = mask.to(device)
        loss = net(image * mask).mean()
        loss.backward())x",
                                              "DataLoader(Data(), batch_size=8, num_workers=2)")}});

  const std::string after = project.after("train.py");

  EXPECT_THAT(after, HasSubstr("image = image.to(device, non_blocking=True)"));
  EXPECT_THAT(after, HasSubstr("mask = mask.to(device, non_blocking=True)"));
}

TEST(Shapes, AReadBehindALoopThatIsLeftEarlyNowAndThen) {
  FixProject project({{"train.py", plain_loop("'cuda'", R"x(        if i % 100 == 0:
            for part in x:
                if part is None:
                    break
        loss = net(x.to(device)).mean()
        loss.backward()
        total += loss.item())x")}});

  EXPECT_THAT(project.findings(), Contains(StartsWith("S301")));
}

TEST(Shapes, APassOfSeveralBatchesInAFunctionOfItsOwn) {
  FixProject project;
  project.file("train.py", R"x(import torch

class Trainer:
    def train_step(self, batch):
        total = 0.0
        for part in range(4):
            loss = self.model(batch[part].cuda()).mean()
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        return total

    def run(self):
        batches = iter(self.loader)
        while True:
            self.train_step(next(batches))

if __name__ == "__main__":
    Trainer().run()
)x");

  EXPECT_THAT(project.findings(), Contains("S301 train.py:9"));
}

TEST(Shapes, ATextThatIsMadeOfTheLoss) {
  FixProject project({{"train.py", plain_loop("'cuda'", R"x(        loss = net(x.to(device)).mean()
        loss.backward()
        words = "{:.3f}".format(loss))x")}});
  FixProject of_a_number(
      {{"train.py", plain_loop("'cuda'", R"x(        loss = net(x.to(device)).mean()
        loss.backward()
        words = "{:.3f}".format(i))x")}});

  EXPECT_THAT(project.findings(), Contains(StartsWith("S301")));
  EXPECT_THAT(of_a_number.findings(), Each(Not(StartsWith("S301"))));
}

TEST(Shapes, WaitsForAllThatIsQueuedButInABenchmark) {
  const std::string text = plain_loop("'cuda'", R"x(        loss = net(x.to(device)).mean()
        loss.backward()
        torch.cuda.synchronize())x");
  FixProject project({{"train.py", text}});
  FixProject benchmark({{"benchmark.py", text}});

  EXPECT_THAT(project.findings(), Contains(StartsWith("S301")));
  EXPECT_THAT(benchmark.findings(), Each(Not(StartsWith("S301"))));
}

TEST(Shapes, WorkersThatAreLeftOutForAReasonStay) {
  FixProject project(
      {{"train.py", plain_loop("'cuda'", kPass,
                               "DataLoader(Data(), batch_size=8, num_workers=0)  # Windows")}});

  EXPECT_THAT(project.after("train.py"), HasSubstr("num_workers=0, pin_memory=True)  # Windows"));
}

TEST(Shapes, AFunctionThatTrainsAndIsCalledAtTheTop) {
  FixProject project;
  project.file("train.py", R"x(import torch
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def run_epoch(loader):
    total = 0.0
    for x in loader:
        loss = net(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
run_epoch(make())
)x");

  EXPECT_THAT(project.findings(), Contains("S301 train.py:10"));
}

std::string ddp_loop(const std::string& wrap, const std::string& pass, const std::string& save) {
  return fmt::format(R"x(import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    net = Net().cuda()
    {}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        {}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        {}

if __name__ == "__main__":
    main()
)x",
                     wrap, pass, save);
}

TEST(Shapes, AMethodOfTheBareModuleThatMakesTheLoss) {
  FixProject trains(
      {{"train.py", ddp_loop("net = DDP(net)", "loss = net.module.get_loss(x)", "pass")}});
  FixProject updates(
      {{"train.py",
        ddp_loop("net = DDP(net)", "loss = net(x).mean()\n        net.module.update(x)", "pass")}});

  EXPECT_THAT(trains.findings(), Contains("X716 train.py:14"));
  EXPECT_EQ(trains.safety(FindingCode::unwrapped_module_called), FixSafety::manual);
  EXPECT_THAT(updates.findings(), Each(Not(StartsWith("X716"))));
}

TEST(Shapes, NamesOfACompiledModelAreLeftAlone) {
  FixProject plain({{"train.py", ddp_loop("net = DDP(net)", "loss = net(x).mean()",
                                          "torch.save(net.state_dict(), 'x.pt')")}});
  FixProject compiled(
      {{"train.py", ddp_loop("net = torch.compile(DDP(net))", "loss = net(x).mean()",
                             "torch.save(net.state_dict(), 'x.pt')")}});

  EXPECT_EQ(plain.safety(FindingCode::checkpoint_not_portable), FixSafety::unsafe);
  EXPECT_THAT(compiled.findings(), Each(Not(StartsWith("X711"))));
}

TEST(Shapes, NamesThatAnotherScriptLoadsAreShownOnly) {
  FixProject project({{"train.py", ddp_loop("net = DDP(net)", "loss = net(x).mean()",
                                            "torch.save(net.state_dict(), 'x.pt')")},
                      {"infer.py", "net = DDP(Net())\nnet.load_state_dict(torch.load('x.pt'))\n"}});

  EXPECT_EQ(project.safety(FindingCode::checkpoint_not_portable), FixSafety::manual);
}

TEST(Shapes, AnEpochThatAnotherScriptTells) {
  const std::string data = R"x(from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

def loaders(data):
    sampler = DistributedSampler(data)
    return DataLoader(data, sampler=sampler, num_workers=2)
)x";
  const std::string train = R"x(import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from data import loaders

def main():
    net = DDP(Net().cuda())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = loaders(open("x"))
    for epoch in range(9):
        for x in loader:
            loss = net(x).mean()
            loss.backward()
            optimizer.step()

if __name__ == "__main__":
    main()
)x";
  const std::string teller =
      "from data import loaders\nloader = loaders(1)\nfor epoch in range(3):\n"
      "    loader.sampler.set_epoch(epoch)\n";
  FixProject alone({{"train.py", train}, {"data.py", data}});
  FixProject told({{"train.py", train}, {"data.py", data}, {"other.py", teller}});

  EXPECT_THAT(alone.findings(), Contains(StartsWith("D205")));
  EXPECT_THAT(told.findings(), Each(Not(StartsWith("D205"))));
}

TEST(Shapes, ABatchSizeThatTheLoopUsesItself) {
  const std::string text = R"x(import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10

SIZE = 64
def main():
    net = nn.DataParallel(nn.Linear(4, 4)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = CIFAR10("data")
    loader = DataLoader(data, batch_size=SIZE, shuffle=True, num_workers=2)
    for epoch in range(3):
        for x, y in loader:
            x = x.cuda()
            loss = net(x).mean(){}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

if __name__ == "__main__":
    main()
)x";
  FixProject plain({{"train.py", fmt::format(fmt::runtime(text), "")}});
  FixProject used({{"train.py", fmt::format(fmt::runtime(text),
                                            " + torch.randint(0, 9, (SIZE,)).float().mean()")}});
  plain.wish({.gpus = 2});
  used.wish({.gpus = 2});

  EXPECT_EQ(plain.safety(FindingCode::one_gpu_leads), FixSafety::unsafe);
  EXPECT_EQ(used.safety(FindingCode::one_gpu_leads), FixSafety::manual);
}

// Reads under what a run, or a rank, meets always; and what asks the GPU without saying so.
TEST(Shapes, AReadUnderAFlagOrForRankZeroIsMadeInEveryStep) {
  const auto found = [](const std::string& line) {
    return FixProject({{"train.py", plain_loop("'cuda'",
                                               "        loss = net(x.to(device)).mean()\n"
                                               "        loss.backward()\n" +
                                                   line)},
                       {"config.py", ""}})
        .findings();
  };

  EXPECT_THAT(found("        if rank == 0:\n            wandb.log({'loss': loss.item()})"),
              Contains(StartsWith("S302 train.py")));
  EXPECT_THAT(found("        if use_wandb:\n            history.append(loss.item())"),
              Contains(StartsWith("S301 train.py")));
  EXPECT_THAT(found("        for name, value in losses.items():\n"
                    "            sums[name] += value.item()"),
              Contains(StartsWith("S301 train.py")));
  EXPECT_THAT(found("        if torch.isnan(loss):\n            break"),
              Contains(StartsWith("S301 train.py")));
  EXPECT_THAT(found("        if should_log:\n            history.append(loss.item())"),
              Each(Not(StartsWith("S301"))))
      << "who knows how often";
  EXPECT_THAT(
      found("        if accelerator.sync_gradients:\n            history.append(loss.item())"),
      Each(Not(StartsWith("S301"))));
  EXPECT_THAT(found("        score = metric(loss.cpu())\n        scores.append(score.item())"),
              ::testing::Contains(StartsWith("S301")).Times(1))
      << "the copy waits, and what is computed from it does not";
  EXPECT_THAT(found("        if i % 50 == 0:\n            history.append(loss.item())"),
              Each(Not(StartsWith("S301"))));
  EXPECT_THAT(found("        count += y.item()"), Each(Not(StartsWith("S301"))))
      << "the loader's own batch lies on the host";
}

TEST(Shapes, ALoopInAnotherFileThanTheScript) {
  const FixProject project(
      {{"main.py",
        "import torch\nfrom loop import train\n\nif __name__ == '__main__':\n"
        "    model = torch.nn.Linear(4, 4).cuda()\n    train(model, loader, opt)\n"},
       {"loop.py",
        "def train(model, loader, optimizer):\n    total = 0.0\n"
        "    for x, y in loader:\n        loss = model(x.cuda()).mean()\n"
        "        loss.backward()\n        optimizer.step()\n"
        "        total += loss.item()\n    return total\n"}});
  const FixProject unused({{std::string("main.py"),
                            "import torch\n\nif __name__ == '__main__':\n"
                            "    print('train')\n"}});

  EXPECT_THAT(project.findings(), Contains(StartsWith("S301 loop.py")));
  EXPECT_THAT(unused.findings(), ::testing::IsEmpty());
}

TEST(Shapes, ALoaderWithinAProgressBarAndOneThatIsNamedForTraining) {
  const auto script = [](const std::string& loop) {
    return FixProject({{"train.py",
                        "import torch\nfrom torch.utils.data import DataLoader\n"
                        "from data import Faces\n\ndef main():\n"
                        "    net = torch.nn.Linear(4, 4).cuda()\n"
                        "    OPTIMIZER = torch.optim.SGD(net.parameters(), lr=0.1)\n"
                        "    train_loader = DataLoader(Faces(), batch_size=8)\n" +
                            loop +
                            "            loss = net(x.cuda()).mean()\n"
                            "            loss.backward()\n"
                            "            OPTIMIZER.step()\n\n"
                            "if __name__ == '__main__':\n    main()\n"},
                       {"data.py",
                        "class Faces:\n    def __getitem__(self, i):\n"
                        "        return open(str(i)).read()\n"}})
        .findings();
  };

  EXPECT_THAT(script("    with tqdm(train_loader) as bar:\n        for x, y in bar:\n"),
              Contains(StartsWith("D203 train.py")));
  EXPECT_THAT(script("    if True:\n        for x, y in Prefetch(train_loader):\n"),
              Contains(StartsWith("D202 train.py")));
}

TEST(Shapes, RankZeroAloneLeavesTheLoop) {
  const auto ddp = [](const std::string& condition) {
    return FixProject({{"train.py",
                        "import os\nimport torch\nimport torch.distributed as dist\n"
                        "from torch.nn.parallel import DistributedDataParallel as DDP\n\n"
                        "def main():\n    dist.init_process_group('nccl')\n"
                        "    rank = dist.get_rank()\n    torch.cuda.set_device(rank)\n"
                        "    net = DDP(torch.nn.Linear(4, 4).cuda())\n"
                        "    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
                        "    for epoch in range(9):\n        for x in loader:\n"
                        "            loss = net(x).mean()\n            loss.backward()\n"
                        "            optimizer.step()\n        if " +
                            condition + ":\n            break\n\nmain()\n"}})
        .findings();
  };

  EXPECT_THAT(ddp("rank == 0 and stopper.is_over()"), Contains(StartsWith("C407 train.py:18")));
  EXPECT_THAT(ddp("stopper.is_over()"), Each(Not(StartsWith("C407"))));
}

}  // namespace
}  // namespace lockstep
