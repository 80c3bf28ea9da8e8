// Rows of one time axis: what each GPU of a group did at each moment, NaN where nothing is known.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

struct Lanes {
  double from_ms = 0;
  double step_ms = 0;
  std::vector<std::vector<double>> rows;  // one a GPU, 0..1

  std::size_t bins() const { return rows.empty() ? 0 : rows.front().size(); }
  double time_of(std::size_t bin) const {
    return from_ms + (static_cast<double>(bin) + 0.5) * step_ms;
  }
};

// The power at which a GPU does nothing and at which it works hard. Seen in the run where the run
// shows it; never nearer to each other than a fifth and half of the limit, or a job that always
// works would read as noise.
struct PowerRange {
  double idle_mw = 0;
  double working_mw = 0;
};
// The lowest power of each GPU, in their order: found once for all of them, for others of a kind
// show what idle is.
std::vector<std::optional<double>> lowest_powers(const Timeline& timeline);
std::optional<PowerRange> power_range(const GpuTrack& gpu, const Timeline& timeline,
                                      const std::vector<std::optional<double>>& lowest_of);

// The usual spacing of a series; nothing with less than three readings.
std::optional<double> spacing_of(const Series<double>& series);

// `series` of each GPU, put on one grid of `step_ms` from `from_ms` to `to_ms`. A reading stands
// for the time up to one and a half spacings around it and no longer: gaps stay unknown.
Lanes busy_lanes(const Timeline& timeline, const std::vector<int>& gpus, double from_ms,
                 double to_ms);
std::optional<Lanes> power_sample_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                        double from_ms, double to_ms);
std::optional<Lanes> plain_power_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                       double from_ms, double to_ms);
// Plain readings that are no means: on GA100 and GPUs before Ampere, read several times a second,
// they show what the sample buffer would.
std::optional<Lanes> instant_power_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                         double from_ms, double to_ms);
std::optional<Lanes> sm_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                              double from_ms, double to_ms);

// Another grid's rows read at the moments of this one.
std::vector<std::vector<double>> rows_on(const Lanes& grid, const Lanes& other);

// Whether SM and memory counters say that a GPU worked at a moment, whatever it drew: one that
// spins in a collective holds a tenth of its SMs and leaves the memory alone. Nothing: not counted
// then.
std::optional<bool> counted_at_work(const GpuTrack& track, double t_ms);

// Moments of stretches of a second and more in which a GPU is low by its power and works by its
// counters: it generates, evaluates, updates. In shorter ones a counter's mean holds both.
std::vector<bool> light_work(const GpuTrack* track, const Lanes& grid, std::size_t row,
                             const std::function<bool(double)>& is_low);

const GpuTrack* find_track(const Timeline& timeline, int gpu);

}  // namespace lockstep
