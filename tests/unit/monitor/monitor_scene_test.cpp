#include "monitor/monitor_scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/side_recording.hpp"
#include "sources/replay/replay_source.hpp"
#include "support/monitored_run.hpp"
#include "support/sample_recording.hpp"
#include "support/simulated_run.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::monitored_until;
using testing::plateau;
using testing::process_on_gpus;
using testing::recording_text;
using testing::screen_recording;
using testing::two_gpu_machine;

struct Scene : ::testing::Test {
  ReplaySource source{
      *RecordingReader::over(recording_text(two_gpu_machine(), {}), "test"), "test", {}};

  MonitorScene scene(SceneOptions options = {.judge = testing::judged}) {
    return {source, std::move(options)};
  }
};

TEST_F(Scene, AVerdictComesAfterTheFirstSecondsAndIsNotMadeAtEveryTick) {
  MonitorScene fed = scene();
  int judgements = 0;
  for (Record& record : plateau({0.9, 0.9}, 20)) {
    fed.add(std::move(record));
    if (!fed.is_judgement_due()) continue;
    fed.take_verdict(testing::judged(fed.to_be_judged({})), std::chrono::nanoseconds(0));
    ++judgements;
  }

  EXPECT_GE(judgements, 15);
  EXPECT_LE(judgements, 20) << "one a second at most";
}

TEST_F(Scene, TakesWhatProbesTellAndKeepsTheStepsPartsOnly) {
  MonitorScene fed = scene();
  for (Record& record : plateau({0.9, 0.9}, 5)) fed.add(std::move(record));
  StepMark step;
  step.duration_ms = 20;
  step.detail = std::make_shared<const StepDetail>();

  fed.add({5000, ProbeFact{7, 0, "loader", {{"workers", "2"}}}});
  fed.add({5001, step});

  ASSERT_EQ(fed.seen().steps.size(), 1U);
  EXPECT_EQ(fed.seen().steps.front().step.detail, nullptr);
}

TEST_F(Scene, JudgesLessOftenWhereThatTakesLonger) {
  MonitorScene fed = scene();
  int judgements = 0;
  for (Record& record : plateau({0.9, 0.9}, 20)) {
    fed.add(std::move(record));
    if (!fed.is_judgement_due()) continue;
    fed.take_verdict(testing::judged(fed.to_be_judged({})), std::chrono::milliseconds(50));
    ++judgements;
  }

  EXPECT_LE(judgements, 7);
  EXPECT_GE(judgements, 5) << "never more than three seconds apart";
}

TEST_F(Scene, JudgesTheLastHalfMinuteAndForgetsTheRest) {
  MonitorScene fed = scene();
  for (Record& record : plateau({0.9, 0.9}, 300)) fed.add(std::move(record));

  const Timeline judged = fed.to_be_judged({});

  EXPECT_NEAR(judged.to_ms - judged.from_ms, 30'000, 200);
  EXPECT_LE(judged.gpus[0].busy.size(), 310U);
}

TEST_F(Scene, ALogWithAReadingEveryHalfMinuteIsJudgedOverALongerTime) {
  MonitorScene fed = scene();
  for (int i = 0; i < 200; ++i) {
    Record record = plateau({0.9, 0.9}, 0.1).front();
    record.t_ms = i * 30'000.0;
    fed.add(std::move(record));
  }

  EXPECT_GE(fed.to_be_judged({}).gpus[0].busy.size(), 50U);
}

TEST_F(Scene, ALostGpuIsRememberedLongerThanTheWindow) {
  MonitorScene fed = scene();
  fed.add({100, Event{"lost", 1, "gone"}});
  for (Record& record : plateau({0.9, 0.9}, 120)) {
    record.t_ms += 200;
    fed.add(std::move(record));
  }
  const Timeline judged = fed.to_be_judged({});

  ASSERT_EQ(judged.events.size(), 1U);
  EXPECT_EQ(judged.events[0].event.kind.text(), "lost");
  EXPECT_TRUE(fed.seen().gpus[1].lost);
}

TEST_F(Scene, OnlyTheWantedProcessAndItsGpusAreShown) {
  MonitorScene fed =
      scene({.judge = testing::judged, .wanted = [](const ProcessSample& process, const Source&) {
               return process.pid == 7;
             }});
  fed.add({0, ProcessTick{process_on_gpus(7, {1}), process_on_gpus(8, {0})}});
  for (Record& record : plateau({0.9, 0.4}, 3)) fed.add(std::move(record));

  ASSERT_EQ(fed.seen().gpus.size(), 1U);
  EXPECT_EQ(fed.seen().gpus[0].info.index, 1);
  ASSERT_EQ(fed.seen().processes.size(), 1U);
  EXPECT_EQ(fed.to_be_judged({}).gpus.size(), 1U);
}

TEST_F(Scene, AGpuThatTheWantedProcessTakesLaterHasItsNameAndLimits) {
  MonitorScene fed =
      scene({.judge = testing::judged, .wanted = [](const ProcessSample& process, const Source&) {
               return process.pid == 7;
             }});
  fed.add({0, ProcessTick{process_on_gpus(7, {0})}});
  for (Record& record : plateau({0.9, 0.4}, 1)) fed.add(std::move(record));
  fed.add({1000, ProcessTick{process_on_gpus(7, {0, 1})}});
  for (Record& record : plateau({0.9, 0.4}, 1)) {
    record.t_ms += 1000;
    fed.add(std::move(record));
  }

  ASSERT_EQ(fed.seen().gpus.size(), 2U);
  EXPECT_EQ(fed.seen().gpus[1].info, two_gpu_machine().gpus[1]);
}

TEST_F(Scene, AnotherProcessesGpuThatIsLostMakesNoRow) {
  MonitorScene fed =
      scene({.judge = testing::judged, .wanted = [](const ProcessSample& process, const Source&) {
               return process.pid == 7;
             }});
  fed.add({0, ProcessTick{process_on_gpus(7, {0})}});
  fed.add({100, Event{"lost", 1, ""}});

  EXPECT_EQ(fed.seen().gpus.size(), 1U);
}

TEST_F(Scene, AReadingThatFailsLeavesTheLastGoodOne) {
  MonitorScene fed = scene();
  for (Record& record : plateau({0.9, 0.4}, 1)) fed.add(std::move(record));
  GpuSample failed;
  failed.busy = Reading<double>::error();
  fed.add({1000, GpuTick{failed}});

  EXPECT_EQ(fed.seen().gpus[0].latest.busy.state(), ReadingState::stale);
  EXPECT_DOUBLE_EQ(*fed.seen().gpus[0].latest.busy.last_value(), 0.9);
}

TEST_F(Scene, OneTimeThatCannotBeSpoilsNothing) {
  MonitorScene fed = scene();
  for (Record& record : plateau({0.9, 0.4}, 1)) fed.add(std::move(record));
  for (const double impossible : {1e15, 1e300, -1e300})
    fed.add({impossible, plateau({0.1, 0.1}, 0.1).front().content});
  for (Record& record : plateau({0.5, 0.5}, 1)) {
    record.t_ms += 1000;
    fed.add(std::move(record));
  }

  EXPECT_NEAR(fed.seen().history.newest_ms(), 2000, 1);
}

TEST_F(Scene, TimeUnderALimitIsAddedUp) {
  MonitorScene fed = scene();
  for (Record& record : plateau({0.9, 0.9}, 10)) {
    auto& tick = std::get<GpuTick>(record.content);
    ClockLimits limits;
    if (record.t_ms >= 4000 && record.t_ms < 6000) limits.add(ClockLimit::hw_thermal_slowdown);
    tick[0].limits = limits;
    fed.add(std::move(record));
  }

  EXPECT_NEAR(fed.seen().gpus[0].limited_ms, 2000, 150);
  EXPECT_DOUBLE_EQ(fed.seen().gpus[1].limited_ms, 0);
}

TEST_F(Scene, ADriverThatWentAwayIsSaidToBeAwayUntilItIsBack) {
  MonitorScene fed = scene();
  fed.add({100, Event{"driver_gone", std::nullopt, ""}});
  EXPECT_TRUE(fed.seen().driver_gone);
  fed.add({200, Event{"driver_back", std::nullopt, ""}});
  EXPECT_FALSE(fed.seen().driver_gone);
}

TEST(MonitoredRun, NamesWhatEveryGpuDoes) {
  const auto turns = monitored_until(screen_recording("turns"), 8000);
  const auto late = monitored_until(screen_recording("straggler"), 8000);
  const auto lost = monitored_until(screen_recording("lost"), 12'000);

  EXPECT_EQ(turns->report->verdict->pattern, Pattern::taking_turns);
  EXPECT_EQ(late->gpus[3].state, GpuState::late);
  EXPECT_EQ(late->gpus[2].state, GpuState::in_step);
  EXPECT_EQ(lost->gpus[2].state, GpuState::lost);
  EXPECT_EQ(lost->gpus[1].state, GpuState::spinning) << "the others wait for it in a collective";
}

TEST(SideRecording, KeepsTwoMinutes) {
  const testing::TemporaryFolder folder;
  SideRecording recording;
  for (Record& record : plateau({0.5, 0.5}, 600)) ASSERT_TRUE(recording.take(record));
  ASSERT_TRUE(recording.start((folder / "run.jsonl").string(), two_gpu_machine()));
  ASSERT_TRUE(recording.end());

  auto reader = RecordingReader::open(folder / "run.jsonl");
  const auto records = testing::all_records(*reader);
  EXPECT_NEAR(records.back().t_ms - records.front().t_ms, 120'000, 200);
}

TEST(SideRecording, CanBeMadeTwice) {
  const testing::TemporaryFolder folder;
  SideRecording recording;
  for (const char* const name : {"one.jsonl", "two.jsonl"}) {
    ASSERT_TRUE(recording.start((folder / name).string(), two_gpu_machine()));
    EXPECT_TRUE(recording.ongoing());
    for (Record& record : plateau({0.5, 0.5}, 1)) ASSERT_TRUE(recording.take(record));
    ASSERT_TRUE(recording.end());
    EXPECT_FALSE(recording.ongoing());
    EXPECT_TRUE(std::filesystem::exists(folder / name));
  }
}

}  // namespace
}  // namespace lockstep
