#include "launch/guard/adopted_rank.hpp"

#include <fmt/format.h>

#include "base/slurm.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

std::optional<int> number(const Variables& around, const char* name) {
  const auto found = around.find(name);
  if (found == around.end()) return std::nullopt;
  const auto value = parse_integer(found->second);
  return value && *value >= 0 && *value <= 2'000'000'000 ? std::optional(static_cast<int>(*value))
                                                         : std::nullopt;
}

// An sbatch script has a task's variables too, but is no task of srun's.
bool is_batch_script(const Variables& around) {
  return value_of(around, "ENVIRONMENT") == "BATCH" && !around.contains("SLURM_STEP_ID") &&
         !around.contains("SLURM_STEPID");
}

std::optional<AdoptedRank> rank_of_slurm(const Variables& around) {
  const auto rank = number(around, "SLURM_PROCID");
  const auto world = number(around, "SLURM_STEP_NUM_TASKS") ? number(around, "SLURM_STEP_NUM_TASKS")
                                                            : number(around, "SLURM_NTASKS");
  if (!rank || !world || *world < 2 || is_batch_script(around)) return std::nullopt;
  AdoptedRank adopted{"srun",
                      *rank,
                      *world,
                      number(around, "SLURM_LOCALID").value_or(0),
                      1,
                      number(around, "SLURM_NODEID").value_or(0),
                      number(around, "SLURM_STEP_NUM_NODES")
                          ? *number(around, "SLURM_STEP_NUM_NODES")
                          : number(around, "SLURM_NNODES").value_or(1)};
  // "4", or "4(x2),3": tasks of each machine.
  const std::string per_node =
      value_of(around, around.contains("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE"
                                                                    : "SLURM_TASKS_PER_NODE");
  int at = 0;
  adopted.local_world = std::max(1, *world / std::max(1, adopted.nodes));
  for (const std::string_view part : split(per_node, ',')) {
    const auto bracket = part.find("(x");
    const auto tasks = parse_integer(part.substr(0, bracket));
    const auto times = bracket == std::string_view::npos
                           ? std::optional<std::int64_t>(1)
                           : parse_integer(part.substr(bracket + 2, part.find(')') - bracket - 2));
    if (!tasks || !times || *tasks < 1 || *tasks > 100'000 || *times < 1 || *times > 100'000) break;
    at += static_cast<int>(*times);
    if (adopted.node < at) {
      adopted.local_world = static_cast<int>(*tasks);
      break;
    }
  }
  return adopted;
}

std::optional<AdoptedRank> rank_of_open_mpi(const Variables& around) {
  const auto rank = number(around, "OMPI_COMM_WORLD_RANK");
  const auto world = number(around, "OMPI_COMM_WORLD_SIZE");
  if (!rank || !world || *world < 2) return std::nullopt;
  const int local_world = number(around, "OMPI_COMM_WORLD_LOCAL_SIZE").value_or(*world);
  return AdoptedRank{
      "mpirun",
      *rank,
      *world,
      number(around, "OMPI_COMM_WORLD_LOCAL_RANK").value_or(*rank % std::max(1, local_world)),
      local_world,
      *rank / std::max(1, local_world),
      (*world + local_world - 1) / std::max(1, local_world)};
}

std::optional<AdoptedRank> rank_of_pmi(const Variables& around) {
  const auto rank = number(around, "PMI_RANK");
  const auto world = number(around, "PMI_SIZE");
  if (!rank || !world || *world < 2) return std::nullopt;
  const int local_world =
      number(around, "MPI_LOCALNRANKS").value_or(number(around, "PMI_LOCAL_SIZE").value_or(*world));
  return AdoptedRank{
      "mpiexec",
      *rank,
      *world,
      number(around, "MPI_LOCALRANKID")
          .value_or(number(around, "PMI_LOCAL_RANK").value_or(*rank % std::max(1, local_world))),
      local_world,
      *rank / std::max(1, local_world),
      (*world + local_world - 1) / std::max(1, local_world)};
}

// An mpirun within a Slurm job starts its daemons by srun: their ranks inherit the daemons'
// numbers, so MPI's own count. srun --mpi=pmi2 sets PMI's too, but without the local ones.
std::optional<AdoptedRank> rank_given(const Variables& around) {
  if (auto adopted = rank_of_open_mpi(around)) return adopted;
  if (around.contains("MPI_LOCALRANKID"))
    if (auto adopted = rank_of_pmi(around)) return adopted;
  if (auto adopted = rank_of_slurm(around)) return adopted;
  return rank_of_pmi(around);
}

// Where rank 0 is: the user's word, SLURM's first machine, or here where all ranks are here.
Status find_master(const Variables& around, const AdoptedRank& adopted, LaunchSettings& settings) {
  if (settings.given.contains("--master-addr") || !settings.endpoint.empty()) return Done{};
  if (const std::string address = value_of(around, "MASTER_ADDR"); !address.empty())
    settings.master_address = address;
  // The steps of an mpirun's daemons have lists of their own: its rank 0 is where the job begins.
  else if (const std::string host = first_host(
               value_of(around, adopted.launcher == "srun" && around.contains("SLURM_STEP_NODELIST")
                                    ? "SLURM_STEP_NODELIST"
                                    : "SLURM_JOB_NODELIST"));
           !host.empty() && adopted.nodes > 1)
    settings.master_address = host;
  else if (adopted.nodes > 1)
    return usage_error(
        fmt::format("{} started ranks on {} machines, and nothing says where rank 0 is",
                    adopted.launcher, adopted.nodes),
        "add --master-addr=HOST, or set MASTER_ADDR");
  return Done{};
}

// The same on every machine, and another for every job.
void find_port(const Variables& around, LaunchSettings& settings) {
  if (settings.given.contains("--master-port")) return;
  if (const auto port = number(around, "MASTER_PORT"); port && *port > 0 && *port < 65536)
    settings.master_port = *port;
  else if (const auto job = number(around, "SLURM_JOB_ID"))
    settings.master_port = port_of_job(*job);
}

}  // namespace

Status adopt(const Variables& around, LaunchSettings& settings) {
  const bool user_says = settings.standalone || settings.given.contains("--nnodes") ||
                         settings.given.contains("--node-rank") ||
                         settings.backend == Backend::c10d;
  if (user_says) return Done{};
  const auto adopted = rank_given(around);
  if (!adopted) return Done{};
  if (adopted->rank >= adopted->world || adopted->local_rank >= std::max(adopted->local_world, 1))
    return usage_error(
        fmt::format("{}'s variables make no sense: rank {} of {}, local rank {} of {}",
                    adopted->launcher, adopted->rank, adopted->world, adopted->local_rank,
                    adopted->local_world),
        "unset what is left over of it, or add --standalone");
  const bool one_task_a_machine = adopted->world == adopted->nodes;
  if (settings.given.contains("--nproc-per-node")) {
    if (!one_task_a_machine) {  // an interactive shell within a step has such variables too
      settings.notes.push_back(fmt::format(
          "{} has {} tasks on {} machine{}; with --nproc-per-node each launcher is a job of its "
          "own (--standalone says so; without --nproc-per-node each task is a rank)",
          adopted->launcher, adopted->world, adopted->nodes, adopted->nodes == 1 ? "" : "s"));
      return Done{};
    }
    // One launcher a machine: its ranks are ours to start.
    settings.min_nodes = settings.max_nodes = adopted->nodes;
    settings.node_rank = adopted->node;
    if (Status found = find_master(around, *adopted, settings); !found) return found;
    find_port(around, settings);
    return Done{};
  }
  if (Status found = find_master(around, *adopted, settings); !found) return found;
  find_port(around, settings);
  settings.adopted = *adopted;
  if (settings.max_restarts > 0) {
    settings.notes.push_back(
        fmt::format("--max-restarts: {} has started the ranks one by one, so a restart is for it "
                    "to do; left aside",
                    adopted->launcher));
    settings.max_restarts = 0;
  }
  return Done{};
}

}  // namespace lockstep
