// Findings that a program's own error messages name. See messages/known_messages.cpp for the list.
//
// Confused with: the same words in a log of something else (a test's output, a chat). The line is
// shown as evidence.
#include <algorithm>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {

namespace {

// Of 123 public logs in which strangers' messages were told as sure, three rounds of them, what was
// said was right in 84 and arguable in 19 (docs/benchmarks.md).
constexpr double kSaidOfThis = 0.8;
constexpr double kAlsoSaidOfOthers = 0.45;  // a suspicion

struct Told {
  const KnownMessage* message = nullptr;
  bool sure = true;
  std::string line;
};

// "B506 line 12: …", or "L804? line 12: …" where the words are said of other things, too: the
// reader, who saw the whole line, has decided. Recordings of others have the words alone.
Told told_by(const std::string& detail) {
  for (const KnownMessage& known : known_messages()) {
    const std::string_view id = name_of(known.code).id;
    if (!detail.starts_with(id)) continue;
    auto matched = match_message(detail);
    if (const auto words = detail.find(": "); !matched && words != std::string::npos)
      matched = match_message(detail.substr(words + 2));
    const bool same = matched && matched->message->code == known.code;
    // An exception of the program's own is no message that words tell.
    const KnownMessage& own_error = known_message(kOwnError);
    const KnownMessage& other = known.code != own_error.code ? known
                                : speaks_of_a_child(detail)  ? known_message(kRankEnded)
                                                             : own_error;
    return {same ? matched->message : &other, detail.substr(id.size(), 1) != "?",
            detail.substr(detail.find(' ') + 1)};
  }
  if (const auto matched = match_message(detail)) return {matched->message, matched->sure, detail};
  return {};
}

Severity severity_of(const KnownMessage& message) {
  switch (message.weight) {
    case MessageWeight::ends_the_run:
    case MessageWeight::usual_reason: return Severity::critical;
    case MessageWeight::costs: return Severity::warning;
    case MessageWeight::told: return Severity::info;
  }
  return Severity::critical;
}

}  // namespace

std::vector<Finding> find_logged_messages(const Seen& seen) {
  std::vector<Finding> findings;
  for (const EventAt& entry : seen.signals.events) {
    if (entry.event.kind != "message") continue;
    const Told told = told_by(entry.event.detail);
    if (told.message == nullptr) continue;
    const auto known = std::ranges::find(findings, told.message->code, &Finding::code);
    if (known != findings.end()) {
      if (told.line.starts_with(kRunWentOn)) known->severity = Severity::warning;
      known->evidence.push_back({told.line, 1, std::nullopt, "message"});
      continue;
    }
    Finding finding = about_job(told.message->code, JobSignals{}, severity_of(*told.message),
                                told.sure ? kSaidOfThis : kAlsoSaidOfOthers, 0, {});
    finding.is_fault = true;
    finding.evidence.push_back({told.line, 1, std::nullopt, "message"});
    finding.fixes.push_back(
        {FixKind::advice,
         FixSafety::manual,
         std::string(told.message->cause) + ": " + std::string(told.message->fix),
         {},
         std::nullopt});
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
