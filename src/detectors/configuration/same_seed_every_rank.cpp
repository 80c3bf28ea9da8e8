// X705: every rank draws the same random numbers.
//
// Why it shows: a probe reads torch's seed in each rank. Equal seeds give equal dropout masks and
// equal augmentations on all ranks, so the average over ranks has less in it than N samples. Many
// programs set one seed on purpose, for equal weights at the start, and DDP copies the weights
// anyway: so it is a suspicion and costs no time.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_same_seed_every_rank(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_told(job) || job.settings->seeds.size() < 2 || !exchanges(job)) continue;
    const std::string& first = job.settings->seeds.begin()->second;
    if (first.empty() || std::ranges::any_of(job.settings->seeds, [&](const auto& seed) {
          return seed.second != first;
        }))
      continue;
    Finding finding = about_job(
        FindingCode::same_seed_every_rank, job, Severity::info, 0.45, 0,
        {{"ranks_with_one_seed", static_cast<double>(job.settings->seeds.size()), 2.0, "ranks"}});
    finding.rung = 1;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
