#include "signals/job_groups.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "lockstep/several_machines.hpp"
#include "signals/lanes.hpp"
#include "signals/process_kinds.hpp"
#include "signals/statistics.hpp"

namespace lockstep {
namespace {

// A rank often opens a small context on GPU 0 beside its own: less than this of its largest is no
// share of work.
constexpr double kSideContextShare = 0.1;
constexpr double kSideContextBytes = 1.1e9;  // a CUDA context with NCCL takes 0.3 to 1 GB
// On a GPU before its own, where contexts leak to, more is still no share of the work: 0.4 to 1.4
// GB were seen. (DataParallel's replicas lie behind its first GPU, which holds most.)
constexpr double kLeakedContextShare = 0.5;
constexpr double kLeakedContextBytes = 1.6e9;
// A driver keeps up to 0.45 GB of a 24 GB card for itself (seen on RTX A5000).
constexpr double kFreeMemoryShare = 0.03;
constexpr double kFreeMemoryBytes = 0.7e9;
constexpr double kFreeBusy = 0.05;
constexpr double kWorksUnlisted = 0.2;

std::string environment(const ProcessSample& process, const char* name) {
  if (!process.environment) return {};
  const auto entry = process.environment->find(name);
  return entry == process.environment->end() ? std::string() : entry->second;
}

bool is_spawned(const ProcessSample& process) {
  if (process.launcher &&
      (*process.launcher == "mp.spawn" || *process.launcher == "multiprocessing"))
    return true;
  if (!process.command) return false;
  return std::ranges::any_of(*process.command, [](const std::string& word) {
    return word.find("multiprocessing.spawn") != std::string::npos ||
           word.find("multiprocessing.forkserver") != std::string::npos;
  });
}

// Recordings of other writers may have the environment and not the numbers in it.
void add_ranks_of_environment(ProcessSample& process) {
  const auto first = [&](std::initializer_list<const char*> names) -> std::optional<int> {
    for (const char* const name : names)
      if (const auto value = small_number(environment(process, name))) return value;
    return std::nullopt;
  };
  if (!process.rank) process.rank = first({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  if (!process.local_rank) process.local_rank = first({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"});
  if (!process.world_size)
    process.world_size = first({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (const auto tasks = first({"SLURM_NTASKS"}); tasks.value_or(1) > 1 && !process.rank) {
    process.rank = first({"SLURM_PROCID"});
    process.local_rank = first({"SLURM_LOCALID"});
    process.world_size = tasks;
  }
}

// Pids of the newest list that has any, and of every list that shares one with it.
std::set<int> contemporaries(const Timeline& timeline) {
  std::set<int> newest;
  for (auto list = timeline.process_lists.rbegin();
       list != timeline.process_lists.rend() && newest.empty(); ++list)
    for (const ProcessSample& process : list->processes) newest.insert(process.pid);
  std::set<int> all = newest;
  for (const ProcessList& list : timeline.process_lists) {
    const bool shares = std::ranges::any_of(
        list.processes, [&](const ProcessSample& process) { return newest.contains(process.pid); });
    if (!shares) continue;
    for (const ProcessSample& process : list.processes) all.insert(process.pid);
  }
  return all;
}

// The newest look at each process, with every GPU it ever held.
//
// Processes that were gone before those of the newest list came are left out: a job that was
// started again, or a script that ran on one GPU and then on another, is no crowd.
std::vector<ProcessSample> processes_of(const Timeline& timeline,
                                        std::vector<LeakedContext>& leaked) {
  std::map<int, ProcessSample> newest;
  std::map<int, std::map<int, ProcessOnGpu>> held;
  std::map<int, std::map<int, std::pair<double, double>>> seen;  // by GPU and process: first, last
  const std::set<int> contemporary = contemporaries(timeline);
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes) {
      if (draws_a_screen(process) || !contemporary.contains(process.pid)) continue;
      newest[process.pid] = process;
      for (const ProcessOnGpu& gpu : process.gpus) {
        if (find_track(timeline, gpu.index) == nullptr) continue;  // of a GPU that was not watched
        ProcessOnGpu& known_use = held[process.pid][gpu.index];
        known_use.index = gpu.index;
        seen[gpu.index].try_emplace(process.pid, list.t_ms, list.t_ms).first->second.second =
            list.t_ms;
        if (gpu.memory_bytes)
          known_use.memory_bytes = std::max(known_use.memory_bytes.value_or(0), *gpu.memory_bytes);
      }
    }
  // Trials of a sweep, one behind the other on the same GPU: the last of them is the job.
  for (const auto& [gpu, stays] : seen) {
    double newest_begin = 0;
    for (const auto& [pid, stay] : stays) newest_begin = std::max(newest_begin, stay.first);
    for (const auto& [pid, stay] : stays)
      if (stay.second < newest_begin) held[pid].erase(gpu);
  }
  std::vector<ProcessSample> processes;
  for (auto& [pid, process] : newest) {
    double largest = 0;
    int own = 0;
    for (const auto& [index, use] : held[pid]) {
      const double bytes = static_cast<double>(use.memory_bytes.value_or(0));
      if (bytes > largest) own = index;
      largest = std::max(largest, bytes);
    }
    process.gpus.clear();
    for (const auto& [index, use] : held[pid]) {
      const double bytes = static_cast<double>(use.memory_bytes.value_or(0));
      const bool side_context =
          use.memory_bytes &&
          ((bytes < kSideContextShare * largest && bytes < kSideContextBytes) ||
           (index < own && bytes < kLeakedContextShare * largest && bytes < kLeakedContextBytes));
      if (!side_context)
        process.gpus.push_back(use);
      else if (index < own)
        leaked.push_back({pid, index, bytes});
    }
    if (process.gpus.empty()) continue;
    add_ranks_of_environment(process);
    processes.push_back(process);
  }
  return processes;
}

bool both_set_and_equal(const std::string& a, const std::string& b) { return !a.empty() && a == b; }

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

// On two machines what one and another are called means little: only where they meet, or the batch
// system's number.
bool belong_together_over_machines(const ProcessSample& a, const ProcessSample& b) {
  if (!a.rank || !b.rank || *a.rank == *b.rank || a.world_size != b.world_size) return false;
  if (both_set_and_equal(environment(a, "SLURM_JOB_ID"), environment(b, "SLURM_JOB_ID")))
    return true;
  const std::string address = environment(a, "MASTER_ADDR");
  return both_set_and_equal(address, environment(b, "MASTER_ADDR")) && !is_loopback(address) &&
         both_set_and_equal(environment(a, "MASTER_PORT"), environment(b, "MASTER_PORT"));
}

bool are_workers_of_one_server(const ProcessSample& a, const ProcessSample& b) {
  const auto family = [](const ProcessSample& process) -> std::string_view {
    if (!process.command || process.command->empty()) return {};
    const std::string_view title = process.command->front();
    const auto end = title.find("::");
    return end == std::string_view::npos || title.starts_with('/') ? std::string_view()
                                                                   : title.substr(0, end);
  };
  return !family(a).empty() && family(a) == family(b) && holds_a_part_of_a_model(a) &&
         holds_a_part_of_a_model(b) && is_server(*a.command) && is_server(*b.command) &&
         (!a.parent_pid || !b.parent_pid || a.parent_pid == b.parent_pid);
}

bool belong_together(const ProcessSample& a, const ProcessSample& b) {
  if (MachinePid::read(a.pid).machine() != MachinePid::read(b.pid).machine())
    return belong_together_over_machines(a, b);
  if (a.parent_pid == b.pid || b.parent_pid == a.pid) return true;
  if (are_workers_of_one_server(a, b)) return true;
  const bool one_parent = a.parent_pid && a.parent_pid == b.parent_pid;
  if (one_parent && is_spawned(a) && is_spawned(b)) return true;
  if (one_parent && are_ranks_by_their_commands(a, b)) return true;
  const bool has_ranks = a.rank && b.rank && a.world_size == b.world_size;
  if (!has_ranks || *a.rank == *b.rank) return false;
  const std::string port_a = environment(a, "MASTER_PORT");
  const std::string port_b = environment(b, "MASTER_PORT");
  if (!port_a.empty() && !port_b.empty())
    return port_a == port_b && environment(a, "MASTER_ADDR") == environment(b, "MASTER_ADDR");
  if (one_parent) return true;
  if (both_set_and_equal(environment(a, "SLURM_JOB_ID"), environment(b, "SLURM_JOB_ID")))
    return true;
  // two agents, two jobs
  if (a.parent_pid && b.parent_pid && a.launcher && *a.launcher == "torchrun") return false;
  return a.command == b.command;
}

std::vector<std::vector<std::size_t>> components(
    std::size_t size, const std::function<bool(std::size_t, std::size_t)>& joined) {
  std::vector<std::size_t> root(size);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](std::size_t i) {
    while (root[i] != i) i = root[i];
    return i;
  };
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = a + 1; b < size; ++b)
      if (joined(a, b)) root[find(b)] = find(a);
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < size; ++i) groups[find(i)].push_back(i);
  std::vector<std::vector<std::size_t>> result;
  for (auto& [at, group] : groups) result.push_back(std::move(group));
  return result;
}

// Whether it is a rank cannot be told: its environment could not be read (another user's, or
// another tool's log). Its command may be known all the same.
bool is_nameless(const ProcessSample& process) {
  return !process.rank && !process.world_size && !process.environment;
}

JobSignals job_of(const std::vector<ProcessSample>& processes,
                  const std::vector<std::size_t>& group) {
  JobSignals job;
  std::set<int> gpus;
  std::set<int> ranks;
  std::set<int> largest;
  for (const std::size_t at : group) {
    const ProcessSample& process = processes[at];
    job.pids.push_back(process.pid);
    job.processes.push_back(process);
    std::set<int> own;
    for (const ProcessOnGpu& use : process.gpus) own.insert(use.index);
    if (own.size() > largest.size()) largest = own;
    gpus.insert(own.begin(), own.end());
    if (process.rank) ranks.insert(*process.rank);
    if (process.world_size)
      job.world_size = std::max(job.world_size.value_or(0), *process.world_size);
    job.spawned = job.spawned || (is_spawned(process) && group.size() > 1);
    job.serves = job.serves || (process.command && is_server(*process.command));
    job.in_a_notebook = job.in_a_notebook || is_notebook(process);
  }
  job.gpus.assign(gpus.begin(), gpus.end());
  job.ranks.assign(ranks.begin(), ranks.end());
  job.one_process_on_all = largest.size() > 1 && largest == gpus;
  std::ranges::sort(job.processes, [](const ProcessSample& a, const ProcessSample& b) {
    return std::pair(a.rank.value_or(1 << 30), a.pid) < std::pair(b.rank.value_or(1 << 30), b.pid);
  });
  return job;
}

bool in_use(const GpuSignals& gpu) {
  if (gpu.busy_highest.value_or(0) > kFreeBusy) return true;
  const double bytes = gpu.memory_highest_bytes.value_or(0);
  const double total = static_cast<double>(gpu.info.memory_total_bytes.value_or(0));
  return bytes > std::max(kFreeMemoryBytes, kFreeMemoryShare * total);
}

double ratio_of(std::optional<double> a, std::optional<double> b, double when_unknown) {
  if (!a || !b || std::max(*a, *b) <= 0) return when_unknown;
  return std::min(*a, *b) / std::max(*a, *b);
}

// Replicas of one model hold the same memory, are as busy and draw as much. Of four real pairs of
// unrelated jobs the nearest had memory 0.69 apart; replicas were within 0.95.
bool alike(const GpuSignals& a, const GpuSignals& b) {
  return a.info.host == b.info.host &&
         ratio_of(a.memory_median_bytes, b.memory_median_bytes, 1) > 0.85 &&
         std::abs(a.busy_fraction.value_or(0) - b.busy_fraction.value_or(0)) < 0.15 &&
         ratio_of(a.power_mw, b.power_mw, 1) > 0.75;
}

// Its processor reads busy while it draws little of what it drew at its best: it waits for
// somebody.
bool spins(const GpuSignals& gpu) {
  return gpu.busy_fraction.value_or(0) > 0.8 && gpu.power_mw && gpu.power_highest_mw &&
         *gpu.power_mw < 0.5 * *gpu.power_highest_mw;
}

const GpuSignals& of(const std::vector<GpuSignals>& gpus, int index) {
  return *std::ranges::find_if(gpus, [&](const GpuSignals& gpu) { return gpu.index == index; });
}

double begin_of(const GpuSignals& gpu) { return gpu.begins_ms.value_or(0); }

// GPUs that are alike and began to work minutes apart, some here and some there, are of two jobs.
// One alone may be the rank that prepares the data while the others wait for it.
std::vector<std::vector<std::size_t>> parted_by_begin(
    const std::vector<const GpuSignals*>& pool, std::vector<std::vector<std::size_t>> groups) {
  constexpr double kApartMs = 90'000;  // W&B reads every 15 or 30 s
  constexpr std::size_t kFewest = 2;
  std::vector<std::vector<std::size_t>> parted;
  for (std::vector<std::size_t>& group : groups) {
    std::ranges::stable_sort(group, {}, [&](std::size_t at) { return begin_of(*pool[at]); });
    std::size_t most_at = 0;
    double most = 0;
    for (std::size_t i = 1; i < group.size(); ++i)
      if (const double gap = begin_of(*pool[group[i]]) - begin_of(*pool[group[i - 1]]);
          gap > most) {
        most = gap;
        most_at = i;
      }
    if (most > kApartMs && most_at >= kFewest && group.size() - most_at >= kFewest) {
      const auto second = group.begin() + static_cast<std::ptrdiff_t>(most_at);
      parted.emplace_back(second, group.end());
      group.erase(second, group.end());
    }
    parted.push_back(std::move(group));
  }
  for (auto& group : parted) std::ranges::sort(group);
  return parted;
}

std::vector<std::vector<std::size_t>> groups_of_likeness(
    const std::vector<const GpuSignals*>& pool) {
  return parted_by_begin(pool, components(pool.size(), [&](std::size_t a, std::size_t b) {
                           return alike(*pool[a], *pool[b]);
                         }));
}

bool hold_alike(const GpuSignals& a, const GpuSignals& b) {
  constexpr double kNearly = 0.8;
  return a.info.host == b.info.host &&
         ratio_of(a.memory_median_bytes, b.memory_median_bytes, 0) >= kNearly;
}

JobSignals job_by_likeness(const std::vector<const GpuSignals*>& pool,
                           const std::vector<std::size_t>& group, JobOrigin origin) {
  JobSignals job;
  job.origin = origin;
  for (const std::size_t at : group) job.gpus.push_back(pool[at]->index);
  return job;
}

// GPUs in use that no listed process holds: other ranks of a listed job, or somebody else's.
void place_unlisted(const std::vector<GpuSignals>& gpus, std::vector<JobSignals>& jobs) {
  std::set<int> listed;
  for (const JobSignals& job : jobs) listed.insert(job.gpus.begin(), job.gpus.end());
  std::vector<const GpuSignals*> pool;
  for (const GpuSignals& gpu : gpus)
    if (!listed.contains(gpu.index) && in_use(gpu) && !gpu.info.mig) pool.push_back(&gpu);
  auto groups = groups_of_likeness(pool);
  // Who began with a job is of it rather than who came later.
  const auto apart = [&](const std::vector<std::size_t>& group) {
    double least = std::numeric_limits<double>::max();
    for (const JobSignals& job : jobs)
      for (const GpuSignals& gpu : gpus)
        if (job.gpus.size() == 1 && gpu.index == job.gpus[0])
          least = std::min(least, std::abs(begin_of(gpu) - begin_of(*pool[group.front()])));
    return least;
  };
  std::ranges::stable_sort(groups, {}, apart);
  for (const auto& group : groups) {
    bool placed = false;
    for (JobSignals& job : jobs) {
      if (job.gpus.size() != 1 || !std::ranges::any_of(gpus, [&](const GpuSignals& gpu) {
            return gpu.index == job.gpus[0];
          }))
        continue;
      const GpuSignals& own = of(gpus, job.gpus[0]);
      const bool replicas = alike(own, *pool[group.front()]);
      const bool wait_for_it =
          group.size() > 1 && own.busy_fraction.value_or(1) < 0.2 &&
          std::ranges::all_of(group, [&](std::size_t at) { return spins(*pool[at]); });
      if (!replicas && !wait_for_it) continue;
      for (const std::size_t at : group) job.gpus.push_back(pool[at]->index);
      std::ranges::sort(job.gpus);
      job.origin = JobOrigin::partial;
      placed = true;
      break;
    }
    if (placed) continue;
    if (jobs.empty() || group.size() > 1)
      jobs.push_back(job_by_likeness(pool, group, JobOrigin::likeness));
    else
      jobs.push_back(job_by_likeness(pool, group, JobOrigin::foreign));
  }
}

// Of processes about which nothing but the pid is known, those that hold as much memory may be
// ranks of one job. Whether they are is for their lanes to say.
void join_nameless(const std::vector<GpuSignals>& gpus, std::vector<JobSignals>& jobs) {
  std::vector<JobSignals> named;
  std::vector<JobSignals> nameless;
  for (JobSignals& job : jobs) {
    const bool single =
        job.processes.size() == 1 && job.gpus.size() == 1 && is_nameless(job.processes.front()) &&
        !is_an_engine(job.processes.front()) &&
        std::ranges::any_of(gpus, [&](const GpuSignals& gpu) { return gpu.index == job.gpus[0]; });
    (single ? nameless : named).push_back(std::move(job));
  }
  jobs = std::move(named);
  for (const auto& group : components(nameless.size(), [&](std::size_t a, std::size_t b) {
         return MachinePid::read(nameless[a].pids[0]).machine() ==
                    MachinePid::read(nameless[b].pids[0]).machine() &&
                nameless[a].processes[0].command == nameless[b].processes[0].command &&
                ratio_of(of(gpus, nameless[a].gpus[0]).memory_median_bytes,
                         of(gpus, nameless[b].gpus[0]).memory_median_bytes, 1) > 0.85;
       })) {
    JobSignals joined = std::move(nameless[group.front()]);
    // Nobody else runs this command: it is a job of its own, whatever its environment says.
    if (group.size() == 1 && joined.processes.front().command &&
        !joined.processes.front().command->empty()) {
      jobs.push_back(std::move(joined));
      continue;
    }
    joined.origin = JobOrigin::likeness;
    for (std::size_t i = 1; i < group.size(); ++i) {
      const JobSignals& other = nameless[group[i]];
      if (other.gpus[0] != joined.gpus[0]) joined.gpus.push_back(other.gpus[0]);
      joined.pids.push_back(other.pids[0]);
      joined.processes.push_back(other.processes[0]);
    }
    std::ranges::sort(joined.gpus);
    const auto doubles = std::ranges::unique(joined.gpus);
    joined.gpus.erase(doubles.begin(), doubles.end());
    jobs.push_back(std::move(joined));
  }
}

// No process list at all: every GPU in use is one pool. Lanes tell turns from strangers later.
void group_by_likeness(const std::vector<GpuSignals>& gpus, std::vector<JobSignals>& jobs) {
  std::vector<const GpuSignals*> pool;
  for (const GpuSignals& gpu : gpus)
    if (in_use(gpu) && !gpu.info.mig) pool.push_back(&gpu);
  // One look says nothing of how busy they are: ranks hold alike, and work or wait at that moment.
  const bool one_look =
      std::ranges::all_of(pool, [](const GpuSignals* gpu) { return gpu->looks < 2; });
  auto groups =
      one_look
          ? components(pool.size(),
                       [&](std::size_t a, std::size_t b) { return hold_alike(*pool[a], *pool[b]); })
          : groups_of_likeness(pool);
  // Parts of a split model need not be alike: single GPUs that all hold memory may be one job.
  const bool all_single =
      std::ranges::all_of(groups, [](const auto& group) { return group.size() == 1; }) &&
      std::ranges::all_of(
          pool, [&](const GpuSignals* gpu) { return gpu->info.host == pool.front()->info.host; });
  if (all_single && groups.size() > 1) {
    std::vector<std::size_t> everything(pool.size());
    std::iota(everything.begin(), everything.end(), 0);
    groups = {everything};
  }
  for (const auto& group : groups)
    jobs.push_back(job_by_likeness(pool, group, JobOrigin::likeness));
}

// The cluster says whose a GPU is. GPUs that it gave to nobody are joined by likeness within their
// machine: across machines likeness would join strangers.
std::vector<JobSignals> group_by_cluster(const std::vector<GpuSignals>& gpus) {
  std::vector<JobSignals> jobs;
  std::map<std::string, std::size_t> place;
  std::map<std::string, std::vector<const GpuSignals*>> of_nobody;
  for (const GpuSignals& gpu : gpus) {
    if (gpu.info.mig) continue;
    if (!gpu.info.job) {
      if (in_use(gpu)) of_nobody[gpu.info.host.value_or("")].push_back(&gpu);
      continue;
    }
    const auto [entry, fresh] = place.try_emplace(*gpu.info.job, jobs.size());
    if (fresh) {
      jobs.emplace_back();
      jobs.back().origin = JobOrigin::cluster;
      jobs.back().name = *gpu.info.job;
    }
    jobs[entry->second].gpus.push_back(gpu.index);
  }
  for (const auto& [host, pool] : of_nobody)
    for (const auto& group : components(pool.size(), [&p = pool](std::size_t a, std::size_t b) {
           return alike(*p[a], *p[b]);
         }))
      jobs.push_back(job_by_likeness(pool, group, JobOrigin::likeness));
  return jobs;
}

// Recordings of several machines have their processes, and ranks say themselves whom they train
// with.
bool from_a_cluster(const Timeline& timeline, const std::vector<GpuSignals>& gpus) {
  const bool lists = std::ranges::any_of(
      timeline.process_lists, [](const ProcessList& list) { return !list.processes.empty(); });
  return std::ranges::any_of(gpus, [&](const GpuSignals& gpu) {
    return gpu.info.job || (gpu.info.host && gpu.info.host != gpus.front().info.host && !lists);
  });
}

}  // namespace

std::vector<JobSignals> job_groups(const Timeline& timeline, const std::vector<GpuSignals>& gpus) {
  if (from_a_cluster(timeline, gpus)) {
    std::vector<JobSignals> jobs = group_by_cluster(gpus);
    std::ranges::sort(jobs,
                      [](const JobSignals& a, const JobSignals& b) { return a.gpus < b.gpus; });
    return jobs;
  }
  std::vector<LeakedContext> leaked;
  const std::vector<ProcessSample> processes = processes_of(timeline, leaked);
  std::vector<JobSignals> jobs;
  for (const auto& group : components(processes.size(), [&](std::size_t a, std::size_t b) {
         return belong_together(processes[a], processes[b]);
       }))
    jobs.push_back(job_of(processes, group));
  for (JobSignals& job : jobs)
    std::ranges::copy_if(leaked, std::back_inserter(job.leaked_contexts),
                         [&](const LeakedContext& context) {
                           return std::ranges::find(job.pids, context.pid) != job.pids.end();
                         });
  // A GPU that works though nobody was ever listed on it: the list cannot be whole (a container
  // sees its own only).
  std::set<int> ever_held;
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes)
      for (const ProcessOnGpu& use : process.gpus) ever_held.insert(use.index);
  const bool nobody_on_busy = std::ranges::any_of(gpus, [&](const GpuSignals& gpu) {
    return gpu.busy_fraction.value_or(0) > kWorksUnlisted && !ever_held.contains(gpu.index) &&
           !gpu.info.mig;
  });
  const bool list_is_whole = timeline.machine.process_coverage == ProcessCoverage::all &&
                             !timeline.process_lists.empty() && !nobody_on_busy;
  join_nameless(gpus, jobs);
  if (!list_is_whole && !processes.empty()) place_unlisted(gpus, jobs);
  if (!list_is_whole && processes.empty()) group_by_likeness(gpus, jobs);
  std::ranges::sort(jobs, [](const JobSignals& a, const JobSignals& b) { return a.gpus < b.gpus; });
  return jobs;
}

std::vector<int> free_gpus(const std::vector<GpuSignals>& gpus,
                           const std::vector<JobSignals>& jobs) {
  std::vector<int> free;
  for (const GpuSignals& gpu : gpus) {
    const bool held = std::ranges::any_of(jobs, [&](const JobSignals& job) {
      return std::ranges::find(job.gpus, gpu.index) != job.gpus.end();
    });
    // unread is not free
    if (!held && gpu.busy_highest && !in_use(gpu) && !gpu.vanished && !gpu.info.mig)
      free.push_back(gpu.index);
  }
  return free;
}

}  // namespace lockstep
