#include "signals/host_load.hpp"

#include <algorithm>
#include <map>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

bool contains(const std::vector<int>& pids, int pid) {
  return std::ranges::find(pids, pid) != pids.end();
}

struct Counter {
  double first_ms = 0;
  double first = 0;
  double last_ms = 0;
  double last = 0;
  bool seen = false;

  void add(double t_ms, const std::optional<std::uint64_t>& value) {
    if (!value) return;
    if (!seen) {
      first_ms = t_ms;
      first = static_cast<double>(*value);
    }
    seen = true;
    last_ms = t_ms;
    last = std::max(last, static_cast<double>(*value));
  }
};

std::optional<double> rate_of(const std::map<int, Counter>& counters) {
  std::optional<double> rate;
  for (const auto& [pid, counter] : counters)
    if (counter.seen && counter.last_ms > counter.first_ms)
      rate = rate.value_or(0) +
             (counter.last - counter.first) / ((counter.last_ms - counter.first_ms) / 1e3);
  return rate;
}

std::optional<double> written_by(const Timeline& timeline, const std::vector<int>& pids,
                                 double t_ms, bool before) {
  const ProcessList* chosen = nullptr;
  for (const ProcessList& list : timeline.process_lists) {
    if (before && list.t_ms <= t_ms) chosen = &list;
    if (!before && list.t_ms >= t_ms) {
      chosen = &list;
      break;
    }
  }
  if (chosen == nullptr) return std::nullopt;
  std::optional<double> bytes;
  for (const ProcessSample& process : chosen->processes)
    if (contains(pids, process.pid) && process.write_bytes)
      bytes = bytes.value_or(0) + static_cast<double>(*process.write_bytes);
  return bytes;
}

}  // namespace

HostSignals host_signals(const Timeline& timeline, const std::vector<int>& pids, double from_ms,
                         double to_ms) {
  HostSignals host;
  const auto within = [&](const ProcessList& list) {
    return list.t_ms >= from_ms && list.t_ms <= to_ms;
  };
  const bool any_within = std::ranges::any_of(timeline.process_lists, within);
  std::map<int, int> workers;  // the most of each rank: they come and go with each epoch
  std::vector<double> cpu;
  std::vector<double> cpu_wait;
  std::map<int, Counter> read;
  std::map<int, Counter> written;
  double looks = 0;
  for (const ProcessList& list : timeline.process_lists) {
    if (any_within && !within(list)) continue;
    for (const ProcessSample& process : list.processes) {
      if (!contains(pids, process.pid)) continue;
      if (process.cpu) cpu.push_back(*process.cpu);
      if (process.cpu_wait) cpu_wait.push_back(*process.cpu_wait);
      if (process.loader_workers)
        workers[process.pid] = std::max(workers[process.pid], *process.loader_workers);
      if (process.state) {
        ++looks;
        if (*process.state == 'D') ++host.waiting_for_disk;
        if (*process.state == 'R') ++host.runnable;
      }
      read[process.pid].add(list.t_ms, process.read_bytes);
      written[process.pid].add(list.t_ms, process.write_bytes);
    }
  }
  for (const auto& [pid, count] : workers) {
    host.loader_workers = std::min(host.loader_workers.value_or(count), count);
    host.most_loader_workers = std::max(host.most_loader_workers.value_or(0), count);
  }
  if (looks > 0) {
    host.waiting_for_disk /= looks;
    host.runnable /= looks;
  }
  host.looks = static_cast<int>(looks);
  host.main_cpu = mean_of(cpu);
  host.waiting_for_cpu = mean_of(cpu_wait);
  host.read_bytes_s = rate_of(read);
  host.write_bytes_s = rate_of(written);
  return host;
}

std::optional<double> written_between(const Timeline& timeline, const std::vector<int>& pids,
                                      double from_ms, double to_ms) {
  const auto before = written_by(timeline, pids, from_ms, true);
  const auto after = written_by(timeline, pids, to_ms, false);
  if (!before || !after) return std::nullopt;
  return std::max(0.0, *after - *before);
}

}  // namespace lockstep
