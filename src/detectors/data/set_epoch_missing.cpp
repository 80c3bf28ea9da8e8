// D205: the data comes in the same order in every epoch.
//
// Why it shows: DistributedSampler shuffles by its seed and its epoch. A probe reads the epoch at
// the begin of each pass: the same twice means that nobody called set_epoch, and every epoch deals
// out the same batches. Confused with: samplers that do not shuffle, a loader that is passed over
// again within an epoch on purpose.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_set_epoch_missing(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_told(job)) continue;
    const LoaderSetting* const loader = training_loader(job);
    if (loader == nullptr || !loader->shards || !loader->shuffles || loader->same_epochs < 1)
      continue;
    Finding finding = about_job(FindingCode::set_epoch_missing, job, Severity::warning, 0.9, 0,
                                {{"passes_with_the_epoch_before",
                                  static_cast<double>(loader->same_epochs), 1.0, "passes"}});
    blame_the_loader(finding, job);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
