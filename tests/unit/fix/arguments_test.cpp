// TrainingArguments, wherever they are written.
#include <gtest/gtest.h>

#include "fix/knowledge/argument_history.hpp"
#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using testing::trainer_script;

FixProject& with(FixProject& project, const std::string& arguments) {
  return project.file("train.py", trainer_script("", arguments));
}

std::string after(const std::string& arguments, const std::string& version = "4.57.0") {
  FixProject project;
  return with(project, arguments).transformers(version).after("train.py");
}

bool finds(const std::string& code, const std::string& arguments,
           const std::string& version = "4.57.0") {
  FixProject project;
  return with(project, arguments).transformers(version).finds(code);
}

TEST(Logging, InEveryStepBecomesEveryTenth) {
  EXPECT_TRUE(finds("S302", "logging_steps=1"));
  EXPECT_NE(after("logging_steps=1").find("logging_steps=10"), std::string::npos);
}
TEST(Logging, InEveryStepAlsoDropsTheFilterThatWaits) {
  EXPECT_NE(after("logging_steps=1").find("logging_nan_inf_filter=False"), std::string::npos);
}
TEST(Logging, EveryTenStepsIsLeftAlone) { EXPECT_FALSE(finds("S30", "logging_steps=10")); }
TEST(Logging, OfAShortRunIsLeftAlone) {
  EXPECT_FALSE(finds("S30", "logging_steps=1,\n    max_steps=60"));
}
TEST(Logging, ByEpochsIsLeftAlone) {
  EXPECT_FALSE(finds("S30", "logging_steps=1,\n    logging_strategy=\"epoch\""));
}
TEST(Logging, ByAVariableIsLeftAlone) { EXPECT_FALSE(finds("S30", "logging_steps=every")); }
TEST(Logging, FilterThatIsOffAlreadyIsNotAskedFor) {
  EXPECT_FALSE(finds("S301", "logging_steps=1,\n    logging_nan_inf_filter=False"));
}

std::string loader(const std::string& arguments) {
  return "from transformers import Trainer, TrainingArguments\nargs = "
         "TrainingArguments(output_dir=\"o\", bf16=True" +
         arguments + ")\ntrainer = Trainer(model=m, args=args)\ntrainer.train()\n";
}
TEST(Loader, WithoutWorkersGetsFour) {
  FixProject project;
  project.file("train.py", loader(", dataloader_num_workers=0"));

  EXPECT_EQ(project.after("train.py"), loader(", dataloader_num_workers=4"));
}
TEST(Loader, ByDefaultHasNoWorkersEither) {
  FixProject project;
  project.file("train.py", loader(""));

  EXPECT_TRUE(project.finds("D202 train.py:2"));
  EXPECT_EQ(project.after("train.py"), loader(", dataloader_num_workers=4"));
}
TEST(Loader, OfAStreamIsLeftAlone) {
  FixProject project;
  project.file("train.py", "data = load_dataset(\"x\", streaming=True)\n" + loader(""));

  EXPECT_FALSE(project.finds("D202"));
}
TEST(Loader, ThatGetsMoreThanCanBeSeenIsLeftAlone) {
  FixProject project;
  project.file("train.py", loader(", **more"));

  EXPECT_FALSE(project.finds("D202"));
}
TEST(Loader, ThatPrefetchesWithoutWorkersGetsThem) {
  FixProject project;
  project.file("train.py", loader(", dataloader_prefetch_factor=4"));

  EXPECT_NE(project.plan().findings.front().reason.find("ValueError"), std::string::npos);
  EXPECT_EQ(project.after("train.py"),
            loader(", dataloader_prefetch_factor=4, dataloader_num_workers=4"));
}
TEST(Loader, WithoutPinnedMemoryIsFound) {
  EXPECT_NE(after("dataloader_pin_memory=False").find("dataloader_pin_memory=True"),
            std::string::npos);
}
TEST(Loader, OnTheCpuNeedsNoPinnedMemory) {
  EXPECT_FALSE(finds("D203", "dataloader_pin_memory=False,\n    use_cpu=True"));
}
TEST(Loader, WhoseWorkersEndWithManyEpochsKeepsThem) {
  EXPECT_NE(after("num_train_epochs=50").find("dataloader_persistent_workers=True"),
            std::string::npos);
  EXPECT_FALSE(finds("D206", "num_train_epochs=3"));
}
TEST(Loader, ThatGetsWorkersForManyEpochsKeepsThemInOnePatch) {
  FixProject project;
  project.file("train.py", loader(", num_train_epochs=50")).transformers("4.57.0");

  EXPECT_EQ(project.plan().groups.size(), 1U);
  EXPECT_EQ(
      project.after("train.py"),
      loader(
          ", num_train_epochs=50, dataloader_num_workers=4, dataloader_persistent_workers=True"));
}
TEST(Loader, KeepsItsWorkersOnlyWhereTheReleaseCan) {
  EXPECT_FALSE(finds("D206", "num_train_epochs=50", "4.30.0"));
}

TEST(FindUnused, ThatIsAskedForIsShownOnlyForItMayBeNeeded) {
  FixProject project;
  with(project, "ddp_find_unused_parameters=True").transformers("4.57.0");

  EXPECT_TRUE(project.finds("C404"));
  EXPECT_EQ(project.safety(FindingCode::find_unused_parameters), FixSafety::manual);
}
TEST(FindUnused, ThatIsOffIsLeftAlone) {
  EXPECT_FALSE(finds("C404", "ddp_find_unused_parameters=False"));
}
TEST(FindUnused, ByDefaultMattersOnlyForScriptsOfSeveralRanks) {
  FixProject alone;
  with(alone, "").transformers("4.57.0");
  FixProject many;
  with(many, "").transformers("4.57.0").file("run.sh", "torchrun --nproc_per_node=2 train.py\n");

  EXPECT_FALSE(alone.finds("C404"));
  EXPECT_EQ(many.safety(FindingCode::find_unused_parameters), FixSafety::manual)
      << "whether it is needed is not in the code";
}
TEST(BucketSize, Of25IsSaidToBeTheDefault) {
  FixProject project;
  with(project, "ddp_bucket_cap_mb=25").transformers("4.57.0");

  EXPECT_TRUE(project.finds("C402"));
  EXPECT_EQ(project.safety(FindingCode::exposed_collectives), FixSafety::manual);
  EXPECT_FALSE(finds("C402", "ddp_bucket_cap_mb=50"));
}

TEST(Saving, EveryFewStepsIsTooOften) {
  EXPECT_NE(after("save_steps=10").find("save_steps=100"), std::string::npos);
}
TEST(Saving, TiedToTheBestModelIsShownOnly) {
  FixProject project;
  with(project, "save_steps=10,\n    load_best_model_at_end=True").transformers("4.57.0");

  EXPECT_EQ(project.safety(FindingCode::checkpoint_stall), FixSafety::manual);
}
TEST(Saving, OfARunWhoseLengthIsNotKnownIsShownOnly) {
  FixProject project;
  with(project, "save_steps=5,\n    max_steps=steps").transformers("4.57.0");

  EXPECT_EQ(project.safety(FindingCode::checkpoint_stall), FixSafety::manual);
}
TEST(Saving, ByEpochIsLeftAlone) {
  EXPECT_FALSE(finds("S303", "save_steps=10,\n    save_strategy=\"epoch\""));
}
TEST(Saving, LimitIsAMatterOfDiskAndLeftAlone) {
  EXPECT_FALSE(finds("S303", "save_total_limit=1"));
}

TEST(Precision, ThatNobodyChoseIsShownOnly) {
  FixProject project;
  project.file("train.py",
               "from transformers import Trainer, TrainingArguments\nargs = "
               "TrainingArguments(output_dir=\"o\", dataloader_num_workers=2)\ntrainer = "
               "Trainer(model=m, args=args)\ntrainer.train()\n");

  EXPECT_EQ(project.safety(FindingCode::tensor_cores_unused), FixSafety::manual);
}
TEST(Precision, ThatWasChosenIsLeftAlone) { EXPECT_FALSE(finds("B503", "")); }
TEST(Optimizer, ThatIsNotFusedIsShownOnly) {
  FixProject project;
  with(project, "optim=\"adamw_torch\"").transformers("4.57.0");

  EXPECT_EQ(project.safety(FindingCode::unfused_optimizer), FixSafety::manual);
  EXPECT_FALSE(finds("B505", "optim=\"adamw_torch_fused\""));
}

TEST(Attention, ThatIsNotFusedIsShownOnly) {
  FixProject eager;
  eager.file("train.py", trainer_script("attn_implementation=\"eager\"", ""));
  FixProject fused;
  fused.file("train.py", trainer_script("attn_implementation=\"sdpa\"", ""));

  EXPECT_EQ(eager.safety(FindingCode::launch_bound), FixSafety::manual);
  EXPECT_FALSE(fused.finds("S305"));
}

TEST(UnknownArgument, ThatWasRenamedIsRenamedSafelyWhereTheReleaseHasTheNewName) {
  FixProject project;
  with(project, "evaluation_strategy=\"steps\"").transformers("4.57.0");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::safe);
  EXPECT_NE(project.after("train.py").find("    eval_strategy=\"steps\",\n"), std::string::npos);
}
TEST(UnknownArgument, ThatIsStillThereUnderBothNamesIsRenamedSafely) {
  FixProject project;
  with(project, "evaluation_strategy=\"steps\"").transformers("4.45.0");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::safe);
}
TEST(UnknownArgument, ThatHasNoOtherNameYetIsLeftAlone) {
  EXPECT_FALSE(finds("X702", "evaluation_strategy=\"steps\"", "4.36.0"));
}
TEST(UnknownArgument, NewNameInAnOldReleaseGetsItsOldName) {
  EXPECT_NE(after("eval_strategy=\"steps\"", "4.36.0").find("evaluation_strategy=\"steps\""),
            std::string::npos);
}
TEST(UnknownArgument, IsUnsafeToRenameWhereTheReleaseIsNotKnown) {
  FixProject project;
  with(project, "evaluation_strategy=\"steps\"");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::unsafe);
}
TEST(UnknownArgument, BesideOtherNamesOfOldIsShownOnlyWhereTheReleaseIsNotKnown) {
  FixProject project;
  with(project, "evaluation_strategy=\"steps\",\n    overwrite_output_dir=True");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::manual);
}
TEST(UnknownArgument, WarmupRatioBecomesAFractionOfStepsFrom5On) {
  EXPECT_NE(after("warmup_ratio=0.1", "5.20.0").find("warmup_steps=0.1"), std::string::npos);
  EXPECT_FALSE(finds("X702", "warmup_ratio=0.1", "4.57.0"));
}
TEST(UnknownArgument, GroupByLengthBecomesASamplingStrategy) {
  EXPECT_NE(
      after("group_by_length=True", "5.5.0").find("train_sampling_strategy=\"group_by_length\""),
      std::string::npos);
}
TEST(UnknownArgument, ThatIsGoneForGoodIsTakenAwayUnsafely) {
  FixProject project;
  with(project, "overwrite_output_dir=True").transformers("5.0.0");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::unsafe);
  EXPECT_EQ(project.after("train.py"), trainer_script("", ""));
}
TEST(UnknownArgument, ThatIsMisspeltGetsTheNearestName) {
  FixProject project;
  with(project, "loging_steps=10").transformers("4.57.0");

  EXPECT_NE(
      project.plan().findings.front().ways.front().description.find("did you mean logging_steps?"),
      std::string::npos);
  EXPECT_NE(project.after("train.py").find("    logging_steps=10,"), std::string::npos);
}
TEST(UnknownArgument, ThatIsTooNewIsShownOnly) {
  FixProject project;
  with(project, "ddp_static_graph=True").transformers("5.0.0");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::manual);
}
TEST(UnknownArgument, OfASubclassMayBeItsOwn) {
  FixProject project;
  project
      .file("train.py",
            "from trl import SFTConfig, SFTTrainer\nargs = SFTConfig(output_dir=\"o\", "
            "max_seq_length=512, packing=True, dataloader_num_workers=2)\ntrainer = "
            "SFTTrainer(model=m, args=args)\ntrainer.train()\n")
      .transformers("4.57.0");

  EXPECT_FALSE(project.finds("X702"));
}
TEST(UnknownArgument, OfAClassOfTheProjectMayBeItsOwn) {
  FixProject project;
  project
      .file("train.py",
            "import transformers\nclass TrainingArguments(transformers.TrainingArguments):\n    "
            "cache_dir: str = None\nargs = TrainingArguments(output_dir=\"o\", cache_dir=\"x\", "
            "dataloader_num_workers=1)\ntrainer = transformers.Trainer(model=m, "
            "args=args)\ntrainer.train()\n")
      .transformers("4.57.0");

  EXPECT_FALSE(project.finds("X702"));
}
TEST(UnknownArgument, ReadsTheReleaseFromTheProjectsEnvironment) {
  FixProject project;
  with(project, "evaluation_strategy=\"steps\"")
      .file(".venv/pyvenv.cfg", "")
      .file(".venv/lib/python3.11/site-packages/transformers-4.53.1.dist-info/METADATA", "");

  EXPECT_EQ(project.safety(FindingCode::unknown_training_argument), FixSafety::safe);
}
TEST(UnknownArgument, ReadsTheReleaseFromRequirements) {
  FixProject project;
  with(project, "evaluation_strategy=\"steps\"")
      .file("requirements.txt", "torch\ntransformers==4.40.2  # pinned\n");

  EXPECT_FALSE(project.finds("X702"));
}

TEST(SettingsFile, OfLlamaFactoryIsReadAndItsLinesStay) {
  FixProject project;
  project
      .file("sft.yaml",
            "### model\nstage: sft\nfinetuning_type: lora\n\n### train\noutput_dir: out  # "
            "here\nper_device_train_batch_size: 1\nlogging_steps: 1\ndataloader_num_workers: 0\n")
      .transformers("4.57.0");

  EXPECT_EQ(project.after("sft.yaml"),
            "### model\nstage: sft\nfinetuning_type: lora\n\n### train\noutput_dir: out  # "
            "here\nper_device_train_batch_size: 1\nlogging_steps: 10\ndataloader_num_workers: 4\n");
}
TEST(SettingsFile, OfAxolotlIsRead) {
  FixProject project;
  project.file("a.yml", "base_model: x\nmicro_batch_size: 2\nlogging_steps: 1\n");

  EXPECT_EQ(project.after("a.yml"), "base_model: x\nmicro_batch_size: 2\nlogging_steps: 10\n");
}
TEST(SettingsFile, InJsonKeepsItsShape) {
  FixProject project;
  project.file("train.py",
               "from transformers import HfArgumentParser, Trainer, TrainingArguments\nargs = "
               "HfArgumentParser(TrainingArguments).parse_json_file(\"args.json\")\ntrainer = "
               "Trainer(model=m, args=args)\ntrainer.train()\n");
  project
      .file("args.json",
            "{\n  \"output_dir\": \"o\",\n  \"per_device_train_batch_size\": 4,\n  "
            "\"learning_rate\": 1e-4,\n  \"evaluation_strategy\": \"no\",\n  "
            "\"dataloader_pin_memory\": false\n}\n")
      .transformers("4.57.0");

  EXPECT_EQ(
      project.after("args.json"),
      "{\n  \"output_dir\": \"o\",\n  \"per_device_train_batch_size\": 4,\n  \"learning_rate\": "
      "1e-4,\n  \"eval_strategy\": \"no\",\n  \"dataloader_pin_memory\": true\n}\n");
}
TEST(SettingsFile, OfSomethingElseIsLeftAlone) {
  FixProject project;
  project.file("x.yaml", "logging_steps: 1\nname: other\n")
      .file("y.json", "{\"logging_steps\": 1}\n");

  EXPECT_TRUE(project.findings().empty());
}

TEST(SettingsFile, OfAProjectsOwnReaderIsLeftAlone) {
  const std::string config =
      "defaults:\n  - base\noutput_dir: o\nlearning_rate: 1.0e-4\nseed: "
      "1\nper_device_train_batch_size: 1\nevaluation_strategy: steps\nlogging_steps: 1\n";
  FixProject hydra;
  hydra.file("conf/config.yaml", config)
      .file("train.py",
            "import hydra\nfrom transformers import HfArgumentParser, "
            "Trainer\nprint(cfg.evaluation_strategy)\n")
      .transformers("5.20.0");
  FixProject plain;
  plain.file("config.yaml", config.substr(config.find("output_dir"))).transformers("5.20.0");

  EXPECT_EQ(hydra.after("conf/config.yaml"), config);
  EXPECT_TRUE(plain.findings().empty()) << "nothing says that TrainingArguments reads it";
}
TEST(SettingsFile, KeepsTheDashOfAListItemAndSharedAnchors) {
  const std::string parser =
      "from transformers import HfArgumentParser, Trainer, TrainingArguments\nargs = "
      "HfArgumentParser(TrainingArguments)\ntrainer = Trainer(model=m)\ntrainer.train()\n";
  FixProject list;
  list.file("train.py", parser)
      .file("a.yaml",
            "runs:\n  - overwrite_output_dir: true\n    output_dir: o\n    seed: 1\n    "
            "learning_rate: 1\n    weight_decay: 0\n")
      .transformers("5.0.0");
  FixProject anchored;
  anchored
      .file("s.yaml",
            "stage: sft\nfinetuning_type: lora\noutput_dir: o\nlogging_steps: &every "
            "1\neval_steps: *every\n")
      .transformers("5.0.0");

  EXPECT_EQ(list.after("a.yaml"),
            "runs:\n  - output_dir: o\n    seed: 1\n    learning_rate: 1\n    weight_decay: 0\n");
  EXPECT_NE(anchored.after("s.yaml").find("&every 1"), std::string::npos);
}

TEST(Patches, ThatWouldGiveACallOneNameTwiceGoOneAfterTheOther) {
  FixProject project;
  project.file("train.py", loader(", dataloader_num_worker=2")).transformers("4.57.0");

  EXPECT_EQ(project.after("train.py"), loader(", dataloader_num_workers=2"));
}
TEST(Patches, OfAMisspeltNameShowWhatItsValueMeansAfterwards) {
  FixProject project;
  with(project, "logging_step=1").transformers("4.57.0");

  EXPECT_NE(project.after("train.py").find("logging_steps="), std::string::npos);
}

TEST(Settings, OfAClassOfTheProjectHaveDefaultsOfTheirOwn) {
  FixProject project;
  project.file(
      "train.py",
      "from transformers import Trainer, TrainingArguments\nclass MyArgs(TrainingArguments):\n    "
      "dataloader_num_workers: int = 8\nargs = MyArgs(output_dir=\"o\", bf16=True)\ntrainer = "
      "Trainer(model=m, args=args)\ntrainer.train()\n");

  EXPECT_FALSE(project.finds("D202"));
}
TEST(Settings, ThatATrainerFallsBackToAreLeftAlone) {
  FixProject project;
  project.file("train.py",
               "from transformers import Trainer, TrainingArguments\nclass MyTrainer(Trainer):\n   "
               " def __init__(self, args=None):\n        args = args or "
               "TrainingArguments(output_dir=\"o\")\ntrainer = MyTrainer()\ntrainer.train()\n");

  EXPECT_FALSE(project.finds("D202"));
}

struct Range {
  const char* line;
  bool found;
};
void PrintTo(const Range& range, std::ostream* out) { *out << range.line; }
class Requirements : public ::testing::TestWithParam<Range> {};
TEST_P(Requirements, TellWhichReleasesAreAllowed) {
  FixProject project;
  with(project, "warmup_ratio=0.1")
      .file("requirements.txt", std::string("torch\n") + GetParam().line + "\n");

  EXPECT_EQ(project.finds("X702"), GetParam().found) << GetParam().line;
}
INSTANTIATE_TEST_SUITE_P(
    Forms, Requirements,
    ::testing::Values(Range{"transformers==5.20.0", true}, Range{"transformers>=5.15", true},
                      Range{"transformers>=4.41,<5", false},
                      Range{"transformers<5.15,>=4.30", false},
                      Range{"transformers<=5.14.0", false}, Range{"transformers~=4.45.0", false},
                      Range{"transformers==4.45.*", false},
                      Range{"transformers[torch]>=5.15.0", true}, Range{"transformers", false},
                      Range{"transformers @ git+https://example.org/x@0dcb46e7", false}));

TEST(Requirements, OfACondaEnvironmentCountWhateverItIsCalled) {
  FixProject project;
  with(project, "evaluation_strategy=\"no\"")
      .file("my_env.yml", "name: x\ndependencies:\n  - pip:\n      - transformers==4.18.0\n");

  EXPECT_FALSE(project.finds("X702"));
}

TEST(Requirements, NearestToTheScriptSpeakFirst) {
  FixProject project;
  project.file("requirements.txt", "transformers==5.20.0\n")
      .file("old/requirements.txt", "transformers==4.32.0\n")
      .file("old/train.py", trainer_script("", "evaluation_strategy=\"no\""))
      .file("train.py", trainer_script("", "evaluation_strategy=\"no\""));

  EXPECT_FALSE(project.finds("X702 old"));
  EXPECT_TRUE(project.finds("X702 train.py"));
}

TEST(Preset, OnYamlKeepsWhatIsRightAlready) {
  FixProject project;
  project
      .file("s.yaml",
            "stage: sft\nfinetuning_type: lora\noutput_dir: o\nper_device_train_batch_size: "
            "2\ngradient_accumulation_steps: 8\nlogging_steps: 1\ndataloader_pin_memory: "
            "true\nsave_total_limit:\n")
      .transformers("4.57.0")
      .wish({.preset = Preset::standard});

  EXPECT_NE(
      project.after("s.yaml").find("per_device_train_batch_size: 4\ngradient_accumulation_steps: "
                                   "4\nlogging_steps: 5\ndataloader_pin_memory: true\n"),
      std::string::npos)
      << project.after("s.yaml");
}

TEST(Preset, IsSetWholeWithTheSameGlobalBatch) {
  FixProject project;
  with(project, "per_device_train_batch_size=2,\n    gradient_accumulation_steps=8")
      .transformers("4.57.0")
      .wish({.preset = Preset::fast});

  const std::string result = project.after("train.py");

  for (const char* line :
       {"per_device_train_batch_size=8,", "gradient_accumulation_steps=2,", "logging_steps=10",
        "dataloader_num_workers=4", "dataloader_pin_memory=True",
        "ddp_find_unused_parameters=False", "save_total_limit=1"})
    EXPECT_NE(result.find(line), std::string::npos) << line << "\n" << result;
}
TEST(Preset, IsNotSetUnlessAskedFor) {
  EXPECT_FALSE(finds("B501", "per_device_train_batch_size=2"));
}

TEST(DeepSpeed, TimersAndReportsInEveryStepAreFound) {
  FixProject project;
  project.file("ds.json",
               "{\n    \"zero_optimization\": {\"stage\": 2},\n    \"wall_clock_breakdown\": "
               "true,\n    \"steps_per_print\": 1\n}\n");

  EXPECT_EQ(project.after("ds.json"),
            "{\n    \"zero_optimization\": {\"stage\": 2},\n    \"wall_clock_breakdown\": false,\n "
            "   \"steps_per_print\": 100\n}\n");
}
TEST(DeepSpeed, HealthySettingsAreLeftAlone) {
  FixProject project;
  project.file("ds.json",
               "{\"zero_optimization\": {\"stage\": 2}, \"wall_clock_breakdown\": false, "
               "\"steps_per_print\": 100}\n");

  EXPECT_TRUE(project.findings().empty());
}

// The table against rows that were measured on the wheels by hand.
TEST(ArgumentHistory, AgreesWithWhatTheReleasesTake) {
  const ArgumentHistory& history = ArgumentHistory::of_transformers();
  const auto has = [&](const char* version, const char* field) {
    return history.has(*Version::parse(version), field);
  };

  EXPECT_FALSE(has("4.30.0", "ddp_broadcast_buffers"));
  EXPECT_TRUE(has("4.31.0", "ddp_broadcast_buffers"));
  EXPECT_FALSE(has("4.37.2", "dataloader_prefetch_factor"));
  EXPECT_TRUE(has("4.38.0", "dataloader_prefetch_factor"));
  EXPECT_TRUE(has("4.50.3", "evaluation_strategy"));
  EXPECT_FALSE(has("4.51.0", "evaluation_strategy"));
  EXPECT_TRUE(has("4.50.0", "tp_size"));
  EXPECT_FALSE(has("4.53.0", "tp_size"));
  EXPECT_FALSE(has("5.5.0", "ddp_static_graph"));
  EXPECT_TRUE(has("5.6.0", "ddp_static_graph"));
  EXPECT_TRUE(ArgumentHistory::of_accelerate().has(*Version::parse("1.5.0"), "tp_config"));
  EXPECT_FALSE(ArgumentHistory::of_accelerate().has(*Version::parse("1.7.0"), "tp_config"));
}

}  // namespace
}  // namespace lockstep
