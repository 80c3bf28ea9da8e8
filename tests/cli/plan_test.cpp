// lockstep plan as it is typed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace testing;

json plan_of(std::vector<std::string> words) {
  words.insert(words.begin(), "plan");
  words.emplace_back("--json");
  const ProgramEnd end = run_lockstep(words);
  EXPECT_EQ(end.code, 0) << end.err;
  return json::parse(end.out, nullptr, false);
}

TEST(PlanCommand, PlansForAMachineOneDoesNotHave) {
  const json plan = plan_of({"--gpus", "8xH100-80GB", "--nodes", "4", "--model", "llama-8b"});

  EXPECT_EQ(plan["lockstep_plan"], 1);
  EXPECT_EQ(plan["choice"]["gpus"], 32);
  EXPECT_TRUE(plan["fits"].get<bool>());
  EXPECT_GT(plan["choice"]["memory"]["total_bytes"].get<double>(), 1e9);
  EXPECT_FALSE(plan["settings"].empty());
}

TEST(PlanCommand, TellsAPersonWhatItChoseAndWhy) {
  const ProgramEnd end = run_lockstep({"plan", "--gpus", "2xA100-80GB", "--model", "gpt2-xl",
                                       "--why", "--compare", "--", "my.py", "--lr", "1e-4"});

  EXPECT_EQ(end.code, 0);
  for (const char* words : {"plan: DDP", "memory", "tokens/s", "speedup", "when memory is short",
                            "matters most", "other ways", "why:", "start it: ",
                            "torchrun --standalone --nproc_per_node=2 my.py --lr 1e-4"})
    EXPECT_THAT(end.out, HasSubstr(words));
  EXPECT_TRUE(end.err.empty()) << end.err;
}

TEST(PlanCommand, WithoutAGpuACoreStandsForOne) {
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "this machine has an NVIDIA driver";

  const json plan = plan_of({"--params", "1M"});

  EXPECT_EQ(plan["machine"]["gpu"], "virtual");
}

TEST(PlanCommand, EmitsOneFileAndNothingElse) {
  const ProgramEnd line = run_lockstep({"plan", "--gpus", "4xA100-80GB", "--model", "gpt2",
                                        "--emit", "torchrun", "--", "train gpt.py"});
  EXPECT_EQ(line.code, 0);
  EXPECT_EQ(std::ranges::count(line.out, '\n'), 1);
  EXPECT_THAT(line.out, HasSubstr("torchrun --standalone --nproc_per_node=4 'train gpt.py'"));

  const ProgramEnd arguments = run_lockstep({"plan", "--gpus", "4xA100-80GB", "--model", "gpt2",
                                             "--emit", "training-arguments", "--quiet"});
  EXPECT_TRUE(arguments.err.empty());
  const json parsed = json::parse(arguments.out, nullptr, false);
  ASSERT_TRUE(parsed.is_object()) << arguments.out;
  EXPECT_EQ(parsed["bf16"], true);
  EXPECT_EQ(parsed["ddp_find_unused_parameters"], false);

  const ProgramEnd job = run_lockstep(
      {"plan", "--gpus", "8xH100-80GB", "--nodes", "2", "--model", "llama-8b", "--emit", "sbatch"});
  for (const char* words : {"#!/bin/bash\n", "--ntasks-per-node=1", "scontrol show hostnames",
                            "srun --kill-on-bad-exit=1", "#SBATCH --signal=", "#SBATCH --output="})
    EXPECT_THAT(job.out, HasSubstr(words));
  EXPECT_THAT(job.err, HasSubstr("sbatch llama-8b-full.sbatch"));
}

TEST(PlanCommand, AModelThatFitsNowhereIsAPlanThatEndsWithOne) {
  const ProgramEnd end = run_lockstep({"plan", "--gpus", "1xT4", "--model", "llama-70b"});

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.out, HasSubstr("does not fit: "));
  EXPECT_THAT(end.out, HasSubstr("would do: "));
  EXPECT_THAT(end.out, Not(HasSubstr("start it: ")));
}

struct BadPlan {
  std::vector<std::string> words;
  std::string error;
  std::string next;
};
void PrintTo(const BadPlan& input, std::ostream* out) {
  for (const std::string& word : input.words) *out << word << " ";
}
class PlanErrors : public ::testing::TestWithParam<BadPlan> {};
TEST_P(PlanErrors, NameTheThingAndTheNextStep) {
  std::vector<std::string> words = {"plan"};
  words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
  const ProgramEnd end = run_lockstep(words);

  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_TRUE(end.out.empty());
  EXPECT_THAT(end.err, HasSubstr(GetParam().error));
  EXPECT_THAT(end.err, HasSubstr("  next: "));
  EXPECT_THAT(end.err, HasSubstr(GetParam().next));
}
INSTANTIATE_TEST_SUITE_P(
    Typed, PlanErrors,
    ::testing::Values(
        BadPlan{{"--gpus", "8xH101-80GB"}, "H101-80GB", "H100-80GB"},
        BadPlan{{"--gpus", "2xA100-80GB", "--model", "lama-8b"}, "lama-8b", "llama-8b"},
        BadPlan{{"--gpus", "8"}, "which kind", "8xA100-80GB"},
        BadPlan{{"--gpus", "2xA100-80GB", "--params", "many"}, "many", "13B"},
        BadPlan{{"--gpus", "2xA100-80GB", "--model", "gpt2", "--params", "1B"},
                "two models",
                "one of them"},
        BadPlan{{"--gpus", "2xA100-80GB", "--method", "lorra"}, "lorra", "lora"},
        BadPlan{{"--gpus", "2xA100-80GB", "--emit", "slurm"}, "slurm", "sbatch"},
        BadPlan{{"--gpus", "2xA100-80GB", "--strategy", "dpp"}, "dpp", "ddp"},
        BadPlan{{"--gpus", "2xT4", "--precision", "bf16"}, "T4-16GB", "fp16"},
        BadPlan{{"--gpus", "2xL4", "--links", "nvlink"}, "L4-24GB has none", "pcie"},
        BadPlan{{"--gpus", "8xA100-80GB", "--target-batch", "4", "--strategy", "ddp"},
                "less than one sample",
                "--target-batch"},
        BadPlan{{"--gpus", "2xA100-80GB", "--target-batch", "8", "--tokens-per-update", "8192"},
                "twice",
                "one of them"},
        BadPlan{{"--gpus", "2xA100-80GB", "--emit", "torchrun", "--json"},
                "two different outputs",
                "one of them"},
        BadPlan{{"--gpus", "2xA100-80GB", "--calibrate"}, "A100-80GB", "--gpus"},
        BadPlan{{"--gpus", "2xA100-80GB", "--emit", "fsdp", "--model", "gpt2"},
                "ddp",
                "--strategy fsdp"}));

TEST(PlanCommand, AConfigWithoutTheNeededFieldsIsNamed) {
  const TemporaryFolder folder;
  const auto config = folder.write("config.json", R"({"model_type":"llama","hidden_size":4096})");
  const ProgramEnd end =
      run_lockstep({"plan", "--gpus", "2xA100-80GB", "--model", config.string()});

  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.err, HasSubstr("num_hidden_layers"));
}

}  // namespace
}  // namespace lockstep
