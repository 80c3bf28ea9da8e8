#include "sources/log/training_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/redact.hpp"
#include "base/text.hpp"
#include "messages/known_messages.hpp"
#include "sources/log/step_lines.hpp"

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
  return shortened(join(redact_command(std::move(words)), " "), kLongest);
}

// ---- an exception that ends the program ----

// "[rank0]: ", "[train] ", "(RayTrainWorker pid=7) ", "0: ": what launchers put before a rank's
// line.
std::string_view without_its_rank(std::string_view line) {
  line = trim(line);
  const auto end = line.find(']');
  if (line.starts_with('[') && end != std::string_view::npos) {
    line.remove_prefix(end + 1);
    if (line.starts_with(':')) line.remove_prefix(1);
    return without_its_rank(line);
  }
  if (line.starts_with('(') && line.find(") ") != std::string_view::npos)
    line.remove_prefix(line.find(") ") + 2);
  const auto digits = line.find_first_not_of("0123456789");
  if (digits != 0 && digits != std::string_view::npos && line.substr(digits).starts_with(": "))
    line.remove_prefix(digits + 2);
  return trim(line);
}

// "TypeError: …", "torch.cuda.SomeError": not what a launcher raises when one of its ranks ended.
bool is_exception(std::string_view line) {
  line = without_its_rank(line);
  const std::string_view name = line.substr(0, line.find(':'));
  if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_.") != std::string_view::npos)
    return false;
  if (name.ends_with("ChildFailedError") || name.ends_with("CalledProcessError") ||
      name.ends_with("ProcessExitedException"))
    return false;
  return name.ends_with("Error") || name.ends_with("Exception");
}

constexpr std::size_t kOfOneEnd = 120;  // lines: all ranks' tracebacks together

// Python prints a mistake in the text itself without the usual heading.
bool has_a_traceback(const std::vector<std::string>& lines, std::size_t exception) {
  const bool is_of_the_text = holds_any(lines[exception], {"SyntaxError", "IndentationError"});
  const std::size_t from = exception > kOfOneEnd ? exception - kOfOneEnd : 0;
  return std::ranges::any_of(lines.begin() + static_cast<std::ptrdiff_t>(from),
                             lines.begin() + static_cast<std::ptrdiff_t>(exception),
                             [&](const std::string& line) {
                               return line.find(kOwnError) != std::string::npos ||
                                      (is_of_the_text && line.find("File \"") != std::string::npos);
                             });
}

// The first of those that stand together before `end`, the last of them in the `nearest` lines
// before it; of one that was raised while another was handled the last.
std::optional<std::size_t> exception_before(const std::vector<std::string>& lines, std::size_t end,
                                            std::size_t nearest) {
  std::optional<std::size_t> found;
  bool is_chained = false;
  for (std::size_t i = end; i-- > 0;) {
    if ((found ? *found : end) - i > (found ? kOfOneEnd : nearest)) break;
    if (holds_any(lines[i], {"During handling of the above exception",
                             "was the direct cause of the following exception"}))
      is_chained = true;
    if (!is_exception(lines[i])) continue;
    if (!is_chained || !found) found = i;
    is_chained = false;
  }
  return found && has_a_traceback(lines, *found) ? found : std::nullopt;
}

// A log may hold exceptions that were caught. What ended the program stands right before the
// launcher's words, or at the end.
std::optional<std::size_t> last_exception(const std::vector<std::string>& lines) {
  constexpr std::size_t kBehindIt = 20;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (holds_any(lines[i], {"ChildFailedError", "Root Cause (first observed failure)",
                             "exits with return code", "srun: error:"}))
      if (const auto found = exception_before(lines, i, kOfOneEnd)) return found;
  std::size_t end = lines.size();
  while (end > 0 && trim(lines[end - 1]).empty()) --end;
  if (const auto found = exception_before(lines, end, kBehindIt)) return found;
  // Of a paste of a few lines the heading may have stayed behind.
  constexpr std::size_t kAPaste = 30;
  if (end > 0 && end <= kAPaste && is_exception(lines[end - 1])) return end - 1;
  return std::nullopt;
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
  const bool is_explained = std::ranges::any_of(found, [](const auto& one) {
    const MessageWeight weight = one.second.matched.message->weight;
    return one.second.matched.sure && weight == MessageWeight::ends_the_run;
  });
  if (const auto line = is_explained ? std::nullopt : last_exception(lines);
      line && !match_message(lines[*line]))
    found[FindingCode::program_error] = {*line, {&known_message(kOwnError), true}};
  for (const auto& [code, entry] : found)
    log.records.push_back(
        {static_cast<double>(entry.line),
         Event{"message", std::nullopt,
               fmt::format("{}{} line {}: {}", name_of(code).id, entry.matched.sure ? "" : "?",
                           entry.line + 1, shown(lines[entry.line], *entry.matched.message))}});
  // Means so far settle late, and the first steps warm up: of many lines the second half.
  constexpr std::size_t kMany = 12;
  const std::vector<StepLine> steps = step_lines(lines);
  for (std::size_t i = steps.size() < kMany ? 0 : steps.size() / 2; i < steps.size(); ++i) {
    StepMark mark;
    mark.index = static_cast<std::int64_t>(i);
    mark.duration_ms = steps[i].step_ms;
    if (steps[i].data_ms) mark.spans_ms[index_of(StepPart::data_wait)] = *steps[i].data_ms;
    log.records.push_back({static_cast<double>(steps[i].line), mark});
  }
  std::ranges::stable_sort(log.records, {}, &Record::t_ms);
  if (log.records.empty()) return std::nullopt;
  return log;
}

}  // namespace lockstep
