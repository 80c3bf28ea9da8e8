#include "launch/launcher.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "launch/arguments/checks.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "launch/guard/adopted_rank.hpp"
#include "launch/guard/guard.hpp"
#include "launch/guard/process_tree.hpp"
#include "launch/guard/side_process.hpp"
#include "launch/guard/signal_events.hpp"
#include "launch/guard/signal_names.hpp"
#include "launch/logs/console_lines.hpp"
#include "launch/logs/failure.hpp"
#include "launch/logs/kernel_log.hpp"
#include "launch/logs/log_folder.hpp"
#include "launch/logs/nccl_log.hpp"
#include "launch/ranks/binding.hpp"
#include "launch/ranks/rank_command.hpp"
#include "launch/ranks/rank_environment.hpp"
#include "launch/rendezvous/meeting.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

Result<int> ranks_wanted(const LaunchSettings& settings, const Variables& around) {
  if (settings.adopted) return 1;
  const std::string& wanted = settings.processes_per_node;
  if (const auto number = parse_integer(wanted)) return static_cast<int>(*number);
  const auto gpus = visible_gpus(around);
  if (wanted == "gpu" && gpus.value_or(0) == 0)
    return Error{"--nproc-per-node=gpu: no GPU is to be seen here",
                 "check nvidia-smi and CUDA_VISIBLE_DEVICES, or give a number; LOCKSTEP_VIRTUAL=2 "
                 "stands for two virtual ones"};
  if (wanted == "cpu" || gpus.value_or(0) == 0)
    return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return *gpus;
}

// Refuses what cannot run; says the rest.
Status look_first(const LaunchSettings& settings, int local_ranks, const Variables& around) {
  if (!settings.checks) return Done{};
  for (const CheckNote& note : check_launch(settings, local_ranks, around, this_machine(around))) {
    if (note.refuses) return Error{in_words(note), note.next};
    if (!settings.quiet) say(fmt::format("lockstep: {}\n  next: {}\n", in_words(note), note.next));
  }
  return Done{};
}

class Launcher {
 public:
  Launcher(const LaunchSettings& settings, const Variables& around,
           std::vector<std::string> command, const Beside& beside)
      : settings_(settings),
        around_(around),
        command_(std::move(command)),
        beside_(beside),
        signals_(settings.signals_to_handle) {
    const auto line_template = around_.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (line_template != around_.end()) line_template_ = line_template->second;
  }

  Result<int> run(Meeting& meeting) {
    while (true) {
      auto joined = TRY(meeting.join(signals_));
      if (!joined) return 128 + signals_.ended_by();
      place_ = *joined;
      TRY(make_folder());
      auto ended = TRY(attempt(meeting));
      if (guard_lost_) return 128 + SIGKILL;
      if (signals_.ended_by() != 0) return 128 + signals_.ended_by();
      const auto failure = cause_here(ended);
      const Decision decision =
          meeting.conclude(failure ? outcome_of(*failure) : Outcome{}, signals_);
      if (signals_.ended_by() != 0) return 128 + signals_.ended_by();
      if (!decision.words.empty()) say(fmt::format("lockstep: {}\n", decision.words));
      if (!decision.restart) {
        if (failure) hand_on_error(*failure);
        return decision.code;
      }
      if (!wait_unless_interrupted(decision.pause)) return 128 + signals_.ended_by();
    }
  }

 private:
  Status make_folder() {
    if (folder_) return Done{};
    auto folder = TRY(LogFolder::make(settings_, place_.run_id));
    folder_.emplace(std::move(folder));
    if (folder_->kept() && !settings_.quiet && settings_.redirects.any())
      say(fmt::format("lockstep: logs in {}\n", printable(folder_->run_folder().string())));
    return Done{};
  }

  // The first failure on this machine, told to the user; nothing where ranks only ended because
  // others had failed.
  std::optional<Failure> cause_here(const std::vector<RankEnd>& ends) {
    const bool own = std::ranges::any_of(
        ends, [](const RankEnd& end) { return end.failed() && !end.asked_to_end; });
    if (stopped_for_others_ && !own) return std::nullopt;
    auto failure = first_failure(ends, files_);
    if (!failure) return std::nullopt;
    failure->kernel_says = kernel_.about(failure->end);
    say(failure_text(*failure, ends, {host_name(), command_.front(), folder_->kept()}));
    return failure;
  }

  static Outcome outcome_of(const Failure& failure) {
    return {true,
            failure.end.exit_code(),
            failure.end.rank,
            failure.signature(),
            failure.place,
            failure.end.ended - failure.end.started};
  }

  bool wait_unless_interrupted(std::chrono::nanoseconds time) {
    for (const auto until = monotonic_now() + time; monotonic_now() < until;) {
      signals_.wait(-1, static_cast<int>((until - monotonic_now()) / 1ms) + 1);
      if (signals_.is_to_end()) return false;
    }
    return true;
  }

  // torchrun hands a failed rank's error file on to whoever started torchrun.
  void hand_on_error(const Failure& failure) const {
    const auto own = around_.find("TORCHELASTIC_ERROR_FILE");
    if (own == around_.end() || own->second.empty() || failure.error_path.empty()) return;
    const auto text = read_small_file(failure.error_path, 16U << 20U);
    const auto handed_on =
        text ? with_error_code(
                   *text, failure.end.signal() ? -*failure.end.signal() : failure.end.exit_code())
             : std::nullopt;
    if (handed_on && !write_file_atomically(own->second, *handed_on))
      say("lockstep: TORCHELASTIC_ERROR_FILE cannot be written\n");
  }

  Result<GuardPlan> plan() {
    GuardPlan plan;
    plan.grace = settings_.grace;
    plan.scratch_folder = folder_->scratch();
    files_.clear();
    // A task that srun has bound to processors of its own has them to itself already.
    const bool own_processors = place_.adopted_local_rank && is_bound_by_others();
    const int threads = std::max(1, usable_cores() / (own_processors ? 1 : place_.local_world()));
    for (int rank = 0; rank < place_.local_ranks; ++rank) {
      files_.push_back(folder_->files_of(settings_, place_.local_number(rank)));
      auto variables =
          TRY(rank_variables(settings_, place_, rank, around_, threads, files_.back()));
      RankStart start;
      start.command = command_;
      if (settings_.pass_local_rank)
        start.command.insert(start.command.begin() + after_script(),
                             fmt::format("--local-rank={}", variables.at("LOCAL_RANK")));
      start.environment = as_entries(variables);
      start.stdout_file = files_.back().stdout_file;
      start.stderr_file = files_.back().stderr_file;
      plan.ranks.push_back(std::move(start));
    }
    TRY(bind(plan));
    return plan;
  }

  Status bind(GuardPlan& plan) const {
    if (settings_.binding == Binding::none) return Done{};
    auto processors = TRY(read_processors());
    const auto bindings =
        bind_ranks(processors, nodes_of_gpus(around_, place_.local_world()), settings_.binding);
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
      const RankBinding& binding =
          bindings[static_cast<std::size_t>(place_.local_number(static_cast<int>(i)))];
      cpu_set_t own;
      CPU_ZERO(&own);
      for (const int number : binding.processors) CPU_SET(static_cast<std::size_t>(number), &own);
      plan.ranks[i].processors = own;
      if (settings_.bind_memory) plan.ranks[i].memory_node = binding.node;
    }
    return Done{};
  }

  std::ptrdiff_t after_script() const {
    return static_cast<std::ptrdiff_t>(command_.size() - settings_.script_arguments.size());
  }

  // From the start of all ranks to the end of all of them.
  Result<std::vector<RankEnd>> attempt(Meeting& meeting) {
    TRY(folder_->begin_attempt(place_.attempt, place_.local_ranks));
    auto guard_plan = TRY(plan());
    auto guard = TRY(Guard::start(guard_plan));
    SideProcess console;  // a console that nobody reads must not hold up the launcher
    if (settings_.tee.any())
      console.start([&](int ended) {
        ConsoleLines(settings_, place_, *folder_, line_template_).copy_until(ended);
      });
    SideProcess neighbours;
    SideProcess watcher;
    if (place_.attempt == 0 && beside_.look_at_gpus && visible_gpus(around_).value_or(0) > 0)
      neighbours.start([&](int) { beside_.look_at_gpus(guard.pid()); });
    if (beside_.watch) watcher.start([&](int ended) { beside_.watch(guard.pid(), ended); });

    std::vector<RankEnd> ranks(guard_plan.ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].index = i;
      ranks[i].local_rank = place_.local_number(static_cast<int>(i));
      ranks[i].rank = place_.first_rank + static_cast<int>(i);
    }
    stopping_ = stopped_for_others_ = false;
    not_started_.reset();
    for (bool finished = false; !finished;) {
      pollfd watched[3] = {{guard.descriptor(), POLLIN, 0},
                           {signals_.descriptor(), POLLIN, 0},
                           {stopping_ ? -1 : meeting.descriptor(), POLLIN, 0}};
      ::poll(watched, 3, -1);
      take_signals(guard);
      if (!stopping_ && meeting.descriptor() >= 0 && meeting.others_failed()) {
        stopping_ = stopped_for_others_ = true;
        guard.stop(SIGTERM);
      }
      for (auto event = guard.next(); event && !finished;
           event = finished ? std::nullopt : guard.next())
        finished = take_event(*event, ranks, guard, meeting);
    }
    finish_console(console);
    if (settings_.nccl_debug) say_what_nccl_did();
    neighbours.finish(0s);
    watcher.finish(10s);
    if (guard_lost_) after_guard_died();
    if (not_started_) return *not_started_;
    return ranks;
  }

  void say_what_nccl_did() const {
    constexpr std::size_t kLongest = 64U << 20U;
    NcclFacts facts;
    for (const RankFiles& files : files_)
      if (const auto text =
              files.nccl_file.empty() ? std::nullopt : read_small_file(files.nccl_file, kLongest))
        read_nccl_log(*text, facts);
    const std::string words = in_words(facts);
    say(fmt::format(
        "lockstep: {}\n",
        words.empty() ? "--nccl-debug: NCCL wrote nothing: the ranks did not use it" : words));
    if (!words.empty() && folder_->kept())
      say(fmt::format("  whole logs: {}\n", printable(folder_->run_folder().string())));
  }

  // Whether it was the last.
  bool take_event(const GuardEvent& event, std::vector<RankEnd>& ranks, Guard& guard,
                  Meeting& meeting) {
    RankEnd* const rank =
        event.local_rank >= 0 ? &ranks[static_cast<std::size_t>(event.local_rank)] : nullptr;
    switch (event.kind) {
      case GuardEvent::Kind::started:
        rank->pid = event.value;
        rank->started = event.at;
        return false;
      case GuardEvent::Kind::not_started:
        if (!not_started_) not_started_ = cannot_start(event.value);
        stop_all(guard, meeting);
        return false;
      case GuardEvent::Kind::ended:
        rank->wait_status = event.value;
        rank->ended = event.at;
        rank->asked_to_end = stopping_;
        if (rank->failed()) stop_all(guard, meeting);
        return false;
      case GuardEvent::Kind::lost: guard_lost_ = true; return true;
      case GuardEvent::Kind::finished: return true;
    }
    return true;
  }

  // All lines, however slow the console is; but not against the user's will.
  void finish_console(SideProcess& console) {
    console.tell_end();
    while (!console.has_ended()) {
      if (signals_.is_to_end()) {
        console.finish(2s);
        return;
      }
      signals_.wait(-1, 5);
    }
  }

  void stop_all(Guard& guard, Meeting& meeting) {
    if (std::exchange(stopping_, true)) return;
    guard.stop(SIGTERM);
    meeting.tell_failing();
  }

  void take_signals(Guard& guard) {
    bool asked_before = signals_.ended_by() != 0;
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
      if (SignalEvents::is_handed_on(signal)) {
        guard.pass_on(signal);
        continue;
      }
      if (std::exchange(asked_before, true)) {
        // Schedulers send SIGTERM more than once before they kill: only a person who presses Ctrl-C
        // again is in a hurry.
        if (signal != SIGINT) continue;
        if (!settings_.quiet) say("lockstep: again: ending the ranks at once\n");
        guard.kill_now();
        continue;
      }
      stopping_ = true;
      if (!settings_.quiet)
        say(
            fmt::format("lockstep: {}: handed on to the ranks, which have {} to end; Ctrl-C ends "
                        "them at once\n",
                        signal_name(signal), format_duration(settings_.grace)));
      guard.stop(signal);
    }
  }

  // The kernel has killed the ranks with it; what they had started came to us.
  void after_guard_died() {
    end_descendants(std::min<std::chrono::nanoseconds>(settings_.grace, 2s));
    say("lockstep: error: the guard process was killed from outside, and the ranks with it\n  "
        "next: start again; everything the ranks had started is gone\n");
  }

  Error cannot_start(int problem) const {
    const std::string program = printable(command_.front());
    if (problem == E2BIG)
      return Error{
          "the environment and the arguments are larger than the kernel takes for a new process",
          "shorten the environment (`env | wc -c`) or the arguments; a single variable may hold "
          "128 KiB"};
    if (problem == ENOENT || problem == EACCES)
      return usage_error(
          fmt::format("cannot run {}: {}", program, std::strerror(problem)),
          "check its name, its permissions, its #! line, and that the log folder can be written");
    return Error{fmt::format("cannot run {}: {}", program, std::strerror(problem)),
                 "check ulimit -u and -n"};
  }

  const LaunchSettings& settings_;
  const Variables& around_;
  const std::vector<std::string> command_;
  const Beside& beside_;
  SignalEvents signals_;
  KernelLog kernel_;
  std::string line_template_;
  std::optional<LogFolder> folder_;
  // Of the attempt.
  GroupPlace place_;
  std::vector<RankFiles> files_;
  std::optional<Error> not_started_;
  bool stopping_ = false;
  bool stopped_for_others_ = false;
  bool guard_lost_ = false;
};

}  // namespace

Result<int> run_launch(LaunchSettings settings, const Beside& beside) {
  Variables around = own_variables();
  for (const auto& [name, value] : settings.set_variables) around[name] = value;
  for (const std::string& name : settings.unset_variables) around.erase(name);
  TRY(adopt(around, settings));
  if (!settings.quiet)
    for (const std::string& note : settings.notes) say(fmt::format("lockstep: {}\n", note));
  auto ranks = TRY(ranks_wanted(settings, around));
  auto command = TRY(rank_command(settings, around));
  TRY(look_first(settings, ranks, around));
  auto python = own_python(around);
  become_subreaper();
  ::signal(SIGPIPE, SIG_IGN);  // `| head` ends, the job does not
  // takes hold of signals before anything is started
  Launcher launcher(settings, around, std::move(command), beside);
  auto meeting = TRY(make_meeting(settings, ranks, python ? *python : "python3"));
  return launcher.run(*meeting);
}

}  // namespace lockstep
