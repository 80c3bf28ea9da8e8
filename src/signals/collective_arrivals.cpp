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

struct Lateness {
  double all_ms = 0;
  double on_host_ms = 0;
  double on_gpu_ms = 0;
  double last = 0;
};

double arrival_of(const CollectiveCall& call, bool on_device) {
  return on_device ? *call.begin_ms : call.called_ms;
}

// The last to arrive, and how far behind the one before it: only for that long did all others wait
// for it alone.
void add_lateness(const Met& met, std::map<int, Lateness>& ranks) {
  const bool on_device = std::ranges::all_of(
      met.of_rank, [](const auto& one) { return one.second->begin_ms.has_value(); });
  const CollectiveCall* last = nullptr;
  double before = -std::numeric_limits<double>::infinity();
  double called_before = -std::numeric_limits<double>::infinity();
  for (const auto& [rank, call] : met.of_rank)
    if (last == nullptr || arrival_of(*call, on_device) > arrival_of(*last, on_device)) last = call;
  for (const auto& [rank, call] : met.of_rank) {
    if (call == last) continue;
    before = std::max(before, arrival_of(*call, on_device));
    called_before = std::max(called_before, call->called_ms);
  }
  const double late = std::max(0.0, arrival_of(*last, on_device) - before);
  if (late > kRareMs) return;
  const double on_host = on_device ? std::clamp(last->called_ms - called_before, 0.0, late) : late;
  Lateness& of = ranks[last->rank];
  of.all_ms += late;
  of.on_host_ms += on_host;
  of.on_gpu_ms += late - on_host;
  of.last += 1;
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
  std::map<std::tuple<std::string, std::string, std::string, int, int>, Transfers> transfers;
  double transfer_ms = 0;
  for (const auto& [key, met] : collectives) {
    // Versions of the plugin below 4 do not say how many ranks there are: then those that told it
    // are taken for all.
    if (met.of_rank.size() < 2 || (met.size > 0 && static_cast<int>(met.of_rank.size()) < met.size))
      continue;
    ++signals.matched;
    add_lateness(met, lateness);
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
  double all_ms = 0;
  for (const auto& [rank, late] : lateness) all_ms += late.all_ms;
  for (const auto& [rank, count] : calls_of_rank) {
    const Lateness& late = lateness[rank];
    RankArrival arrival;
    arrival.rank = rank;
    arrival.last = signals.matched > 0 ? late.last / static_cast<double>(signals.matched) : 0;
    arrival.late = late.all_ms / signals.watched_ms;
    arrival.late_on_host = late.on_host_ms / signals.watched_ms;
    arrival.late_on_gpu = late.on_gpu_ms / signals.watched_ms;
    arrival.late_share = all_ms > 0 ? late.all_ms / all_ms : 0;
    signals.ranks.push_back(arrival);
  }
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
