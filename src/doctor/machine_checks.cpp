#include "doctor/machine_checks.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "doctor/platform_notes.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "lockstep/harmful_variables.hpp"

namespace lockstep {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::optional<std::uint64_t> limit_of(rlim_t value) {
  return value == RLIM_INFINITY ? std::nullopt : std::optional(static_cast<std::uint64_t>(value));
}

std::string address_of_own_name(const std::string& host) {
  addrinfo* found = nullptr;
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0 || found == nullptr) return {};
  char text[NI_MAXHOST] = "";
  ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(found);
  return text;
}

void read_clock(MachineState& state) {
  timex clock{};
  const int status = ::adjtimex(&clock);
  state.clock = status < 0                                                 ? "unknown"
                : status == TIME_ERROR || (clock.status & STA_UNSYNC) != 0 ? "not synchronised"
                                                                           : "synchronised";
  state.clock_error_ms = static_cast<double>(clock.maxerror) / 1e3;
}

void read_container(MachineState& state) {
  std::error_code unknown;
  if (std::filesystem::exists("/.dockerenv", unknown))
    state.container.emplace_back("docker (/.dockerenv)");
  if (std::filesystem::exists("/run/.containerenv", unknown))
    state.container.emplace_back("podman (/run/.containerenv)");
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr)
    state.container.emplace_back("Kubernetes (KUBERNETES_SERVICE_HOST)");
  if (std::getenv("APPTAINER_CONTAINER") != nullptr ||
      std::getenv("SINGULARITY_CONTAINER") != nullptr)
    state.container.emplace_back("Apptainer");
  if (state.container.empty() && in_own_pid_namespace("/proc"))
    state.container.emplace_back("a PID namespace of its own");
  state.container_cores = cores_by_quota();
  if (const auto text = read_small_file("/sys/fs/cgroup/memory.max"))
    state.container_memory = parse_unsigned(trim(*text));
}

Check shared_memory_check(const MachineState& state) {
  constexpr std::uint64_t kDockersOwn = 64ULL << 20U;
  // workers hand batches over through it: some hundred MB a GPU, and NCCL 10 MB a pair
  constexpr double kForAGpu = kGiB;
  Check check{"machine", "shared memory for loader workers and NCCL", Answer::unknown,
              "there is no /dev/shm", ""};
  if (!state.shared_memory) return check;
  const double wanted = kForAGpu * std::max(1, state.gpus);
  const bool small = *state.shared_memory <= kDockersOwn;
  check.detail = fmt::format("{} free of {} in /dev/shm",
                             format_bytes(static_cast<double>(state.shared_memory_free)),
                             format_bytes(static_cast<double>(*state.shared_memory)));
  check.answer =
      !small && static_cast<double>(state.shared_memory_free) >= wanted ? Answer::yes : Answer::no;
  if (check.answer == Answer::no)
    check.next = small || static_cast<double>(*state.shared_memory) < wanted
                     ? "docker run --shm-size=16g or --ipc=host; in Kubernetes an emptyDir of "
                       "medium Memory at /dev/shm; lockstep explain L803"
                     : "see what crashed runs left there: ls -la /dev/shm";
  return check;
}

void add_limits(const MachineState& state, Checks& checks) {
  // a rank with 16 workers holds some 500; the usual soft limit is 1024
  constexpr std::uint64_t kFiles = 4096;
  const bool files = !state.open_files || *state.open_files >= kFiles;
  const bool can_raise = !state.open_files_hard || *state.open_files_hard >= kFiles;
  checks.push_back(
      {"machine", "open files (ulimit -n)",
       files       ? Answer::yes
       : can_raise ? Answer::unknown
                   : Answer::no,
       fmt::format("{}{}", state.open_files ? fmt::format("{}", *state.open_files) : "no limit",
                   files || !can_raise ? ""
                                       : ": enough for few loader workers; `ulimit -n 65536` "
                                         "before the job where it ends with 'Too many open files'"),
       files || can_raise
           ? ""
           : "raise the hard limit in /etc/security/limits.conf or the service's LimitNOFILE"});
  const bool matters = state.has_infiniband;
  const bool locked =
      !state.locked_memory || *state.locked_memory >= static_cast<std::uint64_t>(kGiB);
  checks.push_back(
      {"machine", "locked memory (ulimit -l)",
       locked    ? Answer::yes
       : matters ? Answer::no
                 : Answer::unknown,
       fmt::format("{}{}",
                   state.locked_memory ? format_bytes(static_cast<double>(*state.locked_memory))
                                       : "no limit",
                   locked || matters
                       ? ""
                       : "; it matters for InfiniBand alone, which this machine does not have"),
       locked || !matters ? ""
                          : "ulimit -l unlimited; docker run --ulimit memlock=-1: NCCL over "
                            "InfiniBand fails without"});
  constexpr std::uint64_t kProcesses = 4096;
  const bool processes = !state.processes || *state.processes >= kProcesses;
  checks.push_back({"machine", "processes and threads (ulimit -u)",
                    processes ? Answer::yes : Answer::no,
                    state.processes ? fmt::format("{}", *state.processes) : "no limit",
                    processes ? "" : "ulimit -u 65536: each rank starts dozens of threads"});
}

void add_network(const MachineState& state, int port, PortAsked asked, Checks& checks) {
  const bool resolves = !state.host_address.empty();
  const bool loopback = state.host_address.starts_with("127.") || state.host_address == "::1";
  checks.push_back(
      {"network", "this machine's name means an address", resolves ? Answer::yes : Answer::no,
       resolves ? fmt::format("{} is {}{}", printable(state.host), state.host_address,
                              loopback ? ", which other machines cannot reach: jobs over several "
                                         "need --master-addr with one that they can"
                                       : "")
                : fmt::format("{} means nothing here", printable(state.host)),
       resolves ? "" : "add it to /etc/hosts; lockstep explain L804"});
  const Answer port_answer = state.port_problem == 0 ? Answer::yes
                             : asked == PortAsked::by_habit && state.port_problem == EADDRINUSE
                                 ? Answer::unknown
                                 : Answer::no;
  checks.push_back({"network", fmt::format("port {} is free", port), port_answer,
                    state.port_problem == 0 ? "can be listened on"
                    : port_answer == Answer::unknown
                        ? "in use: by a job that runs, or one that was left behind (ss -ltnp); "
                          "lockstep launch --standalone takes a free one"
                        : std::strerror(state.port_problem),
                    port_answer != Answer::no
                        ? ""
                        : "a job that runs already, or one that was left behind (ss -ltnp); "
                          "lockstep launch --standalone takes a free one; lockstep explain L801"});
  const Answer clock = state.clock == "synchronised" ? Answer::yes : Answer::unknown;
  checks.push_back(
      {"network", "the clock is kept right", clock,
       clock == Answer::yes
           ? fmt::format("synchronised, within {:.0f} ms by the kernel's own reckoning",
                         state.clock_error_ms)
           : fmt::format("{}{}", state.clock,
                         state.container.empty() ? "" : ", as far as a container is told"),
       ""});
}

void add_environment(const MachineState& state, Checks& checks) {
  bool any = false;
  std::vector<std::string> names;
  for (const HarmfulVariable& row : kHarmfulVariables) {
    names.emplace_back(row.name);
    const auto entry = state.environment.find(row.name);
    if (entry == state.environment.end() || entry->second != row.value ||
        (row.needs_peers && !state.peer_to_peer))
      continue;
    any = true;
    checks.push_back({"environment", fmt::format("{} does no harm", row.name), Answer::no,
                      fmt::format("{}={}: {}", row.name, row.value, row.why),
                      fmt::format("unset {}; lockstep explain X708", row.name)});
  }
  if (!any)
    checks.push_back({"environment", "no variable that slows training down", Answer::yes,
                      "looked for " + join(names, ", "), ""});
  const auto threads_of = state.environment.find("OMP_NUM_THREADS");
  const auto threads =
      threads_of == state.environment.end() ? std::nullopt : parse_integer(threads_of->second);
  const double cores = state.cores;
  const int ranks = std::max(1, state.gpus);
  if (!threads) {
    checks.push_back(
        {"environment", "threads of a rank fit the cores",
         ranks == 1 ? Answer::yes : Answer::unknown,
         fmt::format(
             "OMP_NUM_THREADS is not set; {:.0f} cores for {} rank{}{}", cores, ranks,
             ranks == 1 ? "" : "s",
             ranks == 1 ? "" : ": torchrun then sets 1, lockstep launch --recommended what fits"),
         ""});
  } else {
    const bool fit = static_cast<double>(*threads) * ranks <= std::max(1.0, cores);
    checks.push_back({"environment", "threads of a rank fit the cores",
                      fit ? Answer::yes : Answer::no,
                      fmt::format("OMP_NUM_THREADS={} for {} rank{} on {:.0f} cores", *threads,
                                  ranks, ranks == 1 ? "" : "s", cores),
                      fit ? ""
                          : fmt::format("OMP_NUM_THREADS={:.0f}; lockstep explain X709",
                                        std::max(1.0, cores / ranks))});
  }
}

void add_container(const MachineState& state, Checks& checks) {
  std::string detail = state.container.empty() ? "the machine itself"
                                               : "a container: " + join(state.container, ", ");
  if (state.container_cores)
    detail += fmt::format("; {:.3g} of {} processors", *state.container_cores, state.processors);
  if (state.container_memory)
    detail +=
        fmt::format("; {} of memory", format_bytes(static_cast<double>(*state.container_memory)));
  const bool starved =
      state.container_cores && state.gpus > 0 && *state.container_cores < 2.0 * state.gpus;
  checks.push_back({"machine", "container's share is enough", starved ? Answer::no : Answer::yes,
                    detail,
                    starved ? "each rank needs a core and its loader workers theirs: ask for at "
                              "least 4 cores a GPU (docker --cpus, resources.limits.cpu)"
                            : ""});
}

}  // namespace

MachineState read_machine_state(int port) {
  MachineState state;
  utsname system{};
  ::uname(&system);
  state.system = fmt::format("{} {} on {}", system.sysname, system.release, system.machine);
  state.platform_notes = platform_notes("/");
  struct statvfs shared{};
  if (::statvfs("/dev/shm", &shared) == 0) {
    state.shared_memory = static_cast<std::uint64_t>(shared.f_blocks) * shared.f_frsize;
    state.shared_memory_free = static_cast<std::uint64_t>(shared.f_bavail) * shared.f_frsize;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    state.open_files = limit_of(limit.rlim_cur);
    state.open_files_hard = limit_of(limit.rlim_max);
  }
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) state.locked_memory = limit_of(limit.rlim_cur);
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0) state.processes = limit_of(limit.rlim_cur);
  state.cores = usable_cores();
  state.processors = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  state.host = host_name();
  state.host_address = address_of_own_name(state.host);
  state.port_problem = cannot_listen_on(port);
  read_clock(state);
  read_container(state);
  const auto keep = [&](const char* name) {
    if (const char* const value = std::getenv(name)) state.environment[name] = value;
  };
  for (const HarmfulVariable& row : kHarmfulVariables) keep(row.name);
  keep("OMP_NUM_THREADS");
  std::error_code unknown;
  const std::filesystem::path infiniband = "/sys/class/infiniband";
  state.has_infiniband = std::filesystem::is_directory(infiniband, unknown) &&
                         !std::filesystem::is_empty(infiniband, unknown);
  return state;
}

Checks machine_checks(const MachineState& state, int port, PortAsked asked) {
  Checks checks;
  checks.push_back({"machine", "served by lockstep",
                    state.platform_notes.empty() ? Answer::yes : Answer::no,
                    state.platform_notes.empty() ? state.system : join(state.platform_notes, "; "),
                    state.platform_notes.empty() ? "" : "see docs/limits.md"});
  add_container(state, checks);
  checks.push_back(shared_memory_check(state));
  add_limits(state, checks);
  add_network(state, port, asked, checks);
  add_environment(state, checks);
  return checks;
}

}  // namespace lockstep
