// Settings that a report or the table of rules asks for.
#include "launch/arguments/launch_advice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advice/launch_table.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char* const kReport = R"({"lockstep_report":1,"findings":[
  {"code":"P101","name":"taking-turns","fixes":[{"kind":"command","description":"one process per GPU","command":["torchrun","--standalone","--nproc_per_node=4","train.py"]},
                                                {"kind":"advice","description":"or FSDP","command":[]}]},
  {"code":"B502","name":"memory-nearly-full","fixes":[{"kind":"environment","description":"less waste","command":["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]}]},
  {"code":"X708","name":"harmful-environment","fixes":[{"kind":"environment","description":"take it out","command":["unset","NCCL_P2P_DISABLE"]}]}],
  "suspicions":[{"code":"X709","name":"cpu-oversubscribed","fixes":[{"kind":"environment","description":"fewer","command":["OMP_NUM_THREADS=1"]}]}]})";

TEST(AdviceOfAReport, IsTakenWithItsReason) {
  const auto advice = advice_in_report(kReport);
  ASSERT_TRUE(advice);
  LaunchSettings settings;

  const auto words = take_advice(*advice, settings);

  EXPECT_EQ(settings.processes_per_node, "4");
  EXPECT_EQ(settings.set_variables.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_TRUE(settings.unset_variables.contains("NCCL_P2P_DISABLE"));
  EXPECT_FALSE(settings.set_variables.contains("OMP_NUM_THREADS")) << "a suspicion is no finding";
  ASSERT_EQ(words.size(), 3U);
  EXPECT_THAT(words[0], HasSubstr("--nproc-per-node=4: P101 taking-turns: one process per GPU"));
}

TEST(AdviceOfAReport, GivesWayToTheUsersFlags) {
  LaunchSettings settings;
  settings.processes_per_node = "2";
  settings.given = {"--nproc-per-node"};

  const auto words = take_advice(*advice_in_report(kReport), settings);

  EXPECT_EQ(settings.processes_per_node, "2");
  EXPECT_EQ(words.size(), 2U);
}

TEST(AdviceOfAReport, IsRefusedFromOtherFilesAndHarmlessFromBrokenOnes) {
  EXPECT_FALSE(advice_in_report("{}"));
  EXPECT_FALSE(advice_in_report("not json"));
  EXPECT_THAT(
      *advice_in_report(
          R"({"lockstep_report":1,"findings":[3,{"fixes":[1,{"kind":"environment","command":["rm -rf=x","unset"]}]}]})"),
      IsEmpty());
}

TEST(RecommendedLaunch, IsEmptyWhereAllIsWell) {
  LaunchSituation well;
  well.gpus = well.ranks = 2;
  well.meeting_given = true;
  EXPECT_THAT(recommended_launch(well), IsEmpty());
}

TEST(RecommendedLaunch, NamesWhatStandsInTheWay) {
  LaunchSituation situation;
  situation.gpus = 4;
  situation.memory_nodes = 2;
  situation.environment = {
      {"CUDA_LAUNCH_BLOCKING", "1"}, {"NCCL_DEBUG", "INFO"}, {"TORCH_DISTRIBUTED_DEBUG", "INFO"}};
  LaunchSettings settings;

  const auto words = take_advice(recommended_launch(situation), settings);

  EXPECT_EQ(settings.processes_per_node, "gpu");
  EXPECT_TRUE(settings.standalone);
  EXPECT_EQ(settings.binding, Binding::node);
  EXPECT_TRUE(settings.unset_variables.contains("CUDA_LAUNCH_BLOCKING"));
  EXPECT_EQ(settings.set_variables.at("NCCL_DEBUG"), "WARN");
  EXPECT_FALSE(settings.unset_variables.contains("TORCH_DISTRIBUTED_DEBUG"))
      << "INFO costs next to nothing";
  EXPECT_EQ(words.size(), 5U);
}

}  // namespace
}  // namespace lockstep
