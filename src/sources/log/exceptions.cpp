#include "sources/log/exceptions.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

// The first of those that stand together before `end`, the last of them in the `nearest` lines
// before it; of one that was raised while another was handled the last.
std::optional<std::size_t> exception_before(std::span<const std::string> lines, std::size_t end,
                                            std::size_t nearest) {
  std::optional<std::size_t> found;
  bool is_chained = false;
  for (std::size_t i = end; i-- > 0;) {
    if ((found ? *found : end) - i > (found ? kLinesOfOneEnd : nearest)) break;
    if (holds_any(lines[i], {"During handling of the above exception",
                             "was the direct cause of the following exception"}))
      is_chained = true;
    if (!is_exception(lines[i])) continue;
    if (!is_chained || !found) found = i;
    is_chained = false;
  }
  return found && has_a_traceback(lines, *found) ? found : std::nullopt;
}

}  // namespace

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

// Python prints a mistake in the text itself without the usual heading.
bool has_a_traceback(std::span<const std::string> lines, std::size_t exception) {
  const bool is_of_the_text = holds_any(lines[exception], {"SyntaxError", "IndentationError"});
  const std::size_t from = exception > kLinesOfOneEnd ? exception - kLinesOfOneEnd : 0;
  bool names_a_file = false;
  for (std::size_t i = exception; i-- > from;) {
    // A helper's thread ends alone: "Exception in thread ChkStopThr:".
    if (lines[i].find(kOwnError) != std::string::npos)
      return i == 0 || lines[i - 1].find("Exception in thread") == std::string::npos;
    names_a_file = names_a_file || lines[i].find("File \"") != std::string::npos;
  }
  return is_of_the_text && names_a_file;
}

// A log may hold exceptions that were caught. What ended the program stands right before the
// launcher's words, or at the end.
std::optional<std::size_t> last_exception(std::span<const std::string> lines) {
  constexpr std::size_t kBehindIt = 20;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (holds_any(lines[i], {"ChildFailedError", "Root Cause (first observed failure)",
                             "exits with return code", "srun: error:"}))
      if (const auto found = exception_before(lines, i, kLinesOfOneEnd)) return found;
  std::size_t end = lines.size();
  while (end > 0 && trim(lines[end - 1]).empty()) --end;
  if (const auto found = exception_before(lines, end, kBehindIt)) return found;
  // A scheduler's report on the job stands behind what the program said last.
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (holds_any(lines[i], {"Sender: LSF System", "# LSBATCH: User input"}))
      if (const auto found = exception_before(lines, i, kBehindIt)) return found;
  // Of a paste of a few lines the heading may have stayed behind.
  constexpr std::size_t kAPaste = 30;
  if (end > 0 && end <= kAPaste && is_exception(lines[end - 1])) return end - 1;
  return std::nullopt;
}

}  // namespace lockstep
