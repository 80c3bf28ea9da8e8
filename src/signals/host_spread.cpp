#include "signals/host_spread.hpp"

#include <algorithm>
#include <map>

#include "signals/statistics.hpp"
#include "signals/turns.hpp"

namespace lockstep {
namespace {

HostInJob measured(const std::string& name, const std::vector<const GpuSignals*>& gpus,
                   const JobSignals& job) {
  HostInJob host;
  host.name = name;
  std::vector<double> busy;
  std::vector<double> sm;
  std::vector<double> clocks;
  for (const GpuSignals* const gpu : gpus) {
    host.gpus.push_back(gpu->index);
    if (host.gpus.size() == 1)
      host.kind = gpu->info.name.value_or("");
    else if (host.kind != gpu->info.name.value_or(""))
      host.kind.clear();
    if (gpu->sm) sm.push_back(*gpu->sm);
    if (gpu->clock_mhz) clocks.push_back(*gpu->clock_mhz);
    for (const GpuInJob& member : job.members) {
      if (member.index != gpu->index) continue;
      if (member.busy) busy.push_back(*member.busy);
    }
  }
  host.busy = mean_of(busy);
  host.sm = mean_of(sm);
  host.clock_mhz = median_of(clocks);
  return host;
}

// One row a machine: the mean of those of its GPUs that were read at the moment.
Lanes lanes_of_hosts(const Activity& activity, const JobSignals& job,
                     const std::vector<HostInJob>& hosts) {
  Lanes lanes{activity.busy.from_ms, activity.busy.step_ms, {}};
  for (const HostInJob& host : hosts) {
    std::vector<const std::vector<double>*> own;
    for (std::size_t gpu = 0; gpu < job.gpus.size() && gpu < activity.busy.rows.size(); ++gpu)
      if (std::ranges::find(host.gpus, job.gpus[gpu]) != host.gpus.end())
        own.push_back(&activity.busy.rows[gpu]);
    std::vector<double> row(activity.busy.bins(), kUnknown);
    for (std::size_t bin = 0; bin < row.size(); ++bin) {
      double sum = 0;
      std::size_t read = 0;
      for (const std::vector<double>* const values : own) {
        if (!known((*values)[bin])) continue;
        sum += (*values)[bin];
        ++read;
      }
      if (read > 0) row[bin] = sum / static_cast<double>(read);
    }
    lanes.rows.push_back(std::move(row));
  }
  return lanes;
}

}  // namespace

std::optional<HostSpread> host_spread(const Activity& activity, const JobSignals& job,
                                      const std::vector<GpuSignals>& gpus) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const GpuSignals*>> of_host;
  for (const GpuSignals& gpu : gpus) {
    if (!gpu.info.host || std::ranges::find(job.gpus, gpu.index) == job.gpus.end()) continue;
    auto& list = of_host[*gpu.info.host];
    if (list.empty()) order.push_back(*gpu.info.host);
    list.push_back(&gpu);
  }
  if (order.size() < 2) return std::nullopt;
  HostSpread spread;
  for (const std::string& name : order) spread.hosts.push_back(measured(name, of_host[name], job));
  if (activity.busy.bins() == 0) return spread;
  const Lanes lanes = lanes_of_hosts(activity, job, spread.hosts);
  spread.turns = turn_signals(lanes, LaneKind::busy, activity.busy.step_ms);
  const std::size_t half = lanes.bins() / 2;
  for (std::size_t i = 0; i < spread.hosts.size() && half > 0; ++i) {
    spread.hosts[i].busy_early = mean_of({lanes.rows[i].data(), half});
    spread.hosts[i].busy_late = mean_of({lanes.rows[i].data() + half, lanes.bins() - half});
  }
  std::vector<double> sums;
  for (std::size_t bin = 0; bin < lanes.bins(); ++bin) {
    double sum = 0;
    for (const auto& row : lanes.rows) sum += row[bin];
    if (known(sum)) sums.push_back(sum);
  }
  spread.busy_sum = median_of(sums).value_or(0);
  return spread;
}

}  // namespace lockstep
