#include "timeline/timeline_builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/median.hpp"
#include "base/redact.hpp"
#include "timeline/rest_names.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kSpacingsKept = 32;
constexpr double kStepsLateAtMostMs = 600'000;
constexpr std::size_t kMostFacts = 4096;
constexpr double kLongestRunMs = 1e12;  // 31 years
// between the threads and processes that write one recording
constexpr double kLateAtMostMs = 250;
// A value this many of its own spacings old, and at least so many milliseconds, is stale.
constexpr double kStaleSpacings = 3;
constexpr double kStaleAtLeastMs = 1500;

// What no GPU can read. A clamp would make a fact of it: such a value is left out, and counted.
struct Bounds {
  std::string_view quantity;
  double least;
  double most;
};
constexpr std::array<Bounds, 8> kBounds = {{{"busy", 0, 1.0001},
                                            {"sm", 0, 1.0001},
                                            {"tensor", 0, 1.0001},
                                            {"dram", 0, 1.0001},
                                            {"power_mw", 0, 5e6},
                                            {"memory_used_bytes", 0, 1e14},
                                            {"temperature_c", -60, 250},
                                            {"sm_clock_mhz", 0, 20'000}}};

bool is_possible(std::string_view quantity, double value) {
  if (!std::isfinite(value)) return false;
  for (const Bounds& bounds : kBounds)
    if (bounds.quantity == quantity) return value >= bounds.least && value <= bounds.most;
  return true;
}
bool is_possible(std::string_view, const ClockLimits&) { return true; }

template <class T>
void append(Series<T>& series, double t_ms, T value) {
  series.t_ms.push_back(t_ms);
  series.values.push_back(std::move(value));
}

template <class T>
void drop_before(Series<T>& series, double t_ms) {
  const auto kept = std::ranges::lower_bound(series.t_ms, t_ms) - series.t_ms.begin();
  series.t_ms.erase(series.t_ms.begin(), series.t_ms.begin() + kept);
  series.values.erase(series.values.begin(), series.values.begin() + kept);
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

// Processes of several writers may come a little late.
bool TimelineBuilder::accepts(double t_ms) const {
  return std::abs(t_ms) < kLongestRunMs && !(any_ && t_ms < newest_ms_ - kLateAtMostMs);
}

void TimelineBuilder::add(const Record& record) {
  // Steps wait for what the GPU says of them: long ones come many seconds late.
  const bool of_probe = std::holds_alternative<StepMark>(record.content) ||
                        std::holds_alternative<ProbeFact>(record.content) ||
                        std::holds_alternative<CollectiveCall>(record.content);
  const bool in_time = of_probe && any_ && record.t_ms > newest_ms_ - kStepsLateAtMostMs &&
                       std::abs(record.t_ms) < kLongestRunMs;
  if (!in_time && !accepts(record.t_ms)) {
    ++timeline_.backward_records;
    return;
  }
  newest_ms_ = any_ ? std::max(newest_ms_, record.t_ms) : record.t_ms;
  timeline_.from_ms = any_ ? std::min(timeline_.from_ms, record.t_ms) : record.t_ms;
  timeline_.to_ms = any_ ? std::max(timeline_.to_ms, record.t_ms) : record.t_ms;
  any_ = true;
  if (const auto* tick = std::get_if<GpuTick>(&record.content))
    add_tick(*tick, record.t_ms);
  else if (const auto* processes = std::get_if<ProcessTick>(&record.content)) {
    timeline_.process_lists.push_back({record.t_ms, *processes});
    // other writers may not have done it
    for (ProcessSample& process : timeline_.process_lists.back().processes)
      if (process.command) process.command = redact_command(std::move(*process.command));
  } else if (const auto* step = std::get_if<StepMark>(&record.content))
    timeline_.steps.push_back({record.t_ms, *step});
  else if (const auto* fact = std::get_if<ProbeFact>(&record.content))
    timeline_.facts.push_back({record.t_ms, *fact});
  else if (const auto* call = std::get_if<CollectiveCall>(&record.content))
    timeline_.collectives.push_back(*call);
  else if (const auto* census = std::get_if<CommunicatorCensus>(&record.content))
    timeline_.censuses.push_back({record.t_ms, *census});
  else
    timeline_.events.push_back({record.t_ms, std::get<Event>(record.content)});
}

void TimelineBuilder::advance_to(double t_ms) { timeline_.to_ms = std::max(timeline_.to_ms, t_ms); }

void TimelineBuilder::forget_before(double t_ms) {
  if (t_ms <= timeline_.from_ms) return;
  for (GpuTrack& gpu : timeline_.gpus) {
    for_each_quantity([&](const char*, auto& series) { drop_before(series, t_ms); }, gpu);
    drop_before(gpu.power_samples_mw, t_ms);
  }
  const auto drop = [t_ms](auto& entries) {
    std::erase_if(entries, [t_ms](const auto& entry) { return entry.t_ms < t_ms; });
  };
  drop(timeline_.steps);
  drop(timeline_.censuses);
  std::erase_if(timeline_.collectives,
                [t_ms](const CollectiveCall& call) { return call.queued_ms < t_ms; });
  // Settings are told at a loader's passes, counts every second: those of the last passes and
  // minutes are enough.
  if (timeline_.facts.size() > kMostFacts)
    timeline_.facts.erase(timeline_.facts.begin(),
                          timeline_.facts.end() - static_cast<std::ptrdiff_t>(kMostFacts / 2));
  // the newest is kept in any case: who ran then runs still, as far as is known
  auto& lists = timeline_.process_lists;
  const auto kept =
      std::ranges::find_if(lists, [t_ms](const ProcessList& list) { return list.t_ms >= t_ms; });
  if (kept != lists.begin())
    lists.erase(lists.begin(), kept == lists.end() ? std::prev(kept) : kept);
  std::map<int, EventAt> last_word;  // lost or recovered, by GPU
  for (const EventAt& entry : timeline_.events)
    if (entry.t_ms < t_ms && entry.event.gpu &&
        (entry.event.kind == "lost" || entry.event.kind == "recovered"))
      last_word[*entry.event.gpu] = entry;
  drop(timeline_.events);
  for (auto& [gpu, entry] : last_word)
    if (entry.event.kind == "lost")
      timeline_.events.insert(timeline_.events.begin(), std::move(entry));
  std::erase_if(timeline_.gaps, [t_ms](const Gap& gap) { return gap.to_ms < t_ms; });
  timeline_.from_ms = t_ms;
}

void TimelineBuilder::add_tick(const GpuTick& tick, double t_ms) {
  note_gap(tick, t_ms);
  for (const GpuSample& sample : tick) add_sample(sample, t_ms);
}

void TimelineBuilder::note_gap(const GpuTick& tick, double t_ms) {
  const auto last = std::exchange(last_tick_ms_, t_ms);
  if (tick.empty()) return;
  Rhythm& rhythm = rhythms_[tick.front().index];
  const auto own_last = std::exchange(rhythm.last_ms, t_ms);
  if (!last || !own_last || t_ms <= *own_last) return;
  std::vector<double>& spacings = rhythm.recent_spacings_ms;
  if (spacings.size() >= 4 && t_ms - *last > kGapSpacings * middle_value(spacings)) {
    timeline_.gaps.push_back({*last, t_ms});
    return;  // a gap says nothing about the usual spacing
  }
  if (spacings.size() == kSpacingsKept) spacings.erase(spacings.begin());
  spacings.push_back(t_ms - *own_last);
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
    using Value = typename std::decay_t<decltype(series.values)>::value_type;
    if (!is_possible(name, static_cast<Value>(*reading.value()))) {
      ++timeline_.impossible_values;
      latest = std::decay_t<decltype(reading)>::error();
      asked.failed_as = ReadingState::error;
      return;
    }
    asked.had_value = true;
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
  for (std::size_t i = 0; i < power->milliwatts.size(); ++i) {
    if (!is_possible("power_mw", power->milliwatts[i]) || !std::isfinite(first)) {
      ++timeline_.impossible_values;
      continue;
    }
    // Buffers that overlap repeat themselves: a sample not later than the last one is not new.
    if (const double at = first + static_cast<double>(i) * power->sample_ms;
        !gpu.power_samples_mw.empty() &&
        at <= gpu.power_samples_mw.t_ms.back() + 0.25 * power->sample_ms)
      continue;
    append(gpu.power_samples_mw, first + static_cast<double>(i) * power->sample_ms,
           static_cast<double>(power->milliwatts[i]));
  }
}

Timeline TimelineBuilder::build() const {
  Timeline result = timeline_;
  name_rests(result.steps);
  for (GpuTrack& gpu : result.gpus) {
    const auto settle = [&](const char* name, const auto& series, auto& latest) {
      const auto asked = asked_.find({gpu.info.index, name});
      if (asked == asked_.end()) return;
      if (!asked->second.had_value) {
        gpu.missing.push_back({name, asked->second.failed_as.value_or(ReadingState::error)});
        return;
      }
      std::vector<double> spacings;
      for (std::size_t i = 1; i < series.size(); ++i)
        spacings.push_back(series.t_ms[i] - series.t_ms[i - 1]);
      const double usual = middle_value(std::move(spacings));
      if (result.to_ms - asked->second.last_ms > std::max(kStaleAtLeastMs, kStaleSpacings * usual))
        latest = latest.as_stale();
    };
    for_each_quantity(settle, gpu, gpu.latest);
    const auto samples = asked_.find({gpu.info.index, "power_samples_mw"});
    if (samples != asked_.end() && !samples->second.had_value)
      gpu.missing.push_back(
          {"power_samples_mw", samples->second.failed_as.value_or(ReadingState::error)});
  }
  return result;
}

}  // namespace lockstep
