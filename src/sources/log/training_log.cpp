#include "sources/log/training_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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
  struct Found {
    std::size_t line;
    MatchedMessage matched;
  };
  // One of each kind is enough, since every rank prints the same: the first that is sure.
  std::map<FindingCode, Found> found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto matched = match_message(lines[i]);
    if (!matched) continue;
    const auto [known, is_new] = found.try_emplace(matched->message->code, Found{i, *matched});
    if (!is_new && matched->sure && !known->second.matched.sure) known->second = {i, *matched};
  }
  for (auto& [code, entry] : found)
    entry.matched.sure =
        entry.matched.sure || std::ranges::any_of(lines, [&entry](const std::string& line) {
          return speaks_for(*entry.matched.message, line);
        });
  for (const auto& [code, entry] : found)
    log.records.push_back(
        {static_cast<double>(entry.line),
         Event{"message", std::nullopt,
               fmt::format("{}{} line {}: {}", name_of(code).id, entry.matched.sure ? "" : "?",
                           entry.line + 1, shown(lines[entry.line], *entry.matched.message))}});
  std::ranges::sort(log.records, {}, &Record::t_ms);
  if (log.records.empty()) return std::nullopt;
  return log;
}

}  // namespace lockstep
