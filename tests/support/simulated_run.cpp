#include "support/simulated_run.hpp"

#include <cmath>

namespace lockstep::testing {
namespace {

double power_of(Doing doing) {
  return doing == Doing::working    ? kSimulatedWorkingMw
         : doing == Doing::spinning ? kSimulatedSpinningMw
                                    : kSimulatedIdleMw;
}

}  // namespace

Timeline simulate(const std::vector<Behaviour>& gpus, const SimulationOptions& options) {
  Timeline timeline;
  timeline.source_kind = SourceKind::recording;
  timeline.to_ms = options.seconds * 1000;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    GpuTrack track;
    track.info.index = static_cast<int>(i);
    track.info.name = "NVIDIA A100";
    track.info.memory_total_bytes = 40ULL << 30U;
    track.info.power_limit_mw = kSimulatedLimitMw;
    track.info.busy_window_ms = options.window_ms;
    for (double t = 0; t <= timeline.to_ms; t += options.tick_ms) {
      constexpr double kStep = 2;
      double ran = 0;
      double energy = 0;
      double count = 0;
      for (double at = std::max(0.0, t - options.window_ms) + kStep / 2; at < t;
           at += kStep, ++count) {
        ran += gpus[i](at) != Doing::nothing ? 1 : 0;
        energy += power_of(gpus[i](at));
      }
      track.busy.t_ms.push_back(t);
      track.busy.values.push_back(count > 0 ? ran / count : 0);
      track.memory_used_bytes.t_ms.push_back(t);
      track.memory_used_bytes.values.push_back(20.0 * (1ULL << 30U));
      if (!options.plain_power) continue;
      track.power_mw.t_ms.push_back(t);
      track.power_mw.values.push_back(count > 0 ? energy / count : kSimulatedIdleMw);
    }
    if (options.power_samples)
      for (double t = 10; t <= timeline.to_ms; t += 20) {
        track.power_samples_mw.t_ms.push_back(t);
        track.power_samples_mw.values.push_back(power_of(gpus[i](t)));
      }
    timeline.gpus.push_back(std::move(track));
    timeline.machine.gpus.push_back(timeline.gpus.back().info);
  }
  return timeline;
}

Behaviour working_part(double period_ms, double duty, double offset_ms) {
  return [=](double t_ms) {
    const double phase = std::fmod(t_ms - offset_ms + 1000 * period_ms, period_ms) / period_ms;
    return phase < duty ? Doing::working : Doing::nothing;
  };
}

Behaviour working_else_spinning(double period_ms, double duty, double offset_ms) {
  const Behaviour works = working_part(period_ms, duty, offset_ms);
  return
      [=](double t_ms) { return works(t_ms) == Doing::working ? Doing::working : Doing::spinning; };
}

ProcessSample process_on_gpus(int pid, const std::vector<int>& gpus) {
  ProcessSample process;
  process.pid = pid;
  for (const int gpu : gpus) process.gpus.push_back({gpu, 20ULL << 30U});
  process.command = {"python", "train.py"};
  process.environment.emplace();
  process.parent_pid = 10;
  return process;
}

ProcessSample rank_on_gpu(int rank, int world_size, int gpu) {
  ProcessSample process = process_on_gpus(1000 + rank, {gpu});
  process.rank = process.local_rank = rank;
  process.world_size = world_size;
  process.launcher = "torchrun";
  process.environment = {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(world_size)},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "29500"}};
  return process;
}

void put_processes(Timeline& timeline, const ProcessTick& processes) {
  for (double t = timeline.from_ms; t <= timeline.to_ms; t += 2000)
    timeline.process_lists.push_back({t, processes});
}

}  // namespace lockstep::testing
