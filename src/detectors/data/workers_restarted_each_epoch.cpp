// D206: the loader's workers end with each epoch and are started anew.
//
// Why it shows: without persistent_workers each pass over the loader forks or spawns its workers
// again, each of which imports the program and waits for its first batch: the first step of every
// epoch is long. A probe times the start itself. Confused with: the first epoch's start, which
// nobody can save: so two passes at least.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_workers_restarted_each_epoch(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_probed(job)) continue;
    const LoaderSetting* const loader = training_loader(job);
    if (loader == nullptr || loader->workers == 0 || loader->persistent || loader->passes < 2)
      continue;
    for (const PlaceSignals& place : job.steps->places) {
      if (place.place.what != "DataLoader workers start") continue;
      Finding finding = about_job(FindingCode::workers_restarted_each_epoch, job, Severity::warning,
                                  0.9, place.most_share,
                                  {{"start_share", place.most_share, 0.02, "fraction"},
                                   {"start_ms", place.step_p50_ms, std::nullopt, "ms"},
                                   {"passes", static_cast<double>(loader->passes), 2.0, "passes"}});
      name_places(finding, job, {&place});
      findings.push_back(std::move(finding));
      break;
    }
  }
  return findings;
}

}  // namespace lockstep
