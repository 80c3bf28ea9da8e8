// What tests of detectors ask: what one detector says of a run, and whether that is one whole
// finding.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "detectors/all_detectors.hpp"
#include "detectors/split/pattern.hpp"
#include "support/change_signals.hpp"
#include "support/signals_of.hpp"

namespace lockstep {

// What a failed test prints.
inline void PrintTo(const Finding& finding, std::ostream* out) {
  *out << name_of(finding.code).id << " (confidence " << finding.confidence << ", lost "
       << finding.lost_throughput << ")";
}
inline void PrintTo(Pattern pattern, std::ostream* out) {
  *out << kPatternNames[static_cast<std::size_t>(pattern)];
}

}  // namespace lockstep

namespace lockstep::testing {

using Inspect = std::vector<Finding> (*)(const Seen& seen);

inline std::vector<Finding> found_by(Inspect inspect, const Signals& signals) {
  const std::vector<JobVerdict> verdicts = judge_patterns(signals);
  return inspect({signals, verdicts});
}

inline std::string ids_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += (text.empty() ? "" : ", ") + std::string(name_of(finding.code).id);
  return text.empty() ? "nothing" : text;
}

// Exactly one finding of this code, with evidence, and with a loss between the two.
inline ::testing::AssertionResult is_one(const std::vector<Finding>& findings, FindingCode code,
                                         double least_lost, double most_lost) {
  if (findings.size() != 1)
    return ::testing::AssertionFailure() << "found " << ids_of(findings) << ", not one";
  const Finding& finding = findings.front();
  if (finding.code != code) return ::testing::AssertionFailure() << "found " << ids_of(findings);
  if (finding.evidence.empty()) return ::testing::AssertionFailure() << "without evidence";
  if (finding.confidence <= 0 || finding.confidence > 0.99)
    return ::testing::AssertionFailure() << "confidence " << finding.confidence;
  if (finding.lost_throughput < least_lost || finding.lost_throughput > most_lost)
    return ::testing::AssertionFailure()
           << "lost " << finding.lost_throughput << ", not " << least_lost << " to " << most_lost;
  return ::testing::AssertionSuccess();
}

// The value of a piece of evidence; far out of any range where it is not there.
inline double evidence_of(const Finding& finding, std::string_view signal) {
  for (const Evidence& evidence : finding.evidence)
    if (evidence.signal == signal) return evidence.value;
  return -1e9;
}

}  // namespace lockstep::testing
