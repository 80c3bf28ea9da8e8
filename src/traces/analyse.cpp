#include "traces/analyse.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/in_parallel.hpp"
#include "base/median.hpp"
#include "kernels/matmul_kinds.hpp"
#include "traces/collectives.hpp"
#include "traces/own_code.hpp"
#include "traces/rank_view.hpp"
#include "traces/replay.hpp"
#include "traces/trace_timeline.hpp"
#include "traces/trace_units.hpp"

namespace lockstep {
namespace {

// A device's own number where no other rank has the same, as on one machine; else one after the
// other by rank.
void number_gpus(std::vector<RankView>& ranks) {
  std::set<int> taken;
  bool unique = true;
  // of the busiest: a context that was opened on another GPU by mistake computes nothing
  constexpr double kWorks = 0.01;
  for (RankView& rank : ranks) {
    std::map<int, double> worked;
    double most = 0;
    for (const WorkRow& row : rank.rows)
      most = std::max(most, worked[row.device] += static_cast<double>(row.end_ns - row.start_ns));
    for (const auto& [device, time] : worked)
      if (time >= kWorks * most) rank.gpu_of_device.emplace(device, device);
    for (const auto& [device, gpu] : rank.gpu_of_device)
      unique = taken.insert(device).second && unique;
  }
  if (unique) return;
  int next = 0;
  for (RankView& rank : ranks)
    for (auto& [device, gpu] : rank.gpu_of_device) gpu = next++;
}

TraceRankSignals rank_signals(const RankView& rank) {
  TraceRankSignals signals;
  signals.rank = rank.trace->rank;
  for (const auto& [device, gpu] : rank.gpu_of_device) signals.gpus.push_back(gpu);
  if (rank.pieces.empty()) return signals;
  const auto whole = static_cast<double>(rank.pieces.back().end_ns - rank.pieces.front().begin_ns);
  for (const GpuPiece& piece : rank.pieces) {
    const double share = static_cast<double>(piece.end_ns - piece.begin_ns) / whole;
    if (piece.use != GpuUse::idle) signals.busy += share;
    if (piece.use == GpuUse::computes)
      signals.computes += share;
    else if (piece.use == GpuUse::communicates)
      signals.exposed_communication += share;
    else if (piece.use == GpuUse::copies)
      signals.exposed_copies += share;
    else if (piece.launched_late)
      signals.idle[index_of(piece.part)] += share;
    else
      signals.idle_in_time += share;
  }
  return signals;
}

// Who was last at each collective, and how long behind the one before it.
void add_lateness(const std::vector<RankView>& ranks, const std::vector<Collective>& collectives,
                  TraceSignals& signals) {
  std::vector<double> late_ms(ranks.size());
  for (const Collective& collective : collectives) {
    std::vector<std::pair<std::int64_t, std::size_t>> begins;
    for (const Arrival& arrival : collective.arrivals)
      begins.emplace_back(ranks[arrival.trace].trace->device_rows[arrival.row].start_ns +
                              ranks[arrival.trace].clock_offset_ns,
                          arrival.trace);
    std::ranges::sort(begins);
    late_ms[begins.back().second] +=
        static_cast<double>(begins.back().first - begins[begins.size() - 2].first) / kNsInMs;
  }
  double all = 0;
  for (const double late : late_ms) all += late;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    signals.ranks[i].late_ms_a_step = late_ms[i] / std::max(1, signals.steps);
    signals.ranks[i].late_share = all > 0 ? late_ms[i] / all : 0;
  }
}

void add_replay(const std::vector<RankView>& ranks, const std::vector<Collective>& collectives,
                TraceSignals& signals) {
  std::vector<RankRows> played;
  for (const RankView& rank : ranks)
    played.push_back({rank.trace, &rank.rows, &rank.labels, rank.clock_offset_ns});
  const Replay replay(played, collectives);
  const double base = replay.seconds({});
  if (base <= 0 || replay.captured_seconds() <= 0) return;
  signals.replay_error = base / replay.captured_seconds() - 1;
  constexpr double kLost = 0.5;  // a replay so far off says nothing of what would be
  if (std::abs(signals.replay_error) > kLost) return;
  const auto gain = [&](const WhatIf& what_if) {
    return std::clamp(1 - replay.seconds(what_if) / base, 0.0, 1.0);
  };
  for (const StepPart part :
       {StepPart::data_wait, StepPart::copy, StepPart::sync, StepPart::logging,
        StepPart::checkpoint, StepPart::evaluation, StepPart::gc, StepPart::other}) {
    const bool seen = std::ranges::any_of(
        signals.ranks, [&](const TraceRankSignals& rank) { return rank.idle[index_of(part)] > 0; });
    if (!seen) continue;  // what never kept the GPU waiting gives nothing back
    WhatIf what_if;
    what_if.without[index_of(part)] = true;
    signals.removable[index_of(part)] = gain(what_if);
  }
  WhatIf launches;
  launches.free_launches = true;
  signals.removable_launches = gain(launches);
  const bool communicates = std::ranges::any_of(
      signals.ranks, [](const TraceRankSignals& rank) { return rank.exposed_communication > 0; });
  if (communicates) {
    WhatIf collectives_free;
    collectives_free.free_collectives = true;
    signals.removable_collectives = gain(collectives_free);
  }
  signals.critical_path = replay.critical_path();
  for (const RankView& rank : ranks)
    for (NameTable::Id id = 0; id < rank.trace->names.size() && !signals.waits_recorded; ++id)
      signals.waits_recorded = rank.trace->names[id].find("Synchronize") != std::string_view::npos;
}

std::size_t step_at(const std::vector<HostStep>& steps, std::int64_t time) {
  const auto behind = std::ranges::upper_bound(steps, time, {}, &HostStep::begin_ns);
  if (behind == steps.begin() || time >= std::prev(behind)->end_ns) return steps.size();
  return static_cast<std::size_t>(std::prev(behind) - steps.begin());
}

struct WaitKey {
  std::string what;
  StepPart part;
  auto operator<=>(const WaitKey&) const = default;
};

// Waits of the training threads, by the operator around them.
void add_waits(const RankView& rank, TraceSignals& signals) {
  constexpr std::int64_t kWorthCounting = 10'000;  // ns
  struct Sum {
    double calls = 0;
    double ms = 0;
    std::set<std::size_t> steps;
    std::uint32_t longest = kNoRow;
  };
  std::map<WaitKey, Sum> sums;
  const RankTrace& trace = *rank.trace;
  for (std::uint32_t i = 0; i < trace.host_rows.size(); ++i) {
    const HostRow& row = trace.host_rows[i];
    if (row.category != TraceCategory::runtime || row.duration_ns < kWorthCounting ||
        trace.names[row.name].find("Synchronize") == std::string_view::npos)
      continue;
    const std::size_t step = step_at(rank.host_steps, row.start_ns);
    if (step == rank.host_steps.size()) continue;
    const HostSegment segment = rank.labels.at(row.thread, row.start_ns);
    if (segment.part != StepPart::sync && segment.part != StepPart::copy) continue;
    // The operator that asked: the label's row is the call itself where it decided.
    std::uint32_t around = segment.row == kNoRow ? i : segment.row;
    if (around == i) {
      const HostSegment before = rank.labels.at(row.thread, row.start_ns - 1);
      if (before.row != kNoRow && trace.host_rows[before.row].category == TraceCategory::op &&
          trace.host_rows[before.row].end_ns() >= row.end_ns())
        around = before.row;
    }
    Sum& sum = sums[{std::string(trace.names[trace.host_rows[around].name]), segment.part}];
    ++sum.calls;
    sum.ms += static_cast<double>(row.duration_ns) / kNsInMs;
    sum.steps.insert(step);
    if (sum.longest == kNoRow ||
        trace.host_rows[sum.longest].duration_ns < trace.host_rows[around].duration_ns)
      sum.longest = around;
  }
  const double steps = std::max<double>(1, static_cast<double>(rank.host_steps.size()));
  for (const auto& [key, sum] : sums) {
    // Of several ranks the one that waits longest speaks.
    const auto known = std::ranges::find_if(signals.waits, [&](const TraceWait& other) {
      return other.what == key.what && other.part == key.part;
    });
    if (known != signals.waits.end()) {
      if (known->wait_ms_a_step >= sum.ms / steps) continue;
      signals.waits.erase(known);
    }
    TraceWait wait{key.what,
                   key.part,
                   "",
                   0,
                   sum.calls / steps,
                   sum.ms / steps,
                   static_cast<double>(sum.steps.size()) / steps};
    if (const auto line = python_line(trace, sum.longest)) {
      wait.file = line->file;
      wait.line = line->line;
    }
    signals.waits.push_back(std::move(wait));
  }
  std::ranges::stable_sort(signals.waits, [](const TraceWait& a, const TraceWait& b) {
    return a.wait_ms_a_step > b.wait_ms_a_step;
  });
}

void add_loader(const RankView& rank, TraceSignals& signals) {
  const RankTrace& trace = *rank.trace;
  const double steps = std::max<double>(1, static_cast<double>(rank.host_steps.size()));
  double waited = 0;
  double searched = 0;
  std::uint32_t longest = kNoRow;
  for (std::uint32_t i = 0; i < trace.host_rows.size(); ++i) {
    const HostRow& row = trace.host_rows[i];
    if (row.category != TraceCategory::op && row.category != TraceCategory::annotation) continue;
    const std::string_view name = trace.names[row.name];
    if (name.find("search_unused_parameters") != std::string_view::npos)
      searched += static_cast<double>(row.duration_ns) / kNsInMs;
    if (!name.starts_with("enumerate(DataLoader)")) continue;
    signals.loader_in_process = name.find("_SingleProcessDataLoaderIter") != std::string_view::npos;
    waited += static_cast<double>(row.duration_ns) / kNsInMs;
    if (longest == kNoRow || trace.host_rows[longest].duration_ns < row.duration_ns) longest = i;
  }
  signals.data_wait_ms_a_step = std::max(signals.data_wait_ms_a_step, waited / steps);
  signals.find_unused_ms_a_step = std::max(signals.find_unused_ms_a_step, searched / steps);
  if (longest == kNoRow || !signals.loader_file.empty()) return;
  if (const auto line = python_line(trace, longest)) {
    signals.loader_file = line->file;
    signals.loader_line = line->line;
  }
}

void add_kernels(const RankView& rank, TraceSignals& signals) {
  const RankTrace& trace = *rank.trace;
  const double steps = std::max<double>(1, static_cast<double>(rank.host_steps.size()));
  std::map<NameTable::Id, MatmulKind> kinds;
  double computing = 0;
  double plain = 0;
  double tensor = 0;
  double pageable_bytes = 0;
  double pageable_ms = 0;
  std::vector<double> lengths;
  for (const WorkRow& row : rank.rows) {
    const double us = static_cast<double>(row.end_ns - row.start_ns) / 1e3;
    if (row.category == TraceCategory::copy &&
        trace.names[row.name].find("Pageable -> Device") != std::string_view::npos) {
      pageable_bytes += static_cast<double>(trace.device_rows[row.device_row].bytes);
      pageable_ms += us / 1e3;
    }
    if (row.type != KernelType::compute) continue;
    const auto [entry, is_new] = kinds.try_emplace(row.name);
    if (is_new) entry->second = matmul_kind(trace.names[row.name]);
    computing += us;
    if (entry->second == MatmulKind::plain) plain += us;
    if (entry->second == MatmulKind::tensor_cores) tensor += us;
    lengths.push_back(us);
  }
  signals.pageable_bytes_a_step = std::max(signals.pageable_bytes_a_step, pageable_bytes / steps);
  signals.pageable_ms_a_step = std::max(signals.pageable_ms_a_step, pageable_ms / steps);
  if (signals.kernels_a_step <= 0) {  // the ranks run the same kernels
    signals.kernels_a_step = static_cast<double>(lengths.size()) / steps;
    signals.kernel_p50_us = middle_value(lengths);
  }
  if (computing > 0 && signals.plain_matmul_share + signals.tensor_core_share <= 0) {
    signals.plain_matmul_share = plain / computing;
    signals.tensor_core_share = tensor / computing;
  }
  for (const auto& [device, capability] : trace.compute_capability)
    if (rank.gpu_of_device.contains(device))
      signals.has_tensor_cores = signals.has_tensor_cores || capability.first >= 7;
}

// How the lanes of several GPUs, or of several ranks, lie to each other.
struct LaneSweep {
  double any = 0;
  double one = 0;
  int hand_overs = 0;
  std::vector<double> busy;
};

LaneSweep sweep_lanes(
    const std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>& lanes) {
  struct Change {
    std::int64_t at;
    std::size_t lane;
    int by;
  };
  std::vector<Change> changes;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    for (const auto& [begin, end] : lanes[lane]) {
      changes.push_back({begin, lane, 1});
      changes.push_back({end, lane, -1});
    }
  std::ranges::sort(changes, [](const Change& a, const Change& b) { return a.at < b.at; });
  LaneSweep result;
  result.busy.resize(lanes.size());
  std::vector<int> open(lanes.size());
  std::size_t working = 0;
  std::size_t owner = lanes.size();
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    int& count = open[changes[i].lane];
    const bool was = count > 0;
    count += changes[i].by;
    if (was != (count > 0)) working += count > 0 ? 1 : static_cast<std::size_t>(-1);
    const auto length = static_cast<double>(changes[i + 1].at - changes[i].at);
    if (length <= 0 || working == 0) continue;
    result.any += length;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      if (open[lane] > 0) result.busy[lane] += length;
    if (working != 1) continue;
    result.one += length;
    const auto now = static_cast<std::size_t>(
        std::ranges::find_if(open, [](int n) { return n > 0; }) - open.begin());
    if (owner != lanes.size() && owner != now) ++result.hand_overs;
    owner = now;
  }
  return result;
}

void add_device_turns(const RankView& rank, TraceSignals& signals) {
  // ranks are judged by each other
  if (rank.gpu_of_device.size() < 2 || signals.turns || signals.ranks.size() > 1) return;
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> lanes;
  std::int64_t begin = INT64_MAX;
  std::int64_t end = INT64_MIN;
  for (const WorkRow& row : rank.rows) {
    begin = std::min(begin, row.start_ns);
    end = std::max(end, row.end_ns);
    if (!rank.gpu_of_device.contains(row.device)) continue;
    auto& lane = lanes[row.device];
    if (row.type != KernelType::compute) continue;  // a copy between two GPUs runs on both
    if (!lane.empty() && row.start_ns <= lane.back().second)
      lane.back().second = std::max(lane.back().second, row.end_ns);
    else
      lane.emplace_back(row.start_ns, row.end_ns);
  }
  DeviceTurns turns;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> list;
  for (auto& [device, lane] : lanes) {
    turns.devices.push_back(rank.gpu_of_device.at(device));
    list.push_back(std::move(lane));
  }
  const LaneSweep sweep = sweep_lanes(list);
  for (const double busy : sweep.busy)
    turns.busy.push_back(end > begin ? busy / static_cast<double>(end - begin) : 0);
  turns.exclusive = sweep.any > 0 ? sweep.one / sweep.any : 0;
  turns.hand_overs = sweep.hand_overs;
  for (NameTable::Id id = 0; id < rank.trace->names.size(); ++id) {
    const std::string_view name = rank.trace->names[id];
    turns.data_parallel = turns.data_parallel || name == "DataParallel.forward" ||
                          name == "Broadcast" || name == "Gather" || name == "Scatter";
  }
  signals.turns = std::move(turns);
}

double idle_ms(const std::vector<TraceCode>& code) {
  double sum = 0;
  for (const TraceCode& function : code) sum += function.idle_ms_a_step;
  return sum;
}

double ranks_together(const std::vector<RankView>& ranks) {
  if (ranks.size() < 2) return 0;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> lanes(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (const GpuPiece& piece : ranks[i].pieces)
      if (piece.use == GpuUse::computes)
        lanes[i].emplace_back(piece.begin_ns + ranks[i].clock_offset_ns,
                              piece.end_ns + ranks[i].clock_offset_ns);
  const LaneSweep sweep = sweep_lanes(lanes);
  return sweep.any > 0 ? 1 - sweep.one / sweep.any : 0;
}

}  // namespace

TraceAnalysis analyse_traces(const std::vector<RankTrace>& traces, TraceBreakdown breakdown) {
  TraceAnalysis analysis;
  TraceSignals& signals = analysis.signals;
  signals.breakdown = std::move(breakdown);
  const std::vector<Collective> collectives = match_collectives(traces);
  const std::vector<std::int64_t> offsets = clock_offsets(traces, collectives);
  std::vector<RankView> ranks(traces.size());
  in_parallel(traces.size(), 1, [&](std::size_t i) { ranks[i] = RankView(traces[i], offsets[i]); });
  number_gpus(ranks);

  signals.collectives = collectives.size();
  std::vector<double> lengths;
  for (const RankView& rank : ranks) {
    const auto steps = static_cast<int>(rank.steps.size());
    signals.steps =
        lengths.empty() && &rank == &ranks.front() ? steps : std::min(signals.steps, steps);
    for (const GpuStep& step : rank.steps)
      lengths.push_back(static_cast<double>(step.end_ns - step.begin_ns) / kNsInMs);
    if (!rank.pieces.empty())
      signals.captured_s = std::max(
          signals.captured_s,
          static_cast<double>(rank.pieces.back().end_ns - rank.pieces.front().begin_ns) / 1e9);
    if (rank.trace->world_size) signals.world_size = rank.trace->world_size;
    signals.has_python_rows = signals.has_python_rows || !rank.trace->stacks.empty() ||
                              std::ranges::any_of(rank.trace->host_rows, [](const HostRow& row) {
                                return row.category == TraceCategory::python;
                              });
    signals.ranks.push_back(rank_signals(rank));
  }
  signals.step_ms = middle_value(lengths);
  add_lateness(ranks, collectives, signals);
  add_replay(ranks, collectives, signals);
  signals.ranks_together = ranks_together(ranks);
  for (const RankView& rank : ranks) {
    add_loader(rank, signals);
    add_device_turns(rank, signals);
    if (const auto accumulation = accumulation_of(*rank.trace, rank.rows)) {
      signals.passes_a_step = accumulation->passes_a_step;
      signals.passes_with_collectives = accumulation->passes_with_collectives;
    }
  }
  for (const RankView& rank : ranks) {
    add_waits(rank, signals);
    auto code = own_code(*rank.trace, rank.labels.main_thread(), rank.pieces,
                         static_cast<int>(rank.steps.size()));
    if (idle_ms(code) > idle_ms(signals.code)) signals.code = std::move(code);
    add_kernels(rank, signals);
  }
  analysis.timeline = trace_timeline(ranks);
  analysis.clock_offsets_ns = offsets;
  return analysis;
}

}  // namespace lockstep
