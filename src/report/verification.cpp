#include "report/verification.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/median.hpp"

namespace lockstep {
namespace {

// Of the two-sided 95 % interval, by degrees of freedom.
double students_t(std::size_t freedom) {
  static constexpr std::array<double, 10> kTable = {12.706, 4.303, 3.182, 2.776, 2.571,
                                                    2.447,  2.365, 2.306, 2.262, 2.228};
  return freedom == 0               ? std::numeric_limits<double>::infinity()
         : freedom <= kTable.size() ? kTable[freedom - 1]
                                    : 2.0 + 2.4 / static_cast<double>(freedom);
}

// The batch of the loader that a rank went over most.
std::optional<double> batch_of(const Timeline& timeline, int rank) {
  std::optional<double> batch;
  double most = 0;
  for (const FactAt& entry : timeline.facts) {
    if (entry.fact.name != "loader" || entry.fact.rank != rank) continue;
    const auto passes = entry.fact.values.find("passes");
    const auto size = entry.fact.values.find("batch");
    if (size == entry.fact.values.end()) continue;
    const double count =
        passes == entry.fact.values.end() ? 1 : std::strtod(passes->second.c_str(), nullptr);
    const double value = std::strtod(size->second.c_str(), nullptr);
    if (value > 0 && count >= most) {
      most = count;
      batch = value;
    }
  }
  return batch;
}

}  // namespace

RunSpeed speed_of(const Timeline& timeline, double seconds) {
  // after the warm-up: fewer are over before they are steady
  constexpr std::size_t kFewestSteps = 10;
  constexpr double kShortest_s = 0.2;
  constexpr double kWarmUp = 0.2;  // of the steps, and two at least
  RunSpeed speed;
  speed.seconds = seconds;
  std::map<int, std::vector<const StepAt*>> ranks;
  for (const StepAt& entry : timeline.steps) ranks[entry.step.rank].push_back(&entry);
  double batches = 0;
  double samples = 0;
  bool all_have_batches = !ranks.empty();
  for (const auto& [rank, steps] : ranks) {
    if (steps.size() < kFewestSteps + 2) return speed;
    const std::size_t first = std::max<std::size_t>(
        2, static_cast<std::size_t>(kWarmUp * static_cast<double>(steps.size())));
    if (steps.size() - first < kFewestSteps) return speed;
    double passes = 0;
    for (std::size_t i = first; i < steps.size(); ++i) passes += steps[i]->step.passes.value_or(1);
    const double lasted = (steps.back()->t_ms - steps[first - 1]->t_ms) / 1000;
    if (lasted < kShortest_s) return speed;
    batches += passes / lasted;
    const auto batch = batch_of(timeline, rank);
    all_have_batches = all_have_batches && batch.has_value();
    samples += batch.value_or(0) * passes / lasted;
  }
  if (batches > 0) speed.batches_per_s = batches;
  if (batches > 0 && all_have_batches) speed.samples_per_s = samples;
  return speed;
}

SpeedBasis common_basis(const std::vector<std::vector<RunSpeed>>& runs) {
  const auto all_have = [&](auto has) {
    return std::ranges::all_of(runs, [&](const std::vector<RunSpeed>& variant) {
      return std::ranges::all_of(variant, has);
    });
  };
  if (all_have([](const RunSpeed& run) { return run.samples_per_s.has_value(); }))
    return SpeedBasis::samples;
  if (all_have([](const RunSpeed& run) { return run.batches_per_s.has_value(); }))
    return SpeedBasis::batches;
  if (all_have([](const RunSpeed& run) { return run.gpu_work.value_or(0) > 0; }))
    return SpeedBasis::gpu_work;
  return SpeedBasis::whole_run;
}

bool only_steps_gain(const Verification& verification) {
  if (verification.cut_short || verification.variants.size() < 2 ||
      (verification.basis != SpeedBasis::samples && verification.basis != SpeedBasis::batches))
    return false;
  return verification.speedups.back().helped() &&
         median(verification.variants.back().seconds) >
             0.98 * median(verification.variants.front().seconds);
}

bool is_proven(const Verification& verification) {
  return verification.speedups.back().helped() && !only_steps_gain(verification);
}

double speed_by(SpeedBasis basis, const RunSpeed& run) {
  switch (basis) {
    case SpeedBasis::samples: return run.samples_per_s.value_or(0);
    case SpeedBasis::batches: return run.batches_per_s.value_or(0);
    case SpeedBasis::gpu_work: return run.gpu_work.value_or(0);
    case SpeedBasis::whole_run: break;
  }
  return run.seconds > 0 ? 1 / run.seconds : 0;
}

Speedup speedup_between(std::span<const double> before, std::span<const double> after) {
  std::vector<double> logs;
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i)
    if (before[i] > 0 && after[i] > 0) logs.push_back(std::log(after[i] / before[i]));
  Speedup speedup;
  speedup.high = std::numeric_limits<double>::infinity();
  if (logs.empty()) return speedup;
  double mean = 0;
  for (const double value : logs) mean += value / static_cast<double>(logs.size());
  speedup.ratio = std::exp(median(logs));
  if (logs.size() < 2) return speedup;
  double variance = 0;
  for (const double value : logs)
    variance += (value - mean) * (value - mean) / static_cast<double>(logs.size() - 1);
  const double half =
      students_t(logs.size() - 1) * std::sqrt(variance / static_cast<double>(logs.size()));
  speedup.low = std::exp(mean - half);
  speedup.high = std::exp(mean + half);
  return speedup;
}

}  // namespace lockstep
