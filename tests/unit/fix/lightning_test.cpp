// PyTorch Lightning: its training step, its loaders, its Trainer, and Hydra's YAML for all of them.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string module_with(const std::string& step,
                        const std::string& loader =
                            "DataLoader(self.data, batch_size=8, "
                            "num_workers=4, pin_memory=True)",
                        const std::string& trainer = "L.Trainer(max_epochs=3)") {
  return fmt::format(R"x(import lightning as L
import torch
from torch.utils.data import DataLoader


class Lit(L.LightningModule):
    def shared(self, batch):
        return self.net(batch).mean()

    def training_step(self, batch, batch_idx):
        loss = self.shared(batch)
{}
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.shared(batch).item(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

    def train_dataloader(self):
        return {}


def main():
    trainer = {}
    trainer.fit(Lit())


if __name__ == "__main__":
    main()
)x",
                     step, loader, trainer);
}

TEST(Lightning, AHealthyModuleIsSilent) {
  const FixProject project({{"train.py", module_with("        self.log('loss', loss)\n"
                                                     "        if batch_idx % 50 == 0:\n"
                                                     "            print(loss.item())")}});
  EXPECT_THAT(project.findings(), IsEmpty());
}

TEST(Lightning, AValueReadInEachStepIsGivenAsATensor) {
  FixProject project({{"train.py", module_with("        self.log('loss', loss.item())")}});

  EXPECT_THAT(project.findings(), ElementsAre(StartsWith("S301 train.py:12")));
  EXPECT_THAT(project.after("train.py"), HasSubstr("self.log('loss', loss)\n"));
  EXPECT_THAT(project.after("train.py"), HasSubstr("self.shared(batch).item(), sync_dist=True"))
      << "validation may wait";
}

TEST(Lightning, AReadInAMethodThatTheStepCallsIsFound) {
  std::string text = module_with("        self.log('loss', loss)");
  text.replace(text.find("return self.net(batch).mean()"), 29,
               "self.seen += batch.sum().item()\n        return self.net(batch).mean()");
  EXPECT_THAT(FixProject({{"train.py", text}}).findings(),
              ElementsAre(StartsWith("S301 train.py:8")));
}

TEST(Lightning, OnTheCpuAReadCostsNothing) {
  const FixProject project({{"train.py", module_with("        self.log('loss', loss.item())",
                                                     "DataLoader(self.data, num_workers=4, "
                                                     "pin_memory=True)",
                                                     "L.Trainer(accelerator=\"cpu\")")}});
  EXPECT_THAT(project.findings(), Each(Not(StartsWith("S301"))));
}

TEST(Lightning, AValueSummedOverTheRanksInEachStepIsFound) {
  const FixProject by_step(
      {{"train.py", module_with("        self.log('loss', loss, sync_dist=True)")}});
  const FixProject by_epoch(
      {{"train.py", module_with("        self.log('loss', loss, on_step=False, "
                                "on_epoch=True, sync_dist=True)")}});

  EXPECT_THAT(by_step.findings(), ElementsAre(StartsWith("C409 train.py:12")));
  EXPECT_THAT(by_epoch.findings(), IsEmpty());
}

TEST(Lightning, AMetricThatAddsItselfUpIsNotSummedInEachStep) {
  const FixProject project(
      {{"train.py", module_with("        self.log('acc', self.accuracy, sync_dist=True)")}});
  EXPECT_THAT(project.findings(), IsEmpty());
}

TEST(Lightning, AModuleThatNobodyTrainsIsSilent) {
  std::string text = module_with("        self.log('loss', loss.item())");
  text = text.substr(0, text.find("def main()"));
  EXPECT_THAT(FixProject({{"model.py", text}, {"more.py", "x = 1\n"}}).findings(), IsEmpty());
}

TEST(Lightning, ALinePrintedInEachStepIsFound) {
  const FixProject project({{"train.py", module_with("        print(batch_idx, loss)")}});
  EXPECT_THAT(project.findings(), ElementsAre(StartsWith("S302 train.py:12")));
}

TEST(Lightning, ALoaderWithoutWorkersOrPinnedMemoryIsFound) {
  FixProject bare(
      {{"train.py", module_with("        pass", "DataLoader(self.data, batch_size=8)")}});
  const FixProject from_elsewhere(
      {{"train.py", module_with("        pass",
                                "DataLoader(self.data, num_workers=self.n, "
                                "pin_memory=self.pin)")}});

  EXPECT_THAT(bare.findings(), ElementsAre(StartsWith("D202"), StartsWith("D203")));
  EXPECT_THAT(bare.after("train.py"), HasSubstr("num_workers=4"));
  EXPECT_THAT(from_elsewhere.findings(), IsEmpty());
}

TEST(Lightning, WhatTheTrainerNoLongerTakesIsFoundUnlessAnOldReleaseIsPinned) {
  const std::string text =
      module_with("        pass", "DataLoader(self.data, num_workers=4, pin_memory=True)",
                  "L.Trainer(gpus=2, replace_sampler_ddp=False, weights_summary=None)");
  FixProject unknown({{"train.py", text}});
  const FixProject old({{"train.py", text}, {"requirements.txt", "pytorch-lightning==1.4.2\n"}});
  FixProject newer({{"train.py", text}, {"requirements.txt", "lightning>=2.1\n"}});

  EXPECT_THAT(unknown.findings(),
              ElementsAre(StartsWith("X702"), StartsWith("X702"), StartsWith("X702")));
  EXPECT_THAT(old.findings(), IsEmpty());
  EXPECT_THAT(newer.after("train.py"),
              HasSubstr("devices=2, use_distributed_sampler=False, weights_summary=None"));
  EXPECT_THAT(newer.after("train.py"), HasSubstr("accelerator=\"gpu\")"));
}

TEST(Lightning, SlowWaysOfTheTrainerAreFoundButNotInATrial) {
  const char* const loader = "DataLoader(self.data, num_workers=4, pin_memory=True)";
  const FixProject slow({{"train.py", module_with("        pass", loader,
                                                  "L.Trainer(strategy=\"dp\", log_every_n_steps=1, "
                                                  "detect_anomaly=True)")}});
  const FixProject trial({{"train.py", module_with("        pass", loader,
                                                   "L.Trainer(fast_dev_run=True, "
                                                   "log_every_n_steps=1)")}});

  EXPECT_THAT(slow.findings(),
              ElementsAre(StartsWith("P102"), StartsWith("S302"), StartsWith("X708")));
  EXPECT_THAT(trial.findings(), IsEmpty());
}

TEST(Lightning, ProcessesThatTheTrainerDoesNotCountOnAreFound) {
  const std::string text =
      module_with("        pass", "DataLoader(self.data, num_workers=4, pin_memory=True)",
                  "L.Trainer(accelerator=\"gpu\", devices=1)");
  FixProject torchrun(
      {{"train.py", text}, {"run.sh", "torchrun --standalone --nproc_per_node=4 train.py\n"}});
  FixProject slurm({{"train.py", text},
                    {"job.sh",
                     "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=4\n"
                     "srun python train.py\n"}});
  const FixProject without_srun(
      {{"train.py", text},
       {"job.sh", "#!/bin/bash\n#SBATCH --ntasks-per-node=4\npython train.py\n"}});
  const FixProject idle(
      {{"train.py", text}, {"run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n"}});
  const FixProject right({{"train.py", text}, {"run.sh", "python train.py\n"}});

  EXPECT_THAT(torchrun.findings(), ElementsAre(StartsWith("L805 train.py")));
  EXPECT_THAT(torchrun.after("train.py"), HasSubstr("devices=4"));
  EXPECT_THAT(slurm.findings(), ElementsAre(StartsWith("L805 train.py")));
  EXPECT_THAT(slurm.after("train.py"), HasSubstr("devices=4"));
  EXPECT_THAT(without_srun.findings(), ElementsAre(StartsWith("L806 train.py")));
  EXPECT_THAT(idle.findings(), ElementsAre(StartsWith("P103 train.py")));
  EXPECT_THAT(right.findings(), IsEmpty());
}

TEST(Hydra, ATrainerInYamlIsLookedAtAsACall) {
  FixProject project({{std::string("conf/trainer/gpu.yaml"),
                       "_target_: lightning.pytorch.Trainer\nlog_every_n_steps: 1\nstrategy: "
                       "ddp_find_unused_parameters_true\n"}});
  const FixProject another({{std::string("conf/trainer/gpu.yaml"),
                             "# not Lightning's\n_target_: my.Trainer\nlog_every_n_steps: 1\n"}});

  EXPECT_THAT(project.findings(), ElementsAre(StartsWith("S302 conf/trainer/gpu.yaml:2"),
                                              StartsWith("C404 conf/trainer/gpu.yaml:3")));
  EXPECT_THAT(project.after("conf/trainer/gpu.yaml"), HasSubstr("log_every_n_steps: 10"));
  EXPECT_THAT(another.findings(), IsEmpty());
}

TEST(Hydra, ALoadersSettingsAreFoundWhereTheyAreHandedOn) {
  const char* const settings =
      "data:\n  num_workers: 0\n  pin_memory: false\nval_data:\n"
      "  num_workers: 0\n";
  FixProject by_target({{std::string("conf/data/mnist.yaml"),
                         "_target_: src.MNISTDataModule\nnum_workers: 0\npin_memory: False\n"}});
  FixProject by_name({{std::string("conf/base.yaml"), settings},
                      {"data.py",
                       "from torch.utils.data import DataLoader\n"
                       "def make(cfg, data):\n"
                       "    return DataLoader(data, num_workers=cfg.data.num_workers)\n"}});
  const FixProject of_a_past_run(
      {{std::string("logs/version_0/hparams.yaml"), "_target_: src.DataModule\nnum_workers: 0\n"}});
  const FixProject of_nobody({{std::string("conf/base.yaml"), settings}});
  const FixProject to_debug(
      {{std::string("conf/debug/mnist.yaml"), "_target_: src.MNISTDataModule\nnum_workers: 0\n"}});

  EXPECT_THAT(by_target.findings(), ElementsAre(StartsWith("D202"), StartsWith("D203")));
  EXPECT_THAT(by_target.after("conf/data/mnist.yaml"), HasSubstr("num_workers: 4"));
  EXPECT_THAT(by_name.findings(), ElementsAre(StartsWith("D202 conf/base.yaml:2")));
  EXPECT_THAT(of_nobody.findings(), IsEmpty());
  EXPECT_THAT(of_a_past_run.findings(), IsEmpty());
  EXPECT_THAT(to_debug.findings(), IsEmpty());
}

}  // namespace
}  // namespace lockstep
