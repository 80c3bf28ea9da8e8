#include "launch/arguments/checks.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"
#include "launch/arguments/machine_facts.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Who listens on a port, by the socket's inode; empty: not to be found out.
std::string listener_on(int port) {
  std::string inode;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = read_small_file(table, 16U << 20U);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n')) {
      std::vector<std::string_view> fields;
      for (const std::string_view word : split(line, ' '))
        if (!word.empty()) fields.push_back(word);
      if (fields.size() > 9 && fields[1].ends_with(wanted) && fields[3] == "0A") inode = fields[9];
    }
  }
  if (inode.empty()) return {};
  const std::string link = fmt::format("socket:[{}]", inode);
  std::string holder;
  for_each_number_in("/proc", [&](int pid) {
    if (!holder.empty()) return;
    std::error_code problem;
    for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), problem), end;
         !problem && entry != end; entry.increment(problem)) {
      std::error_code gone;
      if (fs::read_symlink(entry->path(), gone) != link) continue;
      std::string command =
          read_small_file(fmt::format("/proc/{}/cmdline", pid), 4096).value_or("");
      while (!command.empty() && command.back() == '\0') command.pop_back();
      std::vector<std::string> words;
      for (const std::string_view word : split(command, '\0')) words.emplace_back(word);
      holder = fmt::format("process {} ({})", pid,
                           printable(join(redact_command(words), " ").substr(0, 120)));
      return;
    }
  });
  return holder;
}

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || host.find(':') != std::string::npos;
}

// The number that an option of the script has: --name=8 or --name 8, dashes and underscores alike.
std::optional<std::int64_t> option_of(const std::vector<std::string>& arguments,
                                      const std::string& name) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    std::ranges::replace(word, '-', '_');
    while (!word.empty() && word.front() == '_') word.erase(0, 1);
    if (word == name && i + 1 < arguments.size()) return parse_integer(arguments[i + 1]);
    if (word.starts_with(name + "="))
      return parse_integer(std::string_view(arguments[i]).substr(arguments[i].find('=') + 1));
  }
  return std::nullopt;
}

// The lines of a script without comments and text in quotes of three, each with its number.
template <class Visit>
void for_each_line_of_code(const std::string& text, const Visit& visit) {
  bool quoted = false;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const bool was_quoted = quoted;
    for (std::size_t at = line.find("\"\"\""); at != std::string_view::npos;
         at = line.find("\"\"\"", at + 3))
      quoted = !quoted;
    if (was_quoted || quoted) continue;
    visit(number, line.substr(0, line.find('#')));
  }
}

}  // namespace

std::string in_words(const CheckNote& note) {
  const FindingName& name = name_of(note.code);
  return fmt::format("{} {}: {}", name.id, name.name, note.what);
}

CheckedMachine this_machine(const Variables& around) {
  CheckedMachine machine;
  machine.gpus = visible_gpus(around);
  struct statvfs facts{};
  if (::statvfs("/dev/shm", &facts) == 0) {
    machine.shared_memory = static_cast<std::uint64_t>(facts.f_blocks) * facts.f_frsize;
    machine.shared_memory_free = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  }
  return machine;
}

std::optional<CheckNote> check_gpu_count(int local_ranks, const Variables& around,
                                         const CheckedMachine& machine) {
  // none: a job for the CPU
  if (!machine.gpus || *machine.gpus == 0 || local_ranks <= *machine.gpus) return std::nullopt;
  const std::string chosen = value_of(around, "CUDA_VISIBLE_DEVICES");
  return CheckNote{
      FindingCode::more_ranks_than_gpus,
      fmt::format(
          "{} ranks and {} GPU{}{}", local_ranks, *machine.gpus, *machine.gpus == 1 ? "" : "s",
          chosen.empty() ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", printable(chosen))),
      fmt::format("--nproc-per-node={} or gpu; for a job on the CPU set CUDA_VISIBLE_DEVICES= ; "
                  "--no-checks starts it all the same",
                  *machine.gpus),
      true};
}

std::optional<CheckNote> check_shared_memory(int local_ranks, const CheckedMachine& machine) {
  constexpr std::uint64_t kDockersOwn = 64ULL << 20U;
  // NCCL's buffers between two ranks take some 10 MB, a worker's batches more
  constexpr std::uint64_t kForEachRank = 32ULL << 20U;
  if (machine.shared_memory == 0) return std::nullopt;
  const std::uint64_t wanted =
      std::max(kDockersOwn + 1, kForEachRank * static_cast<std::uint64_t>(local_ranks));
  if (machine.shared_memory_free >= wanted) return std::nullopt;
  return CheckNote{FindingCode::shared_memory_small,
                   fmt::format("/dev/shm has {} free of {} for {} rank{}",
                               format_bytes(static_cast<double>(machine.shared_memory_free)),
                               format_bytes(static_cast<double>(machine.shared_memory)),
                               local_ranks, local_ranks == 1 ? "" : "s"),
                   machine.shared_memory <= kDockersOwn
                       ? "docker run --shm-size=16g (or --ipc=host); in Kubernetes mount an "
                         "emptyDir of medium Memory at /dev/shm"
                       : "see what a crashed run left there: ls -la /dev/shm"};
}

std::optional<CheckNote> check_leftovers(const LaunchSettings& settings, const Variables& around) {
  if (settings.adopted) return std::nullopt;
  if (around.contains("TORCHELASTIC_RUN_ID") && around.contains("RANK"))
    return CheckNote{
        FindingCode::nested_launch,
        fmt::format("this is rank {} of a job already: each of its ranks starts ranks of its own",
                    printable(value_of(around, "RANK"))),
        "call the script once from outside; the ranks started here get their own WORLD_SIZE"};
  if (around.contains("WORLD_SIZE") && around.contains("RANK"))
    return CheckNote{
        FindingCode::ranks_missing,
        fmt::format("WORLD_SIZE={} and RANK={} are set around the launcher; ranks get their own",
                    printable(value_of(around, "WORLD_SIZE")), printable(value_of(around, "RANK"))),
        "unset WORLD_SIZE RANK LOCAL_RANK, so that a later plain python does not wait for ranks "
        "that nobody started"};
  return std::nullopt;
}

std::optional<CheckNote> check_nested(const std::string& script, const std::string& text,
                                      int local_ranks) {
  if (local_ranks < 2) return std::nullopt;
  std::optional<int> where;
  bool asks = false;  // a script that looks for a launcher's variables knows what it does
  for_each_line_of_code(text, [&](int number, std::string_view line) {
    for (const char* call : {"mp.spawn(", "multiprocessing.spawn("})
      if (!where && line.find(call) != std::string_view::npos) where = number;
    for (const char* name :
         {"\"LOCAL_RANK\"", "'LOCAL_RANK'", "is_torchelastic_launched", "TORCHELASTIC_RUN_ID"})
      asks = asks || line.find(name) != std::string_view::npos;
  });
  if (!where || asks) return std::nullopt;
  return CheckNote{FindingCode::nested_launch,
                   fmt::format("{}:{} starts ranks by itself (mp.spawn), and so does the launcher: "
                               "each of {} ranks would",
                               printable(script), *where, local_ranks),
                   "run it with plain python; or take mp.spawn out and read LOCAL_RANK"};
}

std::optional<CheckNote> check_accumulation(const LaunchSettings& settings, const std::string& text,
                                            int world) {
  const auto steps = option_of(settings.script_arguments, "gradient_accumulation_steps");
  if (!steps || *steps <= 0 || world < 2 || *steps % world == 0) return std::nullopt;
  std::optional<int> where;
  for_each_line_of_code(text, [&](int number, std::string_view line) {
    const auto at = line.find("gradient_accumulation_steps");
    if (at == std::string_view::npos || line.find("world_size") == std::string_view::npos) return;
    if (line.find("//=") != std::string_view::npos || line.find('%') != std::string_view::npos)
      where = where.value_or(number);
  });
  if (!where) return std::nullopt;
  return CheckNote{FindingCode::accumulation_not_divisible,
                   fmt::format("--gradient_accumulation_steps={} is divided by {} ranks at {}:{}",
                               *steps, world, printable(settings.script), *where),
                   fmt::format("choose a multiple of {}: {}", world, (*steps / world + 1) * world)};
}

std::optional<CheckNote> check_endpoint(const LaunchSettings& settings, const Endpoint& endpoint) {
  if (settings.standalone || settings.backend == Backend::c10d) return std::nullopt;
  const bool hosts_store =
      settings.node_rank == 0 && (!settings.adopted || settings.adopted->rank == 0);
  if (settings.max_nodes > 1 && !is_address(endpoint.host) && endpoint.host != "localhost") {
    addrinfo* found = nullptr;
    const int problem = ::getaddrinfo(endpoint.host.c_str(), nullptr, nullptr, &found);
    if (found != nullptr) ::freeaddrinfo(found);
    if (problem != 0)
      return CheckNote{FindingCode::host_name_unresolvable,
                       fmt::format("the address '{}' means nothing here: {}",
                                   printable(endpoint.host), ::gai_strerror(problem)),
                       "waiting for it to; or give an IP address, or a name that every machine "
                       "knows: --master-addr=10.0.0.1"};
  }
  if (!hosts_store || endpoint.port == 0) return std::nullopt;
  const int problem = cannot_listen_on(endpoint.port);
  if (problem == 0) return std::nullopt;
  const std::string holder = problem == EADDRINUSE ? listener_on(endpoint.port) : std::string();
  return CheckNote{
      FindingCode::port_in_use,
      fmt::format("port {} cannot be had: {}{}", endpoint.port, std::strerror(problem),
                  holder.empty() ? "" : ", it belongs to " + holder),
      fmt::format("{}--master-port={}",
                  settings.max_nodes > 1 ? "choose another on every machine: "
                                         : "--standalone takes a free one, or choose another: ",
                  endpoint.port < 65000 ? endpoint.port + 100 : endpoint.port - 100),
      true};
}

std::vector<CheckNote> check_launch(const LaunchSettings& settings, int local_ranks,
                                    const Variables& around, const CheckedMachine& machine) {
  std::vector<CheckNote> notes;
  const auto add = [&](std::optional<CheckNote> note) {
    if (note) notes.push_back(std::move(*note));
  };
  constexpr std::size_t kLongestScript = 1U << 20U;
  const bool is_python = !settings.no_python && !settings.module;
  const std::string text =
      is_python ? read_small_file(settings.script, kLongestScript).value_or("") : std::string();
  add(check_gpu_count(local_ranks, around, machine));
  add(check_shared_memory(local_ranks, machine));
  add(check_leftovers(settings, around));
  add(check_nested(settings.script, text, local_ranks));
  add(check_accumulation(
      settings, text,
      settings.adopted ? settings.adopted->world : local_ranks * settings.max_nodes));
  if (const auto endpoint = endpoint_of(settings)) add(check_endpoint(settings, *endpoint));
  return notes;
}

}  // namespace lockstep
