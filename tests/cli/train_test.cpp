// `lockstep train` without training: what it chooses, says and refuses. What the trainer does is
// tests/end_to_end/train_test.py's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::run_lockstep;

TEST(TrainCommand, PrintsAConfigThatItTakesBack) {
  const testing::TemporaryFolder folder;
  const auto printed = run_lockstep(
      {"train", "--preset", "fast", "--model", "small", "--device", "cpu", "--print-config"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const auto config = nlohmann::json::parse(printed.out);

  const auto again = run_lockstep(
      {"train", "--config", folder.write("c.json", printed.out).string(), "--print-config"});

  EXPECT_EQ(config["batch-size"], 8);
  EXPECT_EQ(config["model"], "small");
  EXPECT_EQ(again.out, printed.out);
}

TEST(TrainCommand, LetsFlagsWinOverTheConfigFile) {
  const testing::TemporaryFolder folder;
  const std::string config =
      folder.write("c.json", R"({"batch_size": 3, "log_every": 7})").string();

  const auto printed =
      nlohmann::json::parse(run_lockstep({"train", "--config", config, "--batch-size", "5",
                                          "--device", "cpu", "--print-config"})
                                .out);

  EXPECT_EQ(printed["batch-size"], 5);
  EXPECT_EQ(printed["log-every"], 7);
}

TEST(TrainCommand, RefusesWithTheNearestWord) {
  const testing::TemporaryFolder folder;

  const auto key =
      run_lockstep({"train", "--config", folder.write("c.json", R"({"acumulation": 2})").string()});
  const auto flag = run_lockstep({"train", "--batchsize", "4"});
  const auto word = run_lockstep({"train", "--parallel", "dpp"});

  EXPECT_EQ(key.code, 2);
  EXPECT_THAT(key.err, HasSubstr("accumulation"));
  EXPECT_EQ(flag.code, 2);
  EXPECT_THAT(flag.err, HasSubstr("--batch-size"));
  EXPECT_EQ(word.code, 2);
  EXPECT_THAT(word.err, HasSubstr("ddp"));
}

TEST(TrainCommand, RefusesABatchThatDoesNotDivideBeforeAnythingStarts) {
  const auto end = run_lockstep(
      {"train", "--device", "cpu", "--devices", "2", "--batch-size", "8", "--global-batch", "40"});

  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.err, HasSubstr("32 or 48"));
}

TEST(TrainCommand, TakesWhatAReportSuggests) {
  const testing::TemporaryFolder folder;
  const std::string report =
      folder
          .write(
              "r.json",
              R"({"lockstep_report":1,"findings":[{"code":"S302","name":"logging-too-often"},{"code":"D202","name":"loader-without-workers"}]})")
          .string();

  const auto printed =
      nlohmann::json::parse(run_lockstep({"train", "--from", report, "--workers", "1", "--device",
                                          "cpu", "--print-config"})
                                .out);
  const auto absent = run_lockstep({"train", "--from", (folder / "none.json").string()});
  const auto foreign = run_lockstep({"train", "--from", folder.write("f.json", "{}").string()});

  EXPECT_EQ(printed["log-every"], 10);
  EXPECT_EQ(printed["workers"], 1) << "the user's own flag wins";
  EXPECT_EQ(absent.code, 2);
  EXPECT_EQ(foreign.code, 3);
}

}  // namespace
}  // namespace lockstep
