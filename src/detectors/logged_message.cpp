// Findings that a program's own error messages name. See messages/known_messages.cpp for the list.
//
// Confused with: the same words in a log of something else (a test's output, a chat). The line is shown as evidence.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {

std::vector<Finding> find_logged_messages(const Seen& seen) {
  std::vector<Finding> findings;
  for (const EventAt& entry : seen.signals.events) {
    if (entry.event.kind != "message") continue;
    const KnownMessage* const message = match_message(entry.event.detail);
    if (message == nullptr) continue;
    Finding finding = about_job(message->code, JobSignals{}, Severity::critical, 0.9, 0, {});
    finding.is_fault = true;
    finding.evidence.push_back({entry.event.detail, 1, std::nullopt, "message"});
    finding.fixes.push_back({FixKind::advice, FixSafety::manual, std::string(message->cause) + ": " + std::string(message->fix), {}, std::nullopt});
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
