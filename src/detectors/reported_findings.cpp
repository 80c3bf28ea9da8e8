#include "detectors/reported_findings.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

const FindingName* code_named(const std::string& id) {
  for (const FindingName& name : kFindingNames)
    if (name.id == id) return &name;
  return nullptr;
}

// "P101 0.49 0.98 4,5 critical": code, loss, confidence, GPUs, severity.
std::optional<Finding> parsed(const Event& event) {
  std::istringstream words(event.detail);
  std::string id;
  double lost = 0;
  double confidence = 0;
  std::string gpus;
  std::string severity;
  if (!(words >> id >> lost >> confidence >> gpus >> severity) || code_named(id) == nullptr) return std::nullopt;
  Finding finding;
  finding.code = code_named(id)->code;
  finding.severity = severity == "critical" ? Severity::critical : severity == "info" ? Severity::info : Severity::warning;
  finding.lost_throughput = std::clamp(lost, 0.0, 1.0);
  finding.confidence = std::clamp(confidence, 0.0, 0.99);
  finding.is_fault = lost <= 0;  // an exporter tells only what it stands behind: without a loss, a fault
  std::istringstream list(gpus);
  for (std::string number; std::getline(list, number, ',');) finding.gpus.push_back(std::atoi(number.c_str()));
  finding.evidence = {{"found_by_the_machine_itself", 1, std::nullopt, "yes"}};
  return finding;
}

bool same(const Finding& a, const Finding& b) {
  return a.code == b.code && std::any_of(a.gpus.begin(), a.gpus.end(), [&](int gpu) { return std::find(b.gpus.begin(), b.gpus.end(), gpu) != b.gpus.end(); });
}

}  // namespace

std::vector<Finding> reported_findings(const Signals& signals, const std::vector<Finding>& found) {
  std::vector<Finding> reported;
  double newest_ms = 0;
  for (const EventAt& entry : signals.events)
    if (entry.event.kind == "finding") newest_ms = std::max(newest_ms, entry.t_ms);
  const double ended_before_ms = newest_ms - 3 * signals.tick_ms;  // who stands behind a finding says so at every scrape
  for (auto entry = signals.events.rbegin(); entry != signals.events.rend(); ++entry) {  // the newest word on each
    if (entry->event.kind != "finding" || entry->t_ms < ended_before_ms) continue;
    auto finding = parsed(entry->event);
    if (!finding) continue;
    const auto known = [&](const Finding& other) { return same(other, *finding); };
    if (std::any_of(found.begin(), found.end(), known) || std::any_of(reported.begin(), reported.end(), known)) continue;
    reported.push_back(std::move(*finding));
  }
  return reported;
}

}  // namespace lockstep
