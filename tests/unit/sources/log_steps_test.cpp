// What a training log's lines tell of its steps, and of which of several runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "messages/known_messages.hpp"
#include "sources/log/appended_runs.hpp"
#include "sources/log/step_lines.hpp"
#include "sources/log/training_log.hpp"
#include "support/text_lines.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::lines_of;

double median_ms(const std::string& text) {
  auto steps = step_lines(lines_of(text));
  if (steps.empty()) return 0;
  std::ranges::nth_element(steps, steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), {},
                           &StepLine::step_ms);
  return steps[steps.size() / 2].step_ms;
}

// "3/100 [00:07<04:00, 2.50s/it]"
std::string bar(int step, int all, int seconds, double rate_s) {
  return fmt::format(" {}/{} [{:02}:{:02}<10:00, {:.2f}s/it]", step, all, seconds / 60,
                     seconds % 60, rate_s);
}

TEST(LogSteps, ABarOfAnEvaluationIsNotTheTrainings) {
  std::string text;
  for (int step = 1; step <= 30; ++step) {
    text += bar(step, 30, 10 * step, 10) + "\n";
    if (step % 10 != 0) continue;
    for (int batch = 1; batch <= 60; ++batch) text += bar(batch, 60, batch / 2, 0.5) + "\n";
  }
  EXPECT_NEAR(median_ms(text), 10'000, 100);
}

TEST(LogSteps, EpochsThatAreCountedAroundTheStepsAreNotTheSteps) {
  std::string text;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    for (int step = 1; step <= 50; ++step) text += bar(step, 50, 2 * step, 2) + "\n";
    text += bar(epoch, 3, 101 * epoch, 101) + "\n";
  }
  EXPECT_NEAR(median_ms(text), 2'000, 100);
}

TEST(LogSteps, WhatIsLeftOfAShortEpochCountsToo) {
  std::string text;  // 26 batches in 19 s, the first of them slow
  for (int epoch = 0; epoch < 20; ++epoch)
    for (int step = 1; step <= 26; ++step)
      text += bar(step, 26, step < 4 ? step * 2 : 6 + (step - 3) * 13 / 23, 0.7) + "\n";
  EXPECT_NEAR(median_ms(text), 1e3 * 17 / 25, 30);
}

TEST(LogSteps, OneLookAtABarIsEnoughWhereItCountsManySteps) {
  EXPECT_NEAR(median_ms("Epoch 0:  19%|#9  | 1600/8500 [11:06:40<50:00:00, 26.05s/it, loss=0.2]\n"),
              25'000, 1);
  EXPECT_EQ(median_ms("Epoch 0:   1%|    | 2/8500 [00:06<50:00:00, 3.05s/it, loss=0.2]\n"), 0);
}

TEST(LogSteps, AnEpochOfOneLongStepIsOne) {
  EXPECT_NEAR(median_ms("Epoch 9: 100%|###| 1/1 [00:39<00:00, 39.23s/it]\rEpoch 9: 100%|###| 1/1 "
                        "[00:40<00:00, 40.25s/it]\n"),
              40'000, 1);
}

TEST(LogSteps, TheFirstBatchOfAnEpochIsNoMeanOfIt) {
  std::string text;
  for (int epoch = 0; epoch < 20; ++epoch)
    text += fmt::format(
        "Epoch: [{}][0]\tTime 2.900 (2.900)\tData 1.900 (1.900)\n"
        "Epoch: [{}][50]\tTime 0.700 (0.757)\tData 0.000 (0.038)\n",
        epoch, epoch);
  const auto steps = step_lines(lines_of(text));
  ASSERT_FALSE(steps.empty());
  EXPECT_NEAR(steps.back().step_ms, 714, 5) << "(51 * 0.757 - 2.9) / 50";
  EXPECT_LT(*steps.back().data_ms, 5);
}

// Time so far in brackets: 264 s for the first batch, then a third of a second each.
TEST(LogSteps, AFirstBatchThatTakesMostOfItsEpochIsAPartOfTheStep) {
  std::string text;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    text += fmt::format("Epoch: [{}][0/25]\tTime 264.5 (264.5)\tData 264.1 (264.1)\n", epoch);
    text += fmt::format("Epoch: [{}][24/25]\tTime 0.329 (21.171)\tData 0.211 (20.910)\n", epoch);
  }
  EXPECT_NEAR(median_ms(text), 21'171, 1);
}

TEST(LogSteps, QuickStepsWeighAsManyAsTheyAre) {
  std::string text;  // four thousand in ten seconds, then two in ten
  for (int second = 0, step = 0; second <= 100; second += 10)
    text += fmt::format("{}it [00:{:02}, {}]\n", step += second < 50 ? 4000 : 2, second % 60,
                        second < 50 ? "400.00it/s" : "5.00s/it");
  EXPECT_NEAR(median_ms(text), 2.5, 0.1);
}

TEST(LogSteps, ABarOfPreloadingIsNoTraining) {
  std::string text;
  for (int i = 1; i < 60; ++i)
    text +=
        fmt::format("Preloading the dataset:   0%|  | {}/21944 [00:{:02}<10:00, 1.00it/s]\n", i, i);
  EXPECT_THAT(step_lines(lines_of(text)), IsEmpty());
}

TEST(LogSteps, AreReadInManyForms) {
  const auto three = [](const std::string& line) {
    return line + "\n" + line + "\n" + line + "\n";
  };
  EXPECT_NEAR(median_ms(three("[Train][Epoch 2/9][Iter: 60/98]lr: 0.1, loss: 6.3, batch_cost: "
                              "0.49000s, reader_cost: 0.00100, ips: 260 samples/s")),
              490, 1);
  EXPECT_NEAR(median_ms(three("[30,   100/ 2562] - loss: 3.4706 [mem: 6.50e+04] (1501.2 ms)")),
              1501, 1);
  EXPECT_NEAR(median_ms(three("epoch: 12/36, cur_iter=11269/14065, loss=2.6, d_time=0.00(0.01), "
                              "f_time=0.33(0.35), b_time=0.33(0.36)")),
              360, 1);
  EXPECT_NEAR(median_ms(three("Train: 3 [ 100/1251]  Loss: 5.1 (5.2)  Time: 0.345s,  741.21/s  "
                              "(0.351s,  729.50/s)  LR: 1e-3  Data: 0.012 (0.013)")),
              351, 1);
  EXPECT_NEAR(median_ms(three("Epoch: [0/100]  [ 10/2917]  eta: 0:24:31  loss: 10.9 (10.9)  time: "
                              "0.502425  data: 0.000188  max mem: 11664")),
              502, 1);
  EXPECT_EQ(median_ms(three("[Eval][Epoch 24][Iter: 0/25]loss: 4.9, batch_cost: 4.54s")), 0)
      << "an evaluation";
}

TEST(LogSteps, ABarThatIsDrawnAgainIsOneLook) {
  EXPECT_EQ(
      median_ms(bar(1, 1, 0, 0.4) + "\r" + bar(1, 1, 0, 0.9) + "\r" + bar(1, 1, 0, 0.6) + "\n"), 0);
  EXPECT_EQ(median_ms("Counting words in a.txt: 100it [00:00, 4987.94it/s]Counting words in a.txt: "
                      "300it [00:00, 4990.00it/s]Counting words in a.txt: 499it [00:00, "
                      "4987.94it/s]\n"),
            0);
}

TEST(LogSteps, TheLastWordsOfATrainerTellWhereNoLineDoes) {
  EXPECT_NEAR(median_ms("{'train_runtime': 11174.9, 'train_samples_per_second': 10.4, "
                        "'train_steps_per_second': 0.08, 'train_loss': 0.4}\n"),
              12'500, 1);
  EXPECT_EQ(median_ms("{'train_runtime': 21142.8, 'train_steps_per_second': 0.005}\n"), 0)
      << "one digit";
}

TEST(LogSteps, AreCountedBesideAClock) {
  std::string text;
  for (int step = 1; step <= 60; ++step)
    text += fmt::format("[2025-08-14 23:{:02}:{:02},580] [INFO] [Rank 0] step={}, lr=[1e-05]\n",
                        50 + step * 5 / 60, step * 5 % 60, step);
  EXPECT_NEAR(median_ms(text), 5'000, 1);

  EXPECT_NEAR(median_ms("| epoch 001: 200 / 1374 loss=14, ups=0, num_updates=190, wall=1061\n"
                        "| epoch 001: 300 / 1374 loss=13, ups=0, num_updates=290, wall=1551\n"),
              4'900, 1);
}

TEST(LogSteps, AClockPassesMidnight) {
  std::string text;
  for (int step = 0; step < 40; ++step) {
    const int second = 86'000 + 30 * step;
    text += fmt::format("{:02}:{:02}:{:02} step {} loss 0.5\n", second / 3600 % 24,
                        second / 60 % 60, second % 60, step);
  }
  EXPECT_NEAR(median_ms(text), 30'000, 1);
}

TEST(LogSteps, AListOfThingsToDoIsNoTraining) {
  EXPECT_EQ(median_ms("10:00:00 step 1: load the data\n10:01:00 step 2: make the model\n"
                      "10:02:30 step 3: train\n10:09:00 step 4: save\n"),
            0);
}

TEST(LogSteps, NoTrainingHasThatManySteps) {
  std::string text;
  for (int step = 0; step < 40; ++step)
    text += fmt::format("10:{:02}:00 step {}e300 loss 0.5\n", step, step + 1);
  EXPECT_EQ(median_ms(text), 0);
}

TEST(LogSteps, WhatIsLeftToGoIsNoClock) {
  std::string text;
  for (int step = 0; step < 40; ++step)
    text += fmt::format("eta: 01:{:02}:{:02} step {} loss 0.5\n", 59 - step, 59 - step, step);
  EXPECT_EQ(median_ms(text), 0);
}

// ---- several runs in one log ----

constexpr const char* kFailedAtOnce =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 1, in <module>\n"
    "    import nothing\n"
    "ModuleNotFoundError: No module named 'nothing'\n";

TEST(AppendedRuns, TheLastIsReadWhereAProgramStartedAnew) {
  std::string text = std::string(kFailedAtOnce) + "Setting ds_accelerator to cuda (auto detect)\n";
  for (int step = 1; step <= 30; ++step) text += bar(step, 30, 10 * step, 10) + "\n";
  const auto log = parse_training_log(lines_of(text));
  ASSERT_TRUE(log);
  EXPECT_TRUE(std::ranges::none_of(log->records, [](const Record& record) {
    return std::holds_alternative<Event>(record.content);
  })) << "the earlier run's error is not this one's";
  EXPECT_THAT(log->notes, ElementsAre(HasSubstr("2 runs")));
}

TEST(AppendedRuns, AnotherJobsNumberIsAnotherRun) {
  const auto run = last_run(lines_of(
      "loss 1\nslurmstepd: error: *** JOB 11 ON n1 CANCELLED AT 2025-08-17T01:22:18 ***\n"
      "loss 2\nslurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2025-08-18T01:22:18 ***\n"));
  EXPECT_EQ(run.runs, 2U);
  EXPECT_EQ(run.first_line, 2U);
}

TEST(AppendedRuns, NumbersThatFallAreNoOrderOfRuns) {
  EXPECT_EQ(
      last_run(lines_of("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2025-08-18 ***\n"
                        "or\nslurmstepd: error: *** JOB 11 ON n1 CANCELLED AT 2025-08-17 ***\n"))
          .runs,
      1U);
}

TEST(AppendedRuns, OneJobOfSeveralNodesIsOneRun) {
  EXPECT_EQ(
      last_run(lines_of("loss 1\nslurmstepd: error: *** JOB 11 ON n1 CANCELLED AT 2025-08-17 ***\n"
                        "slurmstepd: error: *** JOB 11 ON n1 CANCELLED AT 2025-08-17 ***\n"))
          .runs,
      1U);
}

TEST(AppendedRuns, ARankThatLoadsOnBehindAnothersErrorIsTheSameRun) {
  EXPECT_EQ(last_run(lines_of("[rank1]: Traceback (most recent call last):\n"
                              "[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n"
                              "Loading checkpoint shards:   0%|          | 0/2 [00:00<?, ?it/s]\n"
                              "Setting ds_accelerator to cuda (auto detect)\n"))
                .runs,
            1U);
}

TEST(AppendedRuns, LinesAreCountedFromTheTopOfTheFile) {
  const auto log = parse_training_log(
      lines_of(std::string(kFailedAtOnce) + "nohup: ignoring input\n" + kFailedAtOnce));
  ASSERT_TRUE(log);
  ASSERT_EQ(log->records.size(), 1U);
  EXPECT_THAT(std::get<Event>(log->records[0].content).detail, HasSubstr("line 9: "));
}

// ---- no room for the model ----

TEST(TrainingLog, TellsAModelWithoutRoomFromABatchWithout) {
  const auto told = [](const std::string& frame) {
    const auto log = parse_training_log(lines_of(
        "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\n"
        "    x = step(model)\n  File \"module.py\", line 1, in " +
        frame + "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 126.00 MiB.\n"));
    return std::get<Event>(log->records.at(0).content).detail;
  };
  EXPECT_THAT(told("_apply\n    param = fn(param)"), HasSubstr(kNoBatchYet));
  EXPECT_THAT(told("forward\n    return self.net(x)"), ::testing::Not(HasSubstr(kNoBatchYet)));
}

}  // namespace
}  // namespace lockstep
