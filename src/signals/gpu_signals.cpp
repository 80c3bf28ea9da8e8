#include "signals/gpu_signals.hpp"

#include <algorithm>
#include <cmath>

#include "model/gpu_kind.hpp"
#include "signals/lanes.hpp"
#include "signals/statistics.hpp"

namespace lockstep {
namespace {

// A reading stands for the time since the one before it, but not for time in a gap: nothing is
// known of that.
std::optional<double> mean_over_time(const Series<double>& series, const std::vector<Gap>& gaps) {
  if (series.empty()) return std::nullopt;
  double sum = 0;
  double weight = 0;
  auto gap = gaps.begin();  // both are in the order of time
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double to = series.t_ms[i];
    // the first one counts as the others do: as long as the second
    const double from = i > 0               ? series.t_ms[i - 1]
                        : series.size() > 1 ? 2 * to - series.t_ms[1]
                                            : to;
    double covered = std::max(0.0, to - from);
    while (gap != gaps.end() && gap->to_ms <= from) ++gap;
    for (auto within = gap; within != gaps.end() && within->from_ms < to; ++within)
      covered -= std::max(0.0, std::min(to, within->to_ms) - std::max(from, within->from_ms));
    if (covered <= 0) continue;
    sum += series.values[i] * covered;
    weight += covered;
  }
  if (weight > 0) return sum / weight;
  return series.values.back();  // one reading, or all at one moment
}

GpuSignals means_of(const GpuTrack& gpu, const std::vector<Gap>& gaps) {
  GpuSignals means;
  means.index = gpu.info.index;
  means.info = gpu.info;
  means.busy_fraction = mean_over_time(gpu.busy, gaps);
  if (!gpu.memory_used_bytes.empty()) means.memory_used_bytes = gpu.memory_used_bytes.values.back();
  // The buffer's samples are instant ones; the plain reading may be a mean over the last second.
  means.power_mw =
      mean_over_time(gpu.power_samples_mw.empty() ? gpu.power_mw : gpu.power_samples_mw, gaps);
  return means;
}

std::optional<double> tensor_core_gain(const GpuInfo& info) {
  constexpr double kOfSingle = 0.8;  // of the table, in large fp32 products
  std::optional<double> memory;
  if (info.memory_total_bytes) memory = static_cast<double>(*info.memory_total_bytes);
  const GpuKind* const kind = gpu_kind_of(info.name.value_or(""), memory);
  if (kind == nullptr || is_virtual(*kind) || kind->single_tflops <= 0) return std::nullopt;
  return std::max(
      1.0, kind->half_tflops * kind->large_product_share / (kOfSingle * kind->single_tflops));
}

constexpr double kRuns = 0.1;  // busy: something ran in the window

// The value of a series at a moment: the newest that is not older than `at_most_ms`.
std::optional<double> value_at(const Series<double>& series, double t_ms, double at_most_ms) {
  const auto after = std::ranges::upper_bound(series.t_ms, t_ms);
  if (after == series.t_ms.begin()) return std::nullopt;
  const auto place = static_cast<std::size_t>(after - series.t_ms.begin()) - 1;
  if (t_ms - series.t_ms[place] > at_most_ms) return std::nullopt;
  return series.values[place];
}

// Whether something ran on the GPU at a moment, as far as is known.
class Running {
 public:
  explicit Running(const GpuTrack& gpu)
      : busy_(gpu.busy), reach_ms_(2 * spacing_of(gpu.busy).value_or(1000) + 1) {}
  bool at(double t_ms) const { return value_at(busy_, t_ms, reach_ms_).value_or(1) > kRuns; }

 private:
  const Series<double>& busy_;
  double reach_ms_;
};

std::vector<double> while_running(const Running& running, const Series<double>& series) {
  std::vector<double> values;
  for (std::size_t i = 0; i < series.size(); ++i)
    if (running.at(series.t_ms[i])) values.push_back(series.values[i]);
  return values;
}

// Rates between the readings of a counter that only grows; a counter that fell back (wrapped,
// reset) says nothing.
std::vector<double> rates_of(const Series<double>& counter) {
  std::vector<double> rates;
  for (std::size_t i = 1; i < counter.size(); ++i) {
    const double span_s = (counter.t_ms[i] - counter.t_ms[i - 1]) / 1e3;
    const double bytes = counter.values[i] - counter.values[i - 1];
    if (span_s > 0 && bytes >= 0 && bytes / span_s < 1e13) rates.push_back(bytes / span_s);
  }
  return rates;
}

bool is_slowdown(const ClockLimits& limits) {
  return limits.has(ClockLimit::sw_power_cap) || limits.has(ClockLimit::hw_slowdown) ||
         limits.has(ClockLimit::sw_thermal_slowdown) ||
         limits.has(ClockLimit::hw_thermal_slowdown) ||
         limits.has(ClockLimit::hw_power_brake_slowdown);
}

void add_limits(const GpuTrack& gpu, const Running& running, GpuSignals& signals) {
  if (gpu.limits.empty()) return;
  std::array<double, kClockLimitNames.size()> shares{};
  std::vector<double> limited;
  std::vector<double> free;
  double looks = 0;
  const double reach = 2 * spacing_of(gpu.sm_clock_mhz).value_or(1000) + 1;
  for (std::size_t i = 0; i < gpu.limits.size(); ++i) {
    if (!running.at(gpu.limits.t_ms[i])) continue;
    ++looks;
    for (std::size_t limit = 0; limit < shares.size(); ++limit)
      if (gpu.limits.values[i].has(static_cast<ClockLimit>(limit))) ++shares[limit];
    if (const auto clock = value_at(gpu.sm_clock_mhz, gpu.limits.t_ms[i], reach))
      (is_slowdown(gpu.limits.values[i]) ? limited : free).push_back(*clock);
  }
  if (looks == 0) return;
  for (double& share : shares) share /= looks;
  signals.limit_shares = shares;
  signals.limit_looks = looks;
  signals.clock_while_limited_mhz = median_of(limited);
  signals.clock_while_free_mhz = median_of(free);
}

double end_of(const GpuTrack& gpu) {
  double end = -1;
  const auto take = [&](const char*, const auto& series) {
    if (!series.empty()) end = std::max(end, series.t_ms.back());
  };
  for_each_quantity(take, gpu);
  return end;
}

std::optional<double> begin_of_work(const Series<double>& busy) {
  constexpr double kHasBegun = 0.3;
  constexpr double kHasNot = 0.1;
  if (busy.empty() || busy.values.front() > kHasNot) return std::nullopt;
  const auto first =
      std::ranges::find_if(busy.values, [](double value) { return value > kHasBegun; });
  if (first == busy.values.end()) return std::nullopt;
  return busy.t_ms[static_cast<std::size_t>(first - busy.values.begin())];
}

}  // namespace

Signals gpu_means(const Timeline& timeline) {
  Signals signals;
  signals.duration_s = (timeline.to_ms - timeline.from_ms) / 1e3;
  for (const GpuTrack& gpu : timeline.gpus) signals.gpus.push_back(means_of(gpu, timeline.gaps));
  return signals;
}

std::vector<GpuSignals> gpu_signals(const Timeline& timeline) {
  constexpr double kGoneAfterMs = 5000;  // and at least four spacings: a late tick is no loss
  std::vector<GpuSignals> result;
  // recordings of several machines end when they end
  std::map<std::optional<std::string>, double> last_of_host;
  for (const GpuTrack& gpu : timeline.gpus) {
    const auto [known, fresh] = last_of_host.emplace(gpu.info.host, end_of(gpu));
    if (!fresh) known->second = std::max(known->second, end_of(gpu));
  }
  for (const GpuTrack& gpu : timeline.gpus) {
    GpuSignals signals = means_of(gpu, timeline.gaps);
    signals.busy_highest = quantile(gpu.busy.values, 1);
    signals.looks = gpu.busy.size();
    signals.begins_ms = begin_of_work(gpu.busy);
    signals.memory_median_bytes = median_of(gpu.memory_used_bytes.values);
    signals.memory_highest_bytes = quantile(gpu.memory_used_bytes.values, 1);
    if (const auto most = signals.memory_highest_bytes;
        most && gpu.info.memory_total_bytes && *gpu.info.memory_total_bytes > 0)
      signals.memory_highest_fraction = *most / static_cast<double>(*gpu.info.memory_total_bytes);
    const Series<double>& power =
        gpu.power_samples_mw.empty() ? gpu.power_mw : gpu.power_samples_mw;
    signals.power_highest_mw = quantile(power.values, 0.99);
    signals.power_lowest_mw = quantile(power.values, 0.01);
    const Running running(gpu);
    signals.sm = mean_of(while_running(running, gpu.sm));
    signals.tensor = mean_of(while_running(running, gpu.tensor));
    signals.tensor_core_gain = tensor_core_gain(gpu.info);
    signals.dram = mean_of(while_running(running, gpu.dram));
    signals.clock_mhz = median_of(while_running(running, gpu.sm_clock_mhz));
    signals.clock_highest_mhz = quantile(gpu.sm_clock_mhz.values, 1);
    signals.temperature_highest_c = quantile(gpu.temperature_c.values, 1);
    add_limits(gpu, running, signals);
    const auto received = rates_of(gpu.pcie_rx_bytes);
    signals.pcie_rx_bytes_s = mean_of(received);
    signals.pcie_rx_peak_bytes_s = quantile(received, 0.95);
    signals.pcie_tx_bytes_s = mean_of(rates_of(gpu.pcie_tx_bytes));
    if (const auto in = mean_of(rates_of(gpu.nvlink_rx_bytes)))
      signals.nvlink_bytes_s = *in + mean_of(rates_of(gpu.nvlink_tx_bytes)).value_or(0);
    const double end = end_of(gpu);
    // Without times nobody knows whose rows end before whose.
    signals.vanished = timeline.machine.times_are_known && end >= 0 &&
                       last_of_host[gpu.info.host] - end >
                           std::max(kGoneAfterMs, 4 * spacing_of(gpu.busy).value_or(1000));
    result.push_back(std::move(signals));
  }
  return result;
}

namespace {

Series<double> between(const Series<double>& series, double from_ms, double to_ms) {
  Series<double> part;
  for (std::size_t i = 0; i < series.size(); ++i)
    if (series.t_ms[i] >= from_ms && series.t_ms[i] <= to_ms) {
      part.t_ms.push_back(series.t_ms[i]);
      part.values.push_back(series.values[i]);
    }
  return part;
}

}  // namespace

void tell_of_working_time(const Timeline& timeline, Signals& signals) {
  constexpr std::size_t kReadings = 5;  // fewer are no mean
  for (JobSignals& job : signals.jobs)
    for (std::size_t i = 0; i < signals.gpus.size() && i < timeline.gpus.size(); ++i) {
      GpuSignals& gpu = signals.gpus[i];
      if (std::ranges::find(job.gpus, gpu.index) == job.gpus.end()) continue;
      const GpuTrack& track = timeline.gpus[i];
      if (const auto held = between(track.memory_used_bytes, job.from_ms, job.to_ms); !held.empty())
        gpu.memory_used_bytes = quantile(held.values, 1);  // what it took, not what is left of it
      if (!job.steps) continue;
      const double from = job.steps->first_step_ms;
      const double to = job.steps->last_step_ms;
      // What start-up and end dilute; readings that come late must not make it less.
      if (const auto busy = between(track.busy, from, to); busy.size() >= kReadings) {
        gpu.busy_fraction = std::max(gpu.busy_fraction, mean_over_time(busy, timeline.gaps));
        for (GpuInJob& member : job.members)
          if (member.index == gpu.index) member.busy = std::max(member.busy, gpu.busy_fraction);
      }
      const auto power = between(
          track.power_samples_mw.empty() ? track.power_mw : track.power_samples_mw, from, to);
      if (power.size() >= kReadings) {
        gpu.power_mw = std::max(gpu.power_mw, mean_over_time(power, timeline.gaps));
        for (GpuInJob& member : job.members)
          if (member.index == gpu.index) member.power_mw = gpu.power_mw;
      }
    }
}

}  // namespace lockstep
