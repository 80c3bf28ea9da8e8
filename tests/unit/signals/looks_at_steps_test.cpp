// Whether main threads ran, waited for a core or were blocked during the lines of their steps.
#include "signals/looks_at_steps.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "signals/module_times.hpp"
#include "signals/step_times.hpp"

namespace lockstep {
namespace {

constexpr double kSeenStepMs = 100;
constexpr int kStepsSeen = 60;

std::shared_ptr<const CodePlace> line(int number, const char* what) {
  return std::make_shared<const CodePlace>(CodePlace{"train.py", number, what, 0});
}

StepPiece piece(StepPart part, std::shared_ptr<const CodePlace> place, double from, double length) {
  StepPiece made;
  made.part = part;
  made.place = std::move(place);
  made.from_ms = from;
  made.length_ms = made.own_ms = length;
  return made;
}

// Each step: 60 ms of a forward pass, then 40 ms in a line of the user's own.
Timeline of_steps(PieceMoment moment = PieceMoment::known) {
  Timeline timeline;
  auto detail = std::make_shared<StepDetail>();
  detail->pieces = {piece(StepPart::forward, line(10, "forward"), 0, 60),
                    piece(StepPart::other, line(20, "wait"), 60, 40)};
  detail->pieces.back().moment = moment;
  for (int step = 1; step <= kStepsSeen; ++step) {
    StepMark mark;
    mark.index = step;
    mark.duration_ms = kSeenStepMs;
    mark.spans_ms[index_of(StepPart::forward)] = 60;
    mark.spans_ms[index_of(StepPart::other)] = 40;
    mark.detail = detail;
    timeline.steps.push_back({step * kSeenStepMs, mark});
  }
  timeline.facts.push_back({0, {4242, 0, "processor", {}}});
  timeline.to_ms = kStepsSeen * kSeenStepMs;
  return timeline;
}

bool in_own_line(double t) { return t - kSeenStepMs * static_cast<int>(t / kSeenStepMs) >= 60; }

// One list a second, with a look every `every_ms`.
StepSignals looked_at(Timeline timeline, const std::function<ThreadDoing(double)>& main_does,
                      double every_ms = 37, std::optional<double> cpu_wait = std::nullopt) {
  for (double now = 1000; now <= timeline.to_ms; now += 1000) {
    ProcessSample process;
    process.pid = 4242;
    process.cpu_wait = cpu_wait;
    for (double t = now - 999; t < now; t += every_ms) {
      HostLook look;
      look.ago_ms = now - t;
      look.main = main_does(t);
      process.looks.push_back(look);
    }
    timeline.process_lists.push_back({now, {process}});
  }
  StepSignals signals = *step_signals(timeline.steps);
  add_main_thread(timeline, signals);
  return signals;
}

const PlaceSignals& own_line(const StepSignals& signals) {
  for (const PlaceSignals& place : signals.places)
    if (place.place.line == 20) return place;
  ADD_FAILURE() << "line 20 has no time";
  return signals.places.front();
}

ThreadDoing sleeps_there(double t) {
  return in_own_line(t) ? ThreadDoing::sleep : ThreadDoing::run;
}

TEST(LooksAtSteps, TellALineThatSleepsFromOneThatRuns) {
  const StepSignals signals = looked_at(of_steps(), sleeps_there);
  ASSERT_TRUE(own_line(signals).main_thread);
  EXPECT_GT(own_line(signals).main_thread->blocked[index_of(ThreadDoing::sleep)], 0.95);
  ASSERT_TRUE(signals.main_thread[index_of(StepPart::forward)]);
  EXPECT_GT(signals.main_thread[index_of(StepPart::forward)]->running, 0.95);
}

TEST(LooksAtSteps, GiveWaitingForACoreToWhatCouldRun) {
  // runnable in 60 of 100 ms, and for 15 of these without a core
  const StepSignals signals = looked_at(of_steps(), sleeps_there, 37, 0.15);
  EXPECT_NEAR(signals.main_thread[index_of(StepPart::forward)]->waiting_for_a_core, 0.25, 0.03);
  EXPECT_NEAR(signals.main_thread[index_of(StepPart::other)]->waiting_for_a_core, 0, 0.02);
}

TEST(LooksAtSteps, SayNothingByAFewLooks) {
  EXPECT_FALSE(own_line(looked_at(of_steps(), sleeps_there, 900)).main_thread);
}

TEST(LooksAtSteps, SayNothingOfAMainThreadThatDoesNotTrain) {
  const StepSignals signals = looked_at(of_steps(), [](double) { return ThreadDoing::lock; });
  EXPECT_FALSE(own_line(signals).main_thread) << "Ray trains in a thread of its own";
}

TEST(LooksAtSteps, SayNothingOfALineWhoseMomentIsNotKnown) {
  const StepSignals of_part = looked_at(of_steps(PieceMoment::of_its_part), sleeps_there);
  EXPECT_FALSE(own_line(of_part).main_thread);
  EXPECT_TRUE(of_part.main_thread[index_of(StepPart::other)]);
  const StepSignals unknown = looked_at(of_steps(PieceMoment::unknown), sleeps_there);
  EXPECT_FALSE(unknown.main_thread[index_of(StepPart::other)]);
}

FactAt module(int rank, const char* id, const char* name, const char* forward,
              const char* backward) {
  return {0,
          {1,
           rank,
           "module",
           {{"id", id},
            {"name", name},
            {"kind", "Block"},
            {"count", "12"},
            {"forward_us", forward},
            {"backward_us", backward},
            {"steps", "2"},
            {"gpu", "1"}}}};
}

TEST(ModuleTimes, AreTheMeanOfTheRanksNewest) {
  const auto times =
      module_times({module(0, "1", "h.*", "9", "9"), module(0, "0", "all", "4000", "8000"),
                    module(0, "1", "h.*", "1000", "2000"), module(1, "1", "h.*", "3000", "6000")});
  ASSERT_EQ(times.size(), 2);
  EXPECT_EQ(times.front().name, "all");
  EXPECT_EQ(times.back().forward_ms, 2);
  EXPECT_EQ(times.back().backward_ms, 4);
  EXPECT_TRUE(times.back().on_gpu);
  EXPECT_EQ(times.back().count, 12);
  EXPECT_TRUE(module_times({}).empty());
}

}  // namespace
}  // namespace lockstep
