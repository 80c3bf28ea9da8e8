// S302: the steps wait for logging.
//
// Why it shows: a logging call on the main thread reads values back from the GPU and writes or
// sends them; done in every step it stops the queue of kernels each time. Step marks measure it.
// From outside it is a suspicion: short idle gaps that all ranks share, while a rank writes a
// little all the time. Confused with: checkpoint-stall (long, many bytes), host-sync-every-step (no
// bytes written).
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"
#include "detectors/step_share.hpp"

namespace lockstep {

std::vector<Finding> find_logging_too_often(const Seen& seen) {
  constexpr double kIdleAtLeast = 0.05;
  constexpr double kWritesLittle = 1e3;  // bytes a second: one line of text a step
  constexpr double kWritesMuch = 5e6;
  constexpr double kWritesAtLeast = 0.03;  // of the time, in a write that the disk holds up
  std::vector<Finding> findings;
  // A setting that a W&B run file keeps: what it costs is not known, that it is worth a look is.
  for (const EventAt& entry : seen.signals.events)
    if (entry.event.kind == "setting" && entry.event.detail == "logging_steps=1" &&
        !seen.signals.jobs.empty())
      findings.push_back(about_job(FindingCode::logging_too_often, seen.signals.jobs.front(),
                                   Severity::info, 0.4, 0.03,
                                   {{"logging_steps=1", 1, std::nullopt, "set"}}));
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job)) continue;
    if (job.steps && job.steps->count >= 5) {
      if (auto finding =
              by_step_share({FindingCode::logging_too_often, StepPart::logging, 0.03}, job))
        findings.push_back(std::move(*finding));
      continue;
    }
    if (stacks_tell(job)) {
      if (auto finding = found_by_stacks(FindingCode::logging_too_often, StepPart::logging, job,
                                         kWritesAtLeast))
        findings.push_back(std::move(*finding));
      continue;
    }
    if (const auto& doing = job.host.doing; doing && doing->writing >= kWritesAtLeast &&
                                            job.host.write_bytes_s.value_or(0) <= kWritesMuch) {
      findings.push_back(
          about_job(FindingCode::logging_too_often, job, Severity::warning,
                    sure_if_joined(job, 0.7), doing->writing,
                    {{"main_thread_writes", doing->writing, kWritesAtLeast, "fraction"},
                     {"written", job.host.write_bytes_s.value_or(0), std::nullopt, "bytes/s"}}));
      continue;
    }
    const double idle = job.idle_together;
    const double written = job.host.write_bytes_s.value_or(0);
    if (idle < kIdleAtLeast || written < kWritesLittle || written > kWritesMuch ||
        is_coarse(seen.signals))
      continue;
    findings.push_back(about_job(FindingCode::logging_too_often, job, Severity::info, 0.3, idle,
                                 {{"idle_together", idle, kIdleAtLeast, "fraction"},
                                  {"written", written, kWritesLittle, "bytes/s"}}));
  }
  return findings;
}

}  // namespace lockstep
