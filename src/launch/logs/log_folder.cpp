#include "launch/logs/log_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string eight_letters() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  std::random_device source;
  std::string letters;
  for (int i = 0; i < 8; ++i) letters += kLetters[source() % kLetters.size()];
  return letters;
}

Error cannot_write(const fs::path& folder, int problem) {
  return Error{fmt::format("the log folder {} cannot be written: {}", printable(folder.string()),
                           std::strerror(problem)),
               "choose another: --log-dir=FOLDER; or leave it out"};
}

}  // namespace

Result<LogFolder> LogFolder::make(const LaunchSettings& settings, const std::string& run_id) {
  LogFolder folder;
  if (settings.log_folder == "/dev/null") {
    folder.discard_ = true;
    return folder;
  }
  std::error_code problem;
  if (settings.log_folder.empty()) {
    const fs::path base = fs::temp_directory_path(problem);
    std::string pattern;
    for (const fs::path& place :
         {problem ? fs::path("/tmp") : base, fs::path("/tmp"), fs::path("/dev/shm")}) {
      pattern = (place / "lockstep_launch_XXXXXX").string();
      if (::mkdtemp(pattern.data()) != nullptr) break;
      pattern.clear();
    }
    if (pattern.empty())
      return Error{fmt::format("no temporary folder can be made: {} (TMPDIR={})",
                               std::strerror(errno), printable(base.string())),
                   "set TMPDIR to a folder that can be written, or use --log-dir=FOLDER"};
    folder.root_ = pattern;
    folder.temporary_ = !settings.redirects.any();
  } else {
    folder.root_ = fs::absolute(settings.log_folder, problem);
    fs::create_directories(folder.root_, problem);
    if (problem) return cannot_write(folder.root_, problem.value());
  }
  std::string name = run_id;
  std::ranges::replace(name, '/', '_');
  for (int tries = 0;; ++tries) {
    folder.run_ = folder.root_ / fmt::format("{}_{}", name, eight_letters());
    if (::mkdir(folder.run_.c_str(), 0700) == 0) break;
    if (errno != EEXIST || tries > 100) return cannot_write(folder.run_, errno);
  }
  return folder;
}

LogFolder::LogFolder(LogFolder&& other) noexcept
    : root_(std::move(other.root_)),
      run_(std::move(other.run_)),
      attempt_(std::move(other.attempt_)),
      temporary_(std::exchange(other.temporary_, false)),
      discard_(other.discard_) {}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(root_, ignored);
}

Status LogFolder::begin_attempt(int attempt, int local_ranks) {
  if (discard_) return Done{};
  attempt_ = run_ / fmt::format("attempt_{}", attempt);
  std::error_code problem;
  fs::remove_all(attempt_, problem);
  for (int rank = 0; rank < local_ranks; ++rank) {
    fs::create_directories(attempt_ / std::to_string(rank), problem);
    if (problem) return cannot_write(attempt_, problem.value());
  }
  return Done{};
}

RankFiles LogFolder::files_of(const LaunchSettings& settings, int local_rank) const {
  RankFiles files;
  const bool shown = settings.shown_ranks.empty() || settings.shown_ranks.contains(local_rank);
  const Streams redirected = settings.redirects.of(local_rank);
  const Streams teed = settings.tee.of(local_rank);
  const fs::path folder = attempt_ / std::to_string(local_rank);
  const auto place = [&](bool to_file, const char* name) {
    if (to_file && discard_) return std::string("/dev/null");
    if (to_file) return (folder / name).string();
    return shown ? std::string() : std::string("/dev/null");
  };
  files.stdout_file = place(redirected.out || teed.out, "stdout.log");
  files.stderr_file = place(redirected.err || teed.err, "stderr.log");
  if (!discard_) files.error_file = (folder / "error.json").string();
  if (!discard_ && settings.nccl_debug) files.nccl_file = (folder / "nccl.log").string();
  return files;
}

fs::path LogFolder::filtered(const char* stream) const {
  return discard_ ? fs::path() : attempt_ / fmt::format("filtered_{}.log", stream);
}

}  // namespace lockstep
