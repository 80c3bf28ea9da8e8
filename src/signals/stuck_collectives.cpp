#include "signals/stuck_collectives.hpp"

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

const FlightEntry* entry_at(const FlightDump& dump, const std::string& group,
                            std::int64_t sequence) {
  for (const FlightEntry& entry : dump.entries)
    if (!entry.between_two && entry.group == group && entry.sequence == sequence) return &entry;
  return nullptr;
}

const FlightEntry* last_entry(const FlightDump& dump, const std::string& group) {
  const FlightEntry* last = nullptr;
  for (const FlightEntry& entry : dump.entries)
    if (!entry.between_two && entry.group == group &&
        (last == nullptr || entry.sequence >= last->sequence))
      last = &entry;
  return last;
}

// Sizes must agree where all ranks hand in the same tensor; gathers and exchanges may differ.
std::string call_words(const FlightEntry& entry) {
  const bool same_sizes = entry.operation == "all_reduce" || entry.operation == "broadcast" ||
                          entry.operation == "reduce";
  return same_sizes ? entry.operation + " " + entry.shape : entry.operation;
}

// Where none stands open (they were given up when they timed out): the first that not all have
// called.
std::optional<std::int64_t> first_not_by_all(const std::vector<FlightDump>& dumps,
                                             const std::string& group) {
  std::optional<std::int64_t> least;
  std::int64_t most = 0;
  for (const FlightDump& dump : dumps) {
    const FlightEntry* const last = last_entry(dump, group);
    if (last == nullptr) continue;
    least = std::min(least.value_or(last->sequence), last->sequence);
    if (!last->completed) most = std::max(most, last->sequence);  // what is done, all had called
  }
  return least && *least < most ? std::optional(*least + 1) : std::nullopt;
}

}  // namespace

std::vector<StuckCollective> stuck_collectives(const std::vector<FlightDump>& dumps) {
  std::set<std::string> groups;
  for (const FlightDump& dump : dumps)
    for (const FlightEntry& entry : dump.entries)
      if (!entry.between_two) groups.insert(entry.group);
  std::vector<StuckCollective> result;
  for (const std::string& group : groups) {
    std::set<int> members;
    for (const FlightDump& dump : dumps)
      if (const auto found = dump.groups.find(group); found != dump.groups.end())
        members.insert(found->second.begin(), found->second.end());
    std::optional<std::int64_t> first_open;
    for (const FlightDump& dump : dumps) {
      if (last_entry(dump, group) != nullptr) members.insert(dump.rank);
      for (const FlightEntry& entry : dump.entries)
        if (!entry.between_two && entry.group == group && !entry.completed && !entry.given_up)
          first_open = std::min(first_open.value_or(entry.sequence), entry.sequence);
    }
    const bool by_numbers = !first_open.has_value();
    if (by_numbers) first_open = first_not_by_all(dumps, group);
    if (!first_open) continue;
    StuckCollective stuck;
    stuck.group = group;
    stuck.sequence = *first_open;
    std::set<std::string> calls;
    for (const int rank : members) {
      const auto dump =
          std::ranges::find_if(dumps, [&](const FlightDump& one) { return one.rank == rank; });
      if (dump == dumps.end()) {
        stuck.without_dump.push_back(rank);
        continue;
      }
      const FlightEntry* const entry = entry_at(*dump, group, stuck.sequence);
      const FlightEntry* const last = last_entry(*dump, group);
      if (const auto words = dump->descriptions.find(group); words != dump->descriptions.end())
        stuck.description = words->second;
      // done, and gone from the ring
      if (entry == nullptr && last != nullptr && last->sequence > stuck.sequence) continue;
      if (entry == nullptr) {
        stuck.missing.push_back(rank);
        stuck.last[rank] = last == nullptr ? -1 : last->sequence;
        if (last != nullptr && last->where) stuck.where[rank] = *last->where;
        continue;
      }
      if (!entry->completed || by_numbers) stuck.waiting.push_back(rank);
      if (stuck.operation.empty()) stuck.operation = entry->operation;
      stuck.calls[rank] = call_words(*entry);
      calls.insert(call_words(*entry));
      if (entry->where) stuck.where[rank] = *entry->where;
    }
    if (calls.size() < 2) stuck.calls.clear();
    result.push_back(std::move(stuck));
  }
  return result;
}

}  // namespace lockstep
