#include "reference_trainer/rank_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/slurm.hpp"
#include "base/text.hpp"
#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

std::optional<int> number(const GetVariable& get, const char* name) {
  const char* const text = get(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const auto value = parse_integer(text);
  if (!value || *value < 0 || *value > 1'000'000)
    throw TrainFailure(
        usage_error(fmt::format("{}={} is no number of a rank", name, printable(text)),
                    fmt::format("unset {}, or start the ranks with `lockstep launch`", name)));
  return static_cast<int>(*value);
}

// The variables of the launchers, the most particular first: torchrun and lockstep launch may run
// under the others. An mpirun within a Slurm job starts its daemons by srun, and their ranks
// inherit the daemons' numbers; srun --mpi=pmi2 sets PMI's too, without the local ones.
struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  const char* nodes;
};
constexpr LauncherVariables kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    {"open mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
     "SLURM_NNODES"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", nullptr},
};

// Where the ranks meet: the user's word, or Slurm's first machine and a port of the job's own.
void find_meeting(const GetVariable& get, RankFacts& facts) {
  const auto text = [&](const char* name) {
    return get(name) != nullptr ? std::string(get(name)) : std::string();
  };
  const bool several_machines = facts.local_world < facts.world;
  facts.master_port = number(get, "MASTER_PORT").value_or(facts.master_port);
  if (const std::string address = text("MASTER_ADDR"); !address.empty()) {
    facts.master_address = address;
    return;
  }
  if (!several_machines) return;
  const std::string nodes = text("SLURM_STEP_NODELIST");
  const std::string host = facts.launcher == "slurm"
                               ? first_host(nodes.empty() ? text("SLURM_JOB_NODELIST") : nodes)
                               : std::string();
  if (host.empty())
    throw TrainFailure(usage_error(
        fmt::format(
            "{} started ranks on several machines, and MASTER_ADDR does not say where they meet",
            facts.launcher),
        "export MASTER_ADDR=<first machine>, or start through `lockstep launch` on each of them"));
  facts.master_address = host;
  const auto job = parse_integer(text("SLURM_JOB_ID"));
  if (job && *job >= 0 && get("MASTER_PORT") == nullptr) facts.master_port = port_of_job(*job);
}

}  // namespace

RankFacts rank_from_environment(const GetVariable& get) {
  RankFacts facts;
  for (const LauncherVariables& names : kLaunchers) {
    const auto rank = number(get, names.rank);
    // Of a Slurm step its own numbers, where it has them: a shell of salloc's keeps the job's
    // beside them.
    const bool of_slurm = std::strcmp(names.launcher, "slurm") == 0;
    const auto step_tasks = of_slurm ? number(get, "SLURM_STEP_NUM_TASKS") : std::nullopt;
    const auto world = step_tasks ? step_tasks : number(get, names.world);
    if (!rank || !world) continue;
    if (std::strcmp(names.launcher, "hydra") == 0 && get(names.local_rank) == nullptr) continue;
    // sbatch gives its batch script SLURM_PROCID=0 too; srun alone gives a step its number.
    if (of_slurm && get("SLURM_STEP_ID") == nullptr) {
      if (*world > 1)
        facts.note = fmt::format(
            "SLURM_NTASKS={} is set, but this is no step of srun: training alone", *world);
      continue;
    }
    facts.launcher = names.launcher;
    facts.rank = *rank;
    facts.world = *world;
    facts.local_rank = number(get, names.local_rank).value_or(facts.rank);
    const auto local_world = number(get, names.local_world);
    const auto step_nodes = of_slurm ? number(get, "SLURM_STEP_NUM_NODES") : std::nullopt;
    const int nodes = step_nodes               ? *step_nodes
                      : names.nodes != nullptr ? number(get, names.nodes).value_or(1)
                                               : 1;
    facts.local_world = local_world.value_or(std::max(1, facts.world / std::max(1, nodes)));
    break;
  }
  find_meeting(get, facts);
  facts.attempt = number(get, "TORCHELASTIC_RESTART_COUNT").value_or(0);
  const char* const agent_store = get("TORCHELASTIC_USE_AGENT_STORE");
  facts.launcher_has_store = agent_store != nullptr && std::strcmp(agent_store, "True") == 0;
  if (facts.launcher.empty() && number(get, "WORLD_SIZE").value_or(1) > 1)
    throw TrainFailure(usage_error(
        fmt::format("WORLD_SIZE={} and no RANK: each process would train a model of its own",
                    *number(get, "WORLD_SIZE")),
        "start the ranks with `lockstep launch --nproc-per-node N`, or unset WORLD_SIZE"));
  if (facts.world < 1 || facts.rank >= facts.world)
    throw TrainFailure(
        usage_error(fmt::format("rank {} of {} does not exist", facts.rank, facts.world),
                    "start the ranks with `lockstep launch --nproc-per-node N`"));
  return facts;
}

}  // namespace lockstep
