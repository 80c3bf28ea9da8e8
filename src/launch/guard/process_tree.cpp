#include "launch/guard/process_tree.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

std::optional<TreeProcess> read_process(pid_t pid) {
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  const auto fields = stat_fields_after_name(*text);
  if (fields.size() < 4) return std::nullopt;
  TreeProcess process;
  process.pid = pid;
  process.zombie = fields[0] == "Z" || fields[0] == "X";
  process.parent = static_cast<pid_t>(parse_integer(fields[1]).value_or(0));
  process.session = static_cast<pid_t>(parse_integer(fields[3]).value_or(0));
  return process;
}

}  // namespace

std::vector<TreeProcess> descendants_of(pid_t root) {
  std::multimap<pid_t, TreeProcess> by_parent;
  for_each_number_in("/proc", [&](int pid) {
    if (const auto process = read_process(pid)) by_parent.emplace(process->parent, *process);
  });
  std::vector<TreeProcess> found;
  std::vector<pid_t> to_visit = {root};
  while (!to_visit.empty()) {
    const pid_t parent = to_visit.back();
    to_visit.pop_back();
    const auto [begin, end] = by_parent.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      found.push_back(child->second);
      to_visit.push_back(child->second.pid);
    }
    by_parent.erase(begin, end);  // a tree changes while it is read: nobody is visited twice
  }
  return found;
}

void signal_all(const std::vector<TreeProcess>& processes, int signal) {
  for (const TreeProcess& process : processes)
    if (!process.zombie) ::kill(process.pid, signal);
}

void reap_children() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void end_descendants(std::chrono::nanoseconds grace) {
  const auto forced_from = monotonic_now() + grace;
  signal_all(descendants_of(::getpid()), SIGTERM);
  while (monotonic_now() < forced_from + 60s) {
    reap_children();
    const auto left = descendants_of(::getpid());
    if (std::ranges::all_of(left, [](const TreeProcess& process) { return process.zombie; })) break;
    if (monotonic_now() >= forced_from) signal_all(left, SIGKILL);
    std::this_thread::sleep_for(5ms);
  }
  reap_children();
}

}  // namespace lockstep
