#include "sources/log/training_log.hpp"

#include <fmt/format.h>

#include <set>

#include "base/redact.hpp"
#include "base/text.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

// The line around the message, without what may be secret, and not longer than a terminal wants it.
std::string shown(const std::string& line, const KnownMessage& message) {
  constexpr std::size_t kLongest = 300;
  constexpr std::size_t kBefore = 60;
  const std::string_view begin = message.words.substr(0, message.words.find(" ... "));
  const std::size_t at = line.find(begin);
  const std::size_t from =
      at == std::string::npos || at < kBefore || line.size() <= kLongest ? 0 : at - kBefore;
  std::vector<std::string> words;
  for (const std::string_view word : split(trim(std::string_view(line).substr(from)), ' '))
    words.emplace_back(word);
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
    log.records.push_back(
        {static_cast<double>(i), Event{"message", std::nullopt,
                                       fmt::format("{} line {}: {}", name_of(message->code).id,
                                                   i + 1, shown(lines[i], *message))}});
  }
  if (log.records.empty()) return std::nullopt;
  return log;
}

}  // namespace lockstep
