// X717: every rank evaluates its own share, and nobody adds the shares up.
//
// Why it shows: evaluation on all ranks, and in the whole run not one collective that the program
// called itself: the metric that is printed is that of one rank's share. DDP's own collectives do
// not count. Confused with: every rank evaluating all the data (wasteful, and the metric is right);
// libraries that gather in their own way. So it is a suspicion.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_unreduced_metric(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_probed(job) || job.steps->ranks.size() < 2) continue;
    const auto places = main_places(job, StepPart::evaluation);
    if (places.empty() || places.front()->ranks.size() < job.steps->ranks.size()) continue;
    const bool reduces = std::ranges::any_of(job.steps->places, [](const PlaceSignals& place) {
      return place.part == StepPart::collective_exposed &&
             place.place.what != "gradient all-reduce";
    });
    if (reduces) continue;
    Finding finding = about_job(
        FindingCode::unreduced_metric, job, Severity::info, 0.45, 0,
        {{"ranks_that_evaluate", static_cast<double>(places.front()->ranks.size()), 2.0, "ranks"}});
    name_places(finding, job, places);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
