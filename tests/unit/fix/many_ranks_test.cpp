// What keeps a script that runs as one process from running as several, and settings that only look
// costly. Each was seen in public code.
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using testing::trainer_script;

const std::string kLine = "CUDA_VISIBLE_DEVICES=0,1 python train.py\n";

class WouldGoWrongWithManyRanks : public ::testing::TestWithParam<std::string> {};
TEST_P(WouldGoWrongWithManyRanks, SoTheLaunchLineIsShownAndNotChanged) {
  FixProject project;
  project.file("train.py", GetParam()).file("run.sh", kLine);

  EXPECT_EQ(project.after("run.sh"), kLine);
  EXPECT_TRUE(project.finds("X701 run.sh"));
  EXPECT_EQ(project.safety(FindingCode::world_size_not_set), FixSafety::manual);
}
INSTANTIATE_TEST_SUITE_P(
    Scripts, WouldGoWrongWithManyRanks,
    ::testing::Values(
        trainer_script("**kw", "")
            .insert(0, "kw = {\"device_map\": \"auto\"} if torch.cuda.is_available() else {}\n"),
        trainer_script("**kw", "").insert(0, "kw = {}\nkw[\"device_map\"] = \"auto\"\n"),
        trainer_script("", "",
                       "class Own(Trainer):\n    def compute_loss(self, model, inputs):\n        "
                       "return self.model(**inputs).loss\n"),
        trainer_script("", "",
                       "class Own(Trainer):\n    def evaluate(self):\n        if "
                       "self.args.should_save:\n            metrics = self.score()\n"),
        trainer_script("", "", "device = \"cuda:0\" if torch.cuda.is_available() else \"cpu\"\n"),
        trainer_script("device_map={\"\": local_rank} if quantised else \"auto\"", ""),
        trainer_script("", "", "model.to(\"cuda\")\n"),
        trainer_script("", "", "plugin = FullyShardedDataParallelPlugin()\n"),
        trainer_script("", "", "data = load_dataset(\"c4\", streaming=True)\n"),
        trainer_script("", "",
                       "json.dump(rows, open(\"cache.json\", \"w\"))\ndata = "
                       "load_dataset(\"json\", data_files=\"cache.json\")\n")));

class IsNoTroubleForManyRanks : public ::testing::TestWithParam<std::string> {};
TEST_P(IsNoTroubleForManyRanks, SoTheLaunchLineBecomesTorchrun) {
  FixProject project;
  project.file("train.py", GetParam()).file("run.sh", kLine);

  EXPECT_NE(project.after("run.sh").find("torchrun"), std::string::npos) << project.after("run.sh");
}
INSTANTIATE_TEST_SUITE_P(
    Scripts, IsNoTroubleForManyRanks,
    ::testing::Values(
        trainer_script("**kw", "").insert(0, "kw = {\"torch_dtype\": \"auto\"}\n"),
        trainer_script("", "",
                       "class Own(Trainer):\n    def compute_loss(self, model, inputs):\n        "
                       "return model(**inputs).loss\n"),
        trainer_script(
            "", "",
            "class Own(Trainer):\n    def score(self):\n        return self.model.config\n"),
        trainer_script("", "", "device = \"cuda\"\n"),
        trainer_script("", "", "json.dump(rows, open(\"rows.json\", \"w\"))\n")));

TEST(ManyRanks, OfAnAlpacaStyleScriptNeedABatchThatTheyDivide) {
  const std::string script =
      "import os\nfrom transformers import AutoModel, Trainer, TrainingArguments\n\ndef "
      "train(batch_size: int = 128, micro_batch_size: int = 4):\n    gradient_accumulation_steps = "
      "batch_size // micro_batch_size\n"
      "    device_map = \"auto\"\n    world_size = int(os.environ.get(\"WORLD_SIZE\", 1))\n    ddp "
      "= world_size != 1\n    if ddp:\n        device_map = {\"\": "
      "int(os.environ.get(\"LOCAL_RANK\") or 0)}\n"
      "        gradient_accumulation_steps = gradient_accumulation_steps // world_size\n    model "
      "= AutoModel.from_pretrained(\"m\", device_map=device_map)\n"
      "    trainer = Trainer(model=model, "
      "args=TrainingArguments(gradient_accumulation_steps=gradient_accumulation_steps))\n    "
      "trainer.train()\n\nif __name__ == \"__main__\":\n    train()\n";
  const auto after = [&](const std::string& line) {
    FixProject project;
    project.file("train.py", script).file("run.sh", line);
    return project.after("run.sh");
  };

  EXPECT_NE(after("CUDA_VISIBLE_DEVICES=0,1 python train.py\n").find("torchrun"), std::string::npos)
      << "128 / 4 / 2";
  const std::string one =
      "CUDA_VISIBLE_DEVICES=0,1 python train.py --batch_size '8' --micro_batch_size '8'\n";
  EXPECT_EQ(after(one), one) << "1 // 2 is 0";
}

TEST(ManyRanks, OfDeepSpeedFallBackToNothing) {
  FixProject project;
  project.file("train.py", trainer_script("", "deepspeed=\"ds.json\"")).file("run.sh", kLine);

  const FixPlan plan = project.plan();

  EXPECT_NE(project.after("run.sh").find("torchrun"), std::string::npos);
  for (const CodeFinding& finding : plan.findings)
    EXPECT_EQ(finding.reason.find("nn.DataParallel"), std::string::npos) << finding.reason;
}

TEST(ManyRanks, AreNotWantedWhereTheNeighbouringScriptTakesOneGpuOfASharedMachine) {
  FixProject project;
  project.file("train.py", trainer_script("", ""))
      .file("run.sh", "python train.py\n")
      .file("other.sh", "export CUDA_VISIBLE_DEVICES=7\npython test.py\n");
  FixProject alone;
  alone.file("train.py", trainer_script("", ""))
      .file("run.sh", "python train.py\n")
      .file("other.sh", "python test.py\n");

  EXPECT_EQ(project.after("run.sh"), "python train.py\n");
  EXPECT_NE(alone.after("run.sh").find("torchrun"), std::string::npos);
}

TEST(ManyRanks, AreNotWantedWhereAContainerHasOneGpuUnderAnyName) {
  const auto after = [](const std::string& limit) {
    FixProject project;
    project.file("train.py", trainer_script("", ""))
        .file("pod.yaml",
              "spec:\n  containers:\n    - command: [\"python\", \"train.py\"]\n      resources:\n "
              "       limits:\n          " +
                  limit + "\n");
    return project.after("pod.yaml").find("torchrun") != std::string::npos;
  };

  EXPECT_FALSE(after("nvidia.com/a100: \"1\""));
  EXPECT_TRUE(after("nvidia.com/a100: \"2\""));
}

TEST(UnknownArguments, KnowTheVersionThatADockerfileInstalls) {
  const auto after = [](const std::string& name, const std::string& text) {
    FixProject project;
    project.file("src/train.py", trainer_script("", "evaluation_strategy=\"steps\""))
        .file(name, text);
    return project.after("src/train.py").find("eval_strategy=") != std::string::npos;
  };

  EXPECT_FALSE(after("docker/requirements.txt", "transformers==4.33.2\n"))
      << "there the old name is right";
  EXPECT_FALSE(
      after("Dockerfile", "FROM x\nRUN pip install torch transformers==4.33.2 datasets\n"));
  EXPECT_TRUE(after("docker/requirements.txt", "transformers==4.48.0\n"));
}

TEST(UnknownArguments, BesideATrainerOfOldAreShownOnly) {
  FixProject project;
  project.file("train.py",
               "from transformers import Trainer, TrainingArguments\nargs = "
               "TrainingArguments(evaluation_strategy=\"epoch\", output_dir=\"o\")\ntrainer = "
               "Trainer(model=m, args=args, tokenizer=t)\ntrainer.train()\n");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::manual)
      << "Transformers 5 knows no tokenizer= either";
}

TEST(LoggingArguments, OfMethodsThatGenerateAndOfWatchdogsStay) {
  FixProject generating;
  generating.file(
      "train.py",
      "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(output_dir=\"o\", "
      "logging_steps=1)\ntrainer = GRPOTrainer(model=\"m\", args=args)\ntrainer.train()\n");
  FixProject watched;
  watched.file(
      "a.yml",
      "base_model: m\nmicro_batch_size: 1\nlogging_steps: 1\nloss_watchdog_threshold: 5.0\n");
  FixProject plain;
  plain.file("a.yml", "base_model: m\nmicro_batch_size: 1\nlogging_steps: 1\n");

  EXPECT_FALSE(generating.finds("S302 train.py"));
  EXPECT_FALSE(generating.finds("S301 train.py"));
  EXPECT_FALSE(watched.finds("S302 a.yml"));
  EXPECT_TRUE(plain.finds("S302 a.yml"));
}

TEST(LoaderArguments, StayOnAppleGpusInShortRunsAndForPrediction) {
  FixProject apple;
  apple.file("train.py",
             "from transformers import Trainer, TrainingArguments\ndevice = \"mps\" if ok else "
             "\"cpu\"\ntrainer = Trainer(model=m, args=TrainingArguments(output_dir=\"o\", "
             "dataloader_num_workers=0, dataloader_pin_memory=False))\ntrainer.train()\n");
  const std::string head = "from transformers import Trainer, TrainingArguments\n";
  const auto trains = [&](const std::string& more) {
    return head + "trainer = Trainer(model=m, args=TrainingArguments(output_dir=\"o\"" + more +
           "), train_dataset=d)\ntrainer.train()\n";
  };
  FixProject brief;
  brief.file("train.py", trains(", max_steps=60"));
  FixProject predicting;
  predicting.file("train.py",
                  trains(", dataloader_num_workers=4") +
                      "tester = Trainer(model=m, args=TrainingArguments(output_dir=\"p\"), "
                      "train_dataset=None)\ntester.predict(x)\n");
  FixProject training;
  training.file("train.py", trains(""));

  EXPECT_FALSE(apple.finds("D202 train.py"));
  EXPECT_FALSE(apple.finds("D203 train.py"));
  EXPECT_FALSE(brief.finds("D202 train.py"));
  EXPECT_FALSE(predicting.finds("D202 train.py"));
  EXPECT_TRUE(training.finds("D202 train.py"));
}

TEST(ManyRanks, DoNotRemoveFilesThatAnotherIsAboutToRead) {
  FixProject project;
  project
      .file("train.py", trainer_script("device_map=\"auto\"", "",
                                       "import os\nos.remove(\"predictions.csv\")\n"))
      .file("run.sh", kLine);
  FixProject guarded;
  guarded
      .file("train.py",
            trainer_script("device_map=\"auto\"", "",
                           "import os\nif local_rank == 0:\n    os.remove(\"predictions.csv\")\n"))
      .file("run.sh", kLine);

  EXPECT_EQ(project.after("run.sh"), kLine);
  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
  EXPECT_NE(guarded.after("run.sh").find("torchrun"), std::string::npos);
}

TEST(ManyRanks, AreNotStartedForASubCommandThatOnlyPreparesData) {
  const std::string script = trainer_script("", "", "if job == \"split\":\n    split()\n");
  const auto after = [&](const std::string& line) {
    FixProject project;
    project.file("train.py", script).file("run.sh", line);
    return project.after("run.sh");
  };

  EXPECT_EQ(after("python train.py split --raw data\n"), "python train.py split --raw data\n");
  EXPECT_NE(after("python train.py train --raw data\n").find("torchrun"), std::string::npos);
  EXPECT_NE(after("python train.py bert --raw data\n").find("torchrun"), std::string::npos)
      << "a model's name";
}

TEST(ManyRanks, FindTheirScriptBehindAVariable) {
  FixProject project;
  project.file("src/train_dpo.py", trainer_script("device_map=\"auto\"", ""))
      .file("job.sbatch",
            "#!/bin/bash\n#SBATCH --gpus=1\nHERE=${PWD}\npython -u ${HERE}/train_dpo.py\n");

  EXPECT_FALSE(project.finds("P101 src/train_dpo.py")) << "its only line has one GPU";
}

TEST(LegacyLauncher, LeavesNoneToScriptsThatAskForIt) {
  FixProject project;
  project
      .file("train.py",
            "import argparse\nimport os\nimport torch\np = "
            "argparse.ArgumentParser()\np.add_argument('--local_rank', default=None, "
            "type=int)\nargs = p.parse_args()\n")
      .file("run.sh", "python -m torch.distributed.launch --nproc_per_node=2 train.py\n");

  EXPECT_NE(
      project.after("train.py")
          .find(
              "default=int(os.environ[\"LOCAL_RANK\"]) if \"LOCAL_RANK\" in os.environ else None"),
      std::string::npos)
      << project.after("train.py");
}

TEST(DeviceMap, StaysOnAGpuForAModelThatIsCalledBeforeItTrains) {
  FixProject project;
  project.file("train.py", trainer_script("device_map=\"auto\"", "", "out = model(sample)\n"))
      .file("run.sh", "torchrun --nproc_per_node=2 train.py\n");

  EXPECT_NE(project.after("train.py").find("LOCAL_RANK"), std::string::npos)
      << project.after("train.py");
}

TEST(DeviceMap, OfAnAccelerateLoopThatSavesTheWrapperIsShownOnly) {
  const auto safety = [](const std::string& save) {
    FixProject project;
    project
        .file("train.py",
              "from accelerate import Accelerator\nfrom transformers import "
              "AutoModelForCausalLM\naccelerator = Accelerator()\nmodel = "
              "AutoModelForCausalLM.from_pretrained(\"m\", device_map=\"auto\")\n"
              "model, optimizer = accelerator.prepare(model, optimizer)\nfor batch in loader:\n "
              "   accelerator.backward(model(**batch).loss)\n" +
                  save)
        .file("run.sh", "torchrun --nproc_per_node=2 train.py\n");
    return project.safety(FindingCode::taking_turns);
  };

  EXPECT_EQ(safety("model.save_pretrained(\"out\")\n"), FixSafety::manual);
  EXPECT_EQ(safety("accelerator.unwrap_model(model).save_pretrained(\"out\")\n"),
            FixSafety::unsafe);
}

TEST(TrainingSettings, ThatDoNotTrainOrAreReplacedStay) {
  FixProject evaluates;
  evaluates.file(
      "eval.yaml",
      "stage: sft\nfinetuning_type: lora\ndo_train: false\nlogging_steps: 1\noutput_dir: o\n");
  FixProject trains;
  trains.file(
      "eval.yaml",
      "stage: sft\nfinetuning_type: lora\ndo_train: true\nlogging_steps: 1\noutput_dir: o\n");
  FixProject replaced;
  replaced.file(
      "train.py",
      "from transformers import Trainer, TrainingArguments\nargs = "
      "TrainingArguments(output_dir=\"a\")\nargs = TrainingArguments(output_dir=\"b\", "
      "dataloader_num_workers=2)\ntrainer = Trainer(model=m, args=args)\ntrainer.train()\n");

  EXPECT_FALSE(evaluates.finds("S302 eval.yaml"));
  EXPECT_TRUE(trains.finds("S302 eval.yaml"));
  EXPECT_FALSE(replaced.finds("D202 train.py"));
}

TEST(LoaderArguments, ThatTheirAuthorTriedOrExplainedAreShownOnly) {
  const auto safety = [](const std::string& lines) {
    FixProject project;
    project.file("train.py",
                 "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments(\n "
                 "   output_dir=\"a\",\n" +
                     lines + ")\ntrainer = Trainer(model=m, args=args)\ntrainer.train()\n");
    return project.safety(FindingCode::loader_without_workers);
  };

  EXPECT_EQ(safety("    # dataloader_num_workers=16,\n"), FixSafety::manual);
  EXPECT_EQ(safety("    # safer under DDP\n    dataloader_num_workers=0,\n"), FixSafety::manual);
  EXPECT_EQ(safety("    dataloader_num_workers=0,\n"), FixSafety::unsafe);
}

TEST(ManyRanks, DoNotFitADeepSpeedFileThatFixesTheWholeBatch) {
  const auto after = [](const std::string& batch) {
    FixProject project;
    project.file("train.py", trainer_script("", "deepspeed=\"ds.json\""))
        .file("ds.json",
              "{\"train_batch_size\": " + batch + ", \"zero_optimization\": {\"stage\": 2}}\n")
        .file("run.sh", kLine);
    return project.after("run.sh");
  };

  EXPECT_EQ(after("32"), kLine);
  EXPECT_NE(after("\"auto\"").find("torchrun"), std::string::npos);
}

TEST(ManyRanks, AreToldWhatEachOfThemWouldDoAgain) {
  FixProject project;
  project.file("train.py", trainer_script("", "") + "model.push_to_hub(\"me/model\")\n")
      .file("run.sh", kLine);

  const FixPlan plan = project.plan();

  ASSERT_FALSE(plan.findings.empty());
  EXPECT_NE(plan.findings.front().ways.front().changes.find("push_to_hub"), std::string::npos)
      << plan.findings.front().ways.front().changes;
}

TEST(ManyRanks, AreNotStartedByLinesForOneGpuOrBehindAnExit) {
  const auto after = [](const std::string& line) {
    FixProject project;
    project.file("train.py", trainer_script("", "")).file("run.sh", line);
    return project.after("run.sh").find("torchrun") != std::string::npos;
  };

  EXPECT_FALSE(after("NUM_DEVICES=1\nACCUMULATION=$((128/(4*NUM_DEVICES)))\npython train.py\n"));
  EXPECT_FALSE(after("echo done\nexit\npython train.py\n"));
  EXPECT_TRUE(after("NUM_DEVICES=4\npython train.py\n"));
  EXPECT_TRUE(after("if [ -z \"$DATA\" ]; then\n  exit\nfi\npython train.py\n"));
}

}  // namespace
}  // namespace lockstep
