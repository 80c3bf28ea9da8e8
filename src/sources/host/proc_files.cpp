#include "sources/host/proc_files.hpp"

#include <algorithm>
#include <array>

#include "base/proc.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

// design.md §5: what may be recorded of an environment. Everything else is the user's own business.
constexpr std::array<std::string_view, 35> kRecordedVariables = {"RANK",
                                                                 "LOCAL_RANK",
                                                                 "WORLD_SIZE",
                                                                 "LOCAL_WORLD_SIZE",
                                                                 "GROUP_RANK",
                                                                 "MASTER_ADDR",
                                                                 "MASTER_PORT",
                                                                 "CUDA_VISIBLE_DEVICES",
                                                                 "NVIDIA_VISIBLE_DEVICES",
                                                                 "SLURM_JOB_ID",
                                                                 "SLURM_PROCID",
                                                                 "SLURM_LOCALID",
                                                                 "SLURM_NODEID",
                                                                 "SLURM_NTASKS",
                                                                 "SLURM_NNODES",
                                                                 "OMPI_COMM_WORLD_RANK",
                                                                 "OMPI_COMM_WORLD_SIZE",
                                                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                                                 "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                                 "PMI_RANK",
                                                                 "PMI_SIZE",
                                                                 "TORCHELASTIC_RUN_ID",
                                                                 "TORCHELASTIC_RESTART_COUNT",
                                                                 "NCCL_DEBUG",
                                                                 "NCCL_P2P_DISABLE",
                                                                 "NCCL_SHM_DISABLE",
                                                                 "NCCL_IB_DISABLE",
                                                                 "NCCL_ALGO",
                                                                 "NCCL_PROTO",
                                                                 "NCCL_SOCKET_IFNAME",
                                                                 "NCCL_RAS_ENABLE",
                                                                 "CUDA_LAUNCH_BLOCKING",
                                                                 "OMP_NUM_THREADS",
                                                                 "TORCH_DISTRIBUTED_DEBUG",
                                                                 "PYTORCH_CUDA_ALLOC_CONF"};

std::vector<std::string_view> fields_of(std::string_view text) {
  std::vector<std::string_view> fields;
  while (true) {
    text = text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.empty()) return fields;
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

std::optional<ProcStat> parse_stat(std::string_view text) {
  const auto fields = stat_fields_after_name(text);
  constexpr std::size_t kState = 0, kParent = 1, kUser = 11, kSystem = 12, kStart = 19;
  if (fields.size() <= kStart || fields[kState].size() != 1) return std::nullopt;
  const auto parent = parse_integer(fields[kParent]);
  const auto user = parse_unsigned(fields[kUser]);
  const auto system = parse_unsigned(fields[kSystem]);
  const auto start = parse_unsigned(fields[kStart]);
  if (!parent || !user || !system || !start) return std::nullopt;
  const auto open = text.find('(');
  return ProcStat{std::string(text.substr(open + 1, text.rfind(')') - open - 1)),
                  fields[kState].front(), static_cast<int>(*parent), *user + *system, *start};
}

ProcStatus parse_status(std::string_view text) {
  ProcStatus status;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("Uid:")) {
      const auto fields = fields_of(line.substr(4));
      const auto id = fields.empty() ? std::nullopt : parse_unsigned(fields[0]);
      if (id) status.user_id = static_cast<unsigned int>(*id);
    } else if (line.starts_with("NSpid:")) {
      for (const std::string_view field : fields_of(line.substr(6)))
        if (const auto pid = parse_integer(field))
          status.namespace_pids.push_back(static_cast<int>(*pid));
    }
  }
  return status;
}

std::vector<std::string> parse_command(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  std::vector<std::string> words;
  if (text.empty()) return words;
  for (const std::string_view word : split(text, '\0')) words.emplace_back(word);
  return words;
}

std::map<std::string, std::string> parse_environment(std::string_view text) {
  std::map<std::string, std::string> recorded;
  for (const std::string_view entry : split(text, '\0')) {
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    if (std::ranges::find(kRecordedVariables, name) != kRecordedVariables.end())
      recorded.emplace(name, entry.substr(equals + 1));
  }
  return recorded;
}

std::optional<std::uint64_t> parse_run_delay(std::string_view text) {
  const auto fields = split(trim(text), ' ');
  return fields.size() >= 2 ? parse_unsigned(fields[1]) : std::nullopt;
}

std::optional<ProcIo> parse_io(std::string_view text) {
  ProcIo io;
  bool found = false;
  for (const std::string_view line : split(text, '\n')) {
    const auto number_after = [&](std::string_view name) -> std::optional<std::uint64_t> {
      return line.starts_with(name) ? parse_unsigned(trim(line.substr(name.size()))) : std::nullopt;
    };
    if (const auto read = number_after("read_bytes:")) {
      io.read_bytes = *read;
      found = true;
    }
    if (const auto written = number_after("write_bytes:")) io.write_bytes = *written;
  }
  return found ? std::optional(io) : std::nullopt;
}

std::vector<std::string> parse_libraries(std::string_view text) {
  struct Sign {
    std::string_view part_of_path;
    std::string_view library;
  };
  constexpr std::array<Sign, 10> kSigns = {{{"/libtorch", "torch"},
                                            {"/libnccl", "nccl"},
                                            {"/libcudart", "cudart"},
                                            {"/libcuda.so", "cuda"},
                                            {"deepspeed", "deepspeed"},
                                            {"/libhorovod", "horovod"},
                                            {"/horovod/", "horovod"},
                                            {"/libmpi.so", "mpi"},
                                            {"/tensorflow/", "tensorflow"},
                                            {"/jaxlib/", "jax"}}};
  std::vector<std::string> found;
  for (const std::string_view line : split(text, '\n')) {
    const auto path_at = line.find('/');
    if (path_at == std::string_view::npos) continue;
    const std::string_view path = line.substr(path_at);
    for (const Sign& sign : kSigns)
      if (path.find(sign.part_of_path) != std::string_view::npos &&
          std::ranges::find(found, sign.library) == found.end())
        found.emplace_back(sign.library);
  }
  std::ranges::sort(found);
  return found;
}

std::map<unsigned int, std::string> parse_passwd(std::string_view text) {
  std::map<unsigned int, std::string> users;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split(line, ':');
    const auto id = fields.size() > 2 ? parse_unsigned(fields[2]) : std::nullopt;
    if (id) users.emplace(static_cast<unsigned int>(*id), std::string(fields[0]));
  }
  return users;
}

}  // namespace lockstep
