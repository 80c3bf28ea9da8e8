#include "detectors/all_detectors.hpp"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr std::array kDetectors = {
#define FINDING(code, id, name, summary, known_by, kind, part, detector, rules, advice) \
  Detector{FindingCode::code, detector},
#include "lockstep/finding_catalogue.def"
#undef FINDING
};

// Of one GPU each: one line, however many GPUs have it.
bool is_told_together(const Finding& one, const Finding& other) {
  const bool of_gpus =
      one.code == FindingCode::thermal_throttle || one.code == FindingCode::power_capped;
  return of_gpus && other.code == one.code && is_stood_behind(other) == is_stood_behind(one);
}

}  // namespace

std::vector<Finding> none(const Seen&) { return {}; }

std::span<const Detector> all_detectors() { return kDetectors; }

void costliest_first(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) {
    return a.lost_gpu_hours_a_day > b.lost_gpu_hours_a_day;
  });
}

std::vector<Finding> inspect_all(const Seen& seen) {
  std::vector<Finding> findings;
  for (const Detector& detector : kDetectors)
    for (Finding& finding : detector.inspect(seen)) findings.push_back(std::move(finding));
  for (Finding& finding : find_logged_messages(seen)) findings.push_back(std::move(finding));
  std::vector<Finding> merged;
  for (Finding& finding : findings) {
    const auto same = std::ranges::find_if(
        merged, [&](const Finding& other) { return is_told_together(finding, other); });
    if (same == merged.end()) {
      merged.push_back(std::move(finding));
      continue;
    }
    same->gpus.insert(same->gpus.end(), finding.gpus.begin(), finding.gpus.end());
    if (finding.lost_throughput > same->lost_throughput) {
      same->lost_throughput = finding.lost_throughput;
      same->severity = std::max(same->severity, finding.severity);
      same->evidence = std::move(finding.evidence);
    }
  }
  return merged;
}

}  // namespace lockstep
