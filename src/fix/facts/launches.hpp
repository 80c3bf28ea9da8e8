// How the scripts of a project are started: every command line that runs one, by which launcher,
// with how many processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fix/project/project.hpp"

namespace lockstep {

enum class Launcher : std::uint8_t {
  python,
  torchrun,
  torch_distributed_launch,
  accelerate,
  deepspeed,
  mpi
};

struct Launch {
  FileId file = 0;  // where the line stands
  const CommandLineInText* line = nullptr;
  Launcher launcher = Launcher::python;
  std::size_t first_word = 0;        // the launcher's own words: from here
  std::size_t script_word = 0;       // up to here, where the script or the module stands
  bool is_module = false;            // python -m pkg.train
  std::vector<std::string> options;  // of the launcher, as far as they are known
  std::optional<FileId> script;
  std::optional<int> processes;  // on this machine, when the line says so
  std::optional<FileId> config;  // accelerate's --config_file
  bool under_srun = false;

  // The script's own arguments, as far as they are known.
  std::vector<std::string> arguments() const;
  bool is_distributed() const { return launcher != Launcher::python && processes.value_or(2) > 1; }
};

std::vector<Launch> launches_in(const Project& project, FileId file);
std::vector<Launch> all_launches(const Project& project);

// How many GPUs a line's processes can see: the entries of CUDA_VISIBLE_DEVICES on the way to it,
// else what the job asks SLURM or Kubernetes for. Nothing: not known before it runs.
struct VisibleGpus {
  std::optional<int> count;
  std::string from;  // "CUDA_VISIBLE_DEVICES=0,1"
};
VisibleGpus visible_gpus(const Project& project, const Launch& launch);
// "0,1" is two, "" and "-1" are none.
std::optional<int> device_count(std::string_view list);

}  // namespace lockstep
