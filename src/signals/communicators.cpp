#include "signals/communicators.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace lockstep {
namespace {

using Counts = std::map<int, std::map<std::string, std::int64_t>>;  // by rank and operation

Counts counts_of(const Communicator& communicator) {
  Counts counts;
  for (const CommunicatorRank& rank : communicator.ranks)
    if (rank.answers) counts[rank.rank] = rank.counts;
  return counts;
}

const Communicator* find(const CommunicatorCensus& census, const std::string& hash) {
  const auto found = std::ranges::find_if(
      census.communicators, [&](const Communicator& one) { return one.hash == hash; });
  return found == census.communicators.end() ? nullptr : &*found;
}

bool concerns(const Communicator& communicator, const std::vector<int>& pids) {
  if (pids.empty()) return true;
  return std::ranges::any_of(communicator.ranks, [&](const CommunicatorRank& rank) {
    return std::ranges::find(pids, rank.pid) != pids.end();
  });
}

// The operation in which the ranks lie furthest apart.
std::optional<StuckCommunicator> differing(const Communicator& communicator) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> range;
  bool any = false;
  for (const CommunicatorRank& rank : communicator.ranks) {
    if (!rank.answers) continue;
    for (const auto& [operation, count] : rank.counts) {
      const auto [entry, is_new] = range.try_emplace(operation, count, count);
      entry->second = {std::min(entry->second.first, count), std::max(entry->second.second, count)};
    }
    any = true;
  }
  if (!any) return std::nullopt;
  StuckCommunicator stuck;
  stuck.hash = communicator.hash;
  stuck.size = communicator.size;
  for (const auto& [operation, least_most] : range)
    if (least_most.second - least_most.first > stuck.most - stuck.fewest) {
      stuck.operation = operation;
      stuck.fewest = least_most.first;
      stuck.most = least_most.second;
    }
  for (const CommunicatorRank& rank : communicator.ranks) {
    const auto count = rank.counts.find(stuck.operation);
    const bool is_behind =
        !rank.answers ||
        (!stuck.operation.empty() && (count == rank.counts.end() ? 0 : count->second) < stuck.most);
    if (!is_behind) continue;
    (rank.answers ? stuck.behind : stuck.silent).push_back(rank.rank);
    stuck.behind_pids.push_back(rank.pid);
    if (rank.gpu) stuck.behind_gpus.push_back(*rank.gpu);
  }
  if (stuck.behind.empty() && stuck.silent.empty()) return std::nullopt;
  return stuck;
}

std::int64_t total(const std::map<std::string, std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const auto& [operation, count] : counts) sum += count;
  return sum;
}

}  // namespace

std::optional<CommunicatorSignals> communicator_signals(const std::vector<CensusAt>& looks,
                                                        const std::vector<int>& pids) {
  if (looks.empty()) return std::nullopt;
  CommunicatorSignals signals;
  const CommunicatorCensus& newest = looks.back().census;
  signals.nccl_version = newest.nccl_version;
  const Communicator* largest = nullptr;
  for (const Communicator& communicator : newest.communicators) {
    if (!concerns(communicator, pids)) continue;
    ++signals.communicators;
    if (largest == nullptr || communicator.size > largest->size) largest = &communicator;
    for (const CommunicatorRank& rank : communicator.ranks)
      if ((rank.error != 0 && !rank.initialising) || rank.aborted)
        signals.failed.push_back(rank.rank);
    // Ranks may be one collective apart at any moment; that nothing changes is what tells. Since
    // when?
    auto stuck = differing(communicator);
    if (!stuck) continue;
    const Counts counts = counts_of(communicator);
    double since_ms = looks.back().t_ms;
    for (auto look = looks.rbegin() + 1; look != looks.rend(); ++look) {
      const Communicator* const before = find(look->census, communicator.hash);
      if (before == nullptr || counts_of(*before) != counts) break;
      since_ms = look->t_ms;
    }
    stuck->for_ms = looks.back().t_ms - since_ms;
    if (stuck->for_ms > 0) signals.stuck.push_back(std::move(*stuck));
  }
  if (largest == nullptr) return std::nullopt;
  signals.looks = static_cast<int>(std::ranges::count_if(
      looks, [&](const CensusAt& look) { return find(look.census, largest->hash) != nullptr; }));
  signals.largest = largest->size;
  std::set<std::pair<std::string, int>> processes;
  for (const CommunicatorRank& rank : largest->ranks) processes.emplace(rank.host, rank.pid);
  signals.processes = processes.size();
  const auto first = std::ranges::find_if(
      looks, [&](const CensusAt& look) { return find(look.census, largest->hash) != nullptr; });
  const Counts then = counts_of(*find(first->census, largest->hash));
  std::optional<std::int64_t> slowest;
  for (const auto& [rank, counts] : counts_of(*largest)) {
    const auto before = then.find(rank);
    const std::int64_t begun = total(counts) - (before == then.end() ? 0 : total(before->second));
    slowest = std::min(slowest.value_or(begun), begun);
  }
  signals.begun = slowest.value_or(0);
  return signals;
}

}  // namespace lockstep
