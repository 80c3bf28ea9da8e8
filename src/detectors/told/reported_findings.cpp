#include "detectors/told/reported_findings.hpp"

#include <algorithm>
#include <string>

#include "detectors/finding_tools.hpp"
#include "lockstep/reported_finding.hpp"

namespace lockstep {
namespace {

std::optional<Finding> parsed(const Event& event) {
  const auto told = reported_finding(event);
  const FindingName* const name = told ? finding_named(told->code) : nullptr;
  if (name == nullptr) return std::nullopt;
  Finding finding;
  finding.code = name->code;
  finding.severity = told->severity == "critical" ? Severity::critical
                     : told->severity == "info"   ? Severity::info
                                                  : Severity::warning;
  finding.lost_throughput = std::clamp(told->lost, 0.0, 1.0);
  finding.confidence = std::clamp(told->confidence, 0.0, 0.99);
  // an exporter tells only what it stands behind: without a loss, a fault
  finding.is_fault = told->lost <= 0;
  finding.gpus = told->gpus;
  finding.evidence = {{"found_by_the_machine_itself", 1, std::nullopt, "yes"}};
  return finding;
}

bool same(const Finding& a, const Finding& b) {
  return a.code == b.code && std::ranges::any_of(a.gpus, [&](int gpu) {
           return std::ranges::find(b.gpus, gpu) != b.gpus.end();
         });
}

}  // namespace

std::vector<Finding> reported_findings(const Signals& signals, const std::vector<Finding>& found) {
  std::vector<Finding> reported;
  double newest_ms = 0;
  for (const EventAt& entry : signals.events)
    if (entry.event.kind == kReportedFinding) newest_ms = std::max(newest_ms, entry.t_ms);
  // who stands behind a finding says so at every scrape
  const double ended_before_ms = newest_ms - 3 * signals.tick_ms;
  // the newest word on each
  for (auto entry = signals.events.rbegin(); entry != signals.events.rend(); ++entry) {
    if (entry->event.kind != kReportedFinding || entry->t_ms < ended_before_ms) continue;
    auto finding = parsed(entry->event);
    if (!finding) continue;
    const auto known = [&](const Finding& other) { return same(other, *finding); };
    if (std::ranges::any_of(found, known) || std::ranges::any_of(reported, known)) continue;
    reported.push_back(std::move(*finding));
  }
  return reported;
}

}  // namespace lockstep
