#include "timeline/timeline_builder.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// A tick this many usual spacings late is a gap: jitter is 5 %, a loaded machine delays by one or two.
constexpr double kGapSpacings = 4;
constexpr std::size_t kSpacingsKept = 32;
// A value this many of its own spacings old, and at least so many milliseconds, is stale.
constexpr double kStaleSpacings = 3;
constexpr double kStaleAtLeastMs = 1500;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class T>
void append(Series<T>& series, double t_ms, T value) {
  series.t_ms.push_back(t_ms);
  series.values.push_back(std::move(value));
}

}  // namespace

TimelineBuilder::TimelineBuilder(Machine machine, SourceKind kind, std::string detail) {
  timeline_.source_kind = kind;
  timeline_.source_detail = std::move(detail);
  for (const GpuInfo& gpu : machine.gpus) track(gpu.index).info = gpu;
  timeline_.machine = std::move(machine);
}

GpuTrack& TimelineBuilder::track(int index) {
  for (GpuTrack& known : timeline_.gpus)
    if (known.info.index == index) return known;
  GpuTrack fresh;  // a GPU that the header does not name: it appeared later
  fresh.info.index = fresh.latest.index = index;
  timeline_.gpus.push_back(std::move(fresh));
  return timeline_.gpus.back();
}

void TimelineBuilder::add(const Record& record) {
  timeline_.from_ms = any_ ? std::min(timeline_.from_ms, record.t_ms) : record.t_ms;
  timeline_.to_ms = any_ ? std::max(timeline_.to_ms, record.t_ms) : record.t_ms;
  any_ = true;
  if (const auto* tick = std::get_if<GpuTick>(&record.content)) add_tick(*tick, record.t_ms);
  else if (const auto* processes = std::get_if<ProcessTick>(&record.content))
    timeline_.process_lists.push_back({record.t_ms, *processes});
  else if (const auto* step = std::get_if<StepMark>(&record.content)) timeline_.steps.push_back({record.t_ms, *step});
  else timeline_.events.push_back({record.t_ms, std::get<Event>(record.content)});
}

void TimelineBuilder::advance_to(double t_ms) { timeline_.to_ms = std::max(timeline_.to_ms, t_ms); }

void TimelineBuilder::add_tick(const GpuTick& tick, double t_ms) {
  note_gap(t_ms);
  for (const GpuSample& sample : tick) add_sample(sample, t_ms);
}

void TimelineBuilder::note_gap(double t_ms) {
  const auto last = std::exchange(last_tick_ms_, t_ms);
  if (!last || t_ms <= *last) return;
  const double spacing = t_ms - *last;
  if (recent_spacings_ms_.size() >= 4 && spacing > kGapSpacings * median(recent_spacings_ms_)) {
    timeline_.gaps.push_back({*last, t_ms});
    return;  // a gap says nothing about the usual spacing
  }
  if (recent_spacings_ms_.size() == kSpacingsKept) recent_spacings_ms_.erase(recent_spacings_ms_.begin());
  recent_spacings_ms_.push_back(spacing);
}

void TimelineBuilder::add_sample(const GpuSample& sample, double t_ms) {
  GpuTrack& gpu = track(sample.index);
  const auto take = [&](const char* name, const auto& reading, auto& series, auto& latest) {
    if (!reading.asked()) return;
    Asked& asked = asked_[{sample.index, name}];
    latest = reading;
    asked.last_ms = t_ms;
    if (!reading.has_value()) {
      asked.failed_as = reading.state();
      return;
    }
    asked.had_value = true;
    using Value = typename std::decay_t<decltype(series.values)>::value_type;
    append(series, t_ms, static_cast<Value>(*reading.value()));
  };
  for_each_quantity(take, sample, gpu, gpu.latest);
  if (!sample.power_samples.asked()) return;
  Asked& asked = asked_[{sample.index, "power_samples_mw"}];
  asked.last_ms = t_ms;
  const auto power = sample.power_samples.value();
  if (!power) {
    asked.failed_as = sample.power_samples.state();
    return;
  }
  asked.had_value = true;
  const auto count = static_cast<double>(power->milliwatts.size());
  const double first = power->first_ms.value_or(t_ms - (count - 1) * power->sample_ms);
  for (std::size_t i = 0; i < power->milliwatts.size(); ++i)
    append(gpu.power_samples_mw, first + static_cast<double>(i) * power->sample_ms,
           static_cast<double>(power->milliwatts[i]));
}

Timeline TimelineBuilder::build() const {
  Timeline result = timeline_;
  for (GpuTrack& gpu : result.gpus) {
    const auto settle = [&](const char* name, const auto& series, auto& latest) {
      const auto asked = asked_.find({gpu.info.index, name});
      if (asked == asked_.end()) return;
      if (!asked->second.had_value) {
        gpu.missing.push_back({name, asked->second.failed_as.value_or(ReadingState::error)});
        return;
      }
      std::vector<double> spacings;
      for (std::size_t i = 1; i < series.size(); ++i) spacings.push_back(series.t_ms[i] - series.t_ms[i - 1]);
      const double usual = spacings.empty() ? 0 : median(std::move(spacings));
      if (result.to_ms - asked->second.last_ms > std::max(kStaleAtLeastMs, kStaleSpacings * usual))
        latest = latest.as_stale();
    };
    for_each_quantity(settle, gpu, gpu.latest);
    const auto samples = asked_.find({gpu.info.index, "power_samples_mw"});
    if (samples != asked_.end() && !samples->second.had_value)
      gpu.missing.push_back({"power_samples_mw", samples->second.failed_as.value_or(ReadingState::error)});
  }
  return result;
}

}  // namespace lockstep
