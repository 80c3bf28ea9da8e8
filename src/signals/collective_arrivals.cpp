#include "signals/collective_arrivals.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

// of the time watched: NCCL makes its connections at the first collectives
constexpr double kWarmUp = 0.1;
// so long nobody is late step after step: it saves, evaluates or compiles
constexpr double kRareMs = 1000;
constexpr double kWorthTiming = 1 << 20;  // bytes: smaller ones tell of latency, not of the link

// communicator, operation, sequence
using Key = std::tuple<std::uint64_t, std::string, std::uint64_t>;

struct Met {
  std::map<int, const CollectiveCall*> of_rank;
  int size = 0;
};

struct Interval {
  double from_ms = 0;
  double to_ms = 0;
};

struct Lateness {
  std::vector<Interval> waits;  // of all others for this rank
  double on_host_ms = 0;        // of their sum
  double last = 0;
};

// Buckets of one step can be late together: what all of them wait for is waited for once.
double length_of_union(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::from_ms);
  double length = 0;
  double until = -std::numeric_limits<double>::infinity();
  for (const Interval& one : intervals) {
    length += std::max(0.0, one.to_ms - std::max(until, one.from_ms));
    until = std::max(until, one.to_ms);
  }
  return length;
}

bool is_on_device(const Met& met) {
  return std::ranges::all_of(met.of_rank,
                             [](const auto& one) { return one.second->begin_ms.has_value(); });
}

const CollectiveCall* last_of(const Met& met, bool on_device) {
  const auto arrival = [&](const CollectiveCall& call) {
    return on_device ? *call.begin_ms : call.called_ms;
  };
  const CollectiveCall* last = nullptr;
  for (const auto& [rank, call] : met.of_rank)
    if (last == nullptr || arrival(*call) > arrival(*last)) last = call;
  return last;
}

// How far the last to arrive was behind the one before it: only for that long did all others wait
// for it alone.
void add_wait(const Met& met, std::map<int, Lateness>& ranks) {
  const CollectiveCall* const last = last_of(met, true);
  double before = -std::numeric_limits<double>::infinity();
  double called_before = before;
  for (const auto& [rank, call] : met.of_rank) {
    if (call == last) continue;
    before = std::max(before, *call->begin_ms);
    called_before = std::max(called_before, call->called_ms);
  }
  const double late = std::max(0.0, *last->begin_ms - before);
  if (late > kRareMs) return;
  // A host that is this far ahead of its GPU did not make it late, whenever the others' asked.
  constexpr double kTimesAhead = 5;
  const bool host_was_ahead = *last->begin_ms - last->called_ms > kTimesAhead * late;
  Lateness& of = ranks[last->rank];
  of.waits.push_back({before, before + late});
  if (!host_was_ahead) of.on_host_ms += std::clamp(last->called_ms - called_before, 0.0, late);
}

struct Transfers {
  std::vector<double> bytes;
  std::vector<double> lengths_ms;
  std::vector<double> bus_bytes_s;
};

}  // namespace

double bus_factor(const std::string& operation, int ranks) {
  if (ranks < 2) return 0;
  const double n = ranks;
  if (operation == "AllReduce") return 2 * (n - 1) / n;
  if (operation == "AllGather" || operation == "ReduceScatter") return (n - 1) / n;
  return 1;
}

std::optional<CollectiveSignals> collective_signals(const std::vector<CollectiveCall>& all) {
  double from = std::numeric_limits<double>::infinity();
  double to = -from;
  for (const CollectiveCall& call : all) {
    from = std::min(from, call.called_ms);
    to = std::max(to, call.end_ms.value_or(call.queued_ms));
  }
  if (!(to > from)) return std::nullopt;
  from += kWarmUp * (to - from);
  std::map<Key, Met> collectives;
  std::map<int, std::size_t> calls_of_rank;
  std::map<int, double> bytes_of_rank;
  CollectiveSignals signals;
  signals.watched_ms = to - from;
  for (const CollectiveCall& call : all) {
    if (call.to_one_peer || call.captured || call.called_ms < from) continue;
    ++calls_of_rank[call.rank];
    bytes_of_rank[call.rank] += call.bytes;
    Met& met = collectives[{call.communicator, call.operation, call.sequence}];
    met.of_rank[call.rank] = &call;
    met.size = std::max(met.size, call.size);
  }
  if (calls_of_rank.empty()) return std::nullopt;
  for (const auto& [rank, count] : calls_of_rank) signals.calls = std::max(signals.calls, count);
  for (const auto& [rank, bytes] : bytes_of_rank)
    signals.bytes_s = std::max(signals.bytes_s, bytes / signals.watched_ms * 1e3);

  std::map<int, Lateness> lateness;
  std::size_t timed = 0;  // of those matched
  std::map<std::tuple<std::string, std::string, std::string, int, int>, Transfers> transfers;
  double transfer_ms = 0;
  for (const auto& [key, met] : collectives) {
    // Versions of the plugin below 4 do not say how many ranks there are: then those that told it
    // are taken for all.
    if (met.of_rank.size() < 2 || (met.size > 0 && static_cast<int>(met.of_rank.size()) < met.size))
      continue;
    ++signals.matched;
    const bool on_device = is_on_device(met);
    lateness[last_of(met, on_device)->rank].last += 1;
    if (on_device) {
      ++timed;
      add_wait(met, lateness);
    }
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& [rank, call] : met.of_rank)
      if (call->begin_ms) shortest = std::min(shortest, *call->end_ms - *call->begin_ms);
    if (!(shortest > 0) || shortest == std::numeric_limits<double>::infinity()) continue;
    signals.on_device = true;
    transfer_ms += shortest;
    const CollectiveCall& call = *met.of_rank.begin()->second;
    if (call.bytes < kWorthTiming) continue;
    const int ranks = met.size > 0 ? met.size : static_cast<int>(met.of_rank.size());
    Transfers& of = transfers[{call.operation, call.algorithm, call.protocol, ranks, call.nodes}];
    of.bytes.push_back(call.bytes);
    of.lengths_ms.push_back(shortest);
    of.bus_bytes_s.push_back(call.bytes * bus_factor(call.operation, ranks) / shortest * 1e3);
  }
  signals.transfer = transfer_ms / signals.watched_ms;
  // Hosts run ahead of their GPUs, each as far as it likes: on an H200 two healthy ranks asked 34 %
  // of the time apart, and one that slept before each step 1611 %, while nobody waited. Only the
  // GPUs' times tell who waits; where NCCL's own timers give some of them, those stand for all.
  const double scale = timed > 0 ? static_cast<double>(signals.matched) /
                                       static_cast<double>(timed) / signals.watched_ms
                                 : 0;
  double late_in_all = 0;
  for (const auto& [rank, count] : calls_of_rank) {
    const Lateness& late = lateness[rank];
    RankArrival arrival;
    arrival.rank = rank;
    arrival.last = signals.matched > 0 ? late.last / static_cast<double>(signals.matched) : 0;
    double sum_ms = 0;
    for (const Interval& wait : late.waits) sum_ms += wait.to_ms - wait.from_ms;
    arrival.late = std::min(1.0, scale * length_of_union(late.waits));
    arrival.late_on_host = sum_ms > 0 ? arrival.late * late.on_host_ms / sum_ms : 0;
    arrival.late_on_gpu = arrival.late - arrival.late_on_host;
    late_in_all += arrival.late;
    signals.ranks.push_back(arrival);
  }
  for (RankArrival& rank : signals.ranks)
    rank.late_share = late_in_all > 0 ? rank.late / late_in_all : 0;
  for (auto& [kind, of] : transfers) {
    const auto& [operation, algorithm, protocol, size, nodes] = kind;
    signals.speeds.push_back({operation, algorithm, protocol, size, nodes, of.bytes.size(),
                              *median_of(of.bytes), *median_of(of.lengths_ms),
                              *median_of(of.bus_bytes_s)});
  }
  std::ranges::stable_sort(signals.speeds, [](const CollectiveSpeed& a, const CollectiveSpeed& b) {
    return a.bytes * static_cast<double>(a.count) > b.bytes * static_cast<double>(b.count);
  });
  return signals;
}

}  // namespace lockstep
