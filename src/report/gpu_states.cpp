#include "report/gpu_states.hpp"

#include <algorithm>
#include <optional>

namespace lockstep {
namespace {

// Long enough for one whole utilization window (200 ms) of each of several ticks, short enough that
// a turn of a second is seen as one.
constexpr double kLookMs = 700;
// a driver that said nothing for so long, and three of its usual pauses, gives no reading
constexpr double kFreshMs = 3000;
constexpr double kIdleBelow = 0.08;
constexpr double kWorksAbove = 0.5;
constexpr double kBusyAbove = 0.8;
// A GPU that waits in a collective draws 0.14 to 0.43 of its power range (signals/activity.hpp); SM
// under a quarter while busy is what other tools call ineffective.
constexpr double kSpinsBelow = 0.45;
constexpr double kIdleSmBelow = 0.25;
// highest over lowest power: with less there is no range to speak of
constexpr double kRangeAtLeast = 1.5;

std::optional<double> mean_since(const Series<double>& series, double from_ms) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = series.size(); i > 0 && series.t_ms[i - 1] >= from_ms; --i) {
    sum += series.values[i - 1];
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

// How long a reading may be quoted: logs have one every half minute, the driver ten a second.
double fresh_ms(const Series<double>& series) {
  if (series.size() < 2) return kFreshMs;
  return std::max(kFreshMs, 3 * (series.t_ms.back() - series.t_ms.front()) /
                                static_cast<double>(series.size() - 1));
}

std::optional<double> newest_of(const Series<double>& series, double now_ms) {
  if (series.empty() || series.t_ms.back() < now_ms - fresh_ms(series)) return std::nullopt;
  return series.values.back();
}

// What one GPU shows by itself.
struct Look {
  std::optional<double> busy;
  std::optional<double> work;  // 0..1 of its own power range; nothing: no range was seen
  std::optional<double> sm;
  bool hot = false;
};

Look look_at(const GpuTrack& gpu, double now_ms) {
  Look look;
  look.busy = mean_since(gpu.busy, now_ms - kLookMs);
  if (!look.busy) look.busy = newest_of(gpu.busy, now_ms);
  look.sm = newest_of(gpu.sm, now_ms);
  look.hot = !gpu.limits.empty() && is_throttled(gpu.limits.values.back());
  auto power = mean_since(gpu.power_mw, now_ms - kLookMs);
  if (!power) power = newest_of(gpu.power_mw, now_ms);
  if (!power || gpu.power_mw.size() < 10) return look;
  const auto [lowest, highest] =
      std::minmax_element(gpu.power_mw.values.begin(), gpu.power_mw.values.end());
  if (*highest > kRangeAtLeast * std::max(*lowest, 1.0))
    look.work = (*power - *lowest) / (*highest - *lowest);
  return look;
}

const Job* job_holding(const Report* report, int gpu) {
  if (report == nullptr) return nullptr;
  for (const Job& job : report->jobs)
    if (std::ranges::find(job.gpus, gpu) != job.gpus.end()) return &job;
  return nullptr;
}

bool found(const Report* report, FindingCode code, int gpu) {
  return report != nullptr && std::ranges::any_of(report->findings, [&](const Finding& finding) {
           return finding.code == code &&
                  std::ranges::find(finding.gpus, gpu) != finding.gpus.end();
         });
}

bool was_lost(const Timeline& timeline, int gpu) {
  bool lost = false;
  for (const EventAt& entry : timeline.events)
    if (entry.event.gpu == gpu && (entry.event.kind == "lost" || entry.event.kind == "recovered"))
      lost = entry.event.kind == "lost";
  return lost;
}

bool held_by_anyone(const Timeline& timeline, int gpu) {
  if (timeline.process_lists.empty()) return true;  // unread is not free
  const ProcessTick& processes = timeline.process_lists.back().processes;
  return std::ranges::any_of(processes, [&](const ProcessSample& process) {
    return std::ranges::any_of(process.gpus,
                               [&](const ProcessOnGpu& use) { return use.index == gpu; });
  });
}

// A GPU that does nothing: because nothing is to be done, or because it waits.
GpuState idle_state(const GpuTrack& gpu, const Job* job, double busiest_peer, const Report* report,
                    const Timeline& timeline) {
  const int index = gpu.info.index;
  if (found(report, FindingCode::idle_gpus, index)) return GpuState::idle_while_others_work;
  if (job == nullptr) return held_by_anyone(timeline, index) ? GpuState::idle : GpuState::free;
  const Pattern pattern = job->verdict ? job->verdict->pattern : Pattern::unclear;
  if (job->gpus.size() > 1 && busiest_peer >= kWorksAbove)
    return pattern == Pattern::one_leads ? GpuState::follows : GpuState::idle_while_others_work;
  if (found(report, FindingCode::input_starved, index) ||
      found(report, FindingCode::loader_without_workers, index))
    return GpuState::waiting_for_data;
  if (pattern == Pattern::idle || pattern == Pattern::unclear) return GpuState::idle;
  return GpuState::waiting_for_host;
}

bool spins(const Look& look, const Job* job, bool stuck) {
  if (job == nullptr || job->gpus.size() < 2 || look.busy.value_or(0) < kBusyAbove) return false;
  if (stuck) return true;
  if (look.sm && *look.sm >= kIdleSmBelow) return false;
  return look.work ? *look.work < kSpinsBelow : look.sm.has_value();
}

GpuState working_state(const Look& look, const Job* job, double busiest_peer) {
  const double busy = look.busy.value_or(0);
  if (job == nullptr || !job->verdict) return GpuState::working;
  switch (job->verdict->pattern) {
    case Pattern::in_step: return GpuState::in_step;
    case Pattern::pipeline: return GpuState::in_pipeline;
    case Pattern::taking_turns:
      return busy >= kBusyAbove && busiest_peer < kWorksAbove ? GpuState::its_turn
                                                              : GpuState::takes_turns;
    case Pattern::one_leads: return busy > busiest_peer ? GpuState::leads : GpuState::follows;
    case Pattern::single_gpu:
    case Pattern::independent:
    case Pattern::idle:
    case Pattern::unclear: return GpuState::working;
  }
  return GpuState::working;
}

}  // namespace

bool is_throttled(const ClockLimits& limits) {
  return limits.has(ClockLimit::hw_slowdown) || limits.has(ClockLimit::sw_thermal_slowdown) ||
         limits.has(ClockLimit::hw_thermal_slowdown) ||
         limits.has(ClockLimit::hw_power_brake_slowdown);
}

std::vector<GpuState> gpu_states(const Timeline& timeline, const Report* report) {
  std::vector<Look> looks;
  for (const GpuTrack& gpu : timeline.gpus) looks.push_back(look_at(gpu, timeline.to_ms));
  std::vector<GpuState> states;
  for (std::size_t i = 0; i < timeline.gpus.size(); ++i) {
    const GpuTrack& gpu = timeline.gpus[i];
    const Look& look = looks[i];
    const int index = gpu.info.index;
    const Job* const job = job_holding(report, index);
    double busiest_peer = 0;
    for (std::size_t other = 0; other < timeline.gpus.size(); ++other)
      if (other != i && job != nullptr &&
          job == job_holding(report, timeline.gpus[other].info.index))
        busiest_peer = std::max(busiest_peer, looks[other].busy.value_or(0));

    if (was_lost(timeline, index))
      states.push_back(GpuState::lost);
    else if (!look.busy)
      states.push_back(gpu.busy.empty() && timeline.to_ms - timeline.from_ms < kFreshMs
                           ? GpuState::unknown
                           : GpuState::no_reading);
    else if (*look.busy < kIdleBelow)
      states.push_back(idle_state(gpu, job, busiest_peer, report, timeline));
    else if (look.hot)
      states.push_back(GpuState::throttled);
    else if (spins(look, job, found(report, FindingCode::stuck_collective, index)))
      states.push_back(GpuState::spinning);
    else if (found(report, FindingCode::straggler_rank, index))
      states.push_back(GpuState::late);
    else if (found(report, FindingCode::power_capped, index))
      states.push_back(GpuState::power_capped);
    else if (*look.busy < kBusyAbove && found(report, FindingCode::input_starved, index))
      states.push_back(GpuState::waiting_for_data);
    else
      states.push_back(working_state(look, job, busiest_peer));
  }
  return states;
}

}  // namespace lockstep
