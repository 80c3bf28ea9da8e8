#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "render/html/html_course.hpp"
#include "signals/step_course.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<StepAt> steps_of(int rank, int count, double length_ms = 10) {
  std::vector<StepAt> steps;
  for (int i = 1; i <= count; ++i) {
    StepAt entry;
    entry.step.rank = rank;
    entry.step.index = i;
    entry.step.duration_ms = length_ms;
    entry.step.spans_ms[index_of(StepPart::data_wait)] = 4;
    entry.step.spans_ms[index_of(StepPart::forward)] = length_ms - 4;
    steps.push_back(entry);
  }
  return steps;
}

std::vector<StepAt> behind(const std::vector<StepAt>& steps, std::ptrdiff_t first) {
  return {steps.begin() + first, steps.end()};
}

TEST(StepCourse, HasAColumnForEachStepOfEachRank) {
  std::vector<StepAt> steps = steps_of(1, 40);
  std::ranges::copy(steps_of(0, 40), std::back_inserter(steps));

  const std::vector<RankCourse> course = step_course(steps, steps);

  ASSERT_EQ(course.size(), 2U);
  EXPECT_EQ(course[0].rank, 0);
  ASSERT_EQ(course[1].columns.size(), 40U);
  EXPECT_EQ(course[1].columns[39].last, 40);
  EXPECT_EQ(course[1].columns[39].spans_ms[index_of(StepPart::forward)], 6);
}

TEST(StepCourse, JoinsStepsWhereTheyAreMany) {
  std::vector<StepAt> steps = steps_of(0, 1000);
  steps[5].step.duration_ms = 50;

  const std::vector<StepColumn> columns = step_course(steps, steps).front().columns;

  ASSERT_EQ(columns.size(), 250U);
  EXPECT_EQ(columns[1].first, 5);
  EXPECT_EQ(columns[1].last, 8);
  EXPECT_EQ(columns[1].mean_ms, 20);
  EXPECT_EQ(columns[1].longest_ms, 50);
}

TEST(StepCourse, KnowsWhichStepsCount) {
  const std::vector<StepAt> steps = steps_of(0, 20);

  const std::vector<StepColumn> columns = step_course(steps, behind(steps, 5)).front().columns;

  EXPECT_FALSE(columns[4].counts);
  EXPECT_TRUE(columns[5].counts);
}

TEST(CourseHtml, StacksThePartsOfEachStep) {
  const std::vector<StepAt> steps = steps_of(0, 20);

  const std::string html = course_html(step_course(steps, behind(steps, 5)));

  EXPECT_THAT(html, HasSubstr("step 7: 10.0 ms; data wait 4.00 ms; forward 6.00 ms</title>"));
  EXPECT_THAT(html, HasSubstr("not counted"));
  EXPECT_THAT(html, HasSubstr("aria-label=\"all steps of rank 0\""));
  EXPECT_THAT(html, Not(HasSubstr("height=\"3\""))) << "none is longer than the picture is high";
}

TEST(CourseHtml, CutsOffAStepThatWouldLeaveTheOthersFlat) {
  std::vector<StepAt> steps = steps_of(0, 20);
  steps[9].step.duration_ms = 900;

  const std::string html = course_html(step_course(steps, steps));

  EXPECT_THAT(html, HasSubstr(">30.0 ms</text>")) << "three times the median";
  EXPECT_THAT(html, HasSubstr("step 10: 900 ms"));
  EXPECT_THAT(html, HasSubstr("height=\"3\" fill=\"var(--bad)\""));
}

TEST(CourseHtml, IsEmptyForAHandfulOfSteps) {
  const std::vector<StepAt> steps = steps_of(0, 7);

  EXPECT_EQ(course_html(step_course(steps, steps)), "");
}

}  // namespace
}  // namespace lockstep
