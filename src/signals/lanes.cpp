#include "signals/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

// idle power is 0.05 to 0.2 of the limit: T4 10/70, A100 60/400, H200 75/700 W
constexpr double kIdleOfLimit = 0.2;
// the least that steady training draws: 126 of 300 W on an RTX 6000 Ada
constexpr double kWorkingOfLimit = 0.5;
// 2.2 h of 20 ms samples; longer runs get a coarser grid
constexpr std::size_t kMostBins = 400'000;
constexpr double kReachSpacings = 1.5;
// Logs of a reading a second, whose stamps drift by a millisecond.
constexpr double kCoarseMs = 500;
constexpr double kDriftMs = 5;
// SMs: a GPU that never has a fifth of them at work is not a lane full of noise
constexpr double kLeastFull = 0.2;

bool lanes_alike(const GpuInfo& a, const GpuInfo& b) {
  return a.name == b.name && a.power_limit_mw.has_value() == b.power_limit_mw.has_value();
}

const Series<double>& finest_power(const GpuTrack& gpu) {
  return gpu.power_samples_mw.empty() ? gpu.power_mw : gpu.power_samples_mw;
}

Lanes empty_grid(double from_ms, double to_ms, double step_ms, std::size_t gpus) {
  Lanes lanes;
  lanes.from_ms = from_ms;
  const double length = std::max(0.0, to_ms - from_ms);
  lanes.step_ms = std::max({step_ms, length / static_cast<double>(kMostBins), 1e-3});
  const auto bins = static_cast<std::size_t>(std::floor(length / lanes.step_ms)) + 1;
  lanes.rows.assign(gpus, std::vector<double>(bins, kUnknown));
  return lanes;
}

// Each bin takes the reading nearest to its middle, when one is near enough; of two that are
// equally near the later, which speaks of the time before it. Clocks drift by a millisecond:
// without a little room one reading counts twice and the next not at all.
void lay(const Series<double>& series, const std::function<double(double)>& scale,
         const Lanes& grid, std::vector<double>& row) {
  if (series.empty()) return;
  const double reach =
      kReachSpacings * std::max(spacing_of(series).value_or(grid.step_ms), grid.step_ms);
  const double room = grid.step_ms >= kCoarseMs ? kDriftMs : 0;
  std::size_t at = 0;
  for (std::size_t bin = 0; bin < row.size(); ++bin) {
    const double middle = grid.time_of(bin);
    while (at + 1 < series.size() &&
           std::abs(series.t_ms[at + 1] - middle) <= std::abs(series.t_ms[at] - middle) + room)
      ++at;
    if (std::abs(series.t_ms[at] - middle) <= reach) row[bin] = scale(series.values[at]);
  }
}

std::optional<Lanes> make_lanes(
    const Timeline& timeline, const std::vector<int>& gpus, double from_ms, double to_ms,
    const std::function<const Series<double>&(const GpuTrack&)>& pick,
    const std::function<std::optional<std::function<double(double)>>(const GpuTrack&)>& scale_of) {
  std::optional<double> step;
  std::size_t rows_read = 0;
  for (const int gpu : gpus) {
    const GpuTrack* const track = find_track(timeline, gpu);
    const auto spacing = track != nullptr ? spacing_of(pick(*track)) : std::nullopt;
    if (!spacing) continue;  // its row stays unknown: one lost GPU does not blind the rest
    step = std::max(step.value_or(0), *spacing);
    ++rows_read;
  }
  if (!step || rows_read < std::min<std::size_t>(2, gpus.size())) return std::nullopt;
  Lanes lanes = empty_grid(from_ms, to_ms, *step, gpus.size());
  for (std::size_t row = 0; row < gpus.size(); ++row) {
    const GpuTrack* const track = find_track(timeline, gpus[row]);
    if (track == nullptr || !spacing_of(pick(*track))) continue;
    const auto scale = scale_of(*track);
    if (!scale) return std::nullopt;
    lay(pick(*track), *scale, lanes, lanes.rows[row]);
  }
  return lanes;
}

std::optional<Lanes> power_lanes(
    const Timeline& timeline, const std::vector<int>& gpus, double from_ms, double to_ms,
    const std::function<const Series<double>&(const GpuTrack&)>& pick) {
  const std::vector<std::optional<double>> lowest = lowest_powers(timeline);
  return make_lanes(timeline, gpus, from_ms, to_ms, pick,
                    [&](const GpuTrack& track) -> std::optional<std::function<double(double)>> {
                      const auto range = power_range(track, timeline, lowest);
                      if (!range) return std::nullopt;
                      return [range = *range](double milliwatts) {
                        return std::clamp(
                            (milliwatts - range.idle_mw) / (range.working_mw - range.idle_mw), 0.0,
                            1.0);
                      };
                    });
}

}  // namespace

std::optional<bool> counted_at_work(const GpuTrack& track, double t_ms) {
  constexpr double kWorks = 0.35;
  constexpr double kReachMs = 2500;
  // A counter is the mean since the reading before.
  const auto at = std::ranges::lower_bound(track.sm.t_ms, t_ms);
  if (at == track.sm.t_ms.end() || *at - t_ms > kReachMs) return std::nullopt;
  const auto place = static_cast<std::size_t>(at - track.sm.t_ms.begin());
  const bool has_dram = track.dram.size() == track.sm.size();
  return track.sm.values[place] >= kWorks || (has_dram && track.dram.values[place] >= kWorks);
}

std::vector<bool> light_work(const GpuTrack* track, const Lanes& grid, std::size_t row,
                             const std::function<bool(double)>& is_low) {
  constexpr double kShortestMs = 900;
  const std::vector<double>& values = grid.rows[row];
  std::vector<bool> light(values.size(), false);
  if (track == nullptr || track->sm.empty()) return light;
  std::size_t since = 0;
  for (std::size_t bin = 0; bin <= values.size(); ++bin) {
    if (bin < values.size() && known(values[bin]) && is_low(values[bin]) &&
        counted_at_work(*track, grid.time_of(bin)).value_or(false))
      continue;
    if (static_cast<double>(bin - since) * grid.step_ms >= kShortestMs)
      std::fill(light.begin() + static_cast<std::ptrdiff_t>(since),
                light.begin() + static_cast<std::ptrdiff_t>(bin), true);
    since = bin + 1;
  }
  return light;
}

const GpuTrack* find_track(const Timeline& timeline, int gpu) {
  for (const GpuTrack& track : timeline.gpus)
    if (track.info.index == gpu) return &track;
  return nullptr;
}

std::optional<double> spacing_of(const Series<double>& series) {
  if (series.size() < 3) return std::nullopt;
  constexpr std::size_t kLooked = 4000;  // of a long series the first readings tell its spacing
  std::vector<double> spacings;
  for (std::size_t i = 1; i < std::min(series.size(), kLooked); ++i)
    if (series.t_ms[i] > series.t_ms[i - 1])
      spacings.push_back(series.t_ms[i] - series.t_ms[i - 1]);
  return median_of(spacings);
}

std::vector<std::optional<double>> lowest_powers(const Timeline& timeline) {
  std::vector<std::optional<double>> lowest;
  for (const GpuTrack& track : timeline.gpus)
    lowest.push_back(quantile(finest_power(track).values, 0.01));
  return lowest;
}

std::optional<PowerRange> power_range(const GpuTrack& gpu, const Timeline& timeline,
                                      const std::vector<std::optional<double>>& lowest_of) {
  const auto highest = quantile(finest_power(gpu).values, 0.99);
  if (!highest) return std::nullopt;
  double lowest = *highest;
  for (std::size_t i = 0; i < timeline.gpus.size(); ++i)
    if (lowest_of[i] && (&timeline.gpus[i] == &gpu || lanes_alike(timeline.gpus[i].info, gpu.info)))
      lowest = std::min(lowest, *lowest_of[i]);
  PowerRange range{lowest, *highest};
  if (gpu.info.power_limit_mw) {
    range.idle_mw = std::min(range.idle_mw, kIdleOfLimit * *gpu.info.power_limit_mw);
    range.working_mw = std::max(range.working_mw, kWorkingOfLimit * *gpu.info.power_limit_mw);
  }
  if (range.working_mw - range.idle_mw < 1) return std::nullopt;
  return range;
}

Lanes busy_lanes(const Timeline& timeline, const std::vector<int>& gpus, double from_ms,
                 double to_ms) {
  auto lanes = make_lanes(
      timeline, gpus, from_ms, to_ms,
      [](const GpuTrack& track) -> const Series<double>& { return track.busy; },
      [](const GpuTrack&) {
        return std::function<double(double)>(
            [](double busy) { return std::clamp(busy, 0.0, 1.0); });
      });
  return lanes ? std::move(*lanes) : Lanes{};
}

std::optional<Lanes> power_sample_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                        double from_ms, double to_ms) {
  return power_lanes(
      timeline, gpus, from_ms, to_ms,
      [](const GpuTrack& track) -> const Series<double>& { return track.power_samples_mw; });
}

std::optional<Lanes> plain_power_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                       double from_ms, double to_ms) {
  return power_lanes(timeline, gpus, from_ms, to_ms,
                     [](const GpuTrack& track) -> const Series<double>& { return track.power_mw; });
}

std::optional<Lanes> instant_power_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                         double from_ms, double to_ms) {
  constexpr double kFineMs = 250;
  if (timeline.machine.power_window_ms != 0.0) return std::nullopt;
  for (const int gpu : gpus) {
    const GpuTrack* const track = find_track(timeline, gpu);
    if (track == nullptr || spacing_of(track->power_mw).value_or(1e9) > kFineMs)
      return std::nullopt;
  }
  return plain_power_lanes(timeline, gpus, from_ms, to_ms);
}

std::optional<Lanes> sm_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                              double from_ms, double to_ms) {
  std::vector<std::pair<const GpuTrack*, double>> fullest;
  for (const int gpu : gpus)
    if (const GpuTrack* const track = find_track(timeline, gpu))
      fullest.emplace_back(track, quantile(track->sm.values, 0.95).value_or(0));
  return make_lanes(
      timeline, gpus, from_ms, to_ms,
      [](const GpuTrack& track) -> const Series<double>& { return track.sm; },
      [&](const GpuTrack& track) -> std::optional<std::function<double(double)>> {
        // The fullest of its kind in the group: a GPU whose steps are shorter than a reading never
        // shows its own full.
        double full = kLeastFull;
        for (const auto& [other, level] : fullest)
          if (lanes_alike(other->info, track.info)) full = std::max(full, level);
        return [full](double sm) { return std::clamp(sm / full, 0.0, 1.0); };
      });
}

std::vector<std::vector<double>> rows_on(const Lanes& grid, const Lanes& other) {
  std::vector<std::vector<double>> rows(other.rows.size(),
                                        std::vector<double>(grid.bins(), kUnknown));
  if (other.bins() == 0) return rows;
  for (std::size_t bin = 0; bin < grid.bins(); ++bin) {
    const double place = std::floor((grid.time_of(bin) - other.from_ms) / other.step_ms);
    if (place < 0 || place >= static_cast<double>(other.bins())) continue;
    for (std::size_t row = 0; row < rows.size(); ++row)
      rows[row][bin] = other.rows[row][static_cast<std::size_t>(place)];
  }
  return rows;
}

}  // namespace lockstep
