#include "runs/trainer_program.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>

#include "base/file.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "sources/open_input.hpp"

namespace lockstep {
namespace {

bool trainer_has_cuda() {
  return std::filesystem::exists(executable_folder().parent_path() / "lib" / "lockstep" /
                                 "liblockstep_train_cuda.so");
}

}  // namespace

Result<std::string> trainer_program() {
  const std::filesystem::path program = executable_folder() / "lockstep-train";
  if (std::filesystem::exists(program)) return program.string();
  return Error{"lockstep-train is not here: this lockstep was built without libtorch",
               "run scripts/setup, which fetches it, and build again; or train your own script "
               "with lockstep launch"};
}

TrainMachine train_machine() {
  TrainMachine machine;
  machine.cores = usable_cores();
  struct sysinfo facts{};
  if (::sysinfo(&facts) == 0) machine.memory_bytes = facts.totalram * facts.mem_unit;
  if (!trainer_has_cuda()) return machine;
  auto source = open_source("", {});
  if (!source || (*source)->kind() != SourceKind::nvml) return machine;
  const std::vector<GpuInfo>& gpus = (*source)->machine().gpus;
  machine.gpus = std::min(static_cast<int>(gpus.size()), visible_gpus(own_variables()).value_or(0));
  if (machine.gpus == 0) return machine;
  machine.gpu_name = gpus.front().name.value_or("");
  machine.memory_bytes = gpus.front().memory_total_bytes.value_or(0);
  for (const GpuInfo& gpu : gpus)
    machine.memory_bytes = std::min(machine.memory_bytes, gpu.memory_total_bytes.value_or(0));
  return machine;
}

std::vector<std::string> as_typed(std::vector<std::string> command) {
  const std::string folder = executable_folder().string() + "/";
  for (std::string& word : command)
    if (word.starts_with(folder)) word.erase(0, folder.size());
  return command;
}

}  // namespace lockstep
