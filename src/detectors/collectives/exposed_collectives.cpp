// C402: the ranks wait for communication that is not hidden behind computing.
//
// Why it shows: in every step all ranks spin for a while at the same moment: busy, low power, none
// of them late. Step marks measure it. From outside it is a suspicion, for small kernels and a
// small batch give low power too. Confused with: straggler-rank (one rank does not spin),
// launch-bound, batch-too-small.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {
namespace {

// the PyTorch profiler's own rule: communication above 10 % of the step
constexpr double kExposedAtLeast = 0.1;
constexpr double kHollowAtLeast = 0.3;

std::optional<double> least(const JobSignals& job) {
  if (!job.steps || job.steps->count < 5 || job.steps->ranks.size() < 2) return std::nullopt;
  // what even the last to arrive spends there is transfer, not waiting
  return job.steps->exposed_on_all;
}

// By the GPUs' own records: what even the rank that spends least there has with nothing to compute
// is the transfer itself.
std::optional<Finding> collectives_from_records(const JobSignals& job) {
  double least = 1;
  double hidden = 0;
  for (const RankDevices& rank : job.steps->devices->ranks) {
    const DeviceUse* const use = rank.main();
    if (use == nullptr) return std::nullopt;
    least = std::min(least, use->exposed);
    hidden = std::max(hidden, use->hidden);
  }
  if (least < kExposedAtLeast) return std::nullopt;
  const bool alone = job.steps->devices->ranks.size() < 2;
  Finding finding =
      about_job(FindingCode::exposed_collectives, job,
                least > 0.3 ? Severity::critical : Severity::warning, alone ? 0.6 : 0.95, least,
                {{"only_collectives_ran", least, kExposedAtLeast, "fraction"},
                 {"collectives_hidden", hidden, std::nullopt, "fraction"}});
  if (job.collectives && job.collectives->on_device)
    finding.evidence.push_back(
        {"transfers_alone", job.collectives->transfer, std::nullopt, "fraction"});
  if (job.exposed_at_best)
    finding.evidence.push_back({"exposed_if_all_that_can_be_hidden_were",
                                std::min(*job.exposed_at_best, least), std::nullopt, "fraction"});
  finding.rung = 2;
  return finding;
}

}  // namespace

std::vector<Finding> find_exposed_collectives(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::in_step ||
        (job.gpus.size() < 2 && job.origin != JobOrigin::steps) || !trains(job))
      continue;
    if (job.steps && job.steps->devices && job.steps->devices->steps >= 5) {
      if (auto finding = collectives_from_records(job)) findings.push_back(std::move(*finding));
      continue;
    }
    if (const auto share = least(job)) {
      if (*share < kExposedAtLeast) continue;
      // Gloo on the CPU adds up on the cores that compute: nothing there is to be hidden.
      if (job.settings && !job.settings->on_gpu && job.origin == JobOrigin::steps) continue;
      // Overlap gives back what the links do not need; the rest takes fewer bytes or faster links,
      // and is no less lost.
      Finding finding =
          about_job(FindingCode::exposed_collectives, job,
                    *share > 0.3 ? Severity::critical : Severity::warning, 0.85, *share,
                    {{"exposed_share_of_every_rank", *share, kExposedAtLeast, "fraction"}});
      if (job.exposed_at_best)
        finding.evidence.push_back({"exposed_if_all_that_can_be_hidden_were",
                                    std::min(*job.exposed_at_best, *share), std::nullopt,
                                    "fraction"});
      finding.rung = 1;
      if (is_probed(job)) name_places(finding, job, main_places(job, StepPart::collective_exposed));
      findings.push_back(std::move(finding));
      continue;
    }
    if (job.one_process_on_all || is_coarse(seen.signals)) continue;
    double lowest = 1;
    for (const GpuInJob& member : job.members)
      lowest = std::min(lowest, member.hollow.value_or(0) * member.busy.value_or(0));
    if (lowest < kHollowAtLeast || job.longest_hollow_ms > 10'000) continue;
    findings.push_back(about_job(FindingCode::exposed_collectives, job, Severity::info, 0.4, lowest,
                                 {{"hollow_on_every_gpu", lowest, kHollowAtLeast, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
