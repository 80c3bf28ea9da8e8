// X707: every rank writes the checkpoint, though they hold the same weights.
//
// Why it shows: step marks have a checkpoint part on several ranks. One of n writes would do; the n
// writers also share the disk, so each takes longer. Confused with: sharded checkpoints (FSDP,
// DeepSpeed), in which each rank writes its own part: so it needs ranks that hold the same memory,
// and it is no more than likely.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_every_rank_saves(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!job.steps || job.steps->ranks.size() < 2 ||
        job.steps->ranks_that_save < static_cast<int>(job.steps->ranks.size()))
      continue;
    const bool sharded = std::ranges::any_of(job.processes, [](const ProcessSample& process) {
      return process.libraries &&
             std::ranges::find(*process.libraries, "deepspeed") != process.libraries->end();
    });
    const bool same_weights = !job.memory_balance || *job.memory_balance > 0.9;
    const double share = job.steps->share[index_of(StepPart::checkpoint)];
    const double ranks = static_cast<double>(job.steps->ranks.size());
    if (is_probed(job)) {
      // The same file, by its path: no shards.
      for (const PlaceSignals* const place : main_places(job, StepPart::checkpoint)) {
        if (place->ranks.size() < job.steps->ranks.size() || place->subjects.empty() ||
            place->subjects.size() > 1)
          continue;
        Finding finding = about_job(FindingCode::every_rank_saves, job, Severity::warning, 0.95,
                                    share * (1 - 1 / ranks),
                                    {{"ranks_that_save_one_file", ranks, 1.0, "ranks"},
                                     {"checkpoint_share", share, std::nullopt, "fraction"}});
        finding.is_fault = true;
        name_places(finding, job, {place});
        findings.push_back(std::move(finding));
        break;
      }
      continue;
    }
    findings.push_back(about_job(FindingCode::every_rank_saves, job, Severity::warning,
                                 sharded || !same_weights ? 0.3 : 0.6, share * (1 - 1 / ranks),
                                 {{"ranks_that_save", ranks, 1.0, "ranks"},
                                  {"checkpoint_share", share, std::nullopt, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
