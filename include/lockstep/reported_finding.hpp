// A finding that a machine's own lockstep told, on its way through records as an event: "P101 0.49
// 0.98 4,5 critical".
#pragma once

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/record.hpp"

namespace lockstep {

inline constexpr EventKind kReportedFinding = "finding";  // the event's kind

struct ReportedFinding {
  std::string code;
  double lost = 0;
  double confidence = 0;
  std::vector<int> gpus;
  std::string severity;
};

inline Event event_of(const ReportedFinding& finding) {
  std::ostringstream words;
  words << finding.code << ' ' << finding.lost << ' ' << finding.confidence << ' ';
  for (std::size_t i = 0; i < finding.gpus.size(); ++i)
    words << (i > 0 ? "," : "") << finding.gpus[i];
  words << ' ' << finding.severity;
  return {kReportedFinding,
          finding.gpus.empty() ? std::nullopt : std::optional(finding.gpus.front()), words.str()};
}

inline std::optional<ReportedFinding> reported_finding(const Event& event) {
  if (event.kind != kReportedFinding) return std::nullopt;
  ReportedFinding finding;
  std::istringstream words(event.detail);
  std::string gpus;
  if (!(words >> finding.code >> finding.lost >> finding.confidence >> gpus >> finding.severity))
    return std::nullopt;
  std::istringstream list(gpus);
  for (int gpu = 0; list >> gpu;) {
    finding.gpus.push_back(gpu);
    if (list.peek() == ',') list.get();
  }
  if (finding.gpus.empty() || !list.eof()) return std::nullopt;
  return finding;
}

}  // namespace lockstep
