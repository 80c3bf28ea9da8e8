#include "training/train_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "training/train_flags.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(TrainSettings, TakeEachKindOfValueByItsName) {
  TrainSettings settings;

  EXPECT_TRUE(set_setting(settings, "batch-size", "12"));
  EXPECT_TRUE(set_setting(settings, "learning-rate", "6e-4"));
  EXPECT_TRUE(set_setting(settings, "drop-last", "false"));
  EXPECT_TRUE(set_setting(settings, "model", "gpt2"));
  EXPECT_TRUE(set_setting(settings, "timeout", "90s"));

  EXPECT_EQ(settings.batch_size, 12);
  EXPECT_DOUBLE_EQ(settings.learning_rate, 6e-4);
  EXPECT_FALSE(settings.drop_last);
  EXPECT_EQ(settings.model, "gpt2");
  EXPECT_EQ(settings.timeout, 90s);
}

TEST(TrainSettings, RefuseWhatMakesNoSense) {
  TrainSettings settings;
  for (const auto& [name, text] :
       std::vector<std::pair<const char*, const char*>>{{"batch-size", "0"},
                                                        {"batch-size", "two"},
                                                        {"batch-size", "-4"},
                                                        {"batch-size", ""},
                                                        {"learning-rate", "nan"},
                                                        {"learning-rate", "-1"},
                                                        {"timeout", "30"},
                                                        {"drop-last", "maybe"}})
    EXPECT_FALSE(set_setting(settings, name, text)) << name << " " << text;
  EXPECT_EQ(settings, TrainSettings{});
}

TEST(TrainSettings, OfferTheNearestForAMistypedNameOrWord) {
  TrainSettings settings;

  EXPECT_THAT(set_setting(settings, "batch-sise", "4").error().next, HasSubstr("batch-size"));
  EXPECT_THAT(set_setting(settings, "parallel", "dpp").error().next, HasSubstr("ddp"));
}

TEST(TrainConfig, IsReadBackAsItWasPrinted) {
  TrainSettings settings;
  settings.batch_size = 3;
  settings.loader_delay = 5ms;
  settings.drop_last = false;
  settings.learning_rate = 1e-3;
  settings.data = "a b.txt";
  TrainSettings read;
  std::vector<std::string> given;

  ASSERT_TRUE(read_train_config(read, train_config_text(settings), "config.json", given));

  EXPECT_EQ(read, settings);
  EXPECT_EQ(given.size(), all_settings().size());
}

TEST(TrainConfig, TakesUnderscoresAndWholeNumbersWrittenAsFractions) {
  TrainSettings settings;
  std::vector<std::string> given;

  ASSERT_TRUE(read_train_config(
      settings, R"({"batch_size": 4.0, "log-every": 5, "pin_memory": false})", "c.json", given));

  EXPECT_EQ(settings.batch_size, 4);
  EXPECT_EQ(settings.log_every, 5);
  EXPECT_FALSE(settings.pin_memory);
}

TEST(TrainConfig, RefusesUnknownKeysWithTheNearest) {
  TrainSettings settings;
  std::vector<std::string> given;

  const Status read = read_train_config(
      settings, R"({"gradient_accumulation": 2, "acumulation": 2})", "c.json", given);

  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().what, HasSubstr("c.json"));
  EXPECT_THAT(read.error().next, HasSubstr("accumulation"));
  EXPECT_FALSE(read_train_config(settings, "[1]", "c.json", given));
  EXPECT_FALSE(read_train_config(settings, "{", "c.json", given));
  EXPECT_FALSE(read_train_config(settings, R"({"layers": 1e999})", "c.json", given));
  EXPECT_FALSE(
      read_train_config(settings, R"({"layers": 66666666666666666666666666})", "c.json", given));
  EXPECT_FALSE(read_train_config(settings, R"({"layers": null})", "c.json", given));
  EXPECT_FALSE(read_train_config(settings, R"({"layers": [1]})", "c.json", given));
}

TEST(TrainPreset, HasThePublishedValues) {
  TrainSettings standard;
  TrainSettings fast;

  ASSERT_TRUE(apply_preset(standard, "standard"));
  ASSERT_TRUE(apply_preset(fast, "fast"));

  EXPECT_EQ(std::tuple(standard.batch_size, standard.accumulation, standard.log_every),
            std::tuple(4, 2, 5));
  EXPECT_EQ(std::tuple(fast.batch_size, fast.accumulation, fast.log_every), std::tuple(8, 1, 10));
  for (const TrainSettings& preset : {standard, fast}) {
    EXPECT_EQ(preset.workers, 4);
    EXPECT_TRUE(preset.pin_memory);
    EXPECT_FALSE(preset.find_unused);
    EXPECT_EQ(preset.save_total_limit, 1);
  }
  EXPECT_FALSE(apply_preset(fast, "faster"));
}

TEST(TrainFlags, MakeTheSettingsTheyWereMadeFrom) {
  TrainSettings settings;
  settings.drop_last = false;
  settings.find_unused = true;
  settings.batch_size = 3;
  settings.timeout = 5s;

  const auto flags = flags_of(settings);

  EXPECT_THAT(flags, ElementsAre("--no-drop-last", "--batch-size", "3", "--find-unused",
                                 "--timeout", "5s"));
  CLI::App app;
  TrainFlags typed;
  add_train_flags(app, typed);
  app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));
  EXPECT_EQ(*settings_from(typed), settings);
  EXPECT_TRUE(flags_of(TrainSettings{}).empty());
}

}  // namespace
}  // namespace lockstep
