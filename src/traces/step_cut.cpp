#include "traces/step_cut.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

namespace lockstep {
namespace {

bool is_mark(const HostRow& row) {
  return row.category == TraceCategory::annotation || row.category == TraceCategory::op;
}

std::vector<HostStep> profiler_steps(const RankTrace& trace) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  std::vector<HostStep> steps;
  for (const HostRow& row : trace.host_rows) {
    if (!is_mark(row)) continue;
    const std::string_view name = trace.names[row.name];
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t index = 0;
    if (std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), index).ec !=
        std::errc())
      continue;
    steps.push_back({index, row.start_ns, row.end_ns()});
  }
  std::ranges::sort(steps,
                    [](const HostStep& a, const HostStep& b) { return a.begin_ns < b.begin_ns; });
  // A step lasts until the next begins: what lies between two marks is the loop's own.
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) steps[i].end_ns = steps[i + 1].begin_ns;
  // The capture may have ended within the last: a step of less than half the length of the one
  // before is none.
  if (steps.size() > 1 && 2 * (steps.back().end_ns - steps.back().begin_ns) <
                              steps[steps.size() - 2].end_ns - steps[steps.size() - 2].begin_ns)
    steps.pop_back();
  return steps;
}

// Of several optimizers the one that is asked most often, of equals the one that is asked last.
std::vector<const HostRow*> optimizer_rows(const RankTrace& trace) {
  std::map<NameTable::Id, std::vector<const HostRow*>> by_name;
  for (const HostRow& row : trace.host_rows)
    if (is_mark(row) && trace.names[row.name].starts_with("Optimizer.step#"))
      by_name[row.name].push_back(&row);
  std::vector<const HostRow*> result;
  for (auto& [name, rows] : by_name) {
    std::ranges::sort(rows,
                      [](const HostRow* a, const HostRow* b) { return a->start_ns < b->start_ns; });
    if (rows.size() > result.size() ||
        (rows.size() == result.size() && rows.back()->start_ns > result.back()->start_ns))
      result = rows;
  }
  return result;
}

}  // namespace

std::vector<HostStep> cut_steps(const RankTrace& trace) {
  std::vector<HostStep> steps = profiler_steps(trace);
  if (!steps.empty()) return steps;
  const std::vector<const HostRow*> optimizer = optimizer_rows(trace);
  for (std::size_t i = 1; i < optimizer.size(); ++i)
    steps.push_back(
        {static_cast<std::int64_t>(i - 1), optimizer[i - 1]->end_ns(), optimizer[i]->end_ns()});
  return steps;
}

std::vector<std::int64_t> begins_of_marks(const RankTrace& trace, std::string_view prefix) {
  std::vector<std::int64_t> result;
  for (const HostRow& row : trace.host_rows)
    if (is_mark(row) && trace.names[row.name].starts_with(prefix)) result.push_back(row.start_ns);
  std::ranges::sort(result);
  return result;
}

Passes count_passes(const std::vector<std::int64_t>& forwards,
                    const std::vector<std::int64_t>& collectives, std::int64_t from,
                    std::int64_t to) {
  Passes passes;
  for (auto pass = std::ranges::lower_bound(forwards, from); pass != forwards.end() && *pass < to;
       ++pass) {
    ++passes.all;
    const std::int64_t until = pass + 1 == forwards.end() ? to : std::min(*(pass + 1), to);
    const auto first = std::ranges::lower_bound(collectives, *pass);
    if (first != collectives.end() && *first < until) ++passes.with_collectives;
  }
  return passes;
}

std::optional<Accumulation> accumulation_of(const RankTrace& trace,
                                            const std::vector<WorkRow>& rows) {
  const std::vector<const HostRow*> optimizer = optimizer_rows(trace);
  if (optimizer.size() < 2) return std::nullopt;
  std::vector<std::int64_t> collectives;
  for (const WorkRow& row : rows)
    if (row.type == KernelType::communication && row.launched_ns)
      collectives.push_back(*row.launched_ns);
  std::ranges::sort(collectives);
  const Passes passes =
      count_passes(begins_of_marks(trace, "DistributedDataParallel.forward"), collectives,
                   optimizer.front()->end_ns(), optimizer.back()->start_ns);
  if (passes.all == 0) return std::nullopt;
  const auto steps = static_cast<double>(optimizer.size() - 1);
  return Accumulation{passes.all / steps, passes.with_collectives / steps};
}

}  // namespace lockstep
