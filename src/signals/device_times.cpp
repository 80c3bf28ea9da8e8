#include "signals/device_times.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

using Steps = std::vector<const StepMark*>;

struct RankSum {
  double wall_ms = 0;
  double steps = 0;
  StepOnDevices sum;  // all numbers added up, but its devices
  std::map<int, DeviceTime> devices;
  Steps with_records;
  Steps beside_cupti;  // which was there all of the step, and recorded nothing
  Steps undisturbed;
};

constexpr std::size_t kFewestCompared = 5;

double duration(const StepMark& step) { return step.duration_ms; }

// The first batches take their time: a step of the warm-up is compared without them.
double without_its_batch(const StepMark& step) {
  return step.duration_ms - step.spans_ms[index_of(StepPart::data_wait)].value_or(0);
}

double length_of(const Steps& steps, double (*measure)(const StepMark&), double share) {
  std::vector<double> lengths;
  for (const StepMark* const step : steps) lengths.push_back(measure(*step));
  return quantile(lengths, share).value_or(0);
}

// What steps beside CUPTI are compared with.
struct Reference {
  const Steps* steps = nullptr;
  double (*measure)(const StepMark&) = nullptr;

  // By how much such steps take longer, usually.
  double longer_ms(const Steps& than) const {
    return length_of(than, measure, 0.5) - length_of(*steps, measure, 0.5);
  }
  bool explains(const Steps& longer) const {
    return length_of(longer, measure, 0.25) <= length_of(*steps, measure, 0.75);
  }
};

// Steps without CUPTI: where it stays from its first window on, those are of the warm-up.
std::optional<Reference> undisturbed_steps(const RankSum& sum, const Steps& early) {
  if (sum.undisturbed.size() >= kFewestCompared) return Reference{&sum.undisturbed, duration};
  if (early.size() >= kFewestCompared) return Reference{&early, without_its_batch};
  return std::nullopt;
}

// By which share steps behind the windows are longer, where CUPTI stayed to the last.
double slowed_for_good(const StepMark& last, const RankSum& sum, const Steps& early) {
  const auto reference = undisturbed_steps(sum, early);
  if (!last.beside_cupti || !reference || sum.beside_cupti.size() < kFewestCompared ||
      reference->explains(sum.beside_cupti))
    return 0;
  const double undisturbed_ms = length_of(*reference->steps, reference->measure, 0.5);
  return undisturbed_ms > 0 ? reference->longer_ms(sum.beside_cupti) / undisturbed_ms : 0;
}

// By how much records made a step longer. Early steps may be slow for reasons of their own; then
// those beside CUPTI tell a part of it.
double longer_with_records_ms(const RankSum& sum, const Steps& early) {
  if (sum.with_records.size() < kFewestCompared) return 0;
  const auto reference = undisturbed_steps(sum, early);
  double longer = reference ? reference->longer_ms(sum.with_records) : 0;
  if (sum.undisturbed.size() < kFewestCompared && sum.beside_cupti.size() >= kFewestCompared)
    longer = std::max(longer, Reference{&sum.beside_cupti, duration}.longer_ms(sum.with_records));
  return longer;
}

// What the probe itself made the steps longer by, in all. It makes launches dearer, so it is taken
// out of the idle time in which the host launched.
double take_out_the_probe(RankSum& sum, const Steps& early) {
  StepOnDevices& time = sum.sum;
  double launching = 0;
  for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
    launching += time.idle_ms[index_of(part)];
  const double longer = std::clamp(longer_with_records_ms(sum, early) * sum.steps, 0.0, launching);
  if (longer <= 0) return 0;
  for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
    time.idle_ms[index_of(part)] *= 1 - longer / launching;
  time.launch_gaps_ms = std::max(0.0, time.launch_gaps_ms - longer);
  const double share = longer / sum.wall_ms;
  sum.wall_ms -= longer;
  return share;
}

void add(const StepMark& step, RankSum& sum) {
  const StepOnDevices& time = *step.on_devices;
  sum.wall_ms += step.duration_ms;
  sum.steps += 1;
  sum.with_records.push_back(&step);
  for (const DeviceTime& device : time.devices) {
    DeviceTime& of = sum.devices[device.device];
    of.computes_ms += device.computes_ms;
    of.collective_ms += device.collective_ms;
    of.exposed_ms += device.exposed_ms;
    of.copies_ms += device.copies_ms;
    of.kernels += device.kernels;
  }
  for (std::size_t i = 0; i < time.idle_ms.size(); ++i) sum.sum.idle_ms[i] += time.idle_ms[i];
  sum.sum.any_ms += time.any_ms;
  sum.sum.exclusive_ms += time.exclusive_ms;
  sum.sum.hand_overs += time.hand_overs;
  sum.sum.launch_gaps_ms += time.launch_gaps_ms;
  sum.sum.launch_gaps += time.launch_gaps;
  sum.sum.waits += time.waits;
  sum.sum.waits_ms += time.waits_ms;
  sum.sum.pageable_bytes += time.pageable_bytes;
  sum.sum.pageable_ms += time.pageable_ms;
  sum.sum.plain_matmul_ms += time.plain_matmul_ms;
  sum.sum.tensor_core_ms += time.tensor_core_ms;
  sum.sum.overhead_ms += time.overhead_ms;
}

RankDevices shares_of(int rank, const RankSum& sum) {
  RankDevices of;
  of.rank = rank;
  double computing_ms = 0;
  for (const auto& [device, time] : sum.devices) {
    DeviceUse use;
    use.device = device;
    use.computes = time.computes_ms / sum.wall_ms;
    use.exposed = time.exposed_ms / sum.wall_ms;
    use.hidden = std::max(0.0, time.collective_ms - time.exposed_ms) / sum.wall_ms;
    use.copies = time.copies_ms / sum.wall_ms;
    use.idle = std::max(0.0, 1 - use.busy());  // also of steps in which it did nothing at all
    use.kernels_a_step = static_cast<double>(time.kernels) / sum.steps;
    of.devices.push_back(use);
    computing_ms += time.computes_ms;
  }
  for (std::size_t i = 0; i < of.idle.size(); ++i) of.idle[i] = sum.sum.idle_ms[i] / sum.wall_ms;
  of.exclusive = sum.sum.any_ms > 0 ? sum.sum.exclusive_ms / sum.sum.any_ms : 0;
  of.hand_overs_a_step = static_cast<double>(sum.sum.hand_overs) / sum.steps;
  of.launch_gaps = sum.sum.launch_gaps_ms / sum.wall_ms;
  of.launch_gaps_a_step = static_cast<double>(sum.sum.launch_gaps) / sum.steps;
  of.waits = sum.sum.waits_ms / sum.wall_ms;
  of.waits_a_step = static_cast<double>(sum.sum.waits) / sum.steps;
  of.pageable = sum.sum.pageable_ms / sum.wall_ms;
  of.pageable_bytes_a_step = sum.sum.pageable_bytes / sum.steps;
  of.plain_matmul = computing_ms > 0 ? sum.sum.plain_matmul_ms / computing_ms : 0;
  of.tensor_cores = computing_ms > 0 ? sum.sum.tensor_core_ms / computing_ms : 0;
  of.overhead = sum.sum.overhead_ms / sum.wall_ms;
  return of;
}

// While the host does these, it asks nothing of the GPU.
constexpr std::array kRests = {StepPart::data_wait, StepPart::logging, StepPart::checkpoint,
                               StepPart::gc, StepPart::other};

// Steps of a rank, and which of them took much longer than most: those with a save, an evaluation
// or a late batch.
class StepsOfRank {
 public:
  explicit StepsOfRank(Steps steps) : steps_(std::move(steps)) {
    std::vector<double> durations;
    for (const StepMark* const step : steps_) durations.push_back(step->duration_ms);
    usual_ms_ = median_of(durations).value_or(0);
    const auto recorded = std::ranges::count_if(
        steps_, [](const StepMark* step) { return step->on_devices.has_value(); });
    const auto recorded_as_usual = std::ranges::count_if(
        steps_, [&](const StepMark* step) { return step->on_devices && !is_long(*step); });
    constexpr std::ptrdiff_t kFewest = 3;
    sampled_ = recorded < std::ssize(steps_) && recorded_as_usual >= kFewest;
  }

  // Records are taken in few steps, and what happens in one of forty is seldom among them: where
  // not all have them, those that are like most stand for all.
  RankSum added_up() const {
    RankSum sum;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const StepMark* const step = steps_[i];
      if (sampled_ && is_long(*step)) continue;
      if (step->on_devices)
        add(*step, sum);
      else if (!step->beside_cupti)
        sum.undisturbed.push_back(step);
      else if (!holds_an_edge(i))
        sum.beside_cupti.push_back(step);
    }
    return sum;
  }

  const StepMark& last() const { return *steps_.back(); }

  // What made the long ones longer, by their parts. Each recorded step stands for several.
  void add_long_rests(RankSum& sum) const {
    if (!sampled_) return;
    const double stands_for = static_cast<double>(steps_.size()) / sum.steps;
    std::array<double, kRests.size()> usual{};
    for (std::size_t i = 0; i < kRests.size(); ++i) {
      std::vector<double> spans;
      for (const StepMark* const step : steps_)
        if (!is_long(*step)) spans.push_back(span_of(*step, kRests[i]));
      usual[i] = median_of(spans).value_or(0);
    }
    for (const StepMark* const step : steps_) {
      if (!is_long(*step)) continue;
      std::array<double, kRests.size()> longer{};
      for (std::size_t i = 0; i < kRests.size(); ++i)
        longer[i] = std::max(0.0, span_of(*step, kRests[i]) - usual[i]);
      const double in_all = std::accumulate(longer.begin(), longer.end(), 0.0);
      const double kept = in_all > 0 ? std::min(1.0, (step->duration_ms - usual_ms_) / in_all) : 0;
      for (std::size_t i = 0; i < kRests.size(); ++i)
        sum.sum.idle_ms[index_of(kRests[i])] += kept * longer[i] / stands_for;
      sum.wall_ms += kept * in_all / stands_for;
    }
  }

 private:
  bool is_long(const StepMark& step) const {
    constexpr double kTimesLonger = 1.5;
    return step.duration_ms > kTimesLonger * usual_ms_;
  }
  // Of a window: CUPTI came in that step, or left.
  bool holds_an_edge(std::size_t i) const {
    return (i > 0 && steps_[i - 1]->on_devices) ||
           (i + 1 < steps_.size() && steps_[i + 1]->on_devices);
  }
  static double span_of(const StepMark& step, StepPart part) {
    return step.spans_ms[index_of(part)].value_or(0);
  }

  Steps steps_;
  double usual_ms_ = 0;
  bool sampled_ = false;
};

}  // namespace

std::optional<DeviceSignals> device_signals(const std::vector<StepAt>& steps,
                                            const std::vector<StepAt>& with_warm_up) {
  constexpr std::int64_t kFirstSteps = 3;  // they start loaders and libraries
  std::map<int, Steps> early;
  for (const StepAt& entry : with_warm_up)
    if (entry.step.index > kFirstSteps && !entry.step.beside_cupti && !entry.step.on_devices)
      early[entry.step.rank].push_back(&entry.step);
  std::map<int, Steps> of_rank;
  for (const StepAt& entry : steps)
    if (entry.step.duration_ms > 0) of_rank[entry.step.rank].push_back(&entry.step);
  DeviceSignals signals;
  signals.steps = INT64_MAX;
  for (auto& [rank, own] : of_rank) {
    const StepsOfRank all(std::move(own));
    RankSum sum = all.added_up();
    if (sum.steps == 0) continue;
    const double for_good = slowed_for_good(all.last(), sum, early[rank]);
    const double of_the_probe = take_out_the_probe(sum, early[rank]);
    all.add_long_rests(sum);
    signals.ranks.push_back(shares_of(rank, sum));
    signals.ranks.back().slowed_by_probe = of_the_probe;
    signals.ranks.back().slowed_for_good = for_good;
    signals.steps = std::min(signals.steps, static_cast<std::int64_t>(sum.steps));
  }
  if (signals.ranks.empty()) return std::nullopt;
  return signals;
}

void weigh_in_evaluation(double evaluation, double busy, RankDevices& rank) {
  if (rank.devices.size() != 1 || evaluation <= 0 || evaluation >= 1) return;
  DeviceUse& use = rank.devices.front();
  const double beside = 1 - evaluation;
  const double busy_in_it = std::clamp((busy - beside * use.busy()) / evaluation, 0.0, 1.0);
  for (double* const share : {&use.computes, &use.exposed, &use.hidden, &use.copies,
                              &rank.launch_gaps, &rank.waits, &rank.pageable, &rank.overhead})
    *share *= beside;
  for (double& share : rank.idle) share *= beside;
  use.computes += evaluation * busy_in_it;
  use.idle = std::max(0.0, 1 - use.busy());
  rank.idle[index_of(StepPart::evaluation)] += evaluation * (1 - busy_in_it);
}

void weigh_in_work_behind_waits(double busy, RankDevices& rank) {
  if (rank.devices.size() != 1) return;
  DeviceUse& use = rank.devices.front();
  double& idle = rank.idle[index_of(StepPart::data_wait)];
  const double worked = std::clamp(busy - use.busy(), 0.0, idle);
  idle -= worked;
  use.computes += worked;
  use.idle = std::max(0.0, 1 - use.busy());
}

}  // namespace lockstep
