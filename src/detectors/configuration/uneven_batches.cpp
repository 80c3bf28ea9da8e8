// X706: ranks have different numbers of batches in an epoch.
//
// Why it shows: every rank tells how long its loader is. DDP meets in every step, so the rank with
// more batches waits at the end for ranks that are done: it hangs until the timeout, or (with
// endless loops) epochs drift apart. Confused with: streamed datasets, whose length is not known;
// loaders that are not trained from. Cost: none in time until the epoch's end; it is a fault,
// whatever it costs.
#include <algorithm>

#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_uneven_batches(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_told(job) || !exchanges(job)) continue;
    const LoaderSetting* const loader = training_loader(job);
    if (loader == nullptr || loader->streams) continue;
    std::vector<int> batches;
    for (const LoaderSetting& other : job.settings->loaders) {
      // Ids are addresses in a Python program: only a loader of the same shape is the same loader
      // on another rank.
      const bool same = other.id == loader->id ||
                        (other.batch == loader->batch && other.sampler == loader->sampler &&
                         other.passes == loader->passes);
      if (same && other.batches) batches.push_back(*other.batches);
    }
    if (batches.size() < 2) continue;
    const auto [fewest, most] = std::ranges::minmax_element(batches);
    if (*fewest == *most) continue;
    Finding finding = about_job(
        FindingCode::uneven_batches, job, Severity::critical, 0.85, 0,
        {{"batches_most", static_cast<double>(*most), static_cast<double>(*fewest), "batches"},
         {"batches_fewest", static_cast<double>(*fewest), std::nullopt, "batches"}});
    blame_the_loader(finding, job);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
