#include "launch/logs/console_lines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/clock.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Ranks in step print the same within a few milliseconds; a fifth of a second later it is another
// line.
constexpr auto kFoldWithin = 200ms;
constexpr std::size_t kLongestLine = 1U << 20U;

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string time_of_day() {
  const auto now = unix_now();
  const std::time_t seconds = static_cast<std::time_t>(now / 1s);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     static_cast<int>((now % 1s) / 1ms));
}

}  // namespace

std::string line_prefix(const std::string& role, const std::string& line_template, int rank,
                        int local_rank) {
  if (line_template.empty()) return fmt::format("[{}{}]:", role, local_rank);
  std::string prefix = line_template;
  for (const bool braces : {true, false}) {
    const auto name = [&](const char* word) {
      return braces ? fmt::format("${{{}}}", word) : fmt::format("${}", word);
    };
    replace_all(prefix, name("role_name"), role);
    replace_all(prefix, name("local_rank"), std::to_string(local_rank));
    replace_all(prefix, name("rank"), std::to_string(rank));
  }
  replace_all(prefix, "$$", "$");
  return prefix;
}

ConsoleLines::ConsoleLines(const LaunchSettings& settings, const GroupPlace& place,
                           const LogFolder& folder, const std::string& line_template)
    : times_(settings.line_times),
      fold_(settings.fold_lines),
      look_every_(std::clamp<std::chrono::nanoseconds>(settings.monitor_interval, 10ms, 100ms)),
      filters_{settings.stdout_filters, settings.stderr_filters} {
  std::set<int> ranks;
  for (int index = 0; index < place.local_ranks; ++index) {
    const int rank = place.local_number(index);
    const bool shown = settings.shown_ranks.empty() || settings.shown_ranks.contains(rank);
    const Streams teed = settings.tee.of(rank);
    if (!shown || !teed.any() || settings.log_folder == "/dev/null") continue;
    const RankFiles paths = folder.files_of(settings, rank);
    const std::string prefix =
        line_prefix(settings.role, line_template, place.first_rank + index, rank);
    if (teed.out) files_.push_back({rank, false, paths.stdout_file, prefix, -1, {}, false});
    if (teed.err) files_.push_back({rank, true, paths.stderr_file, prefix, -1, {}, false});
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

void ConsoleLines::copy_until(int ended) {
  for (bool last = false;;) {
    for (File& file : files_) {
      read_file(file);
      if (last && !file.begun.empty()) take_line(file, std::exchange(file.begun, {}));
    }
    print_due(last);
    std::fflush(stdout);
    std::fflush(stderr);
    if (last) return;
    pollfd watched{ended, POLLIN, 0};
    // and once more: what was written before the end
    last = ::poll(&watched, 1, static_cast<int>(look_every_ / 1ms)) > 0;
  }
}

void ConsoleLines::read_file(File& file) {
  if (file.descriptor < 0) file.descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0) return;
  char block[65536];
  for (ssize_t got = ::read(file.descriptor, block, sizeof block); got > 0;
       got = ::read(file.descriptor, block, sizeof block))
    take_lines(file, {block, static_cast<std::size_t>(got)});
}

// Lines end with a newline, a carriage return (progress bars), or both, as in Python's universal
// newlines.
void ConsoleLines::take_lines(File& file, std::string_view block) {
  if (file.after_return && block.starts_with('\n')) block.remove_prefix(1);
  file.after_return = false;
  while (!block.empty()) {
    const auto end = block.find_first_of("\r\n");
    file.begun.append(block.substr(0, end));
    if (end == std::string_view::npos) break;
    const bool returns = block[end] == '\r';
    block.remove_prefix(end + 1);
    if (returns && block.starts_with('\n'))
      block.remove_prefix(1);
    else
      file.after_return = returns && block.empty();
    take_line(file, std::exchange(file.begun, {}));
  }
  if (file.begun.size() > kLongestLine) take_line(file, std::exchange(file.begun, {}));
}

void ConsoleLines::take_line(const File& file, std::string text) {
  const std::size_t stream = file.is_stderr ? 1 : 0;
  if (filtered_[stream].is_open() &&
      std::ranges::any_of(filters_[stream], [&](const std::string& word) {
        return text.find(word) != std::string::npos;
      }))
    filtered_[stream] << file.prefix << text << '\n' << std::flush;
  Line line{std::move(text), file.is_stderr, {&file}, monotonic_now()};
  if (!fold_) {
    print(line);
    return;
  }
  // Right behind this rank's own last line: its order stays, and what the others wrote after that
  // can still be joined.
  auto from = waiting_.begin();
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at)
    if (std::ranges::any_of(
            at->writers, [&](const File* writer) { return writer->local_rank == file.local_rank; }))
      from = at + 1;
  const auto same = std::find_if(from, waiting_.end(), [&](const Line& other) {
    return other.text == line.text && other.is_stderr == line.is_stderr;
  });
  if (same != waiting_.end())
    same->writers.push_back(&file);
  else
    waiting_.insert(from, std::move(line));
}

void ConsoleLines::print(const Line& line) {
  std::FILE* const stream = line.is_stderr ? stderr : stdout;
  std::string prefix = line.writers.front()->prefix;
  if (line.writers.size() > 1) {
    std::string ranks;
    if (line.writers.size() == ranks_shown_)
      ranks = "all " + std::to_string(ranks_shown_);
    else
      for (const File* const writer : line.writers)
        ranks += (ranks.empty() ? "" : ",") + std::to_string(writer->local_rank);
    prefix = fmt::format("[{}]:", ranks);
  }
  if (times_) prefix = time_of_day() + " " + prefix;
  // Not fmt::print: a console that has gone (| head) is no reason to end the job.
  const std::string whole = prefix + line.text + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stream);
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
