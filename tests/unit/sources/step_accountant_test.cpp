// How the time of a step is dealt out. Times in microseconds; a step from 1000 to 2000 unless it
// says otherwise.
#include "sources/probe/step_accountant.hpp"

#include <gtest/gtest.h>

#include "support/ring_writer.hpp"

namespace lockstep {
namespace {

using testing::span_at;

class Steps {
 public:
  Steps() { end_at(1000); }
  Steps& add(const lockstep_span_record& span) {
    accountant_.add(span);
    return *this;
  }
  Steps& look(std::uint64_t at_us, std::uint32_t line, const char* stack) {
    lockstep_sample sample{};
    sample.at_ns = at_us * 1000;
    sample.weight_ns = 10'000'000;
    sample.line = line;
    std::strncpy(sample.stack, stack, sizeof sample.stack);
    std::strncpy(sample.file, "/home/me/train.py", sizeof sample.file);
    accountant_.add(sample);
    return *this;
  }
  Steps& host(const lockstep_span_record& span) {
    accountant_.add_host(span);
    return *this;
  }
  Steps& end_at(std::uint64_t at_us) {
    accountant_.add(span_at(LOCKSTEP_SPAN_OPTIMIZER, at_us - 100, at_us, "SGD.step", 9,
                            LOCKSTEP_FLAG_STEP_END));
    return *this;
  }
  StepMark step() {
    auto steps = accountant_.take(StepAccountant::Until::end);
    EXPECT_EQ(steps.size(), 1U);
    return steps.empty() ? StepMark() : steps.front().mark;
  }
  std::vector<StepAccountant::Step> all() { return accountant_.take(StepAccountant::Until::end); }

 private:
  StepAccountant accountant_;
};

double part(const StepMark& step, StepPart which) {
  return step.spans_ms[index_of(which)].value_or(-1);
}

double sum(const StepMark& step) {
  double all = 0;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (i != index_of(StepPart::collective_hidden)) all += step.spans_ms[i].value_or(0);
  return all;
}

TEST(StepAccountant, GivesEveryMomentToOnePart) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_DATA_WAIT, 1100, 1300))
                            .add(span_at(LOCKSTEP_SPAN_FORWARD, 1300, 1600))
                            .add(span_at(LOCKSTEP_SPAN_BACKWARD, 1650, 1850))
                            .end_at(2000)
                            .step();

  EXPECT_DOUBLE_EQ(step.duration_ms, 1.0);
  EXPECT_DOUBLE_EQ(part(step, StepPart::data_wait), 0.2);
  EXPECT_DOUBLE_EQ(part(step, StepPart::forward), 0.3);
  EXPECT_DOUBLE_EQ(part(step, StepPart::backward), 0.2);
  EXPECT_DOUBLE_EQ(part(step, StepPart::optimizer), 0.1);
  EXPECT_NEAR(part(step, StepPart::other), 0.2, 1e-9);
  EXPECT_NEAR(sum(step), step.duration_ms, 1e-9);
}

TEST(StepAccountant, GivesTheInnerPieceItsTime) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_SYNC, 1400, 1500, "Tensor.item", 3))
                            .add(span_at(LOCKSTEP_SPAN_FORWARD, 1300, 1600))
                            .end_at(2000)
                            .step();

  EXPECT_DOUBLE_EQ(part(step, StepPart::sync), 0.1);
  EXPECT_DOUBLE_EQ(part(step, StepPart::forward), 0.2);
}

TEST(StepAccountant, LeavesToACheckpointWhatLiesWithinIt) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_SYNC, 1400, 1500, "Tensor.cpu", 3))
                            .add(span_at(LOCKSTEP_SPAN_CHECKPOINT, 1300, 1600, "torch.save", 4))
                            .end_at(2000)
                            .step();

  EXPECT_NEAR(part(step, StepPart::checkpoint), 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(part(step, StepPart::sync), 0) << "it goes when the checkpoint goes";
}

TEST(StepAccountant, TakesShortCallsFromThePieceThatHoldsThem) {
  lockstep_span_record prints =
      span_at(LOCKSTEP_SPAN_LOGGING, 1310, 1590, "print", 7, LOCKSTEP_FLAG_SUMMED);
  prints.busy_ns = 50'000;
  prints.count = 10;

  const StepMark step =
      Steps().add(span_at(LOCKSTEP_SPAN_FORWARD, 1300, 1600)).add(prints).end_at(2000).step();

  EXPECT_DOUBLE_EQ(part(step, StepPart::logging), 0.05);
  EXPECT_DOUBLE_EQ(part(step, StepPart::forward), 0.25);
  EXPECT_NEAR(sum(step), 1.0, 1e-9);
}

TEST(StepAccountant, CountsPassesAndThoseThatSync) {
  const StepMark step =
      Steps()
          .add(span_at(LOCKSTEP_SPAN_BACKWARD, 1100, 1200))
          .add(span_at(LOCKSTEP_SPAN_BACKWARD, 1300, 1400, "", 0, LOCKSTEP_FLAG_SYNCS))
          .end_at(2000)
          .step();

  EXPECT_EQ(step.passes, 2);
  EXPECT_EQ(step.synced_passes, 1);
}

TEST(StepAccountant, CallsPassesWithoutTrainingEvaluationWithTheDataTheyWaitFor) {
  lockstep_span_record trains = span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1150);
  trains.subject = 5;
  lockstep_span_record waits = span_at(LOCKSTEP_SPAN_DATA_WAIT, 1300, 1350);
  waits.subject = 77;
  lockstep_span_record evaluates =
      span_at(LOCKSTEP_SPAN_FORWARD, 1360, 1400, "forward", 30, LOCKSTEP_FLAG_NO_TRAINING);
  evaluates.subject = 5;
  lockstep_span_record again =
      span_at(LOCKSTEP_SPAN_FORWARD, 1500, 1600, "forward", 30, LOCKSTEP_FLAG_NO_TRAINING);
  again.subject = 5;

  const StepMark step =
      Steps().add(trains).add(waits).add(evaluates).add(again).end_at(2000).step();

  EXPECT_NEAR(part(step, StepPart::evaluation), 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(part(step, StepPart::data_wait), 0);
  EXPECT_DOUBLE_EQ(part(step, StepPart::forward), 0.05);
}

TEST(StepAccountant, LeavesATeachersPassToTheForwardPart) {
  lockstep_span_record trains = span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1150);
  trains.subject = 5;
  lockstep_span_record teaches =
      span_at(LOCKSTEP_SPAN_FORWARD, 1200, 1300, "forward", 30, LOCKSTEP_FLAG_NO_TRAINING);
  teaches.subject = 6;  // a module that is never trained

  const StepMark step = Steps().add(trains).add(teaches).end_at(2000).step();

  EXPECT_DOUBLE_EQ(part(step, StepPart::evaluation), 0);
  EXPECT_NEAR(part(step, StepPart::forward), 0.15, 1e-9);
}

TEST(StepAccountant, HidesBehindTheGpuWhatEndedBeforeItRanDry) {
  const StepMark step =
      Steps()
          .add(span_at(LOCKSTEP_SPAN_DATA_WAIT, 1100, 1500, "DataLoader", 2))
          .add(span_at(LOCKSTEP_SPAN_OTHER, 1400, 1600, "GPU idle", 0, LOCKSTEP_FLAG_GPU_IDLE))
          .end_at(2000)
          .step();

  ASSERT_TRUE(step.gpu_idle_ms);
  EXPECT_NEAR(*step.gpu_idle_ms, 0.2, 1e-9);
  ASSERT_EQ(step.detail->pieces.size(), 2U);
  EXPECT_NEAR(step.detail->pieces.front().hidden_ms, 0.3, 1e-9);
}

TEST(StepAccountant, SaysThatTheGpuRanDryWhereItHadNothingLeftWhenTheStepBeforeEnded) {
  const auto idle = [](std::uint64_t from, std::uint64_t to) {
    return *Steps()
                .add(span_at(LOCKSTEP_SPAN_OTHER, from, to, "GPU idle", 0, LOCKSTEP_FLAG_GPU_IDLE))
                .end_at(2000)
                .step()
                .gpu_ran_dry;
  };

  EXPECT_TRUE(idle(1030, 1200));
  EXPECT_FALSE(idle(1400, 1600)) << "it had 0.4 ms of work left";
  EXPECT_FALSE(idle(1076, 1080)) << "busy all along: its two events lie 4 microseconds apart";
}

TEST(StepAccountant, TakesNoTimeForAnotherThreadsWork) {
  const StepMark step =
      Steps()
          .add(span_at(LOCKSTEP_SPAN_LOGGING, 1100, 1900, "print", 7, LOCKSTEP_FLAG_OTHER_THREAD))
          .end_at(2000)
          .step();

  EXPECT_DOUBLE_EQ(part(step, StepPart::logging), 0);
}

TEST(StepAccountant, BeginsAStepWhereTheLastEnded) {
  Steps steps;
  steps.end_at(2000).end_at(3500);

  const auto all = steps.all();

  ASSERT_EQ(all.size(), 2U);
  EXPECT_DOUBLE_EQ(all[0].mark.duration_ms, 1.0);
  EXPECT_DOUBLE_EQ(all[1].mark.duration_ms, 1.5);
  EXPECT_EQ(all[1].mark.index, 2);
}

TEST(StepAccountant, PassesOverSpansThatCannotBe) {
  lockstep_span_record backwards = span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1200);
  backwards.end_ns = 5;
  lockstep_span_record no_part = span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1200);
  no_part.part = 99;
  lockstep_span_record too_busy = span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1200);
  too_busy.busy_ns = 1'000'000'000;

  const StepMark step = Steps().add(backwards).add(no_part).add(too_busy).end_at(2000).step();

  EXPECT_DOUBLE_EQ(part(step, StepPart::forward), 0);
  EXPECT_NEAR(sum(step), 1.0, 1e-9);
}

TEST(StepAccountant, PutsLooksAndCallsIntoTheStretchThatNothingExplains) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_FORWARD, 1000, 1300))
                            .look(1500, 14, "write_line<log")
                            .host(span_at(LOCKSTEP_SPAN_LOGGING, 1400, 1600, "fsync"))
                            .end_at(2000)
                            .step();

  ASSERT_EQ(step.detail->rests.size(), 1U);
  EXPECT_NEAR(step.detail->rests[0].length_ms, 0.6, 1e-9);
  ASSERT_EQ(step.detail->rests[0].calls.size(), 1U);
  EXPECT_NEAR(step.detail->rests[0].calls[0].length_ms, 0.2, 1e-9);
  ASSERT_EQ(step.detail->looks.size(), 1U);
  EXPECT_EQ(step.detail->looks[0].place->line, 14);
}

TEST(StepAccountant, ASleepWithinAForwardIsTheProgramsOwnCode) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_FORWARD, 1000, 1800))
                            .host(span_at(LOCKSTEP_SPAN_OTHER, 1200, 1700, "clock_nanosleep"))
                            .end_at(2000)
                            .step();

  EXPECT_NEAR(part(step, StepPart::forward), 0.3, 1e-9);
  EXPECT_NEAR(part(step, StepPart::other), 0.6, 1e-9) << "with 0.1 behind the pass";
  EXPECT_NEAR(sum(step), 1, 1e-9);
}

TEST(StepAccountant, TorchsOwnWaitsForItsThreadsStayInThePass) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_BACKWARD, 1000, 1800))
                            .host(span_at(LOCKSTEP_SPAN_OTHER, 1200, 1700, "pthread_cond_wait"))
                            .end_at(2000)
                            .step();

  EXPECT_NEAR(part(step, StepPart::backward), 0.8, 1e-9);
}

TEST(StepAccountant, ASleepWithinAnotherPieceIsThatPieces) {
  const StepMark step = Steps()
                            .add(span_at(LOCKSTEP_SPAN_DATA_WAIT, 1000, 1800))
                            .host(span_at(LOCKSTEP_SPAN_OTHER, 1200, 1700, "clock_nanosleep"))
                            .end_at(2000)
                            .step();

  EXPECT_NEAR(part(step, StepPart::data_wait), 0.8, 1e-9);
}

}  // namespace
}  // namespace lockstep
