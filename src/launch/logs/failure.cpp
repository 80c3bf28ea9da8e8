#include "launch/logs/failure.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "launch/guard/signal_names.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr std::size_t kLastLines = 12;

// When a file was written last, on the monotonic clock.
std::optional<std::chrono::nanoseconds> written_at(const std::string& path) {
  struct stat facts{};
  if (path.empty() || ::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      facts.st_size == 0)
    return std::nullopt;
  const auto written =
      std::chrono::seconds(facts.st_mtim.tv_sec) + std::chrono::nanoseconds(facts.st_mtim.tv_nsec);
  return written - unix_now() + monotonic_now();
}

std::chrono::nanoseconds failed_at(const RankEnd& end, const RankFiles& files) {
  const auto written = written_at(files.error_file);
  return written && *written > end.started ? std::min(*written, end.ended) : end.ended;
}

// torch writes "[rank1]: " before each line of a traceback.
std::string_view without_rank(std::string_view line) {
  const auto end = line.find("]: ");
  return line.starts_with("[rank") && end != std::string_view::npos &&
                 parse_integer(line.substr(5, end - 5))
             ? line.substr(end + 3)
             : line;
}

std::vector<std::string> last_lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n'))
    if (!trim(line).empty()) lines.emplace_back(without_rank(line));
  if (lines.size() > kLastLines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLastLines));
  return lines;
}

// CUDA's out-of-memory message fills a screen; whole it is among the last lines.
std::string shortened(const std::string& error) {
  constexpr std::size_t kLongest = 160;
  const std::string_view first_line = trim(std::string_view(error).substr(0, error.find('\n')));
  if (first_line.size() <= kLongest) return std::string(first_line);
  const auto blank = first_line.rfind(' ', kLongest);
  return std::string(first_line.substr(0, blank == std::string_view::npos ? kLongest : blank)) +
         " \xE2\x80\xA6";
}

std::string ending_in_words(const RankEnd& end) {
  if (const auto signal = end.signal())
    return fmt::format("was killed by {}", signal_name(*signal));
  return fmt::format("ended with exit code {}", WEXITSTATUS(end.wait_status));
}

std::string likely_reason(const Failure& failure) {
  if (!failure.kernel_says.empty()) return failure.kernel_says;
  switch (failure.end.signal().value_or(0)) {
    case SIGKILL:
      return "something killed it: the kernel when memory runs out, a scheduler's limit, or a "
             "person";
    case SIGSEGV:
    case SIGBUS:
    case SIGILL: return "native code crashed: run it with PYTHONFAULTHANDLER=1 to see where";
    case SIGABRT:
      return "native code gave up (an assertion, or NCCL's watchdog): see its last lines";
    default: return {};
  }
}

const KnownMessage* known_message_of(const Failure& failure) {
  if (failure.error)
    if (const auto known = match_message(failure.error->message); known && known->sure)
      return known->message;
  for (auto line = failure.last_lines.rbegin(); line != failure.last_lines.rend(); ++line)
    if (const auto known = match_message(*line); known && known->sure) return known->message;
  return nullptr;
}

}  // namespace

std::optional<int> RankEnd::signal() const {
  return WIFSIGNALED(wait_status) ? std::optional(WTERMSIG(wait_status)) : std::nullopt;
}
int RankEnd::exit_code() const { return signal() ? 128 + *signal() : WEXITSTATUS(wait_status); }

std::optional<ErrorFile> parse_error_file(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("message")) return std::nullopt;
  const json& message = parsed["message"];
  if (message.is_string()) return ErrorFile{message.get<std::string>(), {}};
  if (!message.is_object()) return std::nullopt;
  ErrorFile file;
  if (message.contains("message") && message["message"].is_string())
    file.message = message["message"].get<std::string>();
  if (message.contains("extraInfo") && message["extraInfo"].is_object() &&
      message["extraInfo"].contains("py_callstack") &&
      message["extraInfo"]["py_callstack"].is_string())
    file.callstack = message["extraInfo"]["py_callstack"].get<std::string>();
  return file;
}

std::optional<std::string> with_error_code(const std::string& text, int code) {
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return std::nullopt;
  if (parsed.is_object() && parsed.contains("message") && parsed["message"].is_object())
    parsed["message"]["errorCode"] = code;
  return parsed.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Failure::signature() const {
  if (place.empty()) return {};
  // Not how it ended: after one and the same exception torch's threads may or may not abort while
  // Python shuts down.
  constexpr std::size_t kLongest = 500;  // messages may hold whole tensors
  return fmt::format("{} {}", place, error ? error->message : error_in_traceback(last_lines))
      .substr(0, kLongest);
}

std::string place_in_traceback(const std::string& text) {
  const auto found = text.rfind("File \"");
  if (found == std::string::npos) return {};
  const auto name_end = text.find('"', found + 6);
  const auto line =
      name_end == std::string::npos ? std::string::npos : text.find(", line ", name_end);
  if (line != name_end + 1) return {};
  std::size_t digits_end = line + 7;
  while (digits_end < text.size() && text[digits_end] >= '0' && text[digits_end] <= '9')
    ++digits_end;
  return fmt::format("{}:{}", text.substr(found + 6, name_end - found - 6),
                     text.substr(line + 7, digits_end - line - 7));
}

std::string error_in_traceback(const std::vector<std::string>& lines) {
  for (std::size_t i = lines.size(); i-- > 0;) {
    const std::string& line = lines[i];
    const auto colon = line.find_first_of(": ");
    const std::string_view word = std::string_view(line).substr(0, colon);
    if (word.ends_with("Error") || word.ends_with("Exception") || word.ends_with("Interrupt") ||
        word.ends_with("Exit"))
      return line;
  }
  return {};
}

std::optional<Failure> first_failure(const std::vector<RankEnd>& ends,
                                     const std::vector<RankFiles>& files) {
  const RankEnd* first = nullptr;
  std::chrono::nanoseconds first_at{};
  for (const RankEnd& end : ends) {
    const RankFiles& of_rank = files[end.index];
    if (!end.failed()) continue;
    // One that was asked to end counts only where its own error came before.
    if (end.asked_to_end && !written_at(of_rank.error_file)) continue;
    const auto at = failed_at(end, of_rank);
    if (first == nullptr || at < first_at) first = &end, first_at = at;
  }
  if (first == nullptr)
    for (const RankEnd& end : ends)
      if (end.failed() && (first == nullptr || end.ended < first->ended)) first = &end;
  if (first == nullptr) return std::nullopt;
  const RankFiles& of_rank = files[first->index];
  Failure failure;
  failure.end = *first;
  if (written_at(of_rank.error_file))
    if (const auto text = read_small_file(of_rank.error_file, 16U << 20U))
      failure.error = parse_error_file(*text);
  if (failure.error) failure.error_path = of_rank.error_file;
  failure.log_path = of_rank.stderr_file == "/dev/null" ? std::string() : of_rank.stderr_file;
  const bool has_callstack = failure.error && !failure.error->callstack.empty();
  if (const auto tail =
          failure.log_path.empty() ? std::nullopt : read_end_of_file(failure.log_path, 16384))
    failure.last_lines = last_lines_of(*tail);
  if (failure.last_lines.empty() && has_callstack)
    failure.last_lines = last_lines_of(failure.error->callstack);
  failure.place =
      place_in_traceback(has_callstack ? failure.error->callstack : join(failure.last_lines, "\n"));
  return failure;
}

std::string failure_text(const Failure& failure, const std::vector<RankEnd>& ends,
                         const FailureSetting& setting) {
  const RankEnd& end = failure.end;
  std::string text = fmt::format(
      "lockstep: rank {} failed first: it {} after {} (host {}, local rank {}, pid {})\n", end.rank,
      ending_in_words(end), format_duration(end.ended - end.started), printable(setting.host),
      end.local_rank, end.pid);
  const std::string error =
      failure.error ? failure.error->message : error_in_traceback(failure.last_lines);
  if (!error.empty())
    text +=
        fmt::format("  error: {}{}\n", printable(shortened(error)),
                    failure.place.empty() ? "" : fmt::format(" (at {})", printable(failure.place)));
  if (const std::string reason = likely_reason(failure); !reason.empty() && error.empty())
    text += fmt::format("  likely: {}\n", reason);
  if (!failure.error_path.empty() && setting.files_stay)
    text += fmt::format("  error file: {}\n", printable(failure.error_path));
  if (!failure.last_lines.empty()) {
    text += setting.files_stay && !failure.log_path.empty()
                ? fmt::format("  last lines of {}:\n", printable(failure.log_path))
                : "  its last lines:\n";
    for (const std::string& line : failure.last_lines)
      text += fmt::format("    {}\n", printable(line));
  }
  std::vector<std::string> others;
  for (const RankEnd& other : ends)
    if (other.rank != end.rank && other.failed() && !other.asked_to_end)
      others.push_back(fmt::format("rank {} {}", other.rank, ending_in_words(other)));
  if (others.size() > 4) others = {fmt::format("{} other ranks failed after it", others.size())};
  if (!others.empty()) text += fmt::format("  after it: {}\n", join(others, ", "));
  if (const KnownMessage* const known = known_message_of(failure)) {
    const FindingName& name = name_of(known->code);
    text += fmt::format("  {} {}: {}\n  next: {}; lockstep explain {}\n", name.id, name.name,
                        known->cause, known->fix, name.id);
  } else if (error.starts_with("ModuleNotFoundError: No module named 'torch'")) {
    text += fmt::format(
        "  next: ranks were run by {}: activate the environment that has torch, or set PYTHON_EXEC "
        "to its python\n",
        printable(setting.program));
  } else if (failure.last_lines.empty() && !failure.error && !failure.log_path.empty()) {
    text +=
        "  next: it wrote nothing to stderr; @record of torch.distributed.elastic keeps the "
        "traceback of an exception\n";
  } else if (failure.last_lines.empty() && !failure.error) {
    text +=
        "  next: its own words are on the console above; -t 3 keeps a copy of them, and @record of "
        "torch.distributed.elastic keeps the traceback\n";
  } else {
    text +=
        "  next: the first failure is the cause; what other ranks say about lost connections "
        "follows from it\n";
  }
  return text;
}

}  // namespace lockstep
