#include "launch/ranks/rank_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"

namespace lockstep {
namespace {

// Each rank's own GPU as its device 0: its entry of the launcher's list, or its number where there
// is no list.
Result<std::string> own_gpu(const Variables& around, int local_rank) {
  const auto list = around.find("CUDA_VISIBLE_DEVICES");
  if (list == around.end()) return std::to_string(local_rank);
  const auto entries = split(list->second, ',');
  if (static_cast<std::size_t>(local_rank) >= entries.size())
    return usage_error(
        fmt::format("local rank {} has no GPU in CUDA_VISIBLE_DEVICES={}", local_rank,
                    printable(list->second)),
        fmt::format("name as many GPUs as ranks, or start {} ranks", entries.size()));
  return std::string(trim(entries[static_cast<std::size_t>(local_rank)]));
}

}  // namespace

Result<Variables> rank_variables(const LaunchSettings& settings, const GroupPlace& place,
                                 int local_rank, const Variables& around, int threads,
                                 const RankFiles& files) {
  Variables variables = around;
  const int rank = place.first_rank + local_rank;
  variables["RANK"] = std::to_string(rank);
  const int own_number = place.local_number(local_rank);
  const int local_world = place.local_world();
  variables["LOCAL_RANK"] = std::to_string(settings.virtual_local_rank ? 0 : own_number);
  variables["WORLD_SIZE"] = std::to_string(place.world);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(local_world);
  variables["GROUP_RANK"] = std::to_string(place.node);
  variables["GROUP_WORLD_SIZE"] = std::to_string(place.nodes);
  variables["ROLE_NAME"] = settings.role;
  variables["ROLE_RANK"] = std::to_string(rank);  // one role a job, as on torchrun's command line
  variables["ROLE_WORLD_SIZE"] = std::to_string(place.world);
  variables["MASTER_ADDR"] = place.master_address;
  variables["MASTER_PORT"] = std::to_string(place.master_port);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(place.attempt);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(settings.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = place.run_id;
  // torchrun says True and keeps the store in its own process, where it outlives a failed attempt.
  // Here rank 0 hosts it, but where torchrun's machines take part.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = place.agent_store ? "True" : "False";
  variables["TORCHELASTIC_ERROR_FILE"] = files.error_file;
  variables["TORCHELASTIC_SIGNALS_TO_HANDLE"] = settings.signals_to_handle;
  variables.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (local_world > 1) variables.try_emplace("OMP_NUM_THREADS", std::to_string(threads));
  if (!files.nccl_file.empty()) {
    variables["NCCL_DEBUG"] = "INFO";
    variables["NCCL_DEBUG_FILE"] = files.nccl_file;
  }
  if (settings.virtual_local_rank) {
    auto gpu = TRY(own_gpu(around, own_number));
    variables["CUDA_VISIBLE_DEVICES"] = gpu;
  }
  return variables;
}

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::vector<std::string> as_entries(const Variables& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

Variables without_launcher(Variables variables) {
  for (const char* const name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"})
    variables.erase(name);
  std::erase_if(variables, [](const auto& entry) {
    for (const char* const family :
         {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS",
          "SLURM_TASK", "SLURM_STEP", "SLURM_GTIDS", "SLURM_SRUN_", "OMPI_COMM_WORLD_", "PMI_",
          "PMIX_", "MPI_LOCAL", "TORCHELASTIC_"})
      if (entry.first.starts_with(family)) return true;
    return false;
  });
  return variables;
}

}  // namespace lockstep
