// C404: DDP looks for unused parameters in every step, and finds none.
//
// Why it shows: find_unused_parameters=True walks the whole autograd graph after each forward pass
// and holds the first bucket back. DDP's own records tell whether it is on and how much it found:
// with nothing found it is time for nothing. Confused with: models in which some parameters take no
// part (they need it, and the record then says so). Cost: not measured by itself; 2 % stands for it
// (PyTorch's own notes say "additional overhead" without a number).
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_find_unused_parameters(const Seen& seen) {
  constexpr double kAssumedCost = 0.02;
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_told(job) || job.settings->finds_unused != true || job.settings->unused_bytes > 0)
      continue;
    Finding finding = about_job(FindingCode::find_unused_parameters, job, Severity::info, 0.7,
                                kAssumedCost, {{"unused_parameters", 0, 1.0, "bytes"}});
    name_places(finding, job, main_places(job, StepPart::forward));
    finding.ranks.clear();
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
