#include "sources/log/training_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/redact.hpp"
#include "base/text.hpp"
#include "lockstep/xid.hpp"
#include "messages/known_messages.hpp"
#include "sources/log/appended_runs.hpp"
#include "sources/log/exceptions.hpp"
#include "sources/log/step_lines.hpp"
#include "sources/log/watchdog_lines.hpp"

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

// NCCL, the store and the rendezvous speak of others.
bool speaks_of_others(std::string_view exception) {
  return holds_any(
      exception, {"NCCL", "nccl", "ProcessGroup", "DistBackendError", "DistStoreError", "TCPStore",
                  "c10d", "Rendezvous", "Connection reset", "Broken pipe"});
}

// ---- one run, in one log or in several ----

struct Place {
  std::size_t log = 0;
  std::size_t line = 0;
};

struct Found {
  Place place;
  MatchedMessage matched;
};

// Ranks that wait for one that is gone say this: its own error is the cause.
bool is_a_consequence(FindingCode code) {
  return code == FindingCode::nccl_timeout || code == FindingCode::ranks_missing;
}

bool ends_a_run(const MatchedMessage& matched) {
  return matched.sure && matched.message->weight == MessageWeight::ends_the_run;
}

// One of each kind is enough, since every rank prints the same: the first that is sure.
class FoundMessages {
 public:
  explicit FoundMessages(std::span<const OutputLog> logs)
      : logs_(logs), explained_(logs.size()), told_of_others_(logs.size()) {
    for (std::size_t log = 0; log < logs.size(); ++log)
      for (std::size_t line = 0; line < logs[log].lines.size(); ++line)
        if (const auto matched = match_message(logs[log].lines[line])) add({log, line}, *matched);
    // srun ends the other tasks when one of them has ended: nobody called scancel.
    if (const auto outside = found_.find(FindingCode::ended_from_outside);
        outside != found_.end() && outside->second.matched.message->words == kSlurmCancelled &&
        any_line([](const std::string& line) {
          return line.find("Exited with exit code") != std::string::npos;
        }))
      found_.erase(outside);
    for (auto& [code, entry] : found_) {
      entry.matched.sure = entry.matched.sure || any_line([&](const std::string& line) {
                             return speaks_for(*entry.matched.message, line);
                           });
      if (ends_a_run(entry.matched)) note_end(code, entry.place.log);
    }
  }

  void add(Place place, const MatchedMessage& matched) {
    const FindingCode code = matched.message->code;
    const auto [known, is_new] = found_.try_emplace(code, Found{place, matched});
    if (!is_new && matched.sure && !known->second.matched.sure) known->second = {place, matched};
    if (ends_a_run(matched)) note_end(code, place.log);
  }

  // Some message tells why this log ends as it does.
  bool explains(std::size_t log) const { return explained_[log] || told_of_others_[log]; }
  // No more than that another rank did not come.
  bool tells_of_others_alone(std::size_t log) const {
    return told_of_others_[log] && !explained_[log];
  }
  const std::map<FindingCode, Found>& all() const { return found_; }

 private:
  void note_end(FindingCode code, std::size_t log) {
    (is_a_consequence(code) ? told_of_others_ : explained_)[log] = true;
  }
  bool any_line(const std::function<bool(const std::string&)>& says) const {
    return std::ranges::any_of(
        logs_, [&](const OutputLog& log) { return std::ranges::any_of(log.lines, says); });
  }

  std::span<const OutputLog> logs_;
  std::map<FindingCode, Found> found_;
  std::vector<bool> explained_;
  std::vector<bool> told_of_others_;
};

// The exception of a rank that did not wait with the others.
std::optional<std::size_t> exception_of_one_of(const std::vector<int>& silent,
                                               std::span<const std::string> lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto rank = rank_of_line(lines[i]);
    if (rank && std::ranges::find(silent, *rank) != silent.end() && is_exception(lines[i]) &&
        has_a_traceback(lines, i))
      return i;
  }
  return std::nullopt;
}

struct Ended {
  std::size_t line = 0;
  MatchedMessage matched;
};

// What ended the program where no message tells: an exception of its own, or the word of whoever
// started it, which is worth something only where nothing else is known.
std::optional<Ended> untold_end(const OutputLog& log, std::size_t at, const FoundMessages& found,
                                bool is_one_of_several) {
  std::optional<std::size_t> exception;
  if (!found.explains(at))
    exception = last_exception(log.lines);
  else if (found.tells_of_others_alone(at) && !is_one_of_several)
    exception = exception_of_one_of(compare_waits(watchdog_words(log.lines)).silent, log.lines);
  if (exception && !match_message(log.lines[*exception]) &&
      !speaks_of_others(log.lines[*exception]) && !speaks_of_a_child(log.lines[*exception]))
    return Ended{*exception, {&known_message(kOwnError), true}};
  if (!found.all().empty()) return std::nullopt;
  if (!exception || !speaks_of_a_child(log.lines[*exception])) {
    const auto summary = std::ranges::find_if(log.lines, speaks_of_a_child);
    if (summary == log.lines.end()) return std::nullopt;
    exception = static_cast<std::size_t>(summary - log.lines.begin());
  }
  return Ended{*exception, {&known_message(kRankEnded), false}};
}

// Horovod's "[missing ranks: 0, 3]" of all its stalled operations.
std::string missing_ranks(std::span<const OutputLog> logs) {
  constexpr std::string_view kMissing = "[missing ranks: ";
  std::map<std::string, std::size_t> operations;  // by who is missing
  for (const OutputLog& log : logs)
    for (const std::string& line : log.lines)
      if (const auto at = line.find(kMissing); at != std::string::npos) {
        const std::string rest = line.substr(at + kMissing.size());
        ++operations[rest.substr(0, rest.find(']'))];
      }
  std::vector<std::string> words;
  for (const auto& [ranks, count] : operations)
    words.push_back(
        fmt::format("missing: rank {} (in {} operation{})", ranks, count, count == 1 ? "" : "s"));
  return join(words, "; ");
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=…"
std::optional<int> xid_of(const std::string& line) {
  const auto at = line.find(kXid);
  const auto close = at == std::string::npos ? at : line.find("): ", at);
  if (close == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(line).substr(close + 3);
  const auto number = parse_integer(rest.substr(0, rest.find_first_not_of("0123456789")));
  return number && *number < 1000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Each number once, with what it means and on how many GPUs it came.
std::vector<std::string> xids_in(std::span<const OutputLog> logs) {
  std::vector<int> order;
  std::map<int, std::set<std::string>> gpus;
  for (const OutputLog& log : logs)
    for (const std::string& line : log.lines)
      if (const auto xid = xid_of(line)) {
        if (!gpus.contains(*xid)) order.push_back(*xid);
        const auto open = line.find('(', line.find(kXid));
        gpus[*xid].insert(line.substr(open + 1, line.find(')', open) - open - 1));
      }
  std::vector<std::string> sentences;
  for (const int xid : order) {
    const std::string_view meaning = meaning_of_xid(xid);
    sentences.push_back(fmt::format(
        "Xid {} on {}: {}", xid,
        gpus[xid].size() == 1 ? *gpus[xid].begin() : fmt::format("{} GPUs", gpus[xid].size()),
        meaning.empty() ? "look it up in NVIDIA's catalogue" : meaning));
  }
  return sentences;
}

WatchdogWords watchdog_words_of(std::span<const OutputLog> logs) {
  WatchdogWords all;
  for (const OutputLog& log : logs) {
    const WatchdogWords words = watchdog_words(log.lines, log.rank);
    all.calls.insert(all.calls.end(), words.calls.begin(), words.calls.end());
    all.named.insert(all.named.end(), words.named.begin(), words.named.end());
  }
  return all;
}

// "Loss.cu:250: nll_loss_forward: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0` failed."
std::optional<std::size_t> assertion_above(std::span<const std::string> lines, std::size_t end) {
  for (std::size_t i = 0; i < end; ++i) {
    const auto at = lines[i].find("Assertion `");
    if (at != std::string::npos && lines[i].find("failed", at) != std::string::npos) return i;
  }
  return std::nullopt;
}

Record message(double t_ms, FindingCode code, bool sure, const std::string& words) {
  return {t_ms, Event{"message", std::nullopt,
                      fmt::format("{}{} {}", name_of(code).id, sure ? "" : "?", words)}};
}

// Lines of progress behind the last message of any kind: the error was caught, or the run began
// again. Lines of code in a traceback have no progress. Where a program tells of an error in words
// of its own, without a traceback, all of its output is.
std::ptrdiff_t progress_behind(const KnownMessage& known, std::span<const std::string> lines) {
  const auto is_raised = [](const std::string& line) {
    return is_exception(without_its_rank(line));
  };
  const bool in_its_own_words =
      known.words == kOutOfMemory && std::ranges::none_of(lines, [&](const std::string& line) {
        return line.find(kOwnError) != std::string::npos || is_raised(line);
      });
  const auto last = std::ranges::find_if(lines.rbegin(), lines.rend(), [&](const auto& line) {
    return match_message(line) || is_raised(line) || speaks_of_a_child(line);
  });
  return std::count_if(lines.rbegin(), last, [&](const std::string& line) {
    if (in_its_own_words) return !trim(line).empty();
    return tells_progress(line) && !line.starts_with("  ") && !line.starts_with("wandb") &&
           line.find_first_of("0123456789") != std::string::npos;
  });
}

// A model that has no room by itself: "in _apply", ".to(device)", no batch in the traceback.
bool is_before_any_batch(const KnownMessage& known, std::span<const std::string> lines,
                         std::size_t at) {
  constexpr std::size_t kOfATraceback = 60;
  if (known.code != FindingCode::out_of_memory) return false;
  bool moves = false;
  for (std::size_t i = at; i-- > 0 && at - i < kOfATraceback;) {
    if (lines[i].find(kOwnError) != std::string::npos) break;
    if (holds_any(lines[i], {"in forward", "in backward", "loss", "in step", "training_step"}))
      return false;
    moves = moves || holds_any(lines[i], {"in _apply", "in convert"});
  }
  return moves;
}

void add_message(std::span<const OutputLog> logs, const Found& entry,
                 std::vector<Record>& records) {
  const KnownMessage& known = *entry.matched.message;
  const auto t_ms = static_cast<double>(entry.place.line);
  const auto add = [&](FindingCode code, const std::string& words) {
    records.push_back(message(t_ms, code, entry.matched.sure, words));
  };
  const OutputLog& log = logs[entry.place.log];
  const auto in_log = [&](std::size_t line, const std::string& words) {
    return fmt::format("{}line {}: {}", log.name.empty() ? "" : log.name + " ",
                       log.first_line + line + 1, words);
  };
  // What the ranks say compared stands first: the line itself names the victims.
  if (known.code == FindingCode::nccl_timeout) {
    const ComparedWaits compared = compare_waits(watchdog_words_of(logs));
    for (const std::string& words : compared.sentences) add(known.code, words);
    if (!compared.different_calls.empty())
      add(FindingCode::rank_conditional_collective,
          fmt::format("{}: {}", kWatchdogsDiffer, compared.different_calls));
  }
  add(known.code,
      in_log(entry.place.line, shown(log.lines[entry.place.line], known)) +
          (known.words == kMismatchOfSizes ? fmt::format("; {}", kOtherSizes) : std::string()) +
          (is_before_any_batch(known, log.lines, entry.place.line)
               ? fmt::format("; {}", kNoBatchYet)
               : std::string()));
  constexpr std::ptrdiff_t kFewLines = 3;
  const auto more = ends_a_run(entry.matched) ? progress_behind(known, log.lines) : 0;
  if (more >= kFewLines)
    add(known.code,
        fmt::format("{}: {} lines of its output stand behind the last message", kRunWentOn, more));
  if (known.words == kDesync)
    for (std::size_t i = entry.place.line + 1;
         i < log.lines.size() && trim(log.lines[i]).starts_with('['); ++i)
      add(known.code, in_log(i, shown(log.lines[i], known)));
  if (known.words == kStalledOfHorovod)
    if (const std::string missing = missing_ranks(logs); !missing.empty()) add(known.code, missing);
  if (known.words == kDeviceAssertion)
    if (const auto above = assertion_above(log.lines, entry.place.line))
      add(known.code, in_log(*above, shown(log.lines[*above], known)));
  if (known.words == kXid)
    for (const std::string& words : xids_in(logs)) add(known.code, words);
}

// Means so far settle late, and the first steps warm up: of many lines the second half.
void add_steps(std::span<const std::string> lines, std::vector<Record>& records) {
  constexpr std::ptrdiff_t kMany = 12;
  const std::vector<StepLine> steps = step_lines(lines);
  // Some lines stand for many steps.
  const auto different = std::ranges::count_if(steps, [&](const StepLine& step) {
    return &step == steps.data() || step.line != (&step - 1)->line;
  });
  const std::size_t first = different < kMany ? 0 : steps.size() / 2;
  for (std::size_t i = first; i < steps.size(); ++i) {
    StepMark mark;
    mark.index = static_cast<std::int64_t>(i);
    mark.duration_ms = steps[i].step_ms;
    if (steps[i].data_ms) mark.spans_ms[index_of(StepPart::data_wait)] = *steps[i].data_ms;
    records.push_back({static_cast<double>(steps[i].line), mark});
  }
}

}  // namespace

std::optional<ParsedLog> parse_training_log(std::span<const std::string> lines) {
  const LastRun run = last_run(lines);
  const OutputLog last{{}, {}, lines.subspan(run.first_line), run.first_line};
  auto log = parse_training_logs({&last, 1});
  if (run.first_line == 0) return log;
  if (!log) log = log_without_messages();
  log->notes.push_back(
      fmt::format("the log holds {} runs, one behind the other: this is of the last, which begins "
                  "in line {}; give another one's lines alone to see what ended it",
                  run.runs, run.first_line + 1));
  return log;
}

ParsedLog log_without_messages() {
  ParsedLog log;
  log.kind = SourceKind::log;
  log.machine.process_coverage = ProcessCoverage::none;
  return log;
}

std::optional<ParsedLog> parse_training_logs(std::span<const OutputLog> logs) {
  ParsedLog log = log_without_messages();
  FoundMessages found(logs);
  for (std::size_t at = 0; at < logs.size(); ++at)
    if (const auto ended = untold_end(logs[at], at, found, logs.size() > 1))
      found.add({at, ended->line}, ended->matched);
  for (const auto& [code, entry] : found.all()) add_message(logs, entry, log.records);
  add_steps(logs.front().lines, log.records);  // steps of several ranks are the same steps
  std::ranges::stable_sort(log.records, {}, &Record::t_ms);
  if (log.records.empty()) return std::nullopt;
  return log;
}

}  // namespace lockstep
