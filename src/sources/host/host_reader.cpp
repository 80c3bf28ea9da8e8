#include "sources/host/host_reader.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// the whole of /proc, 15 us a process; at once when a new one is on a GPU
constexpr auto kTreeEvery = 10s;
constexpr auto kTreeAtFirst =
    30s;  // so long after that it is read at every look: loaders start their workers late (seen on
          // an H200: a diagnosis of ten seconds that never saw the four workers)
constexpr auto kLibrariesAgainAfter = 10s;  // torch is loaded some seconds after the process starts
constexpr int kMostAncestors = 32;
constexpr auto kLookOften = 40ms;  // a step of 100 ms is met at every part of it within seconds
constexpr auto kLookSeldom = 2s;
constexpr std::size_t kMostPendingLooks =
    512;  // of a process between two lists, 1 s apart as a rule

std::chrono::nanoseconds cpu_time_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

HostReader::HostReader(HostOptions options)
    : options_(std::move(options)),
      proc_(options_.root / "proc"),
      ticks_per_second_(static_cast<double>(::sysconf(_SC_CLK_TCK))),
      users_(parse_passwd(read_small_file(options_.root / "etc/passwd").value_or(""))),
      in_pid_namespace_(in_own_pid_namespace(proc_)),
      threads_(proc_) {}

std::optional<std::string> HostReader::read(int pid, const char* file, std::size_t limit) const {
  return read_small_file(proc_ / std::to_string(pid) / file, limit);
}

std::optional<Command> HostReader::command_of(int pid) const {
  const auto text = read(pid, "cmdline");
  if (!text) return std::nullopt;
  return parse_command(*text);
}

void HostReader::describe(ProcessTick& processes, std::chrono::nanoseconds now) {
  unreadable_.clear();
  on_gpus_.clear();
  std::map<int, int> local;  // the driver's pid -> ours
  for (const ProcessSample& process : processes)
    if (const auto pid = local_pid(process.pid)) on_gpus_.insert(local[process.pid] = *pid);
  scan_tree(processes, now);

  for (ProcessSample& process : processes) {
    const auto pid = local.find(process.pid);
    if (pid == local.end()) continue;
    process.pid = pid->second;
    describe_one(process, process.pid, now);
  }
  find_spawned_ranks(processes);
  add_stacks(processes, now);
  std::erase_if(facts_, [&](const auto& entry) { return !on_gpus_.contains(entry.first.pid); });
}

void HostReader::look(std::chrono::nanoseconds now) {
  clock_offset_ = now - monotonic_now();
  // a clock that was set back must not end the looks
  next_look_ = std::min<std::chrono::nanoseconds>(next_look_, now + 2 * kLookSeldom);
  if (now < next_look_) return;
  next_look_ = now + 100ms;
  if (facts_.empty()) return;
  const auto begin = cpu_time_of_this_thread();
  for (auto& [process, facts] : facts_) {
    if (facts.looks.size() >= kMostPendingLooks) continue;
    HostLook look;
    look.ago_ms = to_ms(now);  // until the list is made
    look.main = threads_.look(process.pid, process.pid);
    bool any = look.main.has_value();
    for (const int worker : facts.workers)
      if (const auto doing = threads_.look(worker, worker)) {
        ++look.workers[index_of(*doing)];
        any = true;
      }
    if (any) facts.looks.push_back(look);
  }
  const auto cost = cpu_time_of_this_thread() - begin;
  const auto usual = std::clamp<std::chrono::nanoseconds>(
      std::chrono::nanoseconds(
          static_cast<std::int64_t>(static_cast<double>(cost.count()) / options_.look_budget)),
      kLookOften, kLookSeldom);
  std::uniform_real_distribution<double> around(0.5, 1.5);
  next_look_ = now + std::chrono::nanoseconds(static_cast<std::int64_t>(
                         static_cast<double>(usual.count()) * around(chance_)));
}

void HostReader::add_stacks(ProcessTick& processes, std::chrono::nanoseconds now) {
  if (options_.stack_budget <= 0) return;
  std::vector<int> pids;
  std::vector<std::string> own_interpreters;
  for (const ProcessSample& process : processes) {
    if (!process.command || !is_python(*process.command)) continue;
    pids.push_back(process.pid);
    const bool ours = std::ranges::any_of(facts_, [&](const auto& entry) {
      return entry.first.pid == process.pid && entry.second.is_ours;
    });
    if (ours) own_interpreters.push_back(process.command->front());
  }
  if (!pids.empty() && !std::exchange(looked_for_py_spy_, true))
    if (auto py_spy = find_py_spy(own_interpreters))
      stacks_ = std::make_unique<PythonStacks>(std::move(*py_spy), options_.stack_budget);
  if (!stacks_) return;
  stacks_->follow(std::move(pids));
  for (PythonStacks::Taken& taken : stacks_->take())
    for (ProcessSample& process : processes)
      if (process.pid == taken.pid) {
        taken.sample.ago_ms = to_ms(now - (taken.at + clock_offset_));
        process.stacks.push_back(std::move(taken.sample));
        break;
      }
}

// The pid by which /proc knows a process that the driver named.
std::optional<int> HostReader::local_pid(int driver_pid) {
  const bool exists = read(driver_pid, "stat", 16).has_value();
  if (options_.pid_origin == PidOrigin::this_machine || !in_pid_namespace_) {
    if (exists) return driver_pid;
    unreadable_
        ["the driver lists it, /proc does not: it has just ended, or runs in another container"]
            .insert(driver_pid);
    return std::nullopt;
  }
  // In a container of its own the driver may speak of the host's pids. A process of that number
  // here is the one only if it holds the GPU; else one whose outer pid is that number, where /proc
  // shows outer pids.
  if (exists && holds_nvidia_device(driver_pid)) return driver_pid;
  std::optional<int> found;
  for_each_number_in(proc_, [&](int pid) {
    const auto status = parse_status(read(pid, "status").value_or(""));
    const auto& pids = status.namespace_pids;
    if (pids.size() > 1 && std::ranges::find(pids, driver_pid) != pids.end()) found = pid;
  });
  if (!found)
    unreadable_
        ["it lives outside this container's PID namespace: run lockstep on the host, or start the "
         "container "
         "with --pid=host"]
            .insert(driver_pid);
  return found;
}

bool HostReader::holds_nvidia_device(int pid) const {
  std::error_code unreadable;
  for (const auto& entry :
       std::filesystem::directory_iterator(proc_ / std::to_string(pid) / "fd", unreadable)) {
    const auto target = std::filesystem::read_symlink(entry.path(), unreadable);
    if (target.string().starts_with("/dev/nvidia")) return true;
  }
  return false;
}

// Who is whose child, for launchers, ranks of mp.spawn and loader workers.
void HostReader::scan_tree(const ProcessTick& processes, std::chrono::nanoseconds now) {
  const bool all_known = std::ranges::all_of(
      processes, [&](const ProcessSample& process) { return tree_.contains(process.pid); });
  if (!all_known || !tree_read_) new_process_at_ = now;
  if (tree_read_ && all_known && now - *tree_read_ < kTreeEvery &&
      now - new_process_at_ > kTreeAtFirst)
    return;
  tree_read_ = now;
  tree_.clear();
  children_.clear();
  for_each_number_in(proc_, [&](int pid) {
    const auto stat = parse_stat(read(pid, "stat", 1024).value_or(""));
    if (!stat) return;
    tree_[pid] = {stat->parent_pid, stat->start_ticks, stat->name};
    children_.emplace(stat->parent_pid, pid);
  });
}

HostReader::Facts& HostReader::facts_of(int pid, const ProcStat& stat,
                                        std::chrono::nanoseconds now) {
  const auto [entry, is_new] = facts_.try_emplace(Identity{pid, stat.start_ticks});
  Facts& facts = entry->second;
  if (is_new) {
    if (auto command = command_of(pid)) facts.command = redact_command(std::move(*command));
    if (const auto environment = read(pid, "environ", 4U << 20U))
      facts.environment = parse_environment(*environment);
    if (const auto id = parse_status(read(pid, "status").value_or("")).user_id) {
      const auto user = users_.find(*id);
      facts.user = user != users_.end() ? user->second : std::to_string(*id);
      facts.is_ours = *id == ::geteuid();
    }
  }
  const bool torch_seen =
      facts.libraries && std::ranges::find(*facts.libraries, "torch") != facts.libraries->end();
  if (is_new || (!torch_seen && now - facts.libraries_read >= kLibrariesAgainAfter)) {
    facts.libraries_read = now;
    if (const auto maps = read(pid, "maps", 16U << 20U)) facts.libraries = parse_libraries(*maps);
  }
  return facts;
}

void HostReader::describe_one(ProcessSample& process, int pid, std::chrono::nanoseconds now) {
  const auto stat = parse_stat(read(pid, "stat", 1024).value_or(""));
  if (!stat) {
    unreadable_["it has ended"].insert(pid);
    return;
  }
  Facts& facts = facts_of(pid, *stat, now);
  process.state = stat->state;
  process.parent_pid = stat->parent_pid;
  process.command = facts.command;
  process.user = facts.user;
  process.environment = facts.environment;
  process.libraries = facts.libraries;
  if (!facts.environment)
    unreadable_[fmt::format(
                    "environment and written bytes belong to user {}: run as that user or as root",
                    facts.user.value_or("unknown"))]
        .insert(pid);

  // A clock tick is 10 ms: a shorter span than this measures nothing, and the last figure stands.
  constexpr double kShortestSpanS = 0.1;
  const double elapsed_s = std::chrono::duration<double>(now - facts.last_cpu_read).count();
  if (!facts.cpu_read || elapsed_s >= kShortestSpanS) {
    if (facts.cpu_read)
      facts.cpu =
          static_cast<double>(stat->cpu_ticks - std::min(stat->cpu_ticks, facts.last_cpu_ticks)) /
          ticks_per_second_ / elapsed_s;
    const auto delay = parse_run_delay(read(pid, "schedstat", 128).value_or(""));
    facts.cpu_wait.reset();
    if (facts.cpu_read && delay && facts.last_run_delay && *delay >= *facts.last_run_delay)
      facts.cpu_wait =
          std::min(1.0, static_cast<double>(*delay - *facts.last_run_delay) / 1e9 / elapsed_s);
    facts.last_run_delay = delay;
    facts.cpu_read = true;
    facts.last_cpu_ticks = stat->cpu_ticks;
    facts.last_cpu_read = now;
  }
  process.cpu = facts.cpu;
  process.cpu_wait = facts.cpu_wait;

  const RankNumbers numbers = ranks_in(facts.environment.value_or(Environment{}));
  process.rank = numbers.rank;
  process.local_rank = numbers.local_rank;
  process.world_size = numbers.world_size;
  process.launcher = launcher_of(pid);
  if (!process.launcher && facts.environment)
    process.launcher = launcher_hinted_by(*facts.environment);
  if (!process.launcher && facts.command && is_python(*facts.command)) process.launcher = "python";
  count_loader_workers(process, pid, facts);
  process.looks = std::exchange(facts.looks, {});
  for (HostLook& look : process.looks) look.ago_ms = to_ms(now) - look.ago_ms;
}

// The nearest ancestor that is a launcher. SLURM's step daemon stands above everything in a job; it
// is the launcher of its tasks, not of what a batch script starts.
std::optional<std::string> HostReader::launcher_of(int pid) const {
  bool below_batch_script = false;
  auto entry = tree_.find(pid);
  for (int depth = 0;
       depth < kMostAncestors && entry != tree_.end() && entry->second.parent_pid > 1; ++depth) {
    const int parent = entry->second.parent_pid;
    const auto command = command_of(parent).value_or(Command{});
    below_batch_script =
        below_batch_script || std::ranges::any_of(command, [](const std::string& word) {
          return word.ends_with("/slurm_script");
        });
    auto launcher = launcher_named_by(command);
    if (launcher && !(launcher == "srun" && below_batch_script)) return launcher;
    entry = tree_.find(parent);
  }
  return std::nullopt;
}

// Children of mp.spawn set RANK after they start, which /proc does not show: they are ranks by
// their place. torch starts them in order, so the order of birth is the rank.
void HostReader::find_spawned_ranks(ProcessTick& processes) {
  for (ProcessSample& process : processes) {
    if (process.rank || !process.parent_pid || !process.command) continue;
    const int parent = *process.parent_pid;
    const auto parent_command = command_of(parent);
    if (!parent_command || !is_python(*parent_command) || on_gpus_.contains(parent)) continue;
    const auto is_sibling_rank = [&](const Command& command) {
      return is_multiprocessing_child(command) || command == *parent_command;
    };
    if (!is_sibling_rank(*process.command) && redact_command(*parent_command) != *process.command)
      continue;

    std::vector<std::pair<std::uint64_t, int>> born;
    const auto [first, last] = children_.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      const auto command = command_of(child->second);
      if (command && is_sibling_rank(*command))
        born.emplace_back(tree_[child->second].start_ticks, child->second);
    }
    std::ranges::sort(born);
    const auto self =
        std::ranges::find_if(born, [&](const auto& entry) { return entry.second == process.pid; });
    if (self == born.end()) continue;
    process.rank = process.local_rank = static_cast<int>(self - born.begin());
    process.world_size = static_cast<int>(born.size());
    process.launcher = "mp.spawn";
  }
}

// Children that are neither on a GPU nor helpers: forks of the rank itself, or multiprocessing
// children.
std::vector<int> HostReader::loader_workers_of(int pid,
                                               const std::optional<Command>& command) const {
  std::vector<int> workers;
  const auto [first, last] = children_.equal_range(pid);
  for (auto child = first; child != last; ++child) {
    const int worker = child->second;
    if (on_gpus_.contains(worker)) continue;
    const auto theirs = command_of(worker);
    if (!theirs || is_multiprocessing_helper(*theirs)) continue;
    if (is_forkserver(*theirs)) {
      for (const int grandchild : loader_workers_of(worker, theirs)) workers.push_back(grandchild);
      continue;
    }
    const auto relative = tree_.find(worker);
    const bool named =
        relative != tree_.end() && relative->second.name.starts_with("pt_data_worker");
    const bool twin = command && redact_command(*theirs) == *command;
    if (named || twin || is_multiprocessing_child(*theirs)) workers.push_back(worker);
  }
  return workers;
}

void HostReader::count_loader_workers(ProcessSample& process, int pid, Facts& facts) {
  const std::vector<int> workers = loader_workers_of(pid, process.command);
  process.loader_workers = static_cast<int>(workers.size());
  facts.workers = workers;
  const auto own = parse_io(read(pid, "io", 1024).value_or(""));
  if (!own) return;
  // A worker that ends hands its counts to its parent, so the sum never falls.
  process.read_bytes = own->read_bytes;
  process.write_bytes = own->write_bytes;
  for (const int worker : workers) {
    const auto theirs = parse_io(read(worker, "io", 1024).value_or(""));
    if (!theirs) continue;
    *process.read_bytes += theirs->read_bytes;
    *process.write_bytes += theirs->write_bytes;
  }
}

std::vector<NotMeasured> HostReader::not_measured() const {
  std::vector<NotMeasured> list;
  for (const auto& [reason, pids] : unreadable_)
    list.push_back({fmt::format("process {}", fmt::join(pids, ", ")), reason});
  if (looked_for_py_spy_ && !stacks_)
    list.push_back({"python stacks",
                    "py-spy is not installed, which would name the lines: pip install py-spy"});
  if (stacks_)
    if (const auto refusal = stacks_->refusal())
      list.push_back({"python stacks", fmt::format("py-spy: {}", *refusal)});
  if (threads_.refused())
    list.push_back(
        {"system calls",
         "the kernel does not show what other processes wait for in detail: run as root, "
         "or allow it with `sysctl kernel.yama.ptrace_scope=0`"});
  return list;
}

}  // namespace lockstep
