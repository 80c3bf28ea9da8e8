#include "reference_trainer/runtime_file.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

// What a signal handler may read: plain pointers. A process has two such files.
std::array<std::atomic<const char*>, 8> living_files;

void remove_and_end(int signal) {
  for (const auto& file : living_files)
    if (const char* const path = file.load()) ::unlink(path);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// A signal that the launcher's owner ignores stays ignored.
void end_cleanly_on_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction before{};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction ours{};
    ours.sa_handler = remove_and_end;
    ::sigaction(signal, &ours, nullptr);
  }
}

// Files of processes that were killed and could not.
void remove_left_behind(const std::filesystem::path& folder) {
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    const auto from = name.find('-');
    const auto to = name.find('.');
    if ((!name.starts_with("vgpu-") && !name.starts_with("wire-")) || to == std::string::npos ||
        from > to)
      continue;
    const auto pid = parse_integer(std::string_view(name).substr(from + 1, to - from - 1));
    if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF || ::kill(static_cast<pid_t>(*pid), 0) == 0 ||
        errno != ESRCH)
      continue;
    // a process of another container may share the folder and not our numbers: wait a day
    struct stat facts{};
    if (::lstat(entry.path().c_str(), &facts) == 0 && ::time(nullptr) - facts.st_mtime > 86'400)
      ::unlink(entry.path().c_str());
  }
}

// In a folder that anyone may write to, ours may be somebody else's.
bool is_ours(const std::filesystem::path& folder) {
  struct stat facts{};
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::getuid() && (facts.st_mode & 0022) == 0;
}

}  // namespace

RuntimeFile::RuntimeFile(const std::string& name, const std::string& ending,
                         const std::filesystem::path& other_folder) {
  const std::filesystem::path folder = other_folder.empty() ? runtime_folder() : other_folder;
  if (other_folder.empty()) {
    ::mkdir(folder.parent_path().c_str(), 0700);
    ::mkdir(folder.c_str(), 0700);
  }
  if (!is_ours(folder)) return;  // nobody is told; training goes on
  static std::once_flag once;
  std::call_once(once, [&] {
    remove_left_behind(folder);
    end_cleanly_on_signals();
  });
  path_ = (folder / (name + "-" + std::to_string(::getpid()) + ending)).string();
  for (auto& place : living_files) {
    const char* empty = nullptr;
    if (place.compare_exchange_strong(empty, path_.c_str())) break;
  }
}

RuntimeFile::~RuntimeFile() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  for (auto& place : living_files) {
    const char* own = path_.c_str();
    if (place.compare_exchange_strong(own, nullptr)) break;
  }
}

}  // namespace lockstep
