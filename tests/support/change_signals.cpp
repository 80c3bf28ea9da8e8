#include "support/change_signals.hpp"

#include <algorithm>

namespace lockstep::testing {
namespace {

std::size_t part_of(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kStepSpanNames, name) - kStepSpanNames.begin());
}

void average_ranks(StepSignals& steps, std::size_t part) {
  double sum = 0;
  for (const RankSteps& rank : steps.ranks) sum += rank.share[part];
  steps.share[part] = sum / static_cast<double>(steps.ranks.size());
  steps.p50_ms[part] = steps.share[part] * steps.duration_p50_ms;
  for (RankSteps& rank : steps.ranks) rank.usual_share[part] = rank.share[part];
  if (kStepSpanNames[part] != "collective_exposed") return;
  steps.exposed_on_all = 1;
  for (const RankSteps& rank : steps.ranks)
    steps.exposed_on_all = std::min(steps.exposed_on_all, rank.share[part]);
}

}  // namespace

Signals seen_by_busy_alone(Signals signals) {
  for (JobSignals& job : signals.jobs) {
    if (job.fine) job.fine->kind = LaneKind::busy;
    job.coarse.reset();
    for (GpuInJob& member : job.members) member.work = member.hollow = std::nullopt;
  }
  for (GpuSignals& gpu : signals.gpus) gpu.sm = gpu.tensor = gpu.dram = std::nullopt;
  return signals;
}

Signals without_processes(Signals signals) {
  signals.processes_known = false;
  signals.process_coverage = ProcessCoverage::none;
  for (JobSignals& job : signals.jobs) {
    job.origin = JobOrigin::likeness;
    job.processes.clear();
    job.pids.clear();
    job.ranks.clear();
    job.world_size.reset();
    job.one_process_on_all = false;
    job.host = {};
  }
  return signals;
}

Signals with_steps(Signals signals) {
  JobSignals& job = signals.jobs.front();
  StepSignals& steps = job.steps.emplace();
  steps.count = 200;
  steps.duration_p50_ms = 150;
  steps.last_step_ms = job.to_ms;
  for (int rank = 0; rank < std::max(1, static_cast<int>(job.ranks.size())); ++rank)
    steps.ranks.push_back({rank, 200, 150, {}});
  give_part(steps, "data_wait", 0.01);
  give_part(steps, "copy", 0.01);
  give_part(steps, "forward", 0.3);
  give_part(steps, "backward", 0.55);
  give_part(steps, "collective_exposed", 0.04);
  give_part(steps, "collective_hidden", 0.3);
  give_part(steps, "optimizer", 0.08);
  give_part(steps, "other", 0.01);
  return signals;
}

void give_part(StepSignals& steps, std::string_view part, double share) {
  const std::size_t which = part_of(part);
  for (RankSteps& rank : steps.ranks) rank.share[which] = share;
  steps.present[which] = share > 0 ? 1 : 0;
  average_ranks(steps, which);
}

void give_part_to_rank(StepSignals& steps, int rank, std::string_view part, double share) {
  const std::size_t which = part_of(part);
  for (RankSteps& entry : steps.ranks)
    if (entry.rank == rank) entry.share[which] = share;
  const auto with = std::ranges::count_if(
      steps.ranks, [&](const RankSteps& entry) { return entry.share[which] > 0; });
  steps.present[which] = static_cast<double>(with) / static_cast<double>(steps.ranks.size());
  average_ranks(steps, which);
}

void load_gpu(Signals& signals, int gpu, double busy, double hollow) {
  for (GpuInJob& member : signals.jobs.front().members) {
    if (member.index != gpu) continue;
    member.busy = busy;
    member.hollow = hollow;
    member.work = busy * (1 - hollow);
  }
  signals.gpus[static_cast<std::size_t>(gpu)].busy_fraction = busy;
}

void draw_power(Signals& signals, double of_limit) {
  for (JobSignals& job : signals.jobs)
    for (GpuInJob& member : job.members) {
      GpuSignals& gpu = signals.gpus[static_cast<std::size_t>(member.index)];
      member.power_of_limit = of_limit;
      member.power_mw = gpu.power_mw = of_limit * *gpu.info.power_limit_mw;
    }
}

void stall_every(Signals& signals, double period_ms, const Stall& like, double length_ms) {
  JobSignals& job = signals.jobs.front();
  StallSignals& stalls = job.stalls;
  for (double from = period_ms / 2; from + length_ms < job.to_ms; from += period_ms) {
    stalls.all.push_back(like);
    stalls.all.back().from_ms = from;
    stalls.all.back().to_ms = from + length_ms;
  }
  stalls.share = static_cast<double>(stalls.all.size()) * length_ms / job.to_ms;
  stalls.period_ms = period_ms;
}

void set_environment(Signals& signals, const std::string& name, const std::string& value) {
  for (JobSignals& job : signals.jobs)
    for (ProcessSample& process : job.processes) (*process.environment)[name] = value;
}

void set_libraries(Signals& signals, const std::vector<std::string>& libraries) {
  for (JobSignals& job : signals.jobs)
    for (ProcessSample& process : job.processes) process.libraries = libraries;
}

void limit_clock(Signals& signals, int gpu, ClockLimit limit, double share, double clock_mhz) {
  GpuSignals& limited = signals.gpus[static_cast<std::size_t>(gpu)];
  (*limited.limit_shares)[static_cast<std::size_t>(limit)] = share;
  limited.clock_while_limited_mhz = clock_mhz;
}

}  // namespace lockstep::testing
