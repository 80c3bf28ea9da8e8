#include "reference_trainer/rank_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text.hpp"
#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

std::optional<int> number(const GetVariable& get, const char* name) {
  const char* const text = get(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const auto value = parse_integer(text);
  if (!value || *value < 0 || *value > 1'000'000)
    throw TrainFailure(usage_error(fmt::format("{}={} is no number of a rank", name, printable(text)), fmt::format("unset {}, or start the ranks with `lockstep launch`", name)));
  return static_cast<int>(*value);
}

// The variables of the launchers, the most particular first: torchrun and lockstep launch may run under the others.
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
    {"open mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES"},
};

}  // namespace

RankFacts rank_from_environment(const GetVariable& get) {
  RankFacts facts;
  for (const LauncherVariables& names : kLaunchers) {
    const auto rank = number(get, names.rank);
    const auto world = number(get, names.world);
    if (!rank || !world) continue;
    // sbatch gives its batch script SLURM_PROCID=0 too; srun alone gives a step its number.
    if (std::strcmp(names.launcher, "slurm") == 0 && get("SLURM_STEP_ID") == nullptr) {
      if (*world > 1) facts.note = fmt::format("SLURM_NTASKS={} is set, but this is no step of srun: training alone", *world);
      continue;
    }
    facts.launcher = names.launcher;
    facts.rank = *rank;
    facts.world = *world;
    facts.local_rank = number(get, names.local_rank).value_or(facts.rank);
    const auto local_world = number(get, names.local_world);
    const int nodes = names.nodes != nullptr ? number(get, names.nodes).value_or(1) : 1;
    facts.local_world = local_world.value_or(std::max(1, facts.world / std::max(1, nodes)));
    const bool several_machines = facts.local_world < facts.world;
    if (several_machines && get("MASTER_ADDR") == nullptr)
      throw TrainFailure(usage_error(fmt::format("{} started ranks on several machines, and MASTER_ADDR does not say where they meet", facts.launcher),
                                     "export MASTER_ADDR=<first machine>, or start through `lockstep launch` on each of them"));
    break;
  }
  if (const char* const address = get("MASTER_ADDR"); address != nullptr && *address != '\0') facts.master_address = address;
  facts.master_port = number(get, "MASTER_PORT").value_or(facts.master_port);
  facts.attempt = number(get, "TORCHELASTIC_RESTART_COUNT").value_or(0);
  const char* const agent_store = get("TORCHELASTIC_USE_AGENT_STORE");
  facts.launcher_has_store = agent_store != nullptr && std::strcmp(agent_store, "True") == 0;
  if (facts.launcher.empty() && number(get, "WORLD_SIZE").value_or(1) > 1)
    throw TrainFailure(usage_error(fmt::format("WORLD_SIZE={} and no RANK: each process would train a model of its own", *number(get, "WORLD_SIZE")), "start the ranks with `lockstep launch --nproc-per-node N`, or unset WORLD_SIZE"));
  if (facts.world < 1 || facts.rank >= facts.world)
    throw TrainFailure(usage_error(fmt::format("rank {} of {} does not exist", facts.rank, facts.world), "start the ranks with `lockstep launch --nproc-per-node N`"));
  return facts;
}

}  // namespace lockstep
