// Findings that a program's own error messages name. See messages/known_messages.cpp for the list.
//
// Confused with: the same words in a log of something else (a test's output, a chat). The line is
// shown as evidence.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {

std::vector<Finding> find_logged_messages(const Seen& seen) {
  std::vector<Finding> findings;
  for (const EventAt& entry : seen.signals.events) {
    if (entry.event.kind != "message") continue;
    // "B506 line 12: …": the code is the reader's, who saw the whole line.
    const std::string& detail = entry.event.detail;
    const KnownMessage* message = match_message(detail);
    for (const KnownMessage& known : known_messages())
      if (message == nullptr && detail.starts_with(name_of(known.code).id)) message = &known;
    if (message == nullptr) continue;
    Finding finding = about_job(message->code, JobSignals{}, Severity::critical, 0.9, 0, {});
    finding.is_fault = true;
    finding.evidence.push_back({detail.starts_with(name_of(message->code).id)
                                    ? detail.substr(detail.find(' ') + 1)
                                    : detail,
                                1, std::nullopt, "message"});
    finding.fixes.push_back({FixKind::advice,
                             FixSafety::manual,
                             std::string(message->cause) + ": " + std::string(message->fix),
                             {},
                             std::nullopt});
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
