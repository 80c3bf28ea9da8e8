// D202: the main process loads the data itself, between the steps.
//
// Why it shows: DataLoader(num_workers=0) runs in the rank's own process: no worker processes below
// it, one core full, and the GPU empty in every step while the next batch is made. Confused with: a
// healthy process, whose core is full too (it waits for the GPU by spinning): so the idle time of
// the GPU is needed; a loader of threads (tf.data, DALI), which has no worker processes either and
// keeps more than one core. Blind: where the process tree cannot be read.
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"

namespace lockstep {
namespace {

// A probe in the process knows the loader itself. Handing a batch over a queue takes a millisecond:
// below that nothing is won.
std::optional<Finding> workers_from_probes(const JobSignals& job) {
  constexpr double kFetchMs = 1.0;
  constexpr double kShareAtLeast = 0.05;
  const LoaderSetting* const loader = training_loader(job);
  if (loader == nullptr || loader->workers > 0) return std::nullopt;
  double by_hand = 0;  // no worker takes that over
  for (const PlaceSignals& place : job.steps->places)
    if (place.part == StepPart::data_wait && !place.place.what.starts_with("DataLoader"))
      by_hand += place.most_share;
  const double share = std::max(0.0, exposed_data_wait(job) - by_hand);
  const double removable = std::max(
      0.0, share - std::max(1.0, job.steps->passes_a_step) * kFetchMs / job.steps->duration_p50_ms);
  if (share < kShareAtLeast || removable < 0.02) return std::nullopt;
  Finding finding =
      about_job(FindingCode::loader_without_workers, job, Severity::warning, 0.95, removable,
                {{"loader_workers", 0, 1.0, "processes"},
                 {"data_wait_share", share, kShareAtLeast, "fraction"}});
  name_places(finding, job, main_places(job, StepPart::data_wait));
  return finding;
}

// From outside a core that is full may make batches, launch kernels, or compute anything else (seen
// on an H200: gc.collect() over millions of objects). Python stacks tell.
double sure_of_loading(const JobSignals& job, const Signals& signals) {
  if (is_coarse(signals) || hardly_works_when_busy(job, signals)) return 0.4;
  if (stacks_tell(job)) return loads_data_at_rest(job) ? 0.85 : 0.45;
  if (job.host.doing) return job.host.doing->reading >= kStarvedWaitShare ? 0.58 : 0.45;
  return reads_much(job.host) ? 0.58 : 0.5;
}

}  // namespace

std::vector<Finding> find_loader_without_workers(const Seen& seen) {
  constexpr double kIdleAtLeast = 0.1;
  constexpr double kOneCore = 0.7;
  constexpr double kSeveralCores = 2.5;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (is_probed(job) && job.settings && steps_can_be_judged(seen, i)) {
      if (auto finding = workers_from_probes(job)) findings.push_back(std::move(*finding));
      continue;
    }
    if (!in_step_or_alone(pattern_of(seen, i)) || !trains(job) ||
        job.host.most_loader_workers != 0 || !job.host.main_cpu)
      continue;
    const bool measured = job.steps && job.steps->count >= 5;
    if (!measured && (idle_is_saving(job) || stacks_say_it_is_not_data(job))) continue;
    const double idle = measured ? job.steps->share[index_of(StepPart::data_wait)] : job.at_rest();
    if (idle < kIdleAtLeast || *job.host.main_cpu < kOneCore || *job.host.main_cpu > kSeveralCores)
      continue;
    const double confidence =
        measured ? is_coarse(seen.signals) ? 0.4 : 0.9 : sure_of_loading(job, seen.signals);
    findings.push_back(about_job(
        FindingCode::loader_without_workers, job, Severity::warning, confidence, idle,
        {{"loader_workers", 0, 1.0, "processes"},
         {"main_process_cpu", *job.host.main_cpu, kOneCore, "cores"},
         {measured ? "data_wait_share" : "idle_together", idle, kIdleAtLeast, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
