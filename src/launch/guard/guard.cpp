#include "launch/guard/guard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/clock.hpp"
#include "launch/guard/process_tree.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Loader workers and the like have nothing to save: they get less time than a rank that may write a
// checkpoint.
constexpr auto kLongestLeftoverGrace = 2s;

struct Order {
  enum class Kind : std::uint8_t { stop, kill_now, pass_on };
  Kind kind = Kind::stop;
  int signal = 0;
};

struct StartFailure {
  int local_rank = 0;
  int error = 0;
};

// Pointers for exec, made before the fork: after it only async-signal-safe calls are certain to
// work.
struct ExecArguments {
  explicit ExecArguments(const RankStart& rank) {
    for (const std::string& word : rank.command) command.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& entry : rank.environment)
      environment.push_back(const_cast<char*>(entry.c_str()));
    command.push_back(nullptr);
    environment.push_back(nullptr);
  }
  std::vector<char*> command;
  std::vector<char*> environment;
};

bool send_stream_to(const std::string& file, int stream) {
  if (file.empty()) return true;
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return opened >= 0 && ::dup2(opened, stream) >= 0;
}

// A preference, not a limit: a full node must not end a job.
void prefer_memory_of(int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  unsigned long nodes[16] = {};
  constexpr int kBits = 8 * static_cast<int>(sizeof(unsigned long));
  if (node >= 16 * kBits) return;
  nodes[node / kBits] = 1UL << (node % kBits);
  ::syscall(SYS_set_mempolicy, kPreferred, nodes, 16UL * kBits);
}

// In the new process.
[[noreturn]] void become_rank(const RankStart& rank, const ExecArguments& arguments, int local_rank,
                              pid_t guard, int report) {
  const auto give_up = [&] {
    const StartFailure failure{local_rank, errno};
    [[maybe_unused]] const ssize_t written = ::write(report, &failure, sizeof failure);
    ::_exit(127);
  };
  // its own session and group, as torchrun's ranks have: Ctrl-C reaches the launcher alone
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(127);  // the guard died before the request stood
  if (!send_stream_to(rank.stdout_file, STDOUT_FILENO) ||
      !send_stream_to(rank.stderr_file, STDERR_FILENO))
    give_up();
  if (rank.processors) ::sched_setaffinity(0, sizeof(cpu_set_t), &*rank.processors);
  if (rank.memory_node) prefer_memory_of(*rank.memory_node);
  // a shell's background jobs have the latter two ignored
  for (const int signal : {SIGPIPE, SIGINT, SIGQUIT}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(arguments.command[0], arguments.command.data(), arguments.environment.data());
  give_up();
  ::_exit(127);
}

class GuardProcess {
 public:
  GuardProcess(const GuardPlan& plan, int socket) : plan_(plan), socket_(socket) {}

  void run() {
    if (!open_descriptors()) return;
    for (std::size_t i = 0; i < plan_.ranks.size(); ++i) start_rank(static_cast<int>(i));
    while (true) {
      wait_for_news();
      take_ends();
      take_orders();
      press_on();
      if (living_ == 0 && !anything_below()) break;
    }
    tell({GuardEvent::Kind::finished, -1, 0, monotonic_now()});
    if (launcher_gone_ && !plan_.scratch_folder.empty()) {
      std::error_code ignored;
      std::filesystem::remove_all(plan_.scratch_folder, ignored);
    }
  }

 private:
  bool open_descriptors() {
    ::setsid();
    become_subreaper();
    ::prctl(PR_SET_NAME, "lockstep-guard");
    sigset_t all;
    ::sigfillset(&all);
    // the launcher's death and its orders are what moves the guard
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t heard;
    ::sigemptyset(&heard);
    ::sigaddset(&heard, SIGCHLD);
    ::sigaddset(&heard, SIGTERM);
    news_ = ::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    int report[2];
    if (news_ < 0 || ::pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    report_read_ = report[0];
    report_write_ = report[1];
    return true;
  }

  void start_rank(int local_rank) {
    const RankStart& rank = plan_.ranks[static_cast<std::size_t>(local_rank)];
    const ExecArguments arguments(rank);
    const pid_t guard = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) become_rank(rank, arguments, local_rank, guard, report_write_);
    pids_.push_back(child);
    if (child < 0) {
      tell({GuardEvent::Kind::not_started, local_rank, errno, monotonic_now()});
      return;
    }
    ++living_;
    tell({GuardEvent::Kind::started, local_rank, child, monotonic_now()});
  }

  // Until a child ends, an order comes, or something is due.
  void wait_for_news() {
    pollfd watched[2] = {{news_, POLLIN, 0}, {launcher_gone_ ? -1 : socket_, POLLIN, 0}};
    const bool ending = stopping_ || !leftovers_due_.empty() || living_ == 0;
    ::poll(watched, 2, ending ? 10 : -1);
    signalfd_siginfo heard{};
    while (::read(news_, &heard, sizeof heard) == static_cast<ssize_t>(sizeof heard))
      if (heard.ssi_signo == SIGTERM) stop(SIGTERM);
  }

  void take_ends() {
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      const auto found = std::ranges::find(pids_, pid);
      if (found == pids_.end()) continue;  // left behind by a rank, and ended now
      const int local_rank = static_cast<int>(found - pids_.begin());
      --living_;
      *found = -1;
      tell_start_failures();
      tell({GuardEvent::Kind::ended, local_rank, status, monotonic_now()});
      leftovers_due_.push_back({pid, {}});
    }
  }

  void tell_start_failures() {
    StartFailure failure;
    while (::read(report_read_, &failure, sizeof failure) == static_cast<ssize_t>(sizeof failure))
      tell({GuardEvent::Kind::not_started, failure.local_rank, failure.error, monotonic_now()});
  }

  void take_orders() {
    if (launcher_gone_) return;
    while (true) {
      Order order;
      const ssize_t got = ::recv(socket_, &order, sizeof order, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got != static_cast<ssize_t>(sizeof order)) {  // the launcher died
        launcher_gone_ = true;
        stop(SIGTERM);
        return;
      }
      if (order.kind == Order::Kind::stop) stop(order.signal);
      if (order.kind == Order::Kind::kill_now) force_from_ = monotonic_now(), stopping_ = true;
      if (order.kind == Order::Kind::pass_on)
        for (const pid_t pid : pids_)
          if (pid > 0) ::kill(pid, order.signal);
    }
  }

  void stop(int signal) {
    for (const pid_t pid : pids_)
      // so young that it has no group of its own yet
      if (pid > 0 && ::kill(-pid, signal) != 0) ::kill(pid, signal);
    if (stopping_) return;
    stopping_ = true;
    force_from_ = monotonic_now() + plan_.grace;
  }

  // What is asked to end and does not is made to.
  void press_on() {
    const auto now = monotonic_now();
    if (stopping_ && now >= force_from_) signal_all(descendants_of(::getpid()), SIGKILL);
    if (leftovers_due_.empty()) return;
    const auto below = descendants_of(::getpid());
    std::erase_if(leftovers_due_, [&](Leftovers& leftovers) {
      std::vector<TreeProcess> left;
      for (const TreeProcess& process : below)
        if (process.session == leftovers.session && !process.zombie) left.push_back(process);
      if (left.empty()) return true;
      if (!leftovers.forced_from) {
        signal_all(left, SIGTERM);
        leftovers.forced_from = now + leftover_grace();
      } else if (now >= *leftovers.forced_from) {
        signal_all(left, SIGKILL);
      }
      return false;
    });
  }

  // Once no rank lives, whatever is still below goes, sessions of its own or not.
  bool anything_below() {
    // Orphans come to a subreaper, so one without children has nobody below it: the kernel's word,
    // and no race with /proc.
    reap_children();
    if (siginfo_t one{};
        ::waitid(P_ALL, 0, &one, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
      return false;
    const auto below = descendants_of(::getpid());
    const auto now = monotonic_now();
    if (!last_forced_from_) {
      signal_all(below, SIGTERM);
      last_forced_from_ = now + leftover_grace();
      last_given_up_ = *last_forced_from_ + 60s;
    } else if (now >= *last_forced_from_) {
      signal_all(below, SIGKILL);
    }
    // one that waits in the kernel cannot be killed: a minute, and no more
    return now < last_given_up_;
  }

  std::chrono::nanoseconds leftover_grace() const {
    return std::min<std::chrono::nanoseconds>(plan_.grace, kLongestLeftoverGrace);
  }

  void tell(const GuardEvent& event) {
    if (!launcher_gone_) ::send(socket_, &event, sizeof event, MSG_NOSIGNAL);
  }

  // The processes of a session whose rank has ended.
  struct Leftovers {
    pid_t session = 0;
    std::optional<std::chrono::nanoseconds> forced_from;
  };

  const GuardPlan& plan_;
  const int socket_;
  int news_ = -1;
  int report_read_ = -1;
  int report_write_ = -1;
  std::vector<pid_t> pids_;  // by local rank; -1: ended
  int living_ = 0;
  bool launcher_gone_ = false;
  bool stopping_ = false;
  std::chrono::nanoseconds force_from_{};
  std::vector<Leftovers> leftovers_due_;
  std::optional<std::chrono::nanoseconds> last_forced_from_;
  std::chrono::nanoseconds last_given_up_{};
};

}  // namespace

void close_all_but(int kept) {
  constexpr unsigned kFirst = 3;
  const auto close_from_to = [](unsigned from, unsigned to) {
    if (from > to || ::syscall(SYS_close_range, from, to, 0) == 0) return;
    // a kernel before 5.9
    for (unsigned descriptor = from; descriptor <= to && descriptor < 4096; ++descriptor)
      ::close(static_cast<int>(descriptor));
  };
  close_from_to(kFirst, static_cast<unsigned>(kept) - 1);
  close_from_to(static_cast<unsigned>(kept) + 1, ~0U);
}

void become_subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

Result<Guard> Guard::start(const GuardPlan& plan) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{fmt::format("cannot start ranks: {}", std::strerror(errno)), "check ulimit -n"};
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Error{fmt::format("cannot start a process: {}", std::strerror(errno)),
                 "check ulimit -u"};
  }
  if (pid == 0) {
    // Nothing of the launcher's stays open here: its connections must end when it does, and ranks
    // must not inherit its files.
    close_all_but(ends[1]);
    GuardProcess(plan, ends[1]).run();
    ::_exit(0);
  }
  ::close(ends[1]);
  return Guard(pid, ends[0]);
}

Guard::Guard(Guard&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::exchange(other.socket_, -1)) {}

Guard::~Guard() {
  if (pid_ < 0) return;
  ::close(socket_);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::optional<GuardEvent> Guard::next() {
  GuardEvent event;
  ssize_t got = ::recv(socket_, &event, sizeof event, MSG_DONTWAIT);
  // A guard that ended with an order unread (it had just finished by itself) leaves this error
  // before its last words.
  while (got < 0 && errno == ECONNRESET) got = ::recv(socket_, &event, sizeof event, MSG_DONTWAIT);
  if (got == static_cast<ssize_t>(sizeof event)) return event;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  return GuardEvent{GuardEvent::Kind::lost, -1, 0, monotonic_now()};
}

void Guard::stop(int signal) {
  ::kill(pid_, SIGCONT);  // somebody may have stopped it
  const Order order{Order::Kind::stop, signal};
  ::send(socket_, &order, sizeof order, MSG_NOSIGNAL);
}

void Guard::kill_now() {
  ::kill(pid_, SIGCONT);
  const Order order{Order::Kind::kill_now, SIGKILL};
  ::send(socket_, &order, sizeof order, MSG_NOSIGNAL);
}

void Guard::pass_on(int signal) const {
  const Order order{Order::Kind::pass_on, signal};
  ::send(socket_, &order, sizeof order, MSG_NOSIGNAL);
}

}  // namespace lockstep
