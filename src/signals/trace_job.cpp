#include "signals/trace_job.hpp"

#include <utility>

#include "signals/step_times.hpp"

namespace lockstep {

Signals signals_of_trace(const Timeline& timeline, TraceSignals trace) {
  Signals signals;
  signals.duration_s = (timeline.to_ms - timeline.from_ms) / 1e3;
  signals.processes_known = true;
  JobSignals job;
  job.from_ms = timeline.from_ms;
  job.to_ms = timeline.to_ms;
  job.active = true;
  job.world_size = trace.world_size;
  for (const GpuTrack& track : timeline.gpus) {
    double busy = 0;
    for (const double value : track.busy.values)
      busy += value / static_cast<double>(track.busy.size());
    GpuSignals gpu;
    gpu.index = track.info.index;
    gpu.info = track.info;
    gpu.busy_fraction = busy;
    signals.gpus.push_back(gpu);
    job.gpus.push_back(track.info.index);
    GpuInJob member;
    member.index = track.info.index;
    member.busy = busy;
    job.members.push_back(member);
  }
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes) {
      job.processes.push_back(process);
      if (process.pid > 0) job.pids.push_back(process.pid);
      if (process.rank && list.processes.size() > 1) job.ranks.push_back(*process.rank);
    }
  job.one_process_on_all = job.processes.size() == 1;
  job.steps = step_signals(timeline.steps, WarmUp::keep);
  signals.jobs.push_back(std::move(job));
  signals.trace = std::move(trace);
  return signals;
}

}  // namespace lockstep
