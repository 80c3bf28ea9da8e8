// What the GPUs of a trace do together.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "detectors/split/pattern.hpp"
#include "detectors/trace/judge_devices.hpp"
#include "detectors/trace/trace_detectors.hpp"

namespace lockstep {

JobVerdict judge_devices(const DeviceTurns& turns) {
  constexpr double kTurns = 0.8;
  constexpr double kLeads = 1.25;
  constexpr double kTogether = 0.5;
  const std::string gpus = gpu_names(turns.devices);
  const std::size_t working = static_cast<std::size_t>(
      std::ranges::count_if(turns.busy, [](double busy) { return busy > 0.02; }));
  if (working < 2)
    return {
        {Pattern::single_gpu, 0.9, "one process holds " + gpus + ", and only one of them computes"},
        {}};
  if (turns.exclusive >= kTurns && turns.hand_overs >= 2)
    return {{Pattern::taking_turns, 0.98,
             gpus + " take turns: exactly one computes " + percent(turns.exclusive) +
                 " of the time in which any does, with " + std::to_string(turns.hand_overs) +
                 " hand-overs"},
            {}};
  const double first = turns.busy.front();
  const double others = std::accumulate(turns.busy.begin() + 1, turns.busy.end(), 0.0) /
                        static_cast<double>(turns.busy.size() - 1);
  if (turns.data_parallel || first > kLeads * others)
    return {{Pattern::one_leads, turns.data_parallel ? 0.95 : 0.7,
             gpus + " work for one process, and GPU " + std::to_string(turns.devices.front()) +
                 " leads: busy " + percent(first) + " against " + percent(others)},
            {}};
  if (turns.exclusive > kTogether)
    return {{Pattern::pipeline, 0.7,
             gpus + " of one process overlap, but exactly one computes " +
                 percent(turns.exclusive) + " of the time"},
            {}};
  return {{Pattern::in_step, 0.8, gpus + " of one process compute at the same time"}, {}};
}

JobVerdict judge_trace(const JobSignals& job, const TraceSignals& trace) {
  if (trace.turns) return judge_devices(*trace.turns);
  if (trace.ranks.size() > 1) {
    constexpr double kTogether = 0.2;
    double least = 1;
    for (const GpuInJob& member : job.members) least = std::min(least, member.busy.value_or(1));
    const bool some = trace.world_size && *trace.world_size > static_cast<int>(trace.ranks.size());
    const std::string together =
        std::to_string(trace.ranks.size()) +
        (some ? " of " + std::to_string(*trace.world_size) : std::string()) + " ranks";
    if (trace.ranks_together >= kTogether || trace.collectives >= 3)
      return {{Pattern::in_step, trace.collectives >= 3 ? some ? 0.8 : 0.95 : 0.7,
               together + " work in step: the least busy GPU is busy " + percent(least) +
                   " of the time" +
                   (trace.collectives > 0
                        ? ", and they meet at " + std::to_string(trace.collectives) + " collectives"
                        : "")},
              {}};
    return {{Pattern::unclear, 0.4,
             together + " compute at different times and share no collective: traces of one run, "
                        "taken at the same moment, would tell"},
            {}};
  }
  const double busy = job.members.empty() ? 0 : job.members.front().busy.value_or(0);
  const bool communicates = std::ranges::any_of(
      trace.breakdown.ranks, [](const RankBreakdown& one) { return one.communication_us > 0; });
  if (communicates)
    return {
        {Pattern::in_step, 0.7,
         "one rank" +
             (trace.world_size && *trace.world_size > 1 ? " of " + std::to_string(*trace.world_size)
                                                        : std::string()) +
             ", which meets the others at collectives: its GPU is busy " + percent(busy) +
             " of the time; the traces of the others would show who waits for whom"},
        {}};
  return {{Pattern::single_gpu, 0.95,
           gpu_names(job.gpus) + " works alone, busy " + percent(busy) + " of the time"},
          {}};
}

std::vector<Finding> inspect_trace(const JobSignals& job, const TraceSignals& trace,
                                   Pattern pattern) {
  constexpr double kAstray = 0.15;
  double sure = trace.steps >= 2 ? 0.99 : 0.75;
  if (std::abs(trace.replay_error) > kAstray) sure = std::min(sure, 0.6);
  const SeenTrace seen{job, trace, pattern, sure};
  std::vector<Finding> findings;
  find_host_delays(seen, findings);
  find_collective_losses(seen, findings);
  find_device_losses(seen, findings);
  return findings;
}

}  // namespace lockstep
