#include "launch/launcher.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "launch/console_lines.hpp"
#include "launch/failure.hpp"
#include "launch/guard.hpp"
#include "launch/kernel_log.hpp"
#include "launch/log_folder.hpp"
#include "launch/machine_facts.hpp"
#include "launch/process_tree.hpp"
#include "launch/rank_command.hpp"
#include "launch/rank_environment.hpp"
#include "launch/restart_policy.hpp"
#include "launch/signal_names.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Signals as events of a descriptor: those that end the job, and those that are handed on.
class SignalEvents {
 public:
  explicit SignalEvents(const std::string& ending_names) {
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH}) ::sigaddset(&watched, signal);
    for (const std::string_view name : split(ending_names, ',')) {
      const int signal = signal_number(trim(name)).value_or(0);
      struct sigaction before {};
      ::sigaction(signal, nullptr, &before);
      // nohup: what was to be ignored stays so.
      if (signal == 0 || signal == SIGKILL || before.sa_handler == SIG_IGN) continue;
      ::sigaddset(&watched, signal);
    }
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    descriptor_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~SignalEvents() { ::close(descriptor_); }
  SignalEvents(const SignalEvents&) = delete;
  SignalEvents& operator=(const SignalEvents&) = delete;

  int descriptor() const { return descriptor_; }
  int next() const {
    signalfd_siginfo signal{};
    return ::read(descriptor_, &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal) ? static_cast<int>(signal.ssi_signo) : 0;
  }
  // Schedulers send these so that a job may save itself; torchrun dies of them, and leaves its ranks behind.
  static bool is_handed_on(int signal) { return signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGWINCH; }

 private:
  int descriptor_ = -1;
};

std::string random_id() {
  std::random_device source;
  std::string id;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) id += '-';
    const unsigned digit = i == 12 ? 4U : i == 16 ? 8U + source() % 4U : source() % 16U;
    id += "0123456789abcdef"[digit];
  }
  return id;
}

Result<int> ranks_wanted(const LaunchSettings& settings, const Variables& around) {
  const std::string& wanted = settings.processes_per_node;
  if (const auto number = parse_integer(wanted)) return static_cast<int>(*number);
  const auto gpus = visible_gpus(around);
  if (wanted == "gpu" && gpus.value_or(0) == 0)
    return Error{"--nproc-per-node=gpu: no GPU is to be seen here", "check nvidia-smi and CUDA_VISIBLE_DEVICES, or give a number; LOCKSTEP_VIRTUAL=2 stands for two virtual ones"};
  if (wanted == "cpu" || gpus.value_or(0) == 0) return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return *gpus;
}

struct Endpoint {
  std::string host;
  int port = 0;
};
Result<Endpoint> endpoint_of(const LaunchSettings& settings) {
  if (settings.standalone) return Endpoint{"localhost", 0};
  if (settings.endpoint.empty()) return Endpoint{settings.master_address, settings.master_port};
  const auto colon = settings.endpoint.rfind(':');
  const bool bare_ipv6 = settings.endpoint.find(':') != colon && settings.endpoint.back() != ']' && settings.endpoint.front() != '[';
  if (colon == std::string::npos || bare_ipv6 || settings.endpoint.back() == ']') return Endpoint{settings.endpoint, settings.backend == Backend::c10d ? 29400 : settings.master_port};
  const auto port = parse_integer(std::string_view(settings.endpoint).substr(colon + 1));
  if (!port || *port < 0 || *port > 65535)
    return usage_error(fmt::format("--rdzv-endpoint={} has no port from 0 to 65535", printable(settings.endpoint)), "for example --rdzv-endpoint=host0:29400");
  return Endpoint{settings.endpoint.substr(0, colon), static_cast<int>(*port)};
}

class Launcher {
 public:
  Launcher(const LaunchSettings& settings, Variables around, std::vector<std::string> command, LogFolder folder, GroupPlace place, int given_port)
      : settings_(settings), around_(std::move(around)), command_(std::move(command)), folder_(std::move(folder)), place_(std::move(place)),
        given_port_(given_port), signals_(settings.signals_to_handle), restarts_(settings.max_restarts) {
    const auto line_template = around_.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (line_template != around_.end()) line_template_ = line_template->second;
  }

  Result<int> run() {
    while (true) {
      auto ended = attempt();
      if (!ended) return std::move(ended).error();
      if (interrupted_ != 0) return 128 + interrupted_;
      if (guard_lost_) return 128 + SIGKILL;
      auto failure = first_failure(*ended, files_);
      if (!failure) return 0;
      failure->kernel_says = kernel_.about(failure->end.pid, failure->end.signal() == SIGKILL);
      say(failure_text(*failure, *ended, {host_name(), command_.front(), folder_.kept()}));
      if (!next_attempt(*failure)) {
        hand_on_error(*failure);
        return failure->end.exit_code();
      }
    }
  }

 private:
  void say(const std::string& words) const {
    std::fflush(stdout);
    fmt::print(stderr, "{}", words);
    std::fflush(stderr);
  }

  // Whether the job is started again; says why not.
  bool next_attempt(const Failure& failure) {
    const auto answer = restarts_.after_failure(failure.signature(), failure.end.ended - failure.end.started);
    if (answer == RestartPolicy::Answer::same_again) {
      say(fmt::format("lockstep: not started again, though {} of {} restarts are left: the same error came twice at {}\n  next: mend it there\n",
                      restarts_.left(), settings_.max_restarts, printable(failure.place)));
      return false;
    }
    if (answer == RestartPolicy::Answer::none_left) {
      if (settings_.max_restarts > 0) say(fmt::format("lockstep: all {} restarts are used up\n", settings_.max_restarts));
      return false;
    }
    place_.attempt = restarts_.restarts();
    const auto pause = restarts_.pause();
    say(fmt::format("lockstep: starting again: restart {} of {}{}\n", restarts_.restarts(), settings_.max_restarts, pause > 0s ? " in " + format_duration(pause) : std::string()));
    return wait_unless_interrupted(pause);
  }

  bool wait_unless_interrupted(std::chrono::nanoseconds time) {
    const auto until = monotonic_now() + time;
    while (monotonic_now() < until) {
      pollfd watched{signals_.descriptor(), POLLIN, 0};
      ::poll(&watched, 1, static_cast<int>((until - monotonic_now()) / 1ms) + 1);
      for (int signal = signals_.next(); signal != 0; signal = signals_.next())
        if (!SignalEvents::is_handed_on(signal)) {
          interrupted_ = signal;
          return false;
        }
    }
    return true;
  }

  // torchrun hands a failed rank's error file on to whoever started torchrun.
  void hand_on_error(const Failure& failure) const {
    const auto own = around_.find("TORCHELASTIC_ERROR_FILE");
    if (own == around_.end() || own->second.empty() || failure.error_path.empty()) return;
    const auto text = read_small_file(failure.error_path, 16U << 20U);
    const auto handed_on = text ? with_error_code(*text, failure.end.signal() ? -*failure.end.signal() : failure.end.exit_code()) : std::nullopt;
    if (handed_on && !write_file_atomically(own->second, *handed_on)) say("lockstep: TORCHELASTIC_ERROR_FILE cannot be written\n");
  }

  Result<GuardPlan> plan() {
    GuardPlan plan;
    plan.grace = settings_.grace;
    plan.scratch_folder = folder_.scratch();
    files_.clear();
    const int threads = std::max(1, usable_cores() / place_.local_ranks);
    for (int rank = 0; rank < place_.local_ranks; ++rank) {
      files_.push_back(folder_.files_of(settings_, rank));
      auto variables = rank_variables(settings_, place_, rank, around_, threads, files_.back().error_file);
      if (!variables) return std::move(variables).error();
      RankStart start;
      start.command = command_;
      if (settings_.pass_local_rank) start.command.insert(start.command.begin() + after_script(), fmt::format("--local-rank={}", rank));
      start.environment = as_entries(*variables);
      start.stdout_file = files_.back().stdout_file;
      start.stderr_file = files_.back().stderr_file;
      plan.ranks.push_back(std::move(start));
    }
    return plan;
  }

  std::ptrdiff_t after_script() const { return static_cast<std::ptrdiff_t>(command_.size() - settings_.script_arguments.size()); }

  // A fresh port for each attempt: a store that a failed attempt left behind is never met again. The first attempt uses
  // the user's own.
  Status choose_port() {
    if (place_.attempt == 0 && given_port_ > 0) {
      place_.master_port = given_port_;
      return Done{};
    }
    const auto port = free_port();
    if (!port) return Error{"no free port is to be had on this machine", "see `ss -ltn`"};
    place_.master_port = *port;
    return Done{};
  }

  // From the start of all ranks to the end of all of them.
  Result<std::vector<RankEnd>> attempt() {
    if (Status begun = folder_.begin_attempt(place_.attempt, place_.local_ranks); !begun) return std::move(begun).error();
    if (Status chosen = choose_port(); !chosen) return std::move(chosen).error();
    auto guard_plan = plan();
    if (!guard_plan) return std::move(guard_plan).error();
    ConsoleLines console(settings_, place_, folder_, line_template_);
    auto guard = Guard::start(*guard_plan);
    if (!guard) return std::move(guard).error();

    std::vector<RankEnd> ranks(guard_plan->ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].local_rank = static_cast<int>(i);
      ranks[i].rank = place_.first_rank + static_cast<int>(i);
    }
    std::optional<Error> not_started;
    bool stopping = false;
    bool finished = false;
    const int look_every_ms = console.needed() ? std::clamp(static_cast<int>(settings_.monitor_interval / 1ms), 10, 100) : -1;
    while (!finished) {
      pollfd watched[2] = {{guard->descriptor(), POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}};
      ::poll(watched, 2, look_every_ms);
      console.copy_new();
      take_signals(*guard, stopping);
      while (const auto event = guard->next()) {
        RankEnd* const rank = event->local_rank >= 0 ? &ranks[static_cast<std::size_t>(event->local_rank)] : nullptr;
        switch (event->kind) {
          case GuardEvent::Kind::started:
            rank->pid = event->value;
            rank->started = event->at;
            break;
          case GuardEvent::Kind::not_started:
            if (!not_started) not_started = cannot_start(event->value);
            break;
          case GuardEvent::Kind::ended:
            rank->wait_status = event->value;
            rank->ended = event->at;
            rank->asked_to_end = stopping;
            if (rank->failed() && !std::exchange(stopping, true)) guard->stop(SIGTERM);
            break;
          case GuardEvent::Kind::swept:
            swept_ += event->value;
            break;
          case GuardEvent::Kind::finished:
            finished = true;
            break;
          case GuardEvent::Kind::lost:
            guard_lost_ = finished = true;
            break;
        }
        if (finished) break;
      }
    }
    console.copy_new(true);
    if (guard_lost_) after_guard_died();
    if (not_started) return *not_started;
    return ranks;
  }

  void take_signals(Guard& guard, bool& stopping) {
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
      if (SignalEvents::is_handed_on(signal)) {
        guard.pass_on(signal);
        continue;
      }
      if (interrupted_ != 0) {
        if (!settings_.quiet) say("lockstep: again: ending the ranks at once\n");
        guard.kill_now();
        continue;
      }
      interrupted_ = signal;
      stopping = true;
      if (!settings_.quiet)
        say(fmt::format("lockstep: {}: handed on to the ranks, which have {} to end; once more ends them at once\n", signal_name(signal), format_duration(settings_.grace)));
      guard.stop(signal);
    }
  }

  // The kernel has killed the ranks with it; what they had started came to us.
  void after_guard_died() {
    end_descendants(std::min<std::chrono::nanoseconds>(settings_.grace, 2s));
    say("lockstep: error: the guard process was killed from outside, and the ranks with it\n  next: start again; everything the ranks had started is gone\n");
  }

  Error cannot_start(int problem) const {
    const std::string program = printable(command_.front());
    if (problem == E2BIG)
      return Error{"the environment and the arguments are larger than the kernel takes for a new process", "shorten the environment (`env | wc -c`) or the arguments; a single variable may hold 128 KiB"};
    if (problem == ENOENT || problem == EACCES)
      return usage_error(fmt::format("cannot run {}: {}", program, std::strerror(problem)), "check its name, its permissions, its #! line, and that the log folder can be written");
    return Error{fmt::format("cannot run {}: {}", program, std::strerror(problem)), "check ulimit -u and -n"};
  }

  const LaunchSettings& settings_;
  const Variables around_;
  const std::vector<std::string> command_;
  LogFolder folder_;
  GroupPlace place_;
  const int given_port_;
  SignalEvents signals_;
  RestartPolicy restarts_;
  KernelLog kernel_;
  std::string line_template_;
  std::vector<RankFiles> files_;  // of the attempt
  int interrupted_ = 0;
  int swept_ = 0;
  bool guard_lost_ = false;
};

}  // namespace

Result<int> run_launch(const LaunchSettings& settings) {
  const Variables around = own_variables();
  if (!settings.quiet)
    for (const std::string& note : settings.notes) fmt::print(stderr, "lockstep: {}\n", note);
  auto endpoint = endpoint_of(settings);
  if (!endpoint) return std::move(endpoint).error();
  auto ranks = ranks_wanted(settings, around);
  if (!ranks) return std::move(ranks).error();
  auto command = rank_command(settings, around);
  if (!command) return std::move(command).error();

  GroupPlace place;
  place.local_ranks = place.world = *ranks;
  place.run_id = settings.standalone ? random_id() : settings.run_id;
  const bool own_port = settings.standalone || settings.backend == Backend::c10d;
  place.master_address = own_port ? (settings.local_address.empty() ? "localhost" : settings.local_address) : endpoint->host;

  auto folder = LogFolder::make(settings, place.run_id);
  if (!folder) return std::move(folder).error();
  if (folder->kept() && !settings.quiet && settings.redirects.any()) fmt::print(stderr, "lockstep: logs in {}\n", printable(folder->run_folder().string()));
  become_subreaper();
  return Launcher(settings, around, std::move(*command), std::move(*folder), std::move(place), own_port ? 0 : endpoint->port).run();
}

}  // namespace lockstep
