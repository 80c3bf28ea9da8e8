#include "signals/step_times.hpp"

#include <algorithm>
#include <map>

#include "signals/device_times.hpp"
#include "signals/statistics.hpp"
#include "signals/step_course.hpp"
#include "signals/step_places.hpp"

namespace lockstep {
namespace {

// Of two steps it lies between them: logs of runs whose steps take half an hour tell of few.
double middle_of(std::vector<double> durations) {
  const auto half = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::ranges::nth_element(durations, half);
  if (durations.size() % 2 == 1) return *half;
  return (*half + *std::max_element(durations.begin(), half)) / 2;
}

constexpr std::size_t kParts = kStepSpanNames.size();

constexpr std::size_t part(std::string_view name) {
  for (std::size_t i = 0; i < kParts; ++i)
    if (kStepSpanNames[i] == name) return i;
  return kParts;
}
constexpr std::size_t kDataWait = part("data_wait");
constexpr std::size_t kCollectiveExposed = part("collective_exposed");
constexpr std::size_t kCollectiveHidden = part("collective_hidden");
constexpr std::size_t kOptimizer = part("optimizer");
constexpr std::size_t kCheckpoint = part("checkpoint");

double span(const StepMark& step, std::size_t which) {
  return std::max(0.0, step.spans_ms[which].value_or(0));
}

// The first steps under a probe are those in which it finds its way, torch its kernels and the
// allocators their blocks (seen on an H200: loaders that pin their batches took 20 ms for each of
// the first 35, and 0.4 ms from then on).
constexpr double kWarmUpShare = 0.2;
constexpr std::int64_t kWarmUpAtLeast = 2;
constexpr std::int64_t kWarmUpAtMost = 100;
constexpr std::int64_t kEnoughSteps = 12;
// of a few: the first holds the start of loaders and libraries, seconds where a step takes 43 ms
constexpr std::int64_t kFirstSteps = 3;

// The CUDA probe looks into few steps, a window at a time: in a run of 200 all of its windows may
// lie within the warm-up (seen on an H200: behind steps 8 and 32). The last of them says more than
// none.
constexpr std::ptrdiff_t kRecordedSteps = 7;

// Of each rank: the last step that does not count, where it was looked into.
class LastOfWarmUp {
 public:
  explicit LastOfWarmUp(const std::vector<StepAt>& steps) {
    std::map<int, std::vector<std::int64_t>> recorded;
    for (const StepAt& entry : steps) {
      ++of_rank_[entry.step.rank];
      if (entry.step.on_devices) recorded[entry.step.rank].push_back(entry.step.index);
    }
    for (auto& [rank, last] : of_rank_) {
      const auto share = static_cast<std::int64_t>(kWarmUpShare * static_cast<double>(last));
      last = last < kEnoughSteps ? kFirstSteps : std::clamp(share, kWarmUpAtLeast, kWarmUpAtMost);
      spare_records(recorded[rank], last);
    }
  }

  bool holds(const StepMark& step) const { return step.index <= of_rank_.at(step.rank); }

 private:
  static void spare_records(std::vector<std::int64_t>& recorded, std::int64_t& last) {
    if (recorded.empty()) return;
    std::ranges::sort(recorded);
    const auto kept = std::min(kRecordedSteps, std::ssize(recorded));
    last = std::min(last, std::max(kFirstSteps, *(recorded.end() - kept) - 1));
  }

  std::map<int, std::int64_t> of_rank_;
};

std::vector<StepAt> without_warm_up(const std::vector<StepAt>& steps) {
  const LastOfWarmUp warm_up(steps);
  std::vector<StepAt> kept;
  for (const StepAt& entry : steps)
    if ((!entry.step.detail && !entry.step.on_devices) || !warm_up.holds(entry.step))
      kept.push_back(entry);
  return kept;
}

// Some steps hold what comes again and again: a batch for which the whole loader is waited, a save.
// With one more or less of them at the ends of what was seen, their share is off by as much (six
// workers, 110 steps on an H200: 78 % for 74). So it begins behind one of them and ends with one.
void keep_whole_periods(std::vector<StepAt>& steps) {
  constexpr double kTimesLonger = 1.5;
  constexpr std::size_t kPeriodsAtLeast = 4;  // fewer are worth less than the steps that would go
  constexpr double kOfTheTime = 0.1;
  if (steps.empty()) return;
  const int rank =
      std::ranges::min(steps, {}, [](const StepAt& at) { return at.step.rank; }).step.rank;
  std::vector<double> lengths;
  double whole = 0;
  for (const StepAt& entry : steps)
    if (entry.step.rank == rank) {
      lengths.push_back(entry.step.duration_ms);
      whole += entry.step.duration_ms;
    }
  const double usual = median_of(lengths).value_or(0);
  // Longer for something that comes again; a step may also have had bad luck.
  const auto is_long = [&](const StepMark& step) {
    double rests = 0;
    for (const StepPart part : {StepPart::data_wait, StepPart::checkpoint, StepPart::evaluation,
                                StepPart::logging, StepPart::gc})
      rests += span(step, index_of(part));
    return step.duration_ms > kTimesLonger * usual && rests > 0.5 * (step.duration_ms - usual);
  };
  std::vector<std::int64_t> longer;
  double excess = 0;
  for (const StepAt& entry : steps)
    if (entry.step.rank == rank && is_long(entry.step)) {
      longer.push_back(entry.step.index);
      excess += entry.step.duration_ms - usual;
    }
  if (longer.size() <= kPeriodsAtLeast || excess < kOfTheTime * whole) return;
  const auto [first, last] = std::ranges::minmax(longer);
  std::erase_if(steps, [&, first = first, last = last](const StepAt& entry) {
    const bool outside = entry.step.index <= first || entry.step.index > last;
    // The few steps with the GPUs' records stand for all.
    return outside && (!entry.step.on_devices || is_long(entry.step));
  });
}

std::vector<StepMark> on_every_rank(const std::vector<const StepMark*>& steps, std::int64_t index) {
  std::map<int, const StepMark*> of_rank;
  for (const StepMark* const step : steps)
    if (step->index == index) of_rank.try_emplace(step->rank, step);
  std::vector<StepMark> marks;
  for (const auto& [rank, step] : of_rank) marks.push_back(*step);
  return marks;
}

void add_what_probes_saw(const std::vector<StepAt>& steps, StepSignals& signals) {
  std::vector<const StepMark*> detailed;
  std::map<int, double> wall_ms;
  double idle_ms = 0;
  double idle_of_ms = 0;
  double hidden_wait_ms = 0;
  double passes = 0;
  double synced = 0;
  double counted = 0;
  int dry = 0;
  for (const StepAt& entry : steps) {
    wall_ms[entry.step.rank] += entry.step.duration_ms;
    if (entry.step.passes) {
      passes += *entry.step.passes;
      synced += entry.step.synced_passes.value_or(0);
      counted += 1;
    }
    if (entry.step.gpu_ran_dry) {
      ++signals.gpu_asked;
      dry += *entry.step.gpu_ran_dry ? 1 : 0;
    }
    if (entry.step.gpu_idle_ms) {
      idle_ms += *entry.step.gpu_idle_ms;
      idle_of_ms += entry.step.duration_ms;
      if (entry.step.detail)
        for (const StepPiece& piece : entry.step.detail->pieces)
          if (piece.part == StepPart::data_wait) hidden_wait_ms += piece.hidden_ms;
    }
    if (entry.step.detail) detailed.push_back(&entry.step);
  }
  for (const auto& [rank, wall] : wall_ms)
    signals.wall_ms += wall / static_cast<double>(wall_ms.size());
  if (counted > 0) {
    signals.passes_a_step = passes / counted;
    signals.synced_passes_a_step = synced / counted;
  }
  if (idle_of_ms > 0) {
    signals.gpu_idle_share = idle_ms / idle_of_ms;
    signals.hidden_data_wait = hidden_wait_ms / idle_of_ms;
  }
  if (signals.gpu_asked > 0) signals.gpu_ran_dry = static_cast<double>(dry) / signals.gpu_asked;
  if (detailed.empty()) return;
  signals.places = places_of(detailed);
  std::ranges::sort(detailed, [](const StepMark* a, const StepMark* b) {
    return a->duration_ms < b->duration_ms;
  });
  signals.median_step = on_every_rank(detailed, detailed[detailed.size() / 2]->index);
  signals.worst_step = on_every_rank(detailed, detailed.back()->index);
}

// Of each step: how much longer the longest wait for data is than the mean of the ranks.
double uneven_data_wait(const std::vector<StepAt>& steps) {
  struct Waits {
    double sum = 0;
    double most = 0;
    double ranks = 0;
    double length = 0;
  };
  std::map<std::int64_t, Waits> of_step;
  for (const StepAt& entry : steps) {
    Waits& waits = of_step[entry.step.index];
    waits.sum += span(entry.step, kDataWait);
    waits.most = std::max(waits.most, span(entry.step, kDataWait));
    waits.length = std::max(waits.length, entry.step.duration_ms);
    ++waits.ranks;
  }
  double more = 0;
  double whole = 0;
  for (const auto& [index, waits] : of_step) {
    more += waits.most - waits.sum / waits.ranks;
    whole += waits.length;
  }
  return whole > 0 ? more / whole : 0;
}

}  // namespace

std::optional<StepSignals> step_signals(const std::vector<StepAt>& all_steps, WarmUp warm_up) {
  std::vector<StepAt> steps = warm_up == WarmUp::keep ? all_steps : without_warm_up(all_steps);
  if (warm_up == WarmUp::leave_out) keep_whole_periods(steps);
  std::map<int, std::vector<const StepMark*>> of_rank;
  // of each step: the least of any rank, and its length
  std::map<std::int64_t, std::pair<double, double>> least_exposed;
  // of each step: the rank that has it
  std::map<std::int64_t, int> last;
  StepSignals signals;
  std::vector<double> durations;
  std::array<std::vector<double>, kParts> spans;
  double micro_steps = 0;
  double micro_steps_with_collective = 0;
  for (const StepAt& entry : steps) {
    const StepMark& step = entry.step;
    if (!(step.duration_ms > 0)) continue;
    of_rank[step.rank].push_back(&step);
    const double exposed = span(step, kCollectiveExposed);
    const auto [least, is_first] = least_exposed.try_emplace(step.index, exposed, step.duration_ms);
    if (is_first || exposed < least->second.first) last[step.index] = step.rank;
    if (!is_first)
      least->second = {std::min(least->second.first, exposed),
                       std::max(least->second.second, step.duration_ms)};
    durations.push_back(step.duration_ms);
    const double began = entry.t_ms - step.duration_ms;
    signals.first_step_ms = durations.size() == 1 ? began : std::min(signals.first_step_ms, began);
    signals.last_step_ms = std::max(signals.last_step_ms, entry.t_ms);
    for (std::size_t i = 0; i < kParts; ++i) {
      spans[i].push_back(span(step, i));
      if (span(step, i) > 0) signals.present[i] += 1;
    }
    if (step.spans_ms[kOptimizer] && span(step, kOptimizer) <= 0) {
      ++micro_steps;
      if (span(step, kCollectiveExposed) + span(step, kCollectiveHidden) > 0)
        ++micro_steps_with_collective;
    }
  }
  if (durations.empty()) return std::nullopt;
  const auto all = static_cast<double>(durations.size());
  signals.duration_p50_ms = middle_of(durations);
  signals.steps_without_optimizer = micro_steps / all;
  signals.micro_steps_with_collective =
      micro_steps > 0 ? micro_steps_with_collective / micro_steps : 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    signals.present[i] /= all;
    signals.p50_ms[i] = *median_of(spans[i]);
    signals.p95_ms[i] = *quantile(spans[i], 0.95);
    signals.max_ms[i] = *quantile(spans[i], 1);
  }
  // In each step the last rank to arrive waits for nobody: what it spends in the collective is the
  // transfer itself.
  double exposed_ms = 0;
  double whole_ms = 0;
  for (const auto& [index, least] : least_exposed) {
    exposed_ms += least.first;
    whole_ms += least.second;
  }
  signals.exposed_on_all = whole_ms > 0 ? exposed_ms / whole_ms : 0;
  signals.uneven_data_wait = uneven_data_wait(steps);
  for (const auto& [rank, own] : of_rank) {
    RankSteps entry;
    entry.rank = rank;
    entry.count = static_cast<std::int64_t>(own.size());
    std::vector<double> lengths;
    std::array<std::vector<double>, kParts> parts;
    double whole = 0;
    for (const StepMark* const step : own) {
      for (std::size_t i = 0; i < kParts; ++i) parts[i].push_back(span(*step, i));
      lengths.push_back(step->duration_ms);
      whole += step->duration_ms;
      for (std::size_t i = 0; i < kParts; ++i) entry.share[i] += span(*step, i);
    }
    for (double& share : entry.share) share /= whole;
    entry.duration_ms = *median_of(lengths);
    for (std::size_t i = 0; i < kParts; ++i)
      entry.usual_share[i] = entry.duration_ms > 0 ? *median_of(parts[i]) / entry.duration_ms : 0;
    signals.count = std::max(signals.count, entry.count);
    const auto times_last = std::ranges::count_if(
        own, [&, rank = rank](const StepMark* step) { return last[step->index] == rank; });
    entry.last_to_arrive = static_cast<double>(times_last) / static_cast<double>(own.size());
    if (entry.share[kCheckpoint] > 0) ++signals.ranks_that_save;
    for (std::size_t i = 0; i < kParts; ++i)
      signals.share[i] += entry.share[i] / static_cast<double>(of_rank.size());
    signals.ranks.push_back(entry);
  }
  add_what_probes_saw(steps, signals);
  signals.devices = device_signals(steps, all_steps);
  signals.course = step_course(all_steps, steps);
  return signals;
}

}  // namespace lockstep
