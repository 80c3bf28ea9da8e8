#include "sources/log/training_log.hpp"

#include <fmt/format.h>

#include <set>

#include "base/redact.hpp"
#include "base/text.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

// The line without what may be secret, and not longer than a terminal wants it.
std::string shown(const std::string& line) {
  constexpr std::size_t kLongest = 300;
  std::vector<std::string> words;
  for (const std::string_view word : split(trim(line), ' ')) words.emplace_back(word);
  return join(redact_command(std::move(words)), " ").substr(0, kLongest);
}

}  // namespace

std::optional<ParsedLog> parse_training_log(const std::vector<std::string>& lines) {
  ParsedLog log;
  log.kind = SourceKind::log;
  log.machine.process_coverage = ProcessCoverage::none;
  std::set<FindingCode> seen;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const KnownMessage* const message = match_message(lines[i]);
    if (message == nullptr) continue;
    // One of each kind is enough: every rank prints the same.
    if (!seen.insert(message->code).second) continue;
    log.records.push_back({static_cast<double>(i), Event{"message", std::nullopt, fmt::format("line {}: {}", i + 1, shown(lines[i]))}});
  }
  if (log.records.empty()) return std::nullopt;
  return log;
}

}  // namespace lockstep
