// Models that are split over the GPUs and trained.
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using testing::trainer_script;

constexpr const char* kSeveralRanks = "torchrun --standalone --nproc_per_node=2 train.py\n";

std::string mended(const std::string& script) {
  FixProject project;
  project.file("train.py", script).file("run.sh", kSeveralRanks);
  return project.after("train.py");
}

bool found(const std::string& script) {
  FixProject project;
  project.file("train.py", script);
  return project.finds("P101");
}

TEST(DeviceMap, IsTakenAwayFromAModelThatTrainerPlaces) {
  EXPECT_EQ(mended(trainer_script("device_map=\"auto\"", "")), trainer_script("", ""));
  EXPECT_EQ(mended(trainer_script("device_map='balanced', torch_dtype=x", "")),
            trainer_script("torch_dtype=x", ""));
}

TEST(DeviceMap, IsShownOnlyWhereNothingStartsTheScript) {
  const std::string script = trainer_script("device_map=\"auto\"", "");
  FixProject project;
  project.file("train.py", script);

  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
  EXPECT_EQ(project.after("train.py"), script);
}

TEST(DeviceMap, GoesWithItsLineAndKeepsTheComment) {
  const std::string before =
      "from transformers import AutoModel, Trainer\nmodel = AutoModel.from_pretrained(\n    "
      "name,\n    device_map=\"auto\",  # all GPUs\n    torch_dtype=t,\n)\ntrainer = "
      "Trainer(model=model)\ntrainer.train()\n";

  EXPECT_EQ(mended(before),
            "from transformers import AutoModel, Trainer\nmodel = AutoModel.from_pretrained(\n    "
            "name,\n    # all GPUs\n    torch_dtype=t,\n)\ntrainer = "
            "Trainer(model=model)\ntrainer.train()\n");
}

TEST(DeviceMap, OfAQuantisedModelBecomesTheRanksOwnGpu) {
  const std::string result = mended(trainer_script("load_in_4bit=True, device_map=\"auto\"", ""));

  EXPECT_NE(
      result.find("load_in_4bit=True, device_map={\"\": int(os.environ.get(\"LOCAL_RANK\", 0))}"),
      std::string::npos)
      << result;
  EXPECT_TRUE(result.starts_with(
      "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\nimport os\n"))
      << result;
}

TEST(DeviceMap, UsesTheQuotesOfTheWordItReplaces) {
  EXPECT_NE(mended("import os\n" + trainer_script("load_in_8bit=True, device_map='auto'", ""))
                .find("device_map={'': int(os.environ.get('LOCAL_RANK', 0))}"),
            std::string::npos);
}

TEST(DeviceMap, IsShownOnlyWhereItsNewWordsWouldHaveNoValueYet) {
  const std::string later =
      trainer_script("load_in_8bit=True, device_map='auto'", "", "import os\n");
  FixProject project;
  project.file("train.py", later).file("run.sh", kSeveralRanks);

  EXPECT_EQ(project.after("train.py"), later) << "os is imported behind the load";
}

TEST(DeviceMap, StaysOnAGpuWhereTheModelIsUsedBeforeItTrains) {
  EXPECT_NE(mended(trainer_script("device_map=\"auto\"", "", "print(model.generate(x))\n"))
                .find("device_map={\"\": int("),
            std::string::npos);
}

TEST(DeviceMap, TakesTheMemoryLimitsOfTheSplitWithIt) {
  EXPECT_EQ(
      mended(trainer_script("device_map=\"auto\", max_memory={0: \"20GiB\", 1: \"20GiB\"}", "")),
      trainer_script("", ""));
}

TEST(DeviceMap, IsFoundThroughAVariable) {
  const std::string result =
      mended(trainer_script("device_map=where", "", "").insert(0, "where = \"auto\"\n"));

  EXPECT_TRUE(result.starts_with("where = None\n")) << result;
}

TEST(DeviceMap, IsFoundThroughAFunctionThatLoads) {
  EXPECT_TRUE(
      found("from transformers import AutoModel, Trainer\ndef load(name):\n    base = "
            "AutoModel.from_pretrained(name, device_map=\"auto\")\n    return base\n\ndef "
            "main():\n    m = load(\"x\")\n    trainer = Trainer(m)\n    trainer.train()\n\nif "
            "__name__ == \"__main__\":\n    main()\n"));
}

TEST(DeviceMap, IsFoundThroughKeywordArguments) {
  EXPECT_NE(mended(trainer_script("**kwargs", "").insert(0, "kwargs = dict(device_map=\"auto\")\n"))
                .find("kwargs = dict(device_map=None)"),
            std::string::npos);
}

TEST(DeviceMap, FlagsThatSayTheModelIsSplitGoToo) {
  const std::string result =
      mended(trainer_script("device_map=\"auto\"", "",
                            "if torch.cuda.device_count() > 1:\n    model.is_parallelizable = "
                            "True\n    model.model_parallel = True\n"));

  EXPECT_EQ(result, trainer_script("", ""));
}

TEST(DeviceMap, AndItsLaunchLineAreOneGroup) {
  FixProject project;
  project.file("train.py", trainer_script("device_map=\"auto\"", ""))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  const FixPlan plan = project.plan();

  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups.front().findings.size(), 2U);
  EXPECT_EQ(plan.groups.front().edits.size(), 2U);
}

TEST(DeviceMap, OfferedWaysComeInTheOrderOfTheirCost) {
  FixProject project;
  project.file("train.py", trainer_script("device_map=\"auto\"", ""));

  const auto ways = project.plan().findings.front().ways;

  ASSERT_EQ(ways.size(), 5U);
  EXPECT_EQ(ways[0].safety, FixSafety::manual) << "no line here starts it";
  EXPECT_EQ(ways[1].command.front(), "torchrun");
  EXPECT_NE(ways[2].description.find("one GPU"), std::string::npos);
  EXPECT_NE(ways[3].description.find("FSDP"), std::string::npos);
  EXPECT_NE(ways[4].description.find("one key a layer"), std::string::npos);
}

TEST(DeviceMap, OfAModelThatFitsNoGpuIsShownWithFsdpFirst) {
  FixProject project;
  project.file("train.py",
               "from transformers import AutoModel, Trainer\nmodel = "
               "AutoModel.from_pretrained(\"meta-llama/Llama-2-13b-hf\", "
               "device_map=\"auto\")\ntrainer = Trainer(model)\ntrainer.train()\n");

  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
  EXPECT_NE(project.plan().findings.front().ways.front().description.find("FSDP"),
            std::string::npos);
}

TEST(DeviceMap, OfALargeModelWithAdaptersFitsAndIsOffered) {
  FixProject project;
  project
      .file(
          "train.py",
          "from transformers import AutoModel, Trainer\nfrom peft import get_peft_model\nmodel = "
          "AutoModel.from_pretrained(\"meta-llama/Llama-2-13b-hf\", device_map=\"auto\")\nmodel = "
          "get_peft_model(model, c)\ntrainer = Trainer(model)\ntrainer.train()\n")
      .file("run.sh", kSeveralRanks);

  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::unsafe);
}

TEST(DeviceMap, SaysWhatEachEraOfTransformersDoesWithIt) {
  const auto reason = [](const std::string& version) {
    FixProject project;
    project.file("train.py", trainer_script("device_map=\"auto\"", "")).transformers(version);
    return project.plan().findings.front().reason;
  };

  EXPECT_NE(reason("4.44.2").find("You can't train"), std::string::npos);
  EXPECT_NE(reason("4.52.0").find("tensor parallelism"), std::string::npos);
  EXPECT_NE(reason("4.57.0").find("prints a line"), std::string::npos);
}

// One user's four tries (sentence-transformers#3207), each of which failed in its own way.
class FourTries : public ::testing::Test {
 protected:
  static std::string script(const std::string& kwargs) {
    return "from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, "
           "SentenceTransformerTrainingArguments\nmodel = SentenceTransformer(\"x\"" +
           kwargs +
           ")\nargs = SentenceTransformerTrainingArguments(output_dir=\"o\", bf16=True, "
           "dataloader_num_workers=2)\ntrainer = SentenceTransformerTrainer(model=model, "
           "args=args)\ntrainer.train()\n";
  }
  static constexpr const char* kAuto = ", model_kwargs={\"device_map\": \"auto\"}";
};
TEST_F(FourTries, TorchrunWithAMapEndsWithAnErrorThatTheMapIsTakenOutFor) {
  FixProject project;
  project.file("train.py", script(kAuto))
      .file("run.sh", "torchrun --nproc_per_node=2 train.py\n")
      .transformers("4.48.0");

  EXPECT_NE(project.plan().findings.front().reason.find("You can't train"), std::string::npos);
  EXPECT_EQ(project.after("train.py"), script(", model_kwargs={\"device_map\": None}"));
  EXPECT_EQ(project.after("run.sh"), "torchrun --nproc_per_node=2 train.py\n");
}
TEST_F(FourTries, PythonWithAMapTakesTurnsAndBothChange) {
  FixProject project;
  project.file("train.py", script(kAuto))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_EQ(project.after("train.py"), script(", model_kwargs={\"device_map\": None}"));
  EXPECT_EQ(project.after("run.sh"),
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=2 train.py\n");
}
TEST_F(FourTries, PythonWithoutAMapGetsTheLaunchLine) {
  FixProject project;
  project.file("train.py", script("")).file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_EQ(project.after("train.py"), script(""));
  EXPECT_NE(project.after("run.sh").find("torchrun"), std::string::npos);
}
TEST_F(FourTries, TorchrunWithoutAMapIsRightAndLeftAlone) {
  FixProject project;
  project.file("train.py", script("")).file("run.sh", "torchrun --nproc_per_node=2 train.py\n");

  EXPECT_FALSE(project.finds("P101"));
  EXPECT_FALSE(project.finds("X701"));
}

struct Untouched {
  const char* why;
  std::string script;
};
void PrintTo(const Untouched& untouched, std::ostream* out) { *out << untouched.why; }
class DeviceMapStays : public ::testing::TestWithParam<Untouched> {};
TEST_P(DeviceMapStays, ByteForByte) {
  EXPECT_FALSE(found(GetParam().script)) << GetParam().why;
  FixProject project;
  project.file("train.py", GetParam().script);
  EXPECT_EQ(project.after("train.py"), GetParam().script) << GetParam().why;
}
INSTANTIATE_TEST_SUITE_P(
    MustNotTouch, DeviceMapStays,
    ::testing::Values(
        Untouched{"inference",
                  "from transformers import AutoModel\nmodel = AutoModel.from_pretrained(\"x\", "
                  "device_map=\"auto\")\nprint(model.generate(x))\n"},
        Untouched{
            "the reference model is not trained",
            "from transformers import AutoModel, Trainer\nteacher = "
            "AutoModel.from_pretrained(\"x\", device_map=\"auto\")\nmodel = "
            "AutoModel.from_pretrained(\"y\")\ntrainer = Trainer(model=model)\ntrainer.train()\n"},
        Untouched{"another function's model of the same name",
                  "from transformers import AutoModel, Trainer\ndef judge():\n    model = "
                  "AutoModel.from_pretrained(\"x\", device_map=\"auto\")\n    return "
                  "model(1)\n\ndef main():\n    model = AutoModel.from_pretrained(\"y\")\n    "
                  "trainer = Trainer(model=model)\n    trainer.train()\n\nif __name__ == "
                  "\"__main__\":\n    main()\n"},
        Untouched{"it goes by rank already",
                  trainer_script("device_map={\"\": int(os.environ[\"LOCAL_RANK\"])}", "")},
        Untouched{
            "it goes by rank already",
            "import os\ndevice_map = \"auto\"\nddp = int(os.environ.get(\"WORLD_SIZE\", 1)) != "
            "1\nif ddp:\n    device_map = {\"\": int(os.environ.get(\"LOCAL_RANK\") or 0)}\n" +
                trainer_script("device_map=device_map", "")},
        Untouched{"it goes by rank already",
                  trainer_script("device_map=None if ddp else \"auto\"", "")},
        Untouched{"one GPU is meant", trainer_script("device_map={\"\": 0}", "")},
        Untouched{"a tokenizer has no layers",
                  "from transformers import AutoTokenizer, Trainer\ntok = "
                  "AutoTokenizer.from_pretrained(\"x\", device_map=\"auto\")\ntrainer = "
                  "Trainer(model=tok)\ntrainer.train()\n"},
        Untouched{"the word stands in a string",
                  trainer_script("", "", "print('device_map=\"auto\"')\n")}));

TEST(DeviceMap, OfALaunchAwareScriptLeavesTheScriptAndChangesTheLine) {
  const std::string script =
      "import os\ndevice_map = \"auto\"\nworld_size = int(os.environ.get(\"WORLD_SIZE\", 1))\nddp "
      "= world_size != 1\nif ddp:\n    device_map = {\"\": int(os.environ.get(\"LOCAL_RANK\") or "
      "0)}\n    gradient_accumulation_steps = gradient_accumulation_steps // world_size\n" +
      trainer_script("device_map=device_map", "");
  FixProject project;
  project.file("train.py", script).file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_EQ(project.after("train.py"), script);
  EXPECT_EQ(project.after("run.sh"),
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=2 train.py\n");
  EXPECT_NE(project.plan().findings.front().reason.find("gradient_accumulation_steps (train.py:7)"),
            std::string::npos)
      << project.plan().findings.front().reason;
}

TEST(DeviceMap, WithTheSameGpuForEveryRankIsFoundUnderTorchrun) {
  FixProject project;
  project.file("train.py", trainer_script("load_in_4bit=True, device_map={\"\": 0}", ""))
      .file("run.sh", "torchrun --nproc_per_node=2 train.py\n");

  EXPECT_TRUE(project.finds("P104 train.py"));
  EXPECT_NE(project.after("train.py").find("{\"\": int(os.environ.get(\"LOCAL_RANK\", 0))}"),
            std::string::npos);
}

TEST(DeviceMap, OfAVariableThatOthersUseIsTakenAwayAtTheLoad) {
  const std::string result = mended(
      "where = \"auto\"\n" +
      trainer_script("device_map=where", "",
                     "judge = AutoModelForCausalLM.from_pretrained(\"j\", device_map=where)\n"));

  EXPECT_TRUE(result.starts_with("where = \"auto\"\n")) << result;
  EXPECT_NE(result.find("model = AutoModelForCausalLM.from_pretrained(\"gpt2\")"),
            std::string::npos)
      << result;
}

TEST(DeviceMap, ThatTheScriptPrintsStaysAMap) {
  EXPECT_NE(mended(trainer_script("device_map=\"auto\"", "", "print(model.hf_device_map)\n"))
                .find("device_map={\"\": int("),
            std::string::npos);
}

TEST(DeviceMap, OfALoaderThatInferenceUsesTooIsShownOnly) {
  FixProject project;
  project
      .file("models.py",
            "from transformers import AutoModel\ndef load(n):\n    return "
            "AutoModel.from_pretrained(n, device_map=\"auto\")\n")
      .file("train.py",
            "from models import load\nfrom transformers import Trainer\ntrainer = "
            "Trainer(load(\"x\"))\ntrainer.train()\n")
      .file("infer.py", "from models import load\nprint(load(\"x\").generate(1))\n");

  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
}

TEST(DeviceMap, WhereOnlyOneGpuIsVisibleIsLeftAlone) {
  FixProject project;
  project.file("train.py", trainer_script("device_map=\"auto\"", ""))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0 python train.py\n");

  EXPECT_TRUE(project.findings().empty());
  EXPECT_FALSE(found("import os\nos.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"\n" +
                     trainer_script("device_map=\"auto\"", "")));
}

TEST(DeviceMap, IsShownOnlyWhereOsIsANameOfTheFunctionsOwn) {
  FixProject project;
  project.file("train.py",
               "from transformers import AutoModel, Trainer\ndef main():\n    m = "
               "AutoModel.from_pretrained(\"a\", load_in_4bit=True, device_map=\"auto\")\n    "
               "trainer = Trainer(m)\n    trainer.train()\n    import os\n    "
               "os.makedirs(\"x\")\n\nif __name__ == \"__main__\":\n    main()\n");

  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
}

TEST(DeviceMap, FlagsBesideOtherStatementsAreNotCutOut) {
  const std::string script =
      trainer_script("device_map=\"auto\"", "",
                     "model.config.use_cache = False; model.is_parallelizable = True\n");

  EXPECT_EQ(mended(script), script);
}

TEST(DeviceMap, FlagsAloneAreTakenAwayOnlyTogetherWithTheLaunchLine) {
  const std::string script =
      trainer_script("", "", "model.is_parallelizable = True\nmodel.model_parallel = True\n");
  FixProject alone;
  alone.file("train.py", script);
  FixProject launched;
  launched.file("train.py", script).file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_EQ(alone.safety(FindingCode::taking_turns), FixSafety::manual);
  EXPECT_EQ(launched.after("train.py"), trainer_script("", ""));
  EXPECT_NE(launched.after("run.sh").find("torchrun"), std::string::npos);
}

TEST(DeviceMap, OfAdaptersUnderCheckpointingAlsoStopsTheSearchForUnusedParameters) {
  const std::string lora =
      "from peft import get_peft_model, prepare_model_for_kbit_training\nmodel = "
      "get_peft_model(prepare_model_for_kbit_training(model), c)\n";
  FixProject project;
  project.file("train.py", trainer_script("load_in_4bit=True, device_map=\"auto\"", "", lora))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n")
      .transformers("4.48.0");
  FixProject newer;
  newer.file("train.py", trainer_script("load_in_4bit=True, device_map=\"auto\"", "", lora))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n")
      .transformers("5.10.0");

  EXPECT_NE(project.after("train.py").find("ddp_find_unused_parameters=False"), std::string::npos)
      << project.after("train.py");
  EXPECT_NE(project.after("run.sh").find("torchrun"), std::string::npos);
  EXPECT_EQ(newer.after("train.py").find("ddp_find_unused_parameters"), std::string::npos)
      << "checkpointing is not reentrant there";
}

TEST(DeviceMap, ThatMayUseOneGpuOnlyIsLeftAlone) {
  EXPECT_FALSE(found(trainer_script("device_map=\"auto\", max_memory={0: \"7GB\"}", "")));
}

TEST(DeviceMap, IsShownOnlyWhereInputsGoToTheFirstGpu) {
  FixProject project;
  project.file("train.py", trainer_script("load_in_4bit=True, device_map=\"auto\"", "",
                                          "print(model.generate(x.to(\"cuda\")))\n"));

  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
}

TEST(DeviceMap, WithRangesForKeysIsShownOnly) {
  FixProject project;
  project.file(
      "train.py",
      trainer_script("device_map={\"model.layers.0-15\": 0, \"model.layers.16-31\": 1}", ""));

  EXPECT_TRUE(project.finds("P101 train.py"));
  EXPECT_EQ(project.safety(FindingCode::taking_turns), FixSafety::manual);
}

TEST(DeviceMap, KeepsLineEndsAndByteOrderMark) {
  std::string script = "\xef\xbb\xbf";
  for (const char c : trainer_script("load_in_4bit=True, device_map=\"auto\"", ""))
    script += c == '\n' ? std::string("\r\n") : std::string(1, c);

  const std::string result = mended(script);

  EXPECT_TRUE(result.starts_with(
      "\xef\xbb\xbf"
      "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\r\nimport os\r\n"))
      << result;
  for (std::size_t i = 0; i < result.size(); ++i)
    if (result[i] == '\n') {
      ASSERT_EQ(result[i - 1], '\r');
    }
}

}  // namespace
}  // namespace lockstep
