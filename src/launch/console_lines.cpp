#include "launch/console_lines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/clock.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Ranks in step print the same within a few milliseconds; a fifth of a second later it is another line.
constexpr auto kFoldWithin = 200ms;
constexpr std::size_t kLongestLine = 1U << 20U;

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) text.replace(at, what.size(), with);
}

std::string time_of_day() {
  const auto now = unix_now();
  const std::time_t seconds = static_cast<std::time_t>(now / 1s);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>((now % 1s) / 1ms));
}

}  // namespace

std::string line_prefix(const std::string& role, const std::string& line_template, int rank, int local_rank) {
  if (line_template.empty()) return fmt::format("[{}{}]:", role, local_rank);
  std::string prefix = line_template;
  for (const bool braces : {true, false}) {
    const auto name = [&](const char* word) { return braces ? fmt::format("${{{}}}", word) : fmt::format("${}", word); };
    replace_all(prefix, name("role_name"), role);
    replace_all(prefix, name("local_rank"), std::to_string(local_rank));
    replace_all(prefix, name("rank"), std::to_string(rank));
  }
  return prefix;
}

ConsoleLines::ConsoleLines(const LaunchSettings& settings, const GroupPlace& place, const LogFolder& folder, const std::string& line_template)
    : times_(settings.line_times), fold_(settings.fold_lines), filters_{settings.stdout_filters, settings.stderr_filters} {
  std::set<int> ranks;
  for (int rank = 0; rank < place.local_ranks; ++rank) {
    const bool shown = settings.shown_ranks.empty() || settings.shown_ranks.contains(rank);
    const Streams teed = settings.tee.of(rank);
    if (!shown || !teed.any() || settings.log_folder == "/dev/null") continue;
    const RankFiles paths = folder.files_of(settings, rank);
    const std::string prefix = line_prefix(settings.role, line_template, place.first_rank + rank, rank);
    if (teed.out) files_.push_back({rank, false, paths.stdout_file, prefix, -1, {}});
    if (teed.err) files_.push_back({rank, true, paths.stderr_file, prefix, -1, {}});
    ranks.insert(rank);
  }
  ranks_shown_ = ranks.size();
  if (!filters_[0].empty()) filtered_[0].open(folder.filtered("stdout"));
  if (!filters_[1].empty()) filtered_[1].open(folder.filtered("stderr"));
}

ConsoleLines::~ConsoleLines() {
  for (const File& file : files_)
    if (file.descriptor >= 0) ::close(file.descriptor);
}

void ConsoleLines::copy_new(bool at_end) {
  for (File& file : files_) read_file(file, at_end);
  print_due(at_end);
  std::fflush(stdout);
  std::fflush(stderr);
}

void ConsoleLines::read_file(File& file, bool at_end) {
  if (file.descriptor < 0) file.descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0) return;
  char buffer[65536];
  while (true) {
    const ssize_t got = ::read(file.descriptor, buffer, sizeof buffer);
    if (got <= 0) break;
    file.begun.append(buffer, static_cast<std::size_t>(got));
    std::size_t from = 0;
    for (auto end = file.begun.find('\n'); end != std::string::npos; end = file.begun.find('\n', from)) {
      take_line(file, file.begun.substr(from, end - from));
      from = end + 1;
    }
    file.begun.erase(0, from);
    if (file.begun.size() > kLongestLine) {
      take_line(file, file.begun);
      file.begun.clear();
    }
  }
  if (at_end && !file.begun.empty()) {
    take_line(file, file.begun);
    file.begun.clear();
  }
}

void ConsoleLines::take_line(const File& file, std::string text) {
  const std::size_t stream = file.is_stderr ? 1 : 0;
  if (filtered_[stream].is_open() &&
      std::any_of(filters_[stream].begin(), filters_[stream].end(), [&](const std::string& word) { return text.find(word) != std::string::npos; }))
    filtered_[stream] << file.prefix << text << '\n' << std::flush;
  Line line{std::move(text), file.is_stderr, {&file}, monotonic_now()};
  if (!fold_) {
    print(line);
    return;
  }
  // Right behind this rank's own last line: its order stays, and what the others wrote after that can still be joined.
  auto from = waiting_.begin();
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at)
    if (std::any_of(at->writers.begin(), at->writers.end(), [&](const File* writer) { return writer->local_rank == file.local_rank; })) from = at + 1;
  const auto same = std::find_if(from, waiting_.end(), [&](const Line& other) { return other.text == line.text && other.is_stderr == line.is_stderr; });
  if (same != waiting_.end()) same->writers.push_back(&file);
  else waiting_.insert(from, std::move(line));
}

void ConsoleLines::print(const Line& line) {
  std::FILE* const stream = line.is_stderr ? stderr : stdout;
  std::string prefix = line.writers.front()->prefix;
  if (line.writers.size() > 1) {
    std::string ranks;
    if (line.writers.size() == ranks_shown_) ranks = "all " + std::to_string(ranks_shown_);
    else
      for (const File* const writer : line.writers) ranks += (ranks.empty() ? "" : ",") + std::to_string(writer->local_rank);
    prefix = fmt::format("[{}]:", ranks);
  }
  if (times_) prefix = time_of_day() + " " + prefix;
  fmt::print(stream, "{}{}\n", prefix, line.text);
}

void ConsoleLines::print_due(bool all) {
  const auto now = monotonic_now();
  while (!waiting_.empty()) {
    const Line& first = waiting_.front();
    if (!all && first.writers.size() < ranks_shown_ && now - first.first < kFoldWithin) break;
    print(first);
    waiting_.pop_front();
  }
}

}  // namespace lockstep
