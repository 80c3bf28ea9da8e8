#include "detectors/told/flight_findings.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string name_of_call(const StuckCollective& stuck) {
  return (stuck.operation.empty() ? "collective" : stuck.operation) + " number " +
         std::to_string(stuck.sequence) + " of " +
         (stuck.description.empty() ? "group " + stuck.group : stuck.description);
}

Evidence words(std::string text) { return {std::move(text), 1, std::nullopt, "message"}; }

void add_lines(const StuckCollective& stuck, const std::vector<int>& ranks, Finding& finding) {
  constexpr std::size_t kMostLines = 4;
  for (const int rank : ranks) {
    const auto line = stuck.where.find(rank);
    if (line == stuck.where.end() || finding.where.size() == kMostLines) continue;
    const bool known = std::ranges::any_of(finding.where, [&](const SourceLine& other) {
      return other.file == line->second.file && other.line == line->second.line;
    });
    if (!known) finding.where.push_back(line->second);
  }
}

Finding standstill(FindingCode code, double confidence, std::vector<int> ranks) {
  Finding finding;
  finding.code = code;
  finding.severity = Severity::critical;
  finding.confidence = confidence;
  finding.lost_throughput = 1;
  finding.is_fault = true;
  finding.rung = 1;
  finding.ranks = std::move(ranks);
  return finding;
}

Finding stuck_finding(const StuckCollective& stuck) {
  std::vector<int> absent = stuck.missing;
  absent.insert(absent.end(), stuck.without_dump.begin(), stuck.without_dump.end());
  std::ranges::sort(absent);
  Finding finding = standstill(FindingCode::stuck_collective, absent.empty() ? 0.75 : 0.95,
                               absent.empty() ? stuck.waiting : absent);
  finding.evidence.push_back(words(name_of_call(stuck) + ": " + ranks_words(stuck.waiting) +
                                   (stuck.waiting.size() == 1 ? " waits" : " wait") + " in it"));
  for (const int rank : stuck.missing) {
    const std::int64_t last = stuck.last.at(rank);
    finding.evidence.push_back(words("rank " + std::to_string(rank) + " has not called it: " +
                                     (last < 0 ? "it has called none of this group"
                                               : "its last was number " + std::to_string(last))));
  }
  if (!stuck.without_dump.empty())
    finding.evidence.push_back(
        words(ranks_words(stuck.without_dump) + " wrote no dump: ended, or stuck before that"));
  if (absent.empty() && stuck.calls.empty())
    finding.evidence.push_back(
        words("all have called it alike: a link, a GPU or the network holds it up"));
  add_lines(stuck, stuck.missing, finding);
  add_lines(stuck, stuck.waiting, finding);
  return finding;
}

// The few that took another way: by what they call, or by calling at all.
std::optional<Finding> divergence(const StuckCollective& stuck) {
  if (!stuck.calls.empty()) {
    std::map<std::string, std::vector<int>> by_call;
    for (const auto& [rank, call] : stuck.calls) by_call[call].push_back(rank);
    const auto fewest = std::ranges::min_element(
        by_call, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    Finding finding = standstill(FindingCode::rank_conditional_collective, 0.95, fewest->second);
    for (const auto& [call, ranks] : by_call)
      finding.evidence.push_back(words(ranks_words(ranks) +
                                       (ranks.size() == 1 ? " calls " : " call ") + call +
                                       " as number " + std::to_string(stuck.sequence)));
    for (const auto& [call, ranks] : by_call) add_lines(stuck, ranks, finding);
    return finding;
  }
  if (stuck.missing.size() <= stuck.waiting.size() || stuck.waiting.empty()) return std::nullopt;
  Finding finding = standstill(FindingCode::rank_conditional_collective, 0.75, stuck.waiting);
  finding.evidence.push_back(words("only " + ranks_words(stuck.waiting) + " called " +
                                   name_of_call(stuck) + "; the others did not come to it"));
  add_lines(stuck, stuck.waiting, finding);
  return finding;
}

}  // namespace

std::vector<Finding> find_in_flight_dumps(const std::vector<StuckCollective>& stuck) {
  std::vector<Finding> findings;
  for (const StuckCollective& one : stuck) {
    findings.push_back(stuck_finding(one));
    if (auto apart = divergence(one)) findings.push_back(std::move(*apart));
  }
  return findings;
}

}  // namespace lockstep
