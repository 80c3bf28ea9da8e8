#include "sources/log_text.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"

namespace lockstep {
namespace {

// Pasted into an answer or an issue, each line has a mark or blanks before it.
void take_quote_marks_off(std::vector<std::string>& lines) {
  constexpr std::ptrdiff_t kAFew = 3;  // of prose around them
  const auto is_quoted = [](const std::string& line) {
    return line.starts_with("> ") || line == ">";
  };
  if (std::ranges::count_if(lines, is_quoted) < kAFew) return;
  for (std::string& line : lines) {
    if (!is_quoted(line)) continue;
    line.erase(0, std::min<std::size_t>(2, line.size()));
    if (line.starts_with("\\#")) line.erase(0, 1);
  }
}

// Kept as comments of a script or a README: "# [0] NVIDIA H100 80GB HBM3 | 52'C, 55 % | ...".
void take_comment_marks_off(std::vector<std::string>& lines) {
  for (std::string& line : lines) {
    // somebody's remark on a row: "78%    3%      <- healthy idle"
    for (const char* const arrow : {"  <- ", "  <-- ", "  <== "})
      if (const auto at = line.find(arrow); at != std::string::npos)
        line.erase(line.find_last_not_of(' ', at) + 1);
    if (line.starts_with("# [") || line.starts_with("# |") || line.starts_with("# +"))
      line.erase(0, 2);
  }
}

// One line of output in the middle of prose: `[6] NVIDIA A100 80GB PCIe | 52'C, 100 % | ...`
void take_backticks_off(std::vector<std::string>& lines) {
  for (std::string& line : lines)
    if (line.size() > 2 && line.front() == '`' && line.back() == '`' && !line.starts_with("``"))
      line = line.substr(1, line.size() - 2);
}

// nvitop draws its frames with box-drawing characters.
void make_bars_plain(std::string& line) {
  constexpr std::string_view kBar = "\xE2\x94\x82";  // │
  for (auto at = line.find(kBar); at != std::string::npos; at = line.find(kBar, at + 1))
    line.replace(at, kBar.size(), "|");
}

// A terminal's colours and slants.
void take_escapes_off(std::string& line) {
  constexpr char kEscape = '\x1b';
  for (auto at = line.find(kEscape); at != std::string::npos; at = line.find(kEscape, at)) {
    auto end = at + 1;
    if (end < line.size() && line[end] == '[') {
      ++end;
      while (end < line.size() && (line[end] < '@' || line[end] > '~')) ++end;
    } else if (end < line.size() && (line[end] == '(' || line[end] == ')')) {
      ++end;
    }
    line.erase(at, end + 1 - at);
  }
}

// "(pretraining, pid=4112) | NVIDIA-SMI ...": what Ray and SkyPilot put before what a task prints.
void take_names_of_tasks_off(std::vector<std::string>& lines) {
  const auto name_of_task = [](const std::string& line) -> std::size_t {
    const auto end = line.find(") ");
    const bool names = line.starts_with("(") && end != std::string::npos &&
                       line.substr(0, end).find("pid=") != std::string::npos;
    return names ? end + 2 : 0;
  };
  if (2 * std::ranges::count_if(lines, name_of_task) <= std::ssize(lines)) return;
  for (std::string& line : lines) line.erase(0, name_of_task(line));
}

void take_common_blanks_off(std::vector<std::string>& lines) {
  std::optional<std::string> common;
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    const std::string blanks = line.substr(0, line.find_first_not_of(" \t"));
    if (!common) common = blanks;
    const auto same = std::ranges::mismatch(*common, blanks).in1 - common->begin();
    common->resize(static_cast<std::size_t>(same));
    if (common->empty()) return;
  }
  if (!common) return;
  for (std::string& line : lines)
    if (!line.empty()) line.erase(0, common->size());
}

}  // namespace

LogText read_log(LineStream& stream) {
  LogText log;
  while (const auto line = stream.next()) {
    log.lines.emplace_back(trim(*line).empty() ? std::string() : std::string(*line));
    if (!log.lines.back().empty() && log.lines.back().back() == '\r') log.lines.back().pop_back();
    log.text += log.lines.back();
    log.text += '\n';
    if (log.text.size() > kLargestLog) {
      log.cut = true;
      break;
    }
  }
  if (!stream.remainder().empty() && !log.cut) {
    log.lines.emplace_back(stream.remainder());
    log.text += log.lines.back();
  }
  // a byte order mark
  if (!log.lines.empty() && log.lines.front().starts_with("\xEF\xBB\xBF"))
    log.lines.front().erase(0, 3);
  for (std::string& line : log.lines) {
    take_escapes_off(line);
    make_bars_plain(line);
  }
  take_quote_marks_off(log.lines);
  take_comment_marks_off(log.lines);
  take_backticks_off(log.lines);
  take_common_blanks_off(log.lines);
  take_names_of_tasks_off(log.lines);
  return log;
}

}  // namespace lockstep
