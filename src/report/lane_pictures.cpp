#include "report/lane_pictures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace lockstep {
namespace {

struct Stretch {
  double from_ms = 0;
  double to_ms = 0;
};

LaneRow row_of(const Series<double>& series, int gpu, double scale, const Stretch& stretch) {
  LaneRow row;
  row.gpu = gpu;
  std::vector<double> sum(kPictureColumns, 0);
  std::vector<int> count(kPictureColumns, 0);
  const double column_ms = (stretch.to_ms - stretch.from_ms) / static_cast<double>(kPictureColumns);
  double spacing = 0;
  std::size_t spacings = 0;
  const auto column_at = [&](double t_ms) {
    return static_cast<std::ptrdiff_t>(std::floor((t_ms - stretch.from_ms) / column_ms));
  };
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series.t_ms[i] < stretch.from_ms - column_ms || series.t_ms[i] > stretch.to_ms) continue;
    if (i > 0 && series.t_ms[i] > series.t_ms[i - 1]) {
      spacing += series.t_ms[i] - series.t_ms[i - 1];
      ++spacings;
    }
    const std::ptrdiff_t column =
        std::min<std::ptrdiff_t>(column_at(series.t_ms[i]), kPictureColumns - 1);
    if (column < 0) continue;
    sum[static_cast<std::size_t>(column)] += series.values[i];
    ++count[static_cast<std::size_t>(column)];
  }
  // Columns narrower than the readings' spacing take the reading before them; a longer hole is a
  // hole.
  const auto reach = static_cast<std::size_t>(
      spacings == 0 ? 1 : std::ceil(2 * spacing / static_cast<double>(spacings) / column_ms));
  std::size_t since = reach + 1;
  for (std::size_t column = 0; column < kPictureColumns; ++column) {
    if (count[column] > 0) {
      row.values.emplace_back(std::clamp(sum[column] / count[column] * scale, 0.0, 1.0));
      since = 0;
    } else {
      ++since;
      row.values.push_back(since <= reach && !row.values.empty() ? row.values.back()
                                                                 : std::nullopt);
    }
  }
  return row;
}

std::optional<LanePicture> picture(
    const Timeline& timeline, std::string made_of, const Stretch& stretch,
    const std::function<const Series<double>&(const GpuTrack&)>& pick,
    const std::function<double(const GpuTrack&)>& scale_of) {
  if (!(stretch.to_ms - stretch.from_ms > 1)) return std::nullopt;  // one snapshot is no picture
  LanePicture result;
  result.made_of = std::move(made_of);
  result.from_s = (stretch.from_ms - timeline.from_ms) / 1e3;
  result.column_s = (stretch.to_ms - stretch.from_ms) / 1e3 / static_cast<double>(kPictureColumns);
  bool any = false;
  for (const GpuTrack& track : timeline.gpus) {
    const double scale = scale_of(track);
    any = any || (!pick(track).empty() && scale > 0);
    result.rows.push_back(
        scale > 0 ? row_of(pick(track), track.info.index, scale, stretch)
                  : LaneRow{track.info.index, std::vector<std::optional<double>>(kPictureColumns)});
  }
  return any && result.column_s > 0 ? std::optional(std::move(result)) : std::nullopt;
}

double highest(const Series<double>& series) {
  return series.empty() ? 0 : *std::ranges::max_element(series.values);
}

}  // namespace

std::vector<LanePicture> lane_pictures(const Timeline& timeline,
                                       const std::optional<TurnSignals>& turns, double until_ms) {
  // fewer, and turns blur in a terminal, which shows under half of the columns
  constexpr double kColumnsAPeriod = 14;
  constexpr double kPeriodsShown = 8;
  std::vector<LanePicture> pictures;
  const Stretch whole{timeline.from_ms, timeline.to_ms};
  const bool limits_are_known = std::ranges::any_of(
      timeline.gpus, [](const GpuTrack& track) { return track.info.power_limit_mw.has_value(); });
  const std::string power = limits_are_known ? "power of limit" : "power of its highest";
  const auto power_scale = [](const GpuTrack& track) {
    const double limit = track.info.power_limit_mw.value_or(
        highest(track.power_samples_mw.empty() ? track.power_mw : track.power_samples_mw));
    return limit > 0 ? 1 / limit : 0;
  };
  const auto power_samples = [](const GpuTrack& track) -> const Series<double>& {
    return track.power_samples_mw;
  };
  const auto add = [&](std::optional<LanePicture> made) {
    if (made) pictures.push_back(std::move(*made));
  };
  const double whole_column = (whole.to_ms - whole.from_ms) / static_cast<double>(kPictureColumns);
  if (turns && turns->kind == LaneKind::power_samples && turns->period_ms &&
      turns->period_strength > 0.3 && whole_column * kColumnsAPeriod > *turns->period_ms) {
    // the newest samples may not have been read any more
    for (const GpuTrack& track : timeline.gpus)
      if (!track.power_samples_mw.empty())
        until_ms = std::min(until_ms, track.power_samples_mw.t_ms.back());
    const double length =
        std::min(until_ms - timeline.from_ms, std::max(kPeriodsShown * *turns->period_ms, 400.0));
    add(picture(timeline, power + ", close up", {until_ms - length, until_ms}, power_samples,
                power_scale));
  }
  add(picture(
      timeline, "busy", whole,
      [](const GpuTrack& track) -> const Series<double>& { return track.busy; },
      [](const GpuTrack&) { return 1.0; }));
  add(picture(
      timeline, power, whole,
      [](const GpuTrack& track) -> const Series<double>& {
        return track.power_samples_mw.empty() ? track.power_mw : track.power_samples_mw;
      },
      power_scale));
  add(picture(
      timeline, "memory", whole,
      [](const GpuTrack& track) -> const Series<double>& { return track.memory_used_bytes; },
      [](const GpuTrack& track) {
        return track.info.memory_total_bytes.value_or(0) > 0
                   ? 1 / static_cast<double>(*track.info.memory_total_bytes)
                   : 0;
      }));
  return pictures;
}

}  // namespace lockstep
