// D204: every rank trains on the same data.
//
// Why it shows: with several ranks a loader needs a sampler that deals the data out
// (DistributedSampler, or what Accelerate and Trainer put around it). A probe reads the sampler in
// each rank: one that knows of no replicas gives all ranks the same samples, so N GPUs do the work
// of one, N times over. Confused with: streamed datasets, which are split by their own code;
// loaders that are not trained from (evaluation).
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_unsharded_data(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_told(job) || job.settings->world_size < 2 || job.steps->ranks.size() < 2) continue;
    const LoaderSetting* const loader = training_loader(job);
    if (loader == nullptr || loader->shards || loader->streams || !exchanges(job)) continue;
    const double ranks = job.settings->world_size;
    // A shuffling sampler with a seed of its own on each rank gives other samples: no epoch is one,
    // but the work is not the same.
    const bool one_order =
        !loader->order_seed.empty() &&
        std::ranges::all_of(job.settings->loaders, [&](const LoaderSetting& other) {
          return other.order_seed == loader->order_seed;
        });
    const bool drawn_apart = !one_order && loader->shuffles && job.settings->seeds.size() > 1 &&
                             std::ranges::any_of(job.settings->seeds, [&](const auto& seed) {
                               return seed.second != job.settings->seeds.begin()->second;
                             });
    Finding finding = about_job(
        FindingCode::unsharded_data, job, drawn_apart ? Severity::warning : Severity::critical,
        drawn_apart ? 0.7 : 0.9, drawn_apart ? 0 : 1 - 1 / ranks,
        {{"ranks", ranks, 2.0, "ranks"}, {"ranks_in_the_sampler", 0, ranks, "ranks"}});
    blame_the_loader(finding, job);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
