#include "traces/breakdown.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/in_parallel.hpp"
#include "traces/work_rows.hpp"

namespace lockstep {
namespace {

// HTA's line between a launch's own time and a wait
constexpr std::int64_t kHtaLaunchTakesNs = 30'000;
constexpr double kNsInUs = 1000;

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Rows in order of their begin become stretches that do not touch.
template <class Wanted>
std::vector<Interval> merged(const std::vector<WorkRow>& rows, Wanted wanted) {
  std::vector<Interval> result;
  for (const WorkRow& row : rows) {
    if (!wanted(row)) continue;
    if (result.empty() || row.start_ns > result.back().end)
      result.push_back({row.start_ns, row.end_ns});
    else
      result.back().end = std::max(result.back().end, row.end_ns);
  }
  return result;
}

std::int64_t total(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

// Time by what ran: bit i of a state is set while an interval of list i is open. HTA counts by
// adding and subtracting 1 << i, and so does this, for an interval that ends before it begins (its
// rounding makes some) shifts its states too.
std::map<int, std::int64_t> time_by_state(const std::vector<std::vector<Interval>>& lists) {
  struct Change {
    std::int64_t at;
    int by;
  };
  std::vector<Change> changes;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (const Interval& interval : lists[i]) changes.push_back({interval.begin, 1 << i});
    for (const Interval& interval : lists[i]) changes.push_back({interval.end, -(1 << i)});
  }
  std::ranges::stable_sort(changes, [](const Change& a, const Change& b) { return a.at < b.at; });
  std::map<int, std::int64_t> result;
  int state = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    state += changes[i].by;
    if (state > 0 && changes[i + 1].at > changes[i].at)
      result[state] += changes[i + 1].at - changes[i].at;
  }
  return result;
}

constexpr std::array<KernelType, 3> kTypesOfStates = {
    KernelType::compute, KernelType::communication, KernelType::memory};

void add_idle_reasons(const std::vector<WorkRow>& rows, BreakdownRules rules,
                      RankBreakdown& result) {
  struct Seen {
    std::size_t place;
    std::int64_t end;
  };
  std::map<std::pair<int, int>, Seen> streams;
  for (const WorkRow& row : rows) {
    if (!is_device_work(row.category)) continue;
    // HTA knows streams by their number alone, whichever device they are of.
    const int device = rules == BreakdownRules::like_hta ? 0 : row.device;
    const auto [entry, is_new] =
        streams.try_emplace({device, row.stream}, Seen{result.streams.size(), row.end_ns});
    if (is_new) {
      result.streams.push_back({row.device, row.stream, 0, 0, 0});
      continue;
    }
    Seen& before = entry->second;
    StreamIdle& idle = result.streams[before.place];
    const std::int64_t gap = row.start_ns - before.end;
    if (rules == BreakdownRules::like_hta || gap > 0) {
      if (row.launched_ns && *row.launched_ns > before.end)
        idle.host_wait_us += static_cast<double>(gap) / kNsInUs;
      else if (gap < kHtaLaunchTakesNs)
        idle.kernel_wait_us += static_cast<double>(gap) / kNsInUs;
      else
        idle.other_us += static_cast<double>(gap) / kNsInUs;
    }
    before.end = rules == BreakdownRules::like_hta ? row.end_ns : std::max(before.end, row.end_ns);
  }
}

void add_kernel_rows(const RankTrace& trace, const std::vector<WorkRow>& rows,
                     RankBreakdown& result) {
  std::unordered_map<NameTable::Id, std::size_t> places;
  for (const WorkRow& row : rows) {
    const auto [entry, is_new] = places.try_emplace(row.name, result.kernels.size());
    if (is_new) result.kernels.push_back({std::string(trace.names[row.name]), row.type, 0, 0, 0});
    KernelSum& kernel = result.kernels[entry->second];
    const double length_us = static_cast<double>(row.end_ns - row.start_ns) / kNsInUs;
    ++kernel.count;
    kernel.sum_us += length_us;
    kernel.longest_us = std::max(kernel.longest_us, length_us);
  }
  std::ranges::stable_sort(
      result.kernels, [](const KernelSum& a, const KernelSum& b) { return a.sum_us > b.sum_us; });
}

constexpr std::array<std::string_view, 11> kCategoryNames = {"op",
                                                             "annotation",
                                                             "python",
                                                             "runtime",
                                                             "other",
                                                             "kernel",
                                                             "gpu_memcpy",
                                                             "gpu_memset",
                                                             "mtia_ccp_events",
                                                             "cuda_sync",
                                                             "gpu_user_annotation"};

struct OneRank {
  RankBreakdown breakdown;
  std::map<int, std::int64_t> states;
};

OneRank break_down_one(const RankTrace& trace, bool several_steps, BreakdownRules rules) {
  OneRank result;
  RankBreakdown& breakdown = result.breakdown;
  breakdown.rank = trace.rank;
  breakdown.file = trace.file;
  const std::vector<WorkRow> rows =
      rules == BreakdownRules::like_hta
          ? work_rows_like_hta(trace, several_steps)
          : work_rows(trace, several_steps ? Extent::whole_steps : Extent::everything);
  for (const WorkRow& row : rows)
    ++breakdown.rows[std::string(kCategoryNames[static_cast<std::size_t>(row.category)])];
  if (rows.empty()) return result;
  const auto of_type = [&](KernelType type) {
    return merged(rows, [type](const WorkRow& row) { return row.type == type; });
  };
  const std::vector<Interval> all = merged(rows, [](const WorkRow&) { return true; });
  const std::vector<Interval> compute = of_type(KernelType::compute);
  const std::vector<Interval> communication = of_type(KernelType::communication);
  const std::int64_t span = all.back().end - all.front().begin;
  const std::int64_t idle = span - total(all);
  breakdown.span_us = static_cast<double>(span) / kNsInUs;
  breakdown.idle_us = static_cast<double>(idle) / kNsInUs;
  breakdown.compute_us = static_cast<double>(total(compute)) / kNsInUs;
  breakdown.non_compute_us = static_cast<double>(span - idle - total(compute)) / kNsInUs;
  breakdown.communication_us = static_cast<double>(total(communication)) / kNsInUs;
  if (total(communication) > 0) {
    const auto both = time_by_state({communication, compute});
    const auto found = both.find(3);
    breakdown.overlap = (found == both.end() ? 0.0 : static_cast<double>(found->second)) /
                        static_cast<double>(total(communication));
  }
  add_idle_reasons(rows, rules, breakdown);
  add_kernel_rows(trace, rows, breakdown);
  result.states = time_by_state({compute, communication, of_type(KernelType::memory)});
  return result;
}

}  // namespace

TraceBreakdown break_down(const std::vector<RankTrace>& traces, BreakdownRules rules) {
  TraceBreakdown result;
  result.like_hta = rules == BreakdownRules::like_hta;
  const bool several_steps = has_several_steps(traces);
  std::map<int, std::int64_t> states;
  std::vector<OneRank> ranks(traces.size());
  in_parallel(traces.size(), 1, [&](std::size_t i) {
    ranks[i] = break_down_one(
        traces[i], rules == BreakdownRules::like_hta ? several_steps : has_several_steps(traces[i]),
        rules);
  });
  for (OneRank& one : ranks) {
    for (const auto& [state, time] : one.states) states[state] += time;
    result.ranks.push_back(std::move(one.breakdown));
  }
  for (const auto& [state, time] : states) {
    TypeSum sum;
    for (std::size_t i = 0; i < kTypesOfStates.size(); ++i)
      if ((state & (1 << i)) != 0) sum.types.push_back(kTypesOfStates[i]);
    sum.sum_us = static_cast<double>(time) / kNsInUs;
    result.types.push_back(std::move(sum));
  }
  std::ranges::stable_sort(result.types,
                           [](const TypeSum& a, const TypeSum& b) { return a.sum_us > b.sum_us; });
  return result;
}

}  // namespace lockstep
