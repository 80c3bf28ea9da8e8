#include "signals/step_course.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kMostColumns = 300;  // of a picture 900 wide

RankCourse course_of(int rank, const std::vector<const StepMark*>& steps,
                     const std::set<std::pair<int, std::int64_t>>& counted) {
  RankCourse course{rank, {}};
  const std::size_t together = (steps.size() + kMostColumns - 1) / kMostColumns;
  for (std::size_t begin = 0; begin < steps.size(); begin += together) {
    const std::size_t end = std::min(begin + together, steps.size());
    const auto count = static_cast<double>(end - begin);
    StepColumn column;
    column.first = steps[begin]->index;
    column.last = steps[end - 1]->index;
    for (std::size_t i = begin; i < end; ++i) {
      const StepMark& step = *steps[i];
      column.mean_ms += step.duration_ms / count;
      column.longest_ms = std::max(column.longest_ms, step.duration_ms);
      column.counts = column.counts || counted.contains({step.rank, step.index});
      for (std::size_t part = 0; part < column.spans_ms.size(); ++part)
        column.spans_ms[part] += step.spans_ms[part].value_or(0) / count;
    }
    course.columns.push_back(column);
  }
  return course;
}

}  // namespace

std::vector<RankCourse> step_course(const std::vector<StepAt>& steps,
                                    const std::vector<StepAt>& counted) {
  std::set<std::pair<int, std::int64_t>> those_that_count;
  for (const StepAt& entry : counted) those_that_count.emplace(entry.step.rank, entry.step.index);
  std::map<int, std::vector<const StepMark*>> of_rank;
  for (const StepAt& entry : steps)
    if (entry.step.duration_ms > 0) of_rank[entry.step.rank].push_back(&entry.step);
  std::vector<RankCourse> courses;
  for (const auto& [rank, own] : of_rank) courses.push_back(course_of(rank, own, those_that_count));
  return courses;
}

}  // namespace lockstep
