#include "sources/host/launcher.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

struct Sign {
  std::string_view word;
  std::string_view launcher;
};

// Programs, by the name of the file that runs.
constexpr std::array<Sign, 16> kPrograms = {{{"torchrun", "torchrun"},
                                             {"accelerate", "accelerate"},
                                             {"accelerate-launch", "accelerate"},
                                             {"deepspeed", "deepspeed"},
                                             {"ds", "deepspeed"},
                                             {"srun", "srun"},
                                             {"slurmstepd", "srun"},
                                             {"mpirun", "mpirun"},
                                             {"mpiexec", "mpirun"},
                                             {"orterun", "mpirun"},
                                             {"orted", "mpirun"},
                                             {"prterun", "mpirun"},
                                             {"prted", "mpirun"},
                                             {"mpiexec.hydra", "mpirun"},
                                             {"hydra_pmi_proxy", "mpirun"},
                                             {"horovodrun", "mpirun"}}};
// Modules, as after python -m.
constexpr std::array<Sign, 6> kModules = {{{"torch.distributed.run", "torchrun"},
                                           {"torch.distributed.launch", "torchrun"},
                                           {"torch.distributed.elastic", "torchrun"},
                                           {"accelerate.commands.launch", "accelerate"},
                                           {"deepspeed.launcher", "deepspeed"},
                                           {"deepspeed", "deepspeed"}}};

std::optional<std::string> program_launcher(std::string_view path) {
  // slurmstepd renames itself: "slurmstepd: [42.0]".
  const std::string_view name = base_name(path.substr(0, path.find(':')));
  for (const Sign& sign : kPrograms)
    if (name == sign.word) return std::string(sign.launcher);
  return std::nullopt;
}

// Where a Python command line names what it runs: the script, or the module after -m.
struct PythonTarget {
  std::string_view script;
  std::string_view module;
};
PythonTarget python_target(const Command& command) {
  constexpr std::array<std::string_view, 2> kWithValue = {"-X", "-W"};
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string_view word = command[i];
    if (word == "-m")
      return {{}, i + 1 < command.size() ? std::string_view(command[i + 1]) : std::string_view()};
    if (word == "-c") return {};
    if (std::ranges::find(kWithValue, word) != kWithValue.end()) {
      ++i;
      continue;
    }
    if (!word.starts_with("-")) return {word, {}};
  }
  return {};
}

std::optional<int> number_of_variable(const Environment& environment, const char* name) {
  const auto entry = environment.find(name);
  if (entry == environment.end()) return std::nullopt;
  const auto value = parse_integer(trim(entry->second));
  if (!value || *value < 0 || *value > 10'000'000) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> first_of(const Environment& environment,
                            std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (const auto value = number_of_variable(environment, name)) return value;
  return std::nullopt;
}

// sbatch sets SLURM_PROCID=0 for the batch script itself; only a step of several tasks has ranks.
bool slurm_has_ranks(const Environment& environment) {
  return number_of_variable(environment, "SLURM_PROCID") &&
         number_of_variable(environment, "SLURM_NTASKS").value_or(1) > 1;
}

bool starts_code_with(const Command& command, std::string_view start) {
  for (std::size_t i = 1; i + 1 < command.size(); ++i)
    if (command[i] == "-c") return command[i + 1].starts_with(start);
  return false;
}

}  // namespace

bool is_python(const Command& command) {
  if (command.empty()) return false;
  const std::string_view name = base_name(command[0]);
  return name.starts_with("python") || name.starts_with("pypy");
}

std::optional<std::string> launcher_named_by(const Command& command) {
  if (command.empty()) return std::nullopt;
  if (base_name(command[0]) == "lockstep" && command.size() > 1 &&
      (command[1] == "launch" || command[1] == "train"))
    return "lockstep";
  if (auto launcher = program_launcher(command[0])) return launcher;
  if (!is_python(command)) return std::nullopt;
  const PythonTarget target = python_target(command);
  for (const Sign& sign : kModules)
    if (target.module == sign.word ||
        (target.module.starts_with(sign.word) && target.module[sign.word.size()] == '.'))
      return std::string(sign.launcher);
  return target.script.empty() ? std::nullopt : program_launcher(target.script);
}

bool is_multiprocessing_child(const Command& command) {
  return starts_code_with(command, "from multiprocessing.spawn import spawn_main") ||
         starts_code_with(command, "from multiprocessing.forkserver import main");
}

bool is_multiprocessing_helper(const Command& command) {
  return starts_code_with(command, "from multiprocessing.resource_tracker import main") ||
         starts_code_with(command, "from multiprocessing.semaphore_tracker import main");
}

bool is_forkserver(const Command& command) {
  return starts_code_with(command, "from multiprocessing.forkserver import main");
}

RankNumbers ranks_in(const Environment& environment) {
  RankNumbers numbers;
  numbers.rank = first_of(environment, {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  numbers.local_rank = first_of(environment, {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"});
  numbers.world_size = first_of(environment, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (slurm_has_ranks(environment)) {
    if (!numbers.rank) numbers.rank = number_of_variable(environment, "SLURM_PROCID");
    if (!numbers.local_rank) numbers.local_rank = number_of_variable(environment, "SLURM_LOCALID");
    if (!numbers.world_size) numbers.world_size = number_of_variable(environment, "SLURM_NTASKS");
  }
  return numbers;
}

std::optional<std::string> launcher_hinted_by(const Environment& environment) {
  if (environment.contains("TORCHELASTIC_RUN_ID")) return "torchrun";
  if (environment.contains("OMPI_COMM_WORLD_RANK") || environment.contains("PMI_RANK"))
    return "mpirun";
  if (environment.contains("RANK") && environment.contains("WORLD_SIZE")) return "environment";
  if (slurm_has_ranks(environment)) return "srun";
  return std::nullopt;
}

}  // namespace lockstep
