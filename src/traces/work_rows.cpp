#include "traces/work_rows.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "kernels/kernel_type.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep#";

bool is_step_name(std::string_view name) {
  return name.starts_with(kStepPrefix) && name.size() > kStepPrefix.size() &&
         name[kStepPrefix.size()] >= '0' && name[kStepPrefix.size()] <= '9';
}

// What is asked of each name once, not of each row.
struct NameFacts {
  std::vector<bool> is_step;
  std::vector<bool> is_sync;  // HTA takes these two for GPU rows wherever they are
  std::vector<KernelType> hta_type;

  explicit NameFacts(const RankTrace& trace) {
    for (NameTable::Id id = 0; id < trace.names.size(); ++id) {
      const std::string_view name = trace.names[id];
      is_step.push_back(is_step_name(name));
      is_sync.push_back(name == "Event Sync" || name == "Context Sync");
      hta_type.push_back(kernel_type_like_hta(name));
    }
  }

  KernelType type(const RankTrace& trace, const DeviceRow& row) {  // a name has one category
    if (types_.empty()) types_.resize(trace.names.size());
    auto& known = types_[row.name];
    if (!known) known = kernel_type(trace.names[row.name], row.category);
    return *known;
  }

 private:
  std::vector<std::optional<KernelType>> types_;
};

std::optional<std::int64_t> begin_of_last_step(const RankTrace& trace, const NameFacts& names) {
  std::optional<std::int64_t> last;
  for (const HostRow& row : trace.host_rows)
    if (names.is_step[row.name]) last = std::max(last.value_or(row.start_ns), row.start_ns);
  return last;
}

void sort_by_begin(std::vector<WorkRow>& rows) {
  const auto earlier = [](const WorkRow& a, const WorkRow& b) { return a.start_ns < b.start_ns; };
  if (!std::ranges::is_sorted(rows, earlier)) std::ranges::stable_sort(rows, earlier);
}

// ---- as HTA does it

template <class Row>
bool is_gpu_row_for_hta(const Row& row, const NameFacts& names) {
  return (row.stream >= 0 && row.correlation >= 0) || names.is_sync[row.name];
}

std::int32_t device_of(const DeviceRow& row) { return row.device; }
std::int32_t device_of(const HostRow&) { return 0; }

template <class Row>
WorkRow as_work_row(const Row& row, const NameFacts& names) {
  return {row.start_ns,
          row.end_ns(),
          std::nullopt,
          nullptr,
          0,
          row.name,
          row.stream,
          static_cast<std::int16_t>(device_of(row)),
          row.category,
          names.hta_type[row.name]};
}

template <class Visit>
void for_each_row(const RankTrace& trace, Visit visit) {
  for (const HostRow& row : trace.host_rows) visit(row);
  for (const DeviceRow& row : trace.device_rows) visit(row);
}

struct Launch {
  std::int64_t start_ns = 0;
  bool kept = false;  // HTA looks it up among the rows that are left
};

// MTIA's way: what the steps contain, the last included, and copies that begin within a step.
std::vector<WorkRow> mtia_rows_like_hta(const RankTrace& trace, const NameFacts& names,
                                        const std::unordered_map<std::int64_t, Launch>& launches) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (const HostRow& row : trace.host_rows)
    if (names.is_step[row.name]) steps.emplace_back(row.start_ns, row.end_ns());
  std::int64_t from = INT64_MAX;
  std::int64_t to = INT64_MIN;
  for (const auto& [begin, end] : steps) {
    from = std::min(from, begin);
    to = std::max(to, end);
  }
  std::set<std::int64_t> launched;
  for (const HostRow& row : trace.host_rows) {
    const bool of_host = row.category == TraceCategory::op ||
                         row.category == TraceCategory::annotation ||
                         row.category == TraceCategory::runtime;
    if (of_host && row.start_ns >= from && row.end_ns() <= to && row.correlation != kNoCorrelation)
      launched.insert(row.correlation);
  }
  std::vector<WorkRow> result;
  for (const DeviceRow& row : trace.device_rows) {
    const bool is_copy = names.hta_type[row.name] == KernelType::memory;
    const bool in_a_step = std::ranges::any_of(steps, [&](const auto& step) {
      return row.start_ns >= step.first && row.start_ns <= step.second;
    });
    if (!(is_copy && in_a_step) &&
        !(is_device_work(row.category) && launched.contains(row.correlation)))
      continue;
    WorkRow work = as_work_row(row, names);
    if (work.stream == kNoStream && is_copy && in_a_step) work.stream = row.row_thread;
    if (work.stream == kNoStream) continue;
    if (const auto launch = launches.find(row.correlation);
        launch != launches.end() && launch->second.start_ns >= from)
      work.launched_ns = launch->second.start_ns;
    result.push_back(work);
  }
  return result;
}

}  // namespace

LaunchIndex::LaunchIndex(const RankTrace& trace) : rows_(trace.host_rows) {
  constexpr std::size_t kMostGaps = 16;  // places of a table for each number that is there
  std::int64_t highest = 0;
  std::size_t count = 0;
  for (const HostRow& row : rows_) {
    if (row.correlation < 0) continue;
    lowest_ = count == 0 ? row.correlation : std::min(lowest_, row.correlation);
    highest = std::max(highest, row.correlation);
    ++count;
  }
  if (count == 0) return;
  const bool dense = static_cast<std::uint64_t>(highest - lowest_) < kMostGaps * count;
  if (dense) dense_.resize(static_cast<std::size_t>(highest - lowest_) + 1);
  for (std::uint32_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].correlation < 0) continue;
    if (dense)
      dense_[static_cast<std::size_t>(rows_[i].correlation - lowest_)] = i + 1;
    else
      sparse_.emplace_back(rows_[i].correlation, i);
  }
  std::ranges::sort(sparse_);
}

const HostRow* LaunchIndex::find(std::int64_t correlation) const {
  if (correlation < 0) return nullptr;
  if (!dense_.empty()) {
    const std::int64_t at = correlation - lowest_;
    if (at < 0 || at >= static_cast<std::int64_t>(dense_.size()) ||
        dense_[static_cast<std::size_t>(at)] == 0)
      return nullptr;
    return &rows_[dense_[static_cast<std::size_t>(at)] - 1];
  }
  const auto behind = std::ranges::upper_bound(sparse_, std::pair(correlation, UINT32_MAX));
  return behind != sparse_.begin() && std::prev(behind)->first == correlation
             ? &rows_[std::prev(behind)->second]
             : nullptr;
}

namespace {
void collect_steps(const RankTrace& trace, std::set<std::string_view>& steps) {
  for (NameTable::Id id = 0; id < trace.names.size(); ++id)
    if (is_step_name(trace.names[id])) steps.insert(trace.names[id]);
}
}  // namespace

bool has_several_steps(const RankTrace& trace) {
  std::set<std::string_view> steps;
  collect_steps(trace, steps);
  return steps.size() >= 2;
}

bool has_several_steps(const std::vector<RankTrace>& traces) {
  std::set<std::string_view> steps;
  for (const RankTrace& trace : traces) collect_steps(trace, steps);
  return steps.size() >= 2;
}

std::vector<WorkRow> work_rows(const RankTrace& trace, Extent extent) {
  NameFacts names(trace);
  const LaunchIndex launches(trace);
  const auto last_step =
      extent == Extent::whole_steps ? begin_of_last_step(trace, names) : std::nullopt;
  std::vector<WorkRow> rows;
  rows.reserve(trace.device_rows.size());
  for (std::uint32_t i = 0; i < trace.device_rows.size(); ++i) {
    const DeviceRow& row = trace.device_rows[i];
    if (!is_device_work(row.category)) continue;
    const HostRow* const launch = launches.find(row.correlation);
    const std::int64_t begun = launch != nullptr ? launch->start_ns : row.start_ns;
    if (last_step && begun >= *last_step) continue;
    WorkRow work{row.start_ns,
                 row.end_ns(),
                 std::nullopt,
                 launch,
                 i,
                 row.name,
                 row.stream == kNoStream ? row.row_thread : row.stream,
                 row.device,
                 row.category,
                 names.type(trace, row)};
    if (launch != nullptr) work.launched_ns = launch->start_ns;
    rows.push_back(work);
  }
  sort_by_begin(rows);
  return rows;
}

std::vector<WorkRow> work_rows_like_hta(const RankTrace& trace, bool several_steps) {
  const NameFacts names(trace);
  std::int64_t last_step = INT64_MAX;
  if (several_steps) {
    std::optional<std::int64_t> last;
    std::int64_t first = INT64_MAX;
    for_each_row(trace, [&](const auto& row) {
      if (is_gpu_row_for_hta(row, names)) return;
      first = std::min(first, row.start_ns);
      if (names.is_step[row.name]) last = std::max(last.value_or(row.start_ns), row.start_ns);
    });
    last_step = last.value_or(first);
  }
  const auto kept = [&](const auto& row) { return !several_steps || row.start_ns < last_step; };

  std::unordered_map<std::int64_t, Launch> launches;
  std::unordered_map<std::int64_t, int> times;  // how often a merge on the number finds a row
  for_each_row(trace, [&](const auto& row) {
    if (is_gpu_row_for_hta(row, names) || row.correlation == kNoCorrelation) return;
    launches[row.correlation] = {row.start_ns, kept(row)};
    if (kept(row)) ++times[row.correlation];
  });
  std::vector<WorkRow> rows;
  if (several_steps && trace.is_mtia) {
    rows = mtia_rows_like_hta(trace, names, launches);
    sort_by_begin(rows);
    return rows;
  }
  // Rows whose launch is not in the trace are taken for launched by the first event, if that is
  // one.
  std::optional<Launch> first_event;
  if (trace.first_event_row)
    first_event = Launch{trace.host_rows[*trace.first_event_row].start_ns,
                         kept(trace.host_rows[*trace.first_event_row])};
  for_each_row(trace, [&](const auto& row) {
    if (row.stream == kNoStream) return;
    const bool on_gpu = is_gpu_row_for_hta(row, names);
    WorkRow work = as_work_row(row, names);
    const auto launch = launches.find(row.correlation);
    const std::optional<Launch> from = on_gpu && launch != launches.end() ? launch->second
                                       : row.correlation >= 0             ? first_event
                                                                          : std::nullopt;
    if (from && from->kept) work.launched_ns = from->start_ns;
    int copies = 1;
    if (several_steps && on_gpu) {
      const auto found = times.find(row.correlation);
      copies = found == times.end() ? 0 : found->second;
    } else if (!kept(row)) {
      copies = 0;
    }
    for (int i = 0; i < copies; ++i) rows.push_back(work);
  });
  sort_by_begin(rows);
  return rows;
}

}  // namespace lockstep
