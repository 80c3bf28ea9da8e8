// C409: a metric is all-reduced, or a barrier is called, in every step.
//
// Why it shows: a local sync waits for the rank's own GPU and is about as long on all ranks. A
// reduce that is read back waits for the other ranks: the sync part is there in every step, on
// several ranks, and is short where the rank itself is late. Only step marks show it. Confused
// with: host-sync-every-step (equal on all ranks).
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {
namespace {

// A probe sees the calls themselves; DDP's own gradients do not come that way, and a sharded
// model's are no metrics.
std::optional<Finding> reductions_from_probes(const JobSignals& job) {
  constexpr double kInEveryStep = 0.9;
  std::vector<const PlaceSignals*> places;
  double share = 0;
  for (const PlaceSignals& place : job.steps->places) {
    if (place.part != StepPart::collective_exposed || place.place.what == "gradient all-reduce" ||
        place.moves_shards() || place.present < kInEveryStep)
      continue;
    places.push_back(&place);
    share += place.share;
  }
  if (places.empty()) return std::nullopt;
  Finding finding = about_job(FindingCode::reduce_every_step, job, Severity::warning, 0.9, share,
                              {{"collective_calls_share", share, std::nullopt, "fraction"},
                               {"calls_a_step", places.front()->calls_a_step, 1.0, "calls"}});
  name_places(finding, job, places);
  return finding;
}

}  // namespace

std::vector<Finding> find_reduce_every_step(const Seen& seen) {
  constexpr double kShareAtLeast = 0.03;
  constexpr double kSpreadAtLeast = 0.3;  // of the largest
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!job.steps || job.steps->count < 5 || job.steps->ranks.size() < 2) continue;
    if (is_probed(job)) {
      if (auto finding = reductions_from_probes(job)) findings.push_back(std::move(*finding));
      continue;
    }
    const std::size_t sync = index_of(StepPart::sync);
    if (job.settings && job.settings->other_collectives_a_step >= 1) {  // the program counted them
      findings.push_back(about_job(
          FindingCode::reduce_every_step, job, Severity::warning, 0.9,
          std::max(kShareAtLeast, share_of_slowest(job, StepPart::sync)),
          {{"collective_calls_a_step", job.settings->other_collectives_a_step, 1.0, "calls"},
           {"sync_share", share_of_slowest(job, StepPart::sync), std::nullopt, "fraction"}}));
      continue;
    }
    double least = 1;
    double most = 0;
    for (const RankSteps& rank : job.steps->ranks) {
      least = std::min(least, rank.share[sync]);
      most = std::max(most, rank.share[sync]);
    }
    if (job.steps->present[sync] < 0.9 || most < kShareAtLeast ||
        (most - least) < kSpreadAtLeast * most)
      continue;
    findings.push_back(about_job(FindingCode::reduce_every_step, job, Severity::warning, 0.6, most,
                                 {{"sync_share_most", most, kShareAtLeast, "fraction"},
                                  {"sync_share_least", least, std::nullopt, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
