// Patches that are written unread: only where the engine proves that no result can change.
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;

struct Script {
  std::string imports;
  std::string item = "torch.randn(10), index";
  std::string dataset = "Pictures(\"data\")";
  std::string loader_arguments = "num_workers=4";
  std::string copy = "x, y = x.to(device), y.to(device)";
};

// How sure the patch about copies of batches is; nothing: there is none.
std::optional<FixSafety> copies_in(const Script& script) {
  return FixProject({{"train.py",
                      "import torch\n"
                      "from torch import nn\n"
                      "from torch.utils.data import DataLoader, Dataset\n"
                      "from torchvision import datasets\n" +
                          script.imports +
                          "class Pictures(Dataset):\n"
                          "    def __init__(self, root, transform=None):\n"
                          "        self.root = root\n"
                          "    def __len__(self):\n"
                          "        return 100\n"
                          "    def __getitem__(self, index):\n"
                          "        return make(" +
                          script.item +
                          ")\n"
                          "def main():\n"
                          "    device = torch.device(\"cuda\")\n"
                          "    loader = DataLoader(" +
                          script.dataset + ", batch_size=8, " + script.loader_arguments +
                          ")\n"
                          "    model = nn.Linear(10, 10).to(device)\n"
                          "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                          "    for x, y in loader:\n"
                          "        " +
                          script.copy +
                          "\n"
                          "        loss = model(x).sum()\n"
                          "        optimizer.zero_grad()\n"
                          "        loss.backward()\n"
                          "        optimizer.step()\n"
                          "if __name__ == \"__main__\":\n"
                          "    main()\n"}})
      .safety(FindingCode::pageable_copies);
}

TEST(SafePatches, PinBatchesThatAreMadeOnTheHost) {
  EXPECT_EQ(copies_in({}), FixSafety::safe);
  EXPECT_EQ(copies_in({.dataset = "datasets.ImageFolder(\"data\")"}), FixSafety::safe);
}

TEST(SafePatches, DoNotPinWhatMayLieOnAGpu) {
  EXPECT_NE(copies_in({.item = "torch.load(\"x.pt\"), index"}), FixSafety::safe)
      << "it may have been saved on one";
  EXPECT_NE(copies_in({.dataset = "Pictures(\"data\", transform=lambda x: x.cuda())"}),
            FixSafety::safe);
  EXPECT_NE(copies_in({.imports = "torch.set_default_device(\"cuda\")\n"}), FixSafety::safe);
}

TEST(SafePatches, DoNotPinWhatIsNotSeenWhole) {
  EXPECT_EQ(copies_in({.imports = "from mine import pack\n",
                       .loader_arguments = "num_workers=4, collate_fn=pack"}),
            FixSafety::unsafe)
      << "pinning makes lists of tuples";
  EXPECT_EQ(copies_in({.imports = "from mine import Others\n", .dataset = "Others(\"data\")"}),
            FixSafety::unsafe);
  EXPECT_EQ(copies_in({.imports = "from mine import Base\nclass More(Base):\n"
                                  "    def __getitem__(self, index):\n        return make(index)\n",
                       .dataset = "More(\"data\")"}),
            FixSafety::unsafe)
      << "who knows what Base does";
}

TEST(SafePatches, DoNotLetTheHostGoOnWhereItLooksAtTheBatchAgain) {
  EXPECT_EQ(copies_in({.copy = "there = x.to(device)"}), FixSafety::unsafe);
  EXPECT_EQ(copies_in({.imports = "side = torch.cuda.Stream()\n"}), FixSafety::unsafe)
      << "another stream would not wait for the copy";
}

TEST(SafePatches, CopyPinnedBatchesWithoutWaiting) {
  EXPECT_EQ(copies_in({.loader_arguments = "num_workers=4, pin_memory=True"}), FixSafety::safe);
  EXPECT_EQ(copies_in({.loader_arguments = "num_workers=4, pin_memory=True",
                       .copy = "there = x.to(device)"}),
            FixSafety::unsafe);
}

}  // namespace
}  // namespace lockstep
