#include "report/loader_answer.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep {
namespace {

constexpr double kMargin = 0.9;         // a loader this much of a step is just hidden
constexpr double kLongTransferMs = 10;  // a batch's way to the GPU that is worth a word
constexpr double kPinnedWorthIt = 1.3;  // pageable over pinned
constexpr int kMostWorkers = 64;

std::string milliseconds(double value) {
  const auto hundredths = static_cast<long>(std::lround(value * 100));
  const std::string cents = std::to_string(std::abs(hundredths) % 100);
  return std::to_string(hundredths / 100) + "." + (cents.size() < 2 ? "0" + cents : cents) + " ms";
}

// The fewest that were seen to keep up, else as many as the time of one worker asks for.
void choose_workers(LoaderAnswer& answer, const JobSignals& job) {
  std::ranges::sort(answer.trials, [](const LoaderTrial& a, const LoaderTrial& b) {
    return a.workers < b.workers;
  });
  for (const LoaderTrial& trial : answer.trials)
    if (trial.batch_ms <= kMargin * answer.step_alone_ms) {
      answer.enough_workers = trial.workers;
      answer.tried = true;
      return;
    }
  if (!answer.trials.empty()) return;  // none of them kept up
  const double of_one = answer.alone.workers == 0 ? answer.alone.batch_ms
                                                  : answer.alone.batch_ms * answer.alone.workers;
  double one_batch_ms = of_one;
  if (job.settings)
    for (const auto& [loader, took_ms] : job.settings->batch_ms_of_worker)
      one_batch_ms = std::max(one_batch_ms, took_ms);
  const double needed = std::ceil(one_batch_ms / (kMargin * answer.step_alone_ms));
  if (std::isfinite(needed) && needed <= kMostWorkers)
    answer.enough_workers = std::max(1, static_cast<int>(needed));
}

// While one worker makes its longest batch the others and what lies ready must do: that many steps'
// worth, dealt out among them.
void choose_prefetch(LoaderAnswer& answer, const JobSignals& job) {
  constexpr int kDefault = 2;
  constexpr int kMost = 16;
  double longest_ms = job.settings->longest_batch_ms;
  for (const LoaderTrial& trial : answer.trials)
    if (trial.workers == 0) longest_ms = std::max(longest_ms, trial.longest_ms);
  if (answer.alone.workers == 0) longest_ms = std::max(longest_ms, answer.alone.longest_ms);
  const double steps = longest_ms / std::max(answer.step_alone_ms, 0.01);
  answer.enough_prefetch = std::clamp(
      static_cast<int>(std::ceil(std::min(steps, 1e6) / std::max(1, *answer.enough_workers))) + 1,
      kDefault, kMost);
}

}  // namespace

std::optional<LoaderAnswer> loader_answer(const JobSignals& job) {
  if (!job.settings || !job.settings->loader_alone || !job.steps) return std::nullopt;
  LoaderAnswer answer;
  answer.alone = *job.settings->loader_alone;
  answer.trials = job.settings->loader_trials;
  answer.transfer = job.settings->transfer;
  const StepSignals& steps = *job.steps;
  answer.step_alone_ms =
      std::max(0.0, steps.duration_p50_ms - steps.p50_ms[index_of(StepPart::data_wait)] -
                        steps.p50_ms[index_of(StepPart::copy)]);
  answer.loading_is_slow =
      answer.alone.workers == 0
          ? steps.share[index_of(StepPart::data_wait)] > 0.05 && answer.alone.batch_ms > 1
          : answer.alone.batch_ms > kMargin * answer.step_alone_ms;
  if (answer.loading_is_slow) choose_workers(answer, job);
  if (answer.enough_workers.value_or(0) > 0) choose_prefetch(answer, job);
  const std::string own =
      std::to_string(answer.alone.workers) + (answer.alone.workers == 1 ? " worker" : " workers");
  if (!answer.loading_is_slow) {
    answer.sentence = "The loader keeps up: a batch in " + milliseconds(answer.alone.batch_ms) +
                      " with " + own + ", and a step takes " + milliseconds(answer.step_alone_ms) +
                      " without it. More workers would change nothing.";
  } else if (answer.alone.workers == 0) {
    answer.sentence = "The training process makes each batch itself, in " +
                      milliseconds(answer.alone.batch_ms) + ", beside a step of " +
                      milliseconds(answer.step_alone_ms) + ".";
  } else {
    answer.sentence = "The loader is what is slow: a batch in " +
                      milliseconds(answer.alone.batch_ms) + " with " + own + ", and a step takes " +
                      milliseconds(answer.step_alone_ms) + " without it.";
  }
  if (answer.loading_is_slow && answer.enough_workers)
    answer.sentence += " " + std::to_string(*answer.enough_workers) +
                       (*answer.enough_workers == 1 ? " worker" : " workers") +
                       (answer.tried ? " kept up when tried."
                                     : " should hide it (by what one takes; --tune tries).") +
                       (answer.enough_prefetch.value_or(2) > 2
                            ? " prefetch_factor=" + std::to_string(*answer.enough_prefetch) +
                                  " covers the longest batch."
                            : "");
  else if (answer.loading_is_slow && !answer.trials.empty())
    answer.sentence +=
        " None of the numbers of workers that were tried keeps up: the dataset itself has to "
        "become cheaper (decode less, cache, store ready tensors).";
  if (answer.transfer && answer.transfer->pageable_ms.value_or(0) > kLongTransferMs)
    answer.warnings.push_back(
        "a batch takes " + milliseconds(*answer.transfer->pageable_ms) +
        " to the GPU from ordinary memory" +
        (answer.transfer->pinned_ms
             ? ", " + milliseconds(*answer.transfer->pinned_ms) + " from pinned memory"
             : "") +
        ": more than 10 ms is worth hiding (pin_memory=True, non_blocking=True)");
  else if (answer.transfer && answer.transfer->pinned_ms &&
           *answer.transfer->pageable_ms > kPinnedWorthIt * *answer.transfer->pinned_ms &&
           *answer.transfer->pageable_ms > 0.02 * answer.step_alone_ms)
    answer.warnings.push_back("pinned memory would bring a batch to the GPU in " +
                              milliseconds(*answer.transfer->pinned_ms) + " instead of " +
                              milliseconds(*answer.transfer->pageable_ms));
  return answer;
}

}  // namespace lockstep
