#include "sources/log/watchdog_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;

std::string_view digits_at(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

std::optional<std::int64_t> count_behind(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  return parse_integer(digits_at(line.substr(at + words.size())));
}

// Behind `words`, up to what parts the fields of a call.
std::string field_behind(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + words.size());
  return std::string(rest.substr(0, rest.find_first_of(",) ")));
}

// "[PG ID 11 PG GUID 119 Rank 1]", "[PG ID 0 PG GUID 0(default_pg) Rank 1]". Its own "Rank" counts
// within the group, and its ID those of this process: "[PG 1 Rank 0]" names no group.
std::string group_of_line(std::string_view line) {
  constexpr std::string_view kGroup = " PG GUID ";
  const auto at = line.find(kGroup);
  if (at == std::string_view::npos) return {};
  const std::string_view group = line.substr(at + kGroup.size());
  return std::string(group.substr(0, group.find(" Rank ")));
}

// "work: 808", "work sequence id: 808": which of the rank's calls the group's line is about.
std::optional<std::int64_t> sequence_of_group_line(std::string_view line) {
  for (const std::string_view words : {"watchdog at work: ", "work sequence id: ", "NCCL work: "})
    if (const auto number = count_behind(line, words)) return number;
  return std::nullopt;
}

std::string words_of_call(const TimedOutCall& call) {
  return call.size.empty() ? call.operation
                           : fmt::format("{} of {} elements", call.operation, call.size);
}

// Gathers and exchanges hand in what each rank has.
bool sizes_must_agree(const TimedOutCall& call) {
  return call.operation.starts_with("ALLREDUCE") || call.operation == "BROADCAST" ||
         call.operation == "REDUCE";
}

using RanksByCall = std::vector<std::pair<std::string, std::vector<int>>>;

RanksByCall by_call(const std::vector<const TimedOutCall*>& calls) {
  RanksByCall result;
  for (const TimedOutCall* const call : calls) {
    if (call->operation.empty()) continue;
    const std::string words = sizes_must_agree(*call) ? words_of_call(*call) : call->operation;
    const auto known = std::ranges::find(result, words, &RanksByCall::value_type::first);
    if (known == result.end())
      result.push_back({words, {call->rank}});
    else
      known->second.push_back(call->rank);
  }
  return result;
}

std::string_view verb(const std::vector<int>& ranks, std::string_view one, std::string_view many) {
  return ranks.size() == 1 ? one : many;
}

void compare_group(const std::string& group, const std::vector<const TimedOutCall*>& calls,
                   ComparedWaits& result) {
  std::map<std::int64_t, std::vector<int>> by_sequence;
  for (const TimedOutCall* const call : calls) by_sequence[call->sequence].push_back(call->rank);
  const bool is_default = group.empty() || group.find("default_pg") != std::string::npos;
  const std::string of_group = is_default ? "" : " of group " + group;
  if (by_sequence.size() > 1) {
    constexpr std::size_t kMost = 4;
    std::vector<std::string> places;
    for (const auto& [sequence, ranks] : by_sequence) {
      if (places.size() == kMost) break;
      const auto one = std::ranges::find_if(calls, [&, number = sequence](const auto* call) {
        return call->sequence == number && !call->operation.empty();
      });
      places.push_back(fmt::format("{} {} {}number {}", ranks_words(ranks),
                                   verb(ranks, "waits in", "wait in"),
                                   one == calls.end() ? "" : words_of_call(**one) + " ", sequence));
    }
    const std::vector<int>& last = by_sequence.begin()->second;
    result.sentences.push_back(fmt::format("{}{}: {} {} furthest behind{}, look there first",
                                           join(places, ", "), of_group, ranks_words(last),
                                           verb(last, "is", "are"),
                                           group.empty() ? " if these are one group" : ""));
    return;
  }
  const auto apart = by_call(calls);
  const auto& [sequence, ranks] = *by_sequence.begin();
  if (apart.size() < 2) {
    const auto named = std::ranges::find_if(
        calls, [](const TimedOutCall* call) { return !call->operation.empty(); });
    result.sentences.push_back(
        fmt::format("{} {} {} number {}{}", ranks_words(ranks), verb(ranks, "waits in", "wait in"),
                    named == calls.end() ? "call" : words_of_call(**named), sequence, of_group));
    return;
  }
  std::vector<std::string> ways;
  for (const auto& [words, callers] : apart)
    ways.push_back(
        fmt::format("{} {} {}", ranks_words(callers), verb(callers, "calls", "call"), words));
  const std::string told = fmt::format("{} as number {}{}", join(ways, ", "), sequence, of_group);
  // Without the group's name these may be calls of different groups.
  if (group.empty())
    result.sentences.push_back(told + ": calls of different groups, or ranks on different paths");
  else
    result.different_calls = told;
}

}  // namespace

std::optional<int> rank_of_line(std::string_view line) {
  for (const std::string_view words : {"[rank", "[Rank "}) {
    const auto at = line.find(words);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + words.size());
    const std::string_view digits = digits_at(rest);
    const auto number = parse_integer(digits);
    if (number && *number < kMostRanks && rest.substr(digits.size()).starts_with(']'))
      return static_cast<int>(*number);
  }
  return std::nullopt;
}

WatchdogWords watchdog_words(std::span<const std::string> lines, std::optional<int> rank) {
  std::map<int, TimedOutCall> calls;
  std::map<std::pair<int, std::int64_t>, std::string> groups;
  std::set<int> named;
  if (rank) named.insert(*rank);
  for (const std::string& line : lines) {
    // "[Rank 1]" of a line that no launcher marked may count within its group: in a file of one
    // rank the file knows better.
    const bool is_marked = line.find("[rank") != std::string::npos;
    const auto of_line = rank && !is_marked ? rank : rank_of_line(line);
    if (!of_line) continue;
    named.insert(*of_line);
    if (std::string group = group_of_line(line); !group.empty())
      if (const auto sequence = sequence_of_group_line(line))
        groups[{*of_line, *sequence}] = std::move(group);
    // The second line that a watchdog prints does not say which operation; the first may be cut
    // off.
    const bool names_call =
        line.find("Watchdog caught collective operation timeout") != std::string::npos;
    const bool names_number = line.find("detected by watchdog at work") != std::string::npos;
    const auto sequence = names_call     ? count_behind(line, "SeqNum=")
                          : names_number ? sequence_of_group_line(line)
                                         : std::nullopt;
    if (!sequence) continue;
    TimedOutCall call{
        *of_line, {}, *sequence, field_behind(line, "OpType="), field_behind(line, "NumelIn=")};
    const auto [known, is_new] = calls.try_emplace(*of_line, call);
    const bool says_more = *sequence == known->second.sequence && known->second.operation.empty();
    if (!is_new && (*sequence < known->second.sequence || says_more))
      known->second = std::move(call);
  }
  WatchdogWords words;
  for (auto& [of_rank, call] : calls) {
    if (const auto group = groups.find({of_rank, call.sequence}); group != groups.end())
      call.group = group->second;
    words.calls.push_back(call);
  }
  words.named.assign(named.begin(), named.end());
  return words;
}

ComparedWaits compare_waits(const WatchdogWords& words) {
  ComparedWaits result;
  if (words.calls.empty()) return result;
  std::map<std::string, std::vector<const TimedOutCall*>> groups;
  for (const TimedOutCall& call : words.calls) groups[call.group].push_back(&call);
  // Some lines were cut or mixed up: what has no name is of the only group that has one.
  if (groups.size() == 2 && groups.begin()->first.empty()) {
    const auto unnamed = groups.extract(groups.begin());
    auto& named = groups.begin()->second;
    named.insert(named.end(), unnamed.mapped().begin(), unnamed.mapped().end());
    std::ranges::sort(named, {}, &TimedOutCall::rank);
  }
  for (const auto& [group, calls] : groups) compare_group(group, calls, result);
  for (const int rank : words.named)
    if (std::ranges::find(words.calls, rank, &TimedOutCall::rank) == words.calls.end())
      result.silent.push_back(rank);
  if (!result.silent.empty())
    result.sentences.push_back(fmt::format(
        "{} {} in this log and {} no time-out: look there first", ranks_words(result.silent),
        verb(result.silent, "speaks", "speak"), verb(result.silent, "reports", "report")));
  return result;
}

}  // namespace lockstep
