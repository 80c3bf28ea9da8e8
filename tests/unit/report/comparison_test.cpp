// Two profiles beside each other: what became faster, and which code did it.
#include "report/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

struct ProfiledRun {
  Signals signals;
  Diagnosis diagnosis;
};

// Steps of `step_ms`, of which `sync_ms` in .item() on this line and the rest in the forward pass.
ProfiledRun profile(double step_ms, double sync_ms, int line, int batch = 32) {
  ProfiledRun run;
  JobSignals job;
  StepSignals steps;
  steps.count = 100;
  steps.wall_ms = 100 * step_ms;
  steps.duration_p50_ms = step_ms;
  steps.ranks = {RankSteps{}};
  steps.share[index_of(StepPart::sync)] = sync_ms / step_ms;
  steps.share[index_of(StepPart::forward)] = 1 - sync_ms / step_ms;
  PlaceSignals place;
  place.part = StepPart::sync;
  place.place = {"/home/ada/train.py", line, ".item", 0};
  place.share = sync_ms / step_ms;
  steps.places = {place};
  job.steps = steps;
  ProbeSettings settings;
  LoaderSetting loader;
  loader.batch = batch;
  settings.loaders = {loader};
  job.settings = settings;
  run.signals.jobs = {job};
  run.diagnosis.verdicts.resize(1);
  return run;
}

std::optional<Comparison> compare(const ProfiledRun& now, const ProfiledRun& before) {
  return compare_runs({now.signals, now.diagnosis}, {before.signals, before.diagnosis},
                      "before.jsonl");
}

const Comparison::Change* change(const Comparison& comparison, const std::string& what) {
  const auto found = std::ranges::find(comparison.changes, what, &Comparison::Change::what);
  return found == comparison.changes.end() ? nullptr : &*found;
}

TEST(Comparison, OfProfilesNamesTheCodeThatMadeTheDifference) {
  const auto comparison = compare(profile(60, 10, 41), profile(100, 50, 31));

  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->measured_by, "steps");
  EXPECT_NEAR(comparison->speedup, 100.0 / 60, 1e-9);
  EXPECT_NEAR(comparison->ideal, 1, 1e-9) << "as many ranks as before";
  const Comparison::Change* const code = change(*comparison, "sync: .item in train.py");
  ASSERT_NE(code, nullptr) << "the line has moved, the code is the same";
  EXPECT_NEAR(code->other, 50, 1e-9);
  EXPECT_NEAR(code->own, 10, 1e-9);
  ASSERT_NE(change(*comparison, "forward"), nullptr);
  EXPECT_NEAR(change(*comparison, "forward")->own, 50, 1e-9);
}

TEST(Comparison, OfAlikeProfilesHasNoCode) {
  const auto comparison = compare(profile(100, 50.5, 31), profile(100, 50, 31));

  ASSERT_TRUE(comparison);
  EXPECT_EQ(change(*comparison, "sync: .item in train.py"), nullptr);
}

TEST(Comparison, CountsSamplesWhereTheBatchHasChanged) {
  const auto comparison = compare(profile(100, 0, 31, 64), profile(60, 0, 31, 32));

  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->measured_by, "samples");
  EXPECT_NEAR(comparison->speedup, 1.2, 1e-9) << "steps are longer, and hold twice as much";
}

TEST(Comparison, NeedsFiveStepsOnBothSides) {
  ProfiledRun few = profile(100, 0, 31);
  few.signals.jobs.front().steps->count = 4;

  EXPECT_FALSE(compare(few, profile(100, 0, 31)));
}

}  // namespace
}  // namespace lockstep
