#include "plan/make_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/known_models.hpp"
#include "plan/choose_settings.hpp"
#include "plan/machine_words.hpp"
#include "plan/strategy_names.hpp"

namespace lockstep {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

PlanRequest request_for(const std::string& gpus, const char* model,
                        TrainingMethod method = TrainingMethod::full, int nodes = 1) {
  PlanRequest request;
  auto machine = machine_from({.gpus = gpus, .nodes = nodes}, {}, 2, 24e9);
  EXPECT_TRUE(machine);
  request.machine = machine->machine;
  request.notes = machine->notes;
  request.workload.net = *known_model(model);
  request.workload.method = method;
  request.workload.sequence_length = std::min<std::int64_t>(2048, request.workload.net.longest);
  return request;
}

Plan plan_for(const PlanRequest& request) {
  auto plan = make_plan(request);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().what);
  return plan ? *plan : Plan{};
}

std::string strategy_for(const PlanRequest& request) {
  const Plan plan = plan_for(request);
  return plan.choice.fits ? plan.choice.strategy : "fits nowhere";
}

TEST(Plan, Gpt2IsDdpOnSeveralGpusAndSingleOnOne) {
  EXPECT_EQ(strategy_for(request_for("1xA100-80GB", "gpt2")), "single");
  EXPECT_EQ(strategy_for(request_for("2xA100-80GB", "gpt2")), "ddp");
  EXPECT_EQ(strategy_for(request_for("8xH100-80GB", "gpt2")), "ddp");
}

TEST(Plan, PhiWithLoraIsDdpOnTwo24GBCardsAndItsFullTrainingIsNot) {
  EXPECT_EQ(strategy_for(request_for("2x24GB", "phi-3-mini", TrainingMethod::lora)), "ddp");
  EXPECT_EQ(strategy_for(request_for("2x24GB", "phi-3-mini", TrainingMethod::qlora)), "ddp");
  EXPECT_NE(strategy_for(request_for("2x24GB", "phi-3-mini")), "ddp");
}

TEST(Plan, LlamaIsShardedOnOneNodeAndOnSeveral) {
  EXPECT_EQ(strategy_for(request_for("8xH100-80GB", "llama-8b")), "fsdp");
  EXPECT_THAT(strategy_for(request_for("8xH100-80GB", "llama-8b", TrainingMethod::full, 4)),
              AnyOf("fsdp", "hybrid-fsdp"));
  PlanRequest slow_network = request_for("8xH100-80GB", "llama-8b", TrainingMethod::full, 4);
  slow_network.machine.network_bytes_s = 1e10;
  EXPECT_EQ(strategy_for(slow_network), "hybrid-fsdp")
      << "weights stay within the node, gradients alone cross";
}

// The table of the guides: two frozen 8B models in bf16 and small trained parts, one sample of 720
// tokens a pass, nothing computed twice. On 40 GB it just fits, and no more once NCCL wants its
// buffers.
struct ElasticRow {
  const char* gpu;
  int gpus;
  const char* expected;
};
void PrintTo(const ElasticRow& row, std::ostream* out) { *out << row.gpus << "x" << row.gpu; }
class ElasticTable : public ::testing::TestWithParam<ElasticRow> {};
PlanRequest two_frozen_models(const ElasticRow& row) {
  PlanRequest request =
      request_for(std::to_string(row.gpus) + "x" + row.gpu, "llama-8b", TrainingMethod::lora);
  request.workload.lora_rank = 8;
  request.workload.frozen.push_back(*known_model("llama-8b"));
  request.workload.sequence_length = 720;
  request.micro_batch = 1;
  return request;
}
TEST_P(ElasticTable, ComesOutOfTheModel) {
  PlanRequest request = two_frozen_models(GetParam());
  request.checkpointing = false;
  EXPECT_EQ(strategy_for(request), GetParam().expected);
}
INSTANTIATE_TEST_SUITE_P(Guides, ElasticTable,
                         ::testing::Values(ElasticRow{"H100-80GB", 1, "single"},
                                           ElasticRow{"H100-80GB", 2, "ddp"},
                                           ElasticRow{"H100-80GB", 3, "ddp"},
                                           ElasticRow{"H100-80GB", 4, "ddp"},
                                           ElasticRow{"A100-PCIe-40GB", 1, "single"},
                                           ElasticRow{"A100-PCIe-40GB", 2, "model-split"},
                                           ElasticRow{"A100-PCIe-40GB", 3, "hybrid-split"},
                                           ElasticRow{"A100-PCIe-40GB", 4, "hybrid-split"}));

TEST(Plan, KnowsABetterWayThanTheGuidesWhereBlocksMayBeComputedTwice) {
  EXPECT_EQ(strategy_for(two_frozen_models({"A100-PCIe-40GB", 2, ""})), "ddp");
}

TEST(Plan, ASplitModelIsTheLastResort) {
  const Plan plan = plan_for(request_for("4xA100-80GB", "llama-8b"));

  EXPECT_NE(plan.choice.strategy, "model-split");
  for (const PlannedWay& way : plan.alternatives)
    if (way.strategy == "model-split") {
      EXPECT_LT(way.tokens_s, 0.5 * plan.choice.tokens_s);
    }
}

TEST(Plan, TakesFewerGpusWhereAllWouldBeSlower) {
  PlanRequest request = request_for("8xA100-40GB", "gpt2");
  request.target_batch = 7;
  const Plan plan = plan_for(request);
  EXPECT_EQ(plan.choice.gpus, 7);
  EXPECT_EQ(plan.choice.strategy, "ddp");

  PlanRequest far = request_for("4xRTX-4090-24GB", "llama-8b", TrainingMethod::full, 2);
  far.machine.network_bytes_s = 1e9;
  EXPECT_EQ(plan_for(far).choice.gpus, 4)
      << "over 8 Gbit/s the second node only makes the first wait";
}

TEST(Plan, RowsOfOneNodeDoNotDependOnTheOthers) {
  const Plan alone = plan_for(request_for("8xA100-80GB", "mixtral-8x7b"));
  const Plan among = plan_for(request_for("8xA100-80GB", "mixtral-8x7b", TrainingMethod::full, 8));

  ASSERT_GE(among.scaling.size(), alone.scaling.size());
  for (std::size_t i = 0; i < alone.scaling.size(); ++i)
    EXPECT_DOUBLE_EQ(alone.scaling[i].way.tokens_s, among.scaling[i].way.tokens_s)
        << alone.scaling[i].way.gpus;
}

TEST(Plan, MoreGpusAreNeverMoreThanThatManyTimesFaster) {
  for (const char* model : {"gpt2", "llama-8b", "llama-70b", "mixtral-8x7b"})
    for (const char* gpus : {"8xH100-80GB", "8xA100-40GB", "8xRTX-4090-24GB"})
      for (const TrainingMethod method : {TrainingMethod::full, TrainingMethod::lora})
        for (const PlannedScale& scale : plan_for(request_for(gpus, model, method, 4)).scaling)
          EXPECT_LE(scale.efficiency, 1.05) << model << " on " << gpus << ", " << scale.way.gpus;
}

TEST(Plan, SlowNetworksCost) {
  PlanRequest request = request_for("8xA100-80GB", "gpt2-xl", TrainingMethod::full, 4);
  request.strategy = SplitStrategy::hybrid_fsdp;
  request.micro_batch = 8;
  const double fast = plan_for(request).choice.step_ms;
  request.machine.network_bytes_s /= 100;
  EXPECT_GT(plan_for(request).choice.step_ms, 2 * fast);
}

TEST(Plan, KeepsTheGlobalBatchThatWasAskedFor) {
  PlanRequest request = request_for("8xA100-80GB", "gpt2-xl");
  request.target_batch = 480;
  const Plan plan = plan_for(request);
  EXPECT_EQ(plan.choice.global_batch, 480);
  EXPECT_EQ(plan.choice.micro_batch * plan.choice.accumulation * plan.choice.replicas, 480);

  request.target_batch.reset();
  request.tokens_per_update = 524288;
  EXPECT_EQ(plan_for(request).choice.tokens_per_update, 524288);
}

TEST(Plan, SaysWhatCannotBe) {
  PlanRequest both = request_for("2xA100-80GB", "gpt2");
  both.target_batch = 8;
  both.tokens_per_update = 8192;
  EXPECT_THAT(make_plan(both).error().what, HasSubstr("twice"));

  PlanRequest odd = request_for("2xA100-80GB", "gpt2");
  odd.tokens_per_update = 1000;
  EXPECT_THAT(make_plan(odd).error().next, HasSubstr("1024"));

  PlanRequest few = request_for("8xA100-80GB", "gpt2");
  few.target_batch = 3;
  few.strategy = SplitStrategy::ddp;
  EXPECT_EQ(make_plan(few).error().kind, ErrorKind::usage);
  EXPECT_FALSE(make_plan(few).error().next.empty());
}

TEST(Plan, OfWhatFitsNowhereSaysByHowMuchAndWhatWouldDo) {
  const Plan plan = plan_for(request_for("1xRTX-4090-24GB", "llama-70b"));

  EXPECT_FALSE(plan.choice.fits);
  EXPECT_GT(plan.missing_bytes, 0);
  ASSERT_FALSE(plan.ways_out.empty());
  EXPECT_THAT(plan.reason, HasSubstr("fits nowhere"));
}

TEST(Plan, TheLadderGoesDownInMemoryAndKeepsTheGlobalBatch) {
  PlanRequest request = request_for("2xA100-80GB", "gpt2-medium");
  request.micro_batch = 8;
  request.checkpointing = false;
  const Plan plan = plan_for(request);

  std::vector<std::string> steps;
  for (const LadderRung& rung : plan.ladder)
    steps.push_back(std::to_string(rung.way.micro_batch) + "/" +
                    std::to_string(rung.way.accumulation) +
                    (rung.way.activation_checkpointing ? " checkpointing" : "") +
                    (rung.way.strategy == "fsdp" ? " fsdp" : ""));
  EXPECT_EQ(steps, (std::vector<std::string>{"8/1", "6/1", "4/2", "2/4", "1/8", "1/8 checkpointing",
                                             "1/8 checkpointing fsdp"}));
  EXPECT_THAT(plan.ladder[1].note, HasSubstr("12 instead of 16"));
  for (std::size_t i = 2; i < plan.ladder.size(); ++i) {
    EXPECT_LT(plan.ladder[i].way.memory_bytes, plan.ladder[i - 1].way.memory_bytes);
    EXPECT_EQ(plan.ladder[i].way.global_batch, 16);
  }
}

TEST(Plan, ScalesWithLittleLossOnFastLinks) {
  const Plan plan = plan_for(request_for("8xH100-80GB", "gpt2-xl"));

  ASSERT_EQ(plan.scaling.size(), 4U);
  for (const PlannedScale& scale : plan.scaling) {
    EXPECT_GT(scale.efficiency, 0.9);
    EXPECT_LE(scale.efficiency, 1.05) << "another batch may be a little faster";
  }
  EXPECT_DOUBLE_EQ(plan.scaling.front().speedup, 1);
}

TEST(Plan, TokensAreDaysAndHours) {
  PlanRequest request = request_for("8xH100-80GB", "gpt2");
  request.tokens = 50e9;
  const Plan plan = plan_for(request);

  ASSERT_EQ(plan.scaling.size(), 4U);
  const PlannedScale& all = plan.scaling.back();
  EXPECT_NEAR(*all.days * 86400 * all.way.tokens_s, 50e9, 1e6);
  EXPECT_NEAR(*all.gpu_hours, *all.days * 24 * 8, 1e-6);
}

TEST(Plan, EveryNumberIsExplainedAndTheDoubtsAreOrdered) {
  const Plan plan = plan_for(request_for("4xA100-80GB", "gpt2-xl"));

  double memory = 0;
  for (const ExplainedNumber& number : plan.numbers) {
    EXPECT_FALSE(number.formula.empty()) << number.name;
    if (number.unit == "bytes") memory += number.value;
  }
  EXPECT_NEAR(memory, plan.choice.memory_bytes, 1) << "the parts are the whole";
  ASSERT_GE(plan.assumptions.size(), 2U);
  EXPECT_GE(std::max(plan.assumptions[0].step_effect, plan.assumptions[0].memory_effect),
            std::max(plan.assumptions[1].step_effect, plan.assumptions[1].memory_effect));
  EXPECT_GT(plan.step_doubt, 0.05);
}

TEST(Settings, NcclVariablesAreSetOnlyWhereTheMachineAsksForThem) {
  const auto has_nccl = [](const Plan& plan) {
    return std::ranges::any_of(plan.settings, [](const PlannedSetting& setting) {
      return setting.name.find("NCCL") != std::string::npos;
    });
  };

  EXPECT_FALSE(has_nccl(plan_for(request_for("8xH100-80GB", "gpt2-xl"))));
  EXPECT_TRUE(has_nccl(plan_for(request_for("8xH100-80GB", "gpt2-xl", TrainingMethod::full, 2))));
  for (const PlannedSetting& setting : plan_for(request_for("8xH100-80GB", "llama-8b")).settings)
    EXPECT_FALSE(setting.reason.empty()) << setting.name;
}

TEST(MachineWords, AreReadAsPeopleWriteThem) {
  const auto read = [](const char* text) { return machine_from({.gpus = text}, {}, 2, 24e9); };
  EXPECT_EQ(read("8xH100-80GB")->machine.gpus_a_node, 8);
  EXPECT_EQ(read("A100-40GB")->machine.gpus_a_node, 1);
  EXPECT_NEAR(read("2x24GB")->machine.gpu.memory_bytes, 24 * 1.0737e9 * 0.985, 1e8);
  EXPECT_THAT(read("8xH101-80GB").error().next, HasSubstr("H100"));
  EXPECT_FALSE(read("8"));
  EXPECT_FALSE(read("0xH100"));
  EXPECT_FALSE(read("x"));
  EXPECT_FALSE(machine_from({.gpus = "2xT4", .links = "nvlink"}, {}, 2, 24e9));
  EXPECT_FALSE(machine_from({}, {}, 2, 24e9)) << "no GPU here";
}

TEST(Counts, HaveUnits) {
  EXPECT_DOUBLE_EQ(*parse_count("13B"), 13e9);
  EXPECT_DOUBLE_EQ(*parse_count("350M"), 350e6);
  EXPECT_DOUBLE_EQ(*parse_count("0.5m"), 5e5);
  EXPECT_DOUBLE_EQ(*parse_count("124_000_000"), 124e6);
  for (const char* text : {"", "B", "-1B", "0", "1.2.3", "13BB", "nan", "inf", "1e30"})
    EXPECT_FALSE(parse_count(text)) << text;
}

}  // namespace
}  // namespace lockstep
