#include "capture/capture.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "capture/kineto_socket.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A process asks every five seconds, or every second where it was told to; and reads a clock that
// is not quite ours.
constexpr auto kLead = 6500ms;
constexpr auto kLeadOfFastOnes = 2500ms;
// a second of a large model is some hundred megabytes of JSON
constexpr auto kFileTakesAtMost = 60s;
constexpr auto kSettled = 300ms;

// A process that was told, and the file that it will write.
struct Told {
  const TracedProcess* process = nullptr;
  int own_pid = 0;  // as it calls itself: in the file's name
};

std::chrono::milliseconds unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(unix_now());
}

// In /tmp of the process, which newer profilers insist on; nobody guesses the name.
std::string order_file() {
  std::random_device random;
  return fmt::format("/tmp/lockstep-trace-{:08x}{:08x}.json", random(), random());
}

// Written to its end: it has not grown for a while, and what was opened is closed.
bool is_whole(const fs::path& file) {
  const auto end = read_end_of_file(file, 64);
  return end && trim(*end).ends_with('}');
}

// The process chose what lies at that name: only a plain file of its own is taken, and no link is
// followed.
Status copy_own_file(const fs::path& from, int pid, const fs::path& to) {
  const Error refused{
      fmt::format("{} is no file that process {} wrote", printable(from.string()), pid),
      "see what lies there; the trace was not taken"};
  const int file = ::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 && errno == ELOOP) return refused;
  if (file < 0)
    return Error{fmt::format("cannot read {}, the trace of process {}: {}",
                             printable(from.string()), pid, std::strerror(errno)),
                 "ask again while it trains, as the user it runs as, or as root"};
  struct stat facts{};
  struct stat owner{};
  const bool is_own =
      ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) &&
      (::stat(fmt::format("/proc/{}", pid).c_str(), &owner) != 0 || owner.st_uid == facts.st_uid);
  auto copy = AtomicFile::create(to);
  if (!is_own || !copy) {
    ::close(file);
    return is_own ? Status(std::move(copy).error()) : Status(refused);
  }
  std::string block(1U << 20U, '\0');
  for (ssize_t got = 0; (got = ::read(file, block.data(), block.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    copy->append({block.data(), static_cast<std::size_t>(got)});
  }
  ::close(file);
  return copy->commit();
}

class Capturing {
 public:
  Capturing(const std::vector<TracedProcess>& processes, const CaptureOptions& options)
      : processes_(processes), options_(options) {
    order_.file = order_file();
    order_.duration = options.duration;
    order_.stacks = options.stacks;
  }

  // Whatever became of it, nothing stays where the processes wrote.
  ~Capturing() {
    std::error_code ignored;
    for (const auto& [pid, told] : told_)
      if (const auto file = file_of(told)) fs::remove(*file, ignored);
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  Result<Capture> run() {
    if (processes_.empty())
      return Error{"the processes have ended", "start the training again, and ask while it runs"};
    TRY(open_sockets());
    const bool fast = std::ranges::all_of(
        processes_, [](const TracedProcess& process) { return process.asks_every_second; });
    const auto lead = fast ? kLeadOfFastOnes : kLead;
    begin_ = unix_ms();
    if (processes_.size() > 1) order_.start = begin_ + lead;
    const auto told_by = begin_ + lead;
    while (told_.size() < processes_.size() &&
           unix_ms() < told_by - (processes_.size() > 1 ? 100ms : 0ms)) {
      if (stop()) return interrupted();
      say(fmt::format("asking: {} of {} processes have answered", told_.size(), processes_.size()));
      listen(100ms);
    }
    if (told_.empty()) return nobody_asked();
    for (const TracedProcess& process : processes_)
      if (!told_.contains(process.pid))
        result_.notes.push_back(
            fmt::format("process {} did not ask in time and is not in the trace", process.pid));
    return wait_for_files();
  }

 private:
  Status open_sockets() {
    std::set<fs::path> folders;
    for (const TracedProcess& process : processes_) folders.insert(process.socket_folder);
    for (const fs::path& folder : folders) {
      auto socket =
          TRY(folder.empty() ? KinetoSocket::at_abstract_name() : KinetoSocket::in_folder(folder));
      sockets_.push_back(std::move(socket));
    }
    return Done{};
  }

  bool stop() const { return options_.interrupted && options_.interrupted(); }
  void say(const std::string& words) const {
    if (options_.progress) options_.progress(words);
  }
  static Error interrupted() { return {"interrupted before the trace was there", "run it again"}; }

  // Every request is answered at once: with the order, or with nothing.
  void listen(std::chrono::milliseconds wait) {
    std::vector<pollfd> polled;
    for (const KinetoSocket& socket : sockets_) polled.push_back({socket.descriptor(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) <= 0) return;
    for (KinetoSocket& socket : sockets_)
      while (const auto heard = socket.receive()) {
        const std::string order = order_for(*heard);
        // it asks again
        if (!socket.answer(*heard, order) && !order.empty()) told_.erase(heard->pid);
      }
  }

  std::string order_for(const KinetoSocket::Heard& heard) {
    constexpr std::int32_t kActivities = 2;
    const auto wanted = std::ranges::find_if(
        processes_, [&](const TracedProcess& process) { return process.pid == heard.pid; });
    if (wanted == processes_.end() || told_.contains(heard.pid) ||
        (heard.request.kinds & kActivities) == 0)
      return {};
    // too late to begin with the others
    if (order_.start && unix_ms() > *order_.start - 50ms) return {};
    told_[heard.pid] = {&*wanted, heard.request.pids.front()};
    return configuration_of(order_);
  }

  Error nobody_asked() const {
    return {fmt::format("{} not asked for {:.0f} s whether there is anything to trace",
                        processes_.size() == 1
                            ? fmt::format("process {} has", processes_.front().pid)
                            : fmt::format("none of {} processes has", processes_.size()),
                        std::chrono::duration<double>(unix_ms() - begin_).count()),
            "PyTorch 2.4 to 2.6 never ask (2.7 does again); in another network namespace set "
            "KINETO_IPC_SOCKET_DIR to a folder that both see"};
  }

  // As seen from here: through the process's root, for it may be in a container; once it has ended,
  // from our own.
  std::optional<fs::path> file_of(const Told& told) const {
    const std::string name = file_of_process(order_.file, told.own_pid);
    std::error_code ignored;
    for (const fs::path& path :
         {fs::path(fmt::format("/proc/{}/root{}", told.process->pid, name)), fs::path(name)})
      if (fs::exists(path, ignored)) return path;
    return std::nullopt;
  }

  Result<Capture> wait_for_files() {
    struct Watched {
      std::uintmax_t size = 0;
      std::chrono::milliseconds since{};
    };
    std::map<int, Watched> watched;
    const auto from = order_.start.value_or(unix_ms());
    const auto until = from + order_.duration +
                       std::chrono::duration_cast<std::chrono::milliseconds>(kFileTakesAtMost);
    while (result_.traces.size() < told_.size() && unix_ms() < until) {
      if (stop()) return interrupted();
      say(unix_ms() < from ? fmt::format("all start in {:.1f} s",
                                         std::chrono::duration<double>(from - unix_ms()).count())
          : unix_ms() < from + order_.duration
              ? std::string("tracing")
              : fmt::format("{} of {} files are written", result_.traces.size(), told_.size()));
      listen(100ms);
      for (const auto& [pid, told] : told_) {
        if (is_home(pid)) continue;
        const auto file = file_of(told);
        if (!file) continue;
        std::error_code problem;
        const auto size = fs::file_size(*file, problem);
        Watched& last = watched[pid];
        if (problem || size != last.size || last.since == 0ms)
          last = {size, unix_ms()};
        else if (unix_ms() - last.since > kSettled && is_whole(*file))
          TRY(bring_home(told));
      }
    }
    for (const auto& [pid, told] : told_)
      if (!is_home(pid))
        result_.notes.push_back(
            fmt::format("process {} took the order and has written no whole file: it may have "
                        "ended, or may not write to /tmp",
                        pid));
    if (result_.traces.empty())
      return Error{"no process has written its trace",
                   "see that /tmp of the training has space; ask again while it trains"};
    std::ranges::sort(result_.traces, {}, &CapturedTrace::pid);
    return std::move(result_);
  }

  bool is_home(int pid) const {
    return std::ranges::find(result_.traces, pid, &CapturedTrace::pid) != result_.traces.end();
  }

  // As soon as it is whole: the process may end at any moment, and what lies in a container's /tmp
  // is out of reach then.
  Status bring_home(const Told& told) {
    const TracedProcess& process = *told.process;
    const auto place = std::distance(processes_.data(), &process);
    const int rank = process.rank.value_or(static_cast<int>(place));
    const fs::path home = options_.folder / fmt::format("rank-{}.pid-{}.json", rank, process.pid);
    const auto file = file_of(told);
    // gone since it was seen: told with those that wrote nothing
    if (!file) return Done{};
    TRY(copy_own_file(*file, process.pid, home));
    std::error_code ignored;
    fs::remove(*file, ignored);
    result_.traces.push_back({home, process.pid, process.rank, process.world_size});
    return Done{};
  }

  const std::vector<TracedProcess>& processes_;
  const CaptureOptions& options_;
  TraceOrder order_;
  std::chrono::milliseconds begin_{};
  std::vector<KinetoSocket> sockets_;
  std::map<int, Told> told_;
  Capture result_;
};

}  // namespace

Result<Capture> capture_traces(const std::vector<TracedProcess>& processes,
                               const CaptureOptions& options) {
  return Capturing(processes, options).run();
}

}  // namespace lockstep
