// Where ranks' files lie: <log dir>/<run id>_<random>/attempt_N/<local
// rank>/{stdout.log,stderr.log,error.json}, as torchrun lays them. A temporary folder goes when the
// job is over, unless the user sent streams there.
#pragma once

#include <filesystem>
#include <string>

#include "launch/arguments/launch_settings.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// The files of one local rank in one attempt. Empty: the stream stays with the launcher.
struct RankFiles {
  std::string stdout_file;
  std::string stderr_file;
  std::string error_file;
  std::string nccl_file;  // with --nccl-debug
};

class LogFolder {
 public:
  static Result<LogFolder> make(const LaunchSettings& settings, const std::string& run_id);
  LogFolder(LogFolder&& other) noexcept;
  LogFolder& operator=(LogFolder&&) = delete;
  ~LogFolder();  // removes what is temporary

  // Makes the attempt's folders anew.
  Status begin_attempt(int attempt, int local_ranks);
  RankFiles files_of(const LaunchSettings& settings, int local_rank) const;
  std::filesystem::path filtered(const char* stream) const;  // filtered_stdout.log

  // For the guard, should the launcher be killed; empty where the folder stays.
  std::string scratch() const { return temporary_ ? root_.string() : std::string(); }
  const std::filesystem::path& run_folder() const { return run_; }
  bool kept() const { return !discard_ && !temporary_; }

 private:
  LogFolder() = default;
  std::filesystem::path root_;
  std::filesystem::path run_;
  std::filesystem::path attempt_;
  bool temporary_ = false;
  bool discard_ = false;  // --log-dir=/dev/null: no files at all
};

}  // namespace lockstep
