// D203: batches are copied to the GPU from ordinary memory, and the GPU waits for each copy.
//
// Why it shows: a copy from pageable memory cannot overlap with kernels, so bytes arrive over PCIe
// exactly while the GPU does nothing: the byte rate and the work are opposed. Pinned, non-blocking
// copies arrive while the GPU works. Confused with: parameters that are swapped in (offloading),
// all-reduce over PCIe (both directions at once, and the GPU reads busy). Blind: PCIe counters are
// read once a second at most outside `diagnose`; steps much shorter than that show no relation.
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"

namespace lockstep {
namespace {

// A probe knows whether the memory was pinned: then the copies are as good as they get. A program
// that tells of its steps without lines tells it of its loader; what its host copies while the GPU
// is busy costs nothing.
std::optional<Finding> copies_from_steps(const JobSignals& job, double at_least) {
  double share = share_of_slowest(job, StepPart::copy);
  if (is_told(job) && !is_probed(job)) {
    const LoaderSetting* const loader = training_loader(job);
    share = loader != nullptr && loader->pinned ? 0 : std::min(share, job.idle_together);
  }
  if (share < at_least) return std::nullopt;
  std::vector<const PlaceSignals*> places;
  if (is_probed(job)) {
    for (const PlaceSignals* const place : main_places(job, StepPart::copy))
      if (place->pageable || place->blocking) places.push_back(place);
    if (places.empty()) return std::nullopt;
  }
  double hidden = 0;
  for (const PlaceSignals* const place : places) hidden += place->hidden_share;
  Finding finding =
      about_job(FindingCode::pageable_copies, job, Severity::warning, places.empty() ? 0.7 : 0.9,
                std::max(0.0, share - hidden), {{"copy_share", share, at_least, "fraction"}});
  finding.rung = 1;
  if (!places.empty()) {
    finding.evidence.push_back(
        {places.front()->pageable ? "from_pageable_memory" : "without_non_blocking", 1,
         std::nullopt, "yes"});
    finding.evidence.push_back(
        {"copied_a_step", places.front()->bytes_a_step, std::nullopt, "bytes"});
    name_places(finding, job, places);
  }
  return finding;
}

// The main thread stands in a copy to the GPU, and much arrives there: it would go on at once had
// the memory been pinned. Readings of busy count the copies themselves; power does not.
std::optional<Finding> copies_by_stacks(const JobSignals& job, const OverPcie& rate,
                                        double bytes_at_least, double idle_at_least) {
  constexpr double kCopiesAtLeast = 0.15;  // of all stacks
  constexpr double kMostOfRest = 0.5;
  const HostDoing& doing = *job.host.doing;
  const double copies = doing.share_of_all_stacks(StepPart::copy);
  const double idle = std::max(job.idle_together, doing.rest_by_power.value_or(0));
  if (copies < kCopiesAtLeast || idle < idle_at_least || rate.received < bytes_at_least)
    return std::nullopt;
  double of_rest = 1;
  if (stacks_tell(job)) {
    const StackPart* const at_rest = doing.by_stacks(StepPart::copy);
    of_rest = at_rest != nullptr && job.time && job.time->idle_together > 0
                  ? std::min(1.0, at_rest->lost / job.time->idle_together)
                  : 0;
  }
  if (of_rest < kMostOfRest) return std::nullopt;
  Finding finding = about_job(FindingCode::pageable_copies, job, Severity::warning, 0.75, idle,
                              {{"stacks_that_copy", copies, kCopiesAtLeast, "fraction"},
                               {"pcie_received", rate.received, bytes_at_least, "bytes/s"}});
  name_line(finding, HostDoing::find(doing.all_stacks, StepPart::copy)->place);
  return finding;
}

// Without stacks: gigabytes arrive each second, nothing leaves, the GPU's power falls to rest again
// and again, the loader's workers have nothing to do and the main thread never sleeps. Memory that
// is copied to the driver's own first keeps it running. Where no workers show that data are there,
// anything else may run: a suspicion.
std::optional<Finding> copies_by_looks(const JobSignals& job, const OverPcie& rate) {
  constexpr double kRestAtLeast = 0.1;
  const HostDoing& doing = *job.host.doing;
  if (rate.received < kGigabytesArrive || rate.sent > 0.3 * rate.received ||
      doing.rest_by_power.value_or(0) < kRestAtLeast || !queues_always_full(doing, true) ||
      doing.sleeping + doing.talking + doing.writing + doing.reading > 0.1)
    return std::nullopt;
  return about_job(FindingCode::pageable_copies, job, Severity::warning,
                   queues_always_full(doing, false) ? 0.58 : 0.45, *doing.rest_by_power,
                   {{"pcie_received", rate.received, kGigabytesArrive, "bytes/s"},
                    {"at_rest_by_power", *doing.rest_by_power, kRestAtLeast, "fraction"}});
}

}  // namespace

std::vector<Finding> find_pageable_copies(const Seen& seen) {
  constexpr double kOpposedBelow = -0.5;
  constexpr double kBytesAtLeast = 3e8;  // a second: a batch of 8 images is 5 MB, text is nothing
  constexpr double kIdleAtLeast = 0.05;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job)) continue;
    if (job.steps && job.steps->count >= 5) {
      if (auto finding = copies_from_steps(job, kIdleAtLeast))
        findings.push_back(std::move(*finding));
      continue;
    }
    const OverPcie rate = over_pcie(job, seen.signals);
    if (stacks_tell(job) || only_all_stacks_tell(job)) {
      if (auto finding = copies_by_stacks(job, rate, kBytesAtLeast, kIdleAtLeast))
        findings.push_back(std::move(*finding));
      continue;
    }
    if (job.host.doing)
      if (auto finding = copies_by_looks(job, rate)) {
        findings.push_back(std::move(*finding));
        continue;
      }
    if (!job.copy_while_idle || *job.copy_while_idle > kOpposedBelow ||
        job.idle_together < kIdleAtLeast)
      continue;
    if (rate.received < kBytesAtLeast || rate.sent > 0.7 * rate.received) continue;
    findings.push_back(about_job(
        FindingCode::pageable_copies, job, Severity::warning, 0.55, 0.5 * job.idle_together,
        {{"copy_against_work", *job.copy_while_idle, kOpposedBelow, "correlation"},
         {"pcie_received", rate.received, kBytesAtLeast, "bytes/s"}}));
  }
  return findings;
}

}  // namespace lockstep
