// Findings that a part of the step's time shows by its share, where the recording has step marks.
#pragma once

#include <cmath>

#include "detectors/probe_tools.hpp"

namespace lockstep {

struct ShareRule {
  FindingCode code;
  StepPart part;
  double at_least;              // of the whole time
  double present_at_least = 0;  // share of the steps that have the part at all
  double present_at_most = 1;
};

// How often a rank did it, where it is no part of the usual step.
inline double times_it_happened(const JobSignals& job, StepPart part) {
  double most = 0;
  for (const PlaceSignals* const place : main_places(job, part))
    for (const RankSteps& rank : job.steps->ranks)
      if (std::ranges::find(place->ranks, rank.rank) != place->ranks.end())
        most = std::max(most, place->present * static_cast<double>(rank.count));
  if (most > 0) return std::round(most);
  double steps = 0;
  for (const RankSteps& rank : job.steps->ranks) steps += static_cast<double>(rank.count);
  return std::round(job.steps->present[index_of(part)] * steps);
}

inline std::optional<Finding> by_step_share(const ShareRule& rule, const JobSignals& job) {
  if (!job.steps || job.steps->count < 5) return std::nullopt;
  const std::size_t part = index_of(rule.part);
  const std::string name(kStepSpanNames[part]);
  // Where one rank spends it the others wait for that rank.
  const double share = share_of_slowest(job, rule.part);
  if (share < rule.at_least || job.steps->present[part] < rule.present_at_least ||
      job.steps->present[part] > rule.present_at_most)
    return std::nullopt;
  const bool now_and_then = job.steps->present[part] < 0.5;  // then the median is 0
  Finding finding = about_job(
      rule.code, job, share > 0.3 ? Severity::critical : Severity::warning, 0.9,
      std::min(share, most_that_can_be_lost(job)),
      {{name + "_share", share, rule.at_least, "fraction"},
       now_and_then ? Evidence{name + "_longest_ms", job.steps->max_ms[part], std::nullopt, "ms"}
                    : Evidence{name + "_p50_ms", job.steps->p50_ms[part], std::nullopt, "ms"},
       {name + "_in_steps", job.steps->present[part],
        rule.present_at_least > 0 ? std::optional(rule.present_at_least) : std::nullopt,
        "fraction"}});
  // Once in the steps that were seen says nothing of every day.
  constexpr double kTimesAtLeast = 3;
  if (const double times = times_it_happened(job, rule.part); times < kTimesAtLeast) {
    finding.evidence.push_back({std::string(kHappened), times, kTimesAtLeast, "times"});
    finding.severity = Severity::info;
  }
  finding.rung = 1;
  if (is_probed(job)) name_places(finding, job, main_places(job, rule.part));
  return finding;
}

}  // namespace lockstep
