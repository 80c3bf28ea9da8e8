#include "capture/traced_processes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Candidate {
  TracedProcess process;
  int parent = 0;
  std::string command;
};

std::optional<std::string> variable(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
    environment.remove_prefix(std::min(environment.size(), entry.size() + 1));
  }
  return std::nullopt;
}

std::optional<int> number(const std::optional<std::string>& text) {
  const auto value = text ? parse_integer(*text) : std::nullopt;
  return value && *value >= 0 && *value < 1'000'000 ? std::optional(static_cast<int>(*value))
                                                    : std::nullopt;
}

std::optional<Candidate> candidate_of(const fs::path& proc, int pid) {
  const fs::path folder = proc / std::to_string(pid);
  const auto environment = read_small_file(folder / "environ", 1U << 20U);
  if (!environment || !variable(*environment, "KINETO_USE_DAEMON")) return std::nullopt;
  const auto maps = read_small_file(folder / "maps", 16U << 20U);
  if (!maps || maps->find("libtorch_cpu") == std::string::npos) return std::nullopt;
  Candidate candidate;
  candidate.process.pid = pid;
  candidate.process.rank = number(variable(*environment, "RANK"));
  candidate.process.world_size = number(variable(*environment, "WORLD_SIZE"));
  if (const auto port = variable(*environment, "MASTER_PORT"))
    candidate.process.job = variable(*environment, "MASTER_ADDR").value_or("") + ":" + *port;
  // Its paths are those of its own root: in a container another one than ours.
  std::error_code ignored;
  const bool same_root = fs::equivalent(folder / "root", "/", ignored);
  const auto as_seen_here = [&](const std::string& path) {
    return same_root ? fs::path(path) : folder / "root" / fs::path(path).relative_path();
  };
  if (const auto sockets = variable(*environment, "KINETO_IPC_SOCKET_DIR");
      sockets && !sockets->empty())
    candidate.process.socket_folder = as_seen_here(*sockets);
  if (const auto config = variable(*environment, "KINETO_CONFIG"))
    if (const auto text = read_small_file(as_seen_here(*config), 1U << 16U))
      candidate.process.asks_every_second =
          text->find("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n") != std::string::npos;
  if (const auto stat = read_small_file(folder / "stat")) {
    const auto fields = stat_fields_after_name(*stat);
    if (fields.size() > 1)
      candidate.parent = static_cast<int>(parse_integer(fields[1]).value_or(0));
  }
  candidate.command = read_small_file(folder / "cmdline").value_or("");
  return candidate;
}

// Launchers load PyTorch too. Most are known by the ranks below them; before those are there, by
// their own names.
bool is_launcher(const std::string& command) {
  for (const std::string_view name :
       {"torchrun", "torch.distributed.run", "torch.distributed.launch", "torch/distributed/run",
        "accelerate", "deepspeed"})
    if (command.find(name) != std::string::npos) return true;
  return false;
}

}  // namespace

std::vector<TracedProcess> find_traced_processes(const fs::path& proc,
                                                 const std::vector<int>& wanted) {
  std::map<int, Candidate> candidates;
  std::map<int, int> parents;
  for_each_number_in(proc, [&](int pid) {
    if (auto candidate = candidate_of(proc, pid)) candidates.emplace(pid, std::move(*candidate));
    if (const auto stat = read_small_file(proc / std::to_string(pid) / "stat"))
      if (const auto fields = stat_fields_after_name(*stat); fields.size() > 1)
        parents[pid] = static_cast<int>(parse_integer(fields[1]).value_or(0));
  });
  // A loader's worker is a fork: the same command as its parent.
  std::set<int> forks;
  for (const auto& [pid, candidate] : candidates) {
    const auto parent = candidates.find(candidate.parent);
    const bool own_rank = candidate.process.rank && parent != candidates.end() &&
                          candidate.process.rank != parent->second.process.rank;
    if (parent != candidates.end() && parent->second.command == candidate.command && !own_rank)
      forks.insert(pid);
  }
  std::erase_if(candidates, [&](const auto& entry) { return forks.contains(entry.first); });
  std::set<int> launchers;
  const auto ancestors_of = [&](int pid, auto visit) {
    std::set<int> seen;
    for (auto at = parents.find(pid); at != parents.end() && seen.insert(at->first).second;
         at = parents.find(at->second))
      visit(at->second);
  };
  for (const auto& [pid, candidate] : candidates)
    ancestors_of(pid, [&](int ancestor) { launchers.insert(ancestor); });
  std::vector<TracedProcess> result;
  for (auto& [pid, candidate] : candidates) {
    if (launchers.contains(pid) || (is_launcher(candidate.command) && !candidate.process.rank))
      continue;
    bool asked_for = wanted.empty() || std::ranges::find(wanted, pid) != wanted.end();
    int first = pid;  // of those with PyTorch: the program that spawned its ranks itself
    ancestors_of(pid, [&](int ancestor) {
      asked_for = asked_for || std::ranges::find(wanted, ancestor) != wanted.end();
      if (candidates.contains(ancestor)) first = ancestor;
    });
    if (candidate.process.job.empty()) candidate.process.job = std::to_string(first);
    if (asked_for) result.push_back(candidate.process);
  }
  return result;
}

}  // namespace lockstep
