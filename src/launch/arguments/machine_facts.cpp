#include "launch/arguments/machine_facts.hpp"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::optional<double> cores_by_quota() {
  if (const auto text = read_small_file("/sys/fs/cgroup/cpu.max", 256)) {
    const auto parts = split(trim(*text), ' ');
    if (parts.size() == 2) {
      const auto quota = parse_integer(parts[0]);
      const auto period = parse_integer(parts[1]);
      if (quota && period && *period > 0)
        return static_cast<double>(*quota) / static_cast<double>(*period);
    }
    return std::nullopt;
  }
  const auto quota = read_small_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 64);
  const auto period = read_small_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 64);
  if (!quota || !period) return std::nullopt;
  const auto microseconds = parse_integer(trim(*quota));
  const auto of = parse_integer(trim(*period));
  if (!microseconds || !of || *microseconds <= 0 || *of <= 0) return std::nullopt;
  return static_cast<double>(*microseconds) / static_cast<double>(*of);
}

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  std::set<std::string> cores;  // by the processors that share each
  int processors = 0;
  for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    ++processors;
    if (const auto siblings =
            read_small_file("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                                "/topology/thread_siblings_list",
                            256))
      cores.insert(*siblings);
  }
  int usable = cores.empty() ? processors : static_cast<int>(cores.size());
  if (const auto quota = cores_by_quota())
    usable = std::min(usable, static_cast<int>(std::ceil(*quota)));
  return std::max(1, usable);
}

bool is_bound_by_others() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
         CPU_COUNT(&allowed) < ::sysconf(_SC_NPROCESSORS_ONLN);
}

std::optional<int> visible_gpus(const Variables& around) {
  if (const auto count = parse_integer(value_of(around, "LOCKSTEP_VIRTUAL")))
    return static_cast<int>(*count);
  std::error_code problem;
  int present = 0;
  for (fs::directory_iterator entry("/proc/driver/nvidia/gpus", problem), end;
       !problem && entry != end; entry.increment(problem))
    ++present;
  if (problem || present == 0) return std::nullopt;
  // In a container the folder may list more than the devices that were handed in.
  int devices = 0;
  for (fs::directory_iterator entry("/dev", problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("nvidia") && parse_integer(std::string_view(name).substr(6))) ++devices;
  }
  if (devices > 0) present = std::min(present, devices);
  if (!around.contains("CUDA_VISIBLE_DEVICES")) return present;
  const std::string chosen = value_of(around, "CUDA_VISIBLE_DEVICES");
  int count = 0;
  for (const std::string_view entry : split(chosen, ',')) {
    const std::string_view word = trim(entry);
    const auto index = parse_integer(word);
    const bool is_there = index ? *index >= 0 && *index < present
                                : word.starts_with("GPU-") || word.starts_with("MIG-");
    // CUDA stops at the first that is not there; SLURM writes NoDevFiles for none
    if (!is_there) break;
    ++count;
  }
  return count;
}

int listening_socket(int port) {
  const int six = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int file = six >= 0 ? six : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return -errno;
  const int on = 1;
  const int off = 0;
  // as torch's store does: a port just left is free
  ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t size = 0;
  if (six >= 0) {
    ::setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto& own = reinterpret_cast<sockaddr_in6&>(address);
    own.sin6_family = AF_INET6;
    own.sin6_addr = in6addr_any;
    own.sin6_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof own;
  } else {
    auto& own = reinterpret_cast<sockaddr_in&>(address);
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = INADDR_ANY;
    own.sin_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof own;
  }
  if (::bind(file, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(file, SOMAXCONN) != 0) {
    const int problem = errno;
    ::close(file);
    return -problem;
  }
  return file;
}

namespace {

// The first port that the kernel hands out by itself, to whoever connects to somebody.
int first_handed_out() {
  const auto text = read_small_file("/proc/sys/net/ipv4/ip_local_port_range", 64);
  constexpr int kUsual = 32768;
  return text ? static_cast<int>(parse_unsigned(trim(split(*text, '\t').front())).value_or(kUsual))
              : kUsual;
}

}  // namespace

// The rank that listens on it starts seconds later: a port that the kernel hands out may be
// somebody else's by then (seen where four jobs started at once).
std::optional<int> free_port() {
  constexpr int kLowest = 20000;
  constexpr int kTries = 32;
  std::random_device chance;
  if (const int end = first_handed_out(); end > kLowest)
    for (int i = 0; i < kTries; ++i) {
      const int port = std::uniform_int_distribution(kLowest, end - 1)(chance);
      if (cannot_listen_on(port) == 0) return port;
    }
  const int file = listening_socket(0);
  if (file < 0) return std::nullopt;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(file);
  // sin_port and sin6_port lie at the same place.
  return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

int cannot_listen_on(int port) {
  const int file = listening_socket(port);
  if (file < 0) return -file;
  ::close(file);
  return 0;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace lockstep
