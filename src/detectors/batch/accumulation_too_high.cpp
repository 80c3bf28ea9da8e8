// B504: gradients are accumulated over many small passes, though a larger one would fit.
//
// Why it shows: each pass launches every kernel of the model; four passes of 2 cost up to four
// times the launches of one of 8. Accumulation saves memory: where less than half of the GPU's is
// ever used, passes of twice the size would fit. Confused with: accumulation for a large global
// batch at full memory, which is what it is for. Blind: without a GPU there is no memory to compare
// with. The gain is a guess until it is measured; where the GPUs' own records show no rest between
// kernels, there is none.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_accumulation_too_high(const Seen& seen) {
  constexpr double kPassesAtLeast = 3.5;
  constexpr double kMemoryAtMost = 0.45;
  constexpr double kRoomAtLeast = 2;
  constexpr double kRestAtLeast = 0.05;  // of the time, where the GPUs' own records tell
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    const double passes = is_told(job) ? passes_of_an_update(job) : 0;
    if (passes < kPassesAtLeast || !job.settings->memory_peak_bytes ||
        job.settings->memory_total_bytes.value_or(0) <= 0)
      continue;
    const double used = *job.settings->memory_peak_bytes / *job.settings->memory_total_bytes;
    if (used > kMemoryAtMost) continue;
    const auto room = job.settings->batch_room;
    // states, not samples, take the memory: a double batch would not fit
    if (room && *room < kRoomAtLeast) continue;
    if (most_that_can_be_lost(job) < kRestAtLeast) continue;
    Finding finding = about_job(FindingCode::accumulation_too_high, job, Severity::info, 0.5, 0.05,
                                {{"passes_a_step", passes, kPassesAtLeast, "passes"},
                                 {"memory_used_at_most", used, kMemoryAtMost, "fraction"}});
    if (room) finding.evidence.push_back({"batch_could_grow", *room, kRoomAtLeast, "times"});
    name_places(finding, job, main_places(job, StepPart::backward));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
