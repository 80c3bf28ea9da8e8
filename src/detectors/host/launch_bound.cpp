// S305: the host cannot launch kernels fast enough.
//
// Why it shows: kernels of a few microseconds end before the next one is queued. The GPU reads busy
// (some kernel ran in every window) at low power and low SM activity, and the main process fills
// one core. Confused with: batch-too-small (the same picture with a cause one step further: kernels
// are small because the batch is), waiting in a collective (several ranks, one of them not
// spinning). From outside it stays a suspicion, for a spinning host thread fills a core too, unless
// SM activity shows tiny kernels on a single GPU. A trace decides, and so do a probe's events in
// the GPU's queue.
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"

namespace lockstep {
namespace {

// Where events in the GPU's queue tell: at the end of each step it had done everything by the time
// the last of it was queued, though nothing in the step waited for it. Then the host sets the pace.
// How much of the step it was idle, no event tells.
std::optional<Finding> launches_from_probes(const JobSignals& job, std::optional<double> sm) {
  constexpr int kStepsAtLeast = 8;
  constexpr double kDryAtLeast = 0.9;
  constexpr double kComputeAtLeast = 0.5;
  constexpr double kSyncAtMost = 0.5;
  const StepSignals& steps = *job.steps;
  if (!steps.gpu_ran_dry || steps.gpu_asked < kStepsAtLeast || *steps.gpu_ran_dry < kDryAtLeast)
    return std::nullopt;
  double compute = 0;
  for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
    compute += steps.share[index_of(part)];
  const bool waits = std::ranges::any_of(steps.places, [](const PlaceSignals& place) {
    return place.part == StepPart::sync && place.on_device && place.present >= kSyncAtMost;
  });
  if (compute < kComputeAtLeast || waits) return std::nullopt;
  Finding finding =
      about_job(FindingCode::launch_bound, job, Severity::warning, 0.75, sm ? 0.5 * (1 - *sm) : 0.1,
                {{"steps_done_as_soon_as_queued", *steps.gpu_ran_dry, kDryAtLeast, "fraction"},
                 {"queueing_share", compute, kComputeAtLeast, "fraction"}});
  if (sm) finding.evidence.push_back({"sm", *sm, std::nullopt, "fraction"});
  finding.rung = 1;
  return finding;
}

// How busy the job's GPUs were in the steps that nobody recorded, by their own counter. On an H200
// it stood 0 to 5 points above what records said of the same runs (0.21 beside 0.16, 0.36 beside
// 0.33, 0.89 beside 0.88); where it stands far above, recording is what made the host late.
std::optional<double> busy_undisturbed(const JobSignals& job, const RankDevices& recorded) {
  constexpr double kFarAbove = 0.15;
  if (job.steps->devices->steps >= job.steps->count) return std::nullopt;  // all are recorded
  double sum = 0;
  for (const GpuInJob& member : job.members) {
    if (!member.busy) return std::nullopt;
    sum += *member.busy / static_cast<double>(job.members.size());
  }
  if (job.members.empty() || sum < recorded.main()->busy() + kFarAbove) return std::nullopt;
  return sum;
}

// By the GPUs' own records: idle between kernels while the host was launching them.
std::optional<Finding> launches_from_records(const JobSignals& job) {
  constexpr double kGapsAtLeast = 0.1;
  // of the idle time; what waits for the GPU in each step makes it run dry, and is another finding
  constexpr double kWaitsAtMost = 0.5;
  const RankDevices* const of = least_launch_bound(job);
  if (of == nullptr) return std::nullopt;
  const double least = idle_while_launching(*of);
  if (least < kGapsAtLeast) return std::nullopt;
  // What little the host does beside would go on while the GPU works, were launching free.
  constexpr double kLittle = 0.1;
  const double beside = std::max(0.0, of->main()->idle - least);
  double lost = beside <= kLittle ? least + std::min(beside, of->main()->busy()) : least;
  const auto undisturbed = busy_undisturbed(job, *of);
  if (undisturbed) lost = std::min(lost, 1 - *undisturbed);
  if (lost < kGapsAtLeast) return std::nullopt;
  double waits = 0;  // calls per step
  for (const PlaceSignals& place : job.steps->places)
    if (place.part == StepPart::sync && place.on_device && place.present >= kWaitsAtMost)
      waits += place.calls_a_step;
  // So often within a step, the gaps are those behind the waits: 148 of them on an H200 cost 18 %,
  // of which launching anew was 15.
  constexpr double kAllTheTime = 8;
  const double confidence = waits >= kAllTheTime ? 0.45 : waits >= 1 || undisturbed ? 0.6 : 0.95;
  Finding finding = about_job(
      FindingCode::launch_bound, job,
      lost > 0.3 && waits < 1 ? Severity::critical : Severity::warning, confidence, lost,
      {{"idle_while_launching", least, kGapsAtLeast, "fraction"},
       {"gaps_a_step", std::round(of->launch_gaps_a_step), std::nullopt, "gaps"},
       {"kernels_a_step", std::round(of->main()->kernels_a_step), std::nullopt, "kernels"}});
  if (undisturbed)
    finding.evidence.push_back({"busy_without_records", *undisturbed, std::nullopt, "fraction"});
  finding.rung = 2;
  return finding;
}

std::optional<Finding> launches_by_stacks(const JobSignals& job) {
  constexpr double kLaunchingAtLeast = 0.1;
  constexpr int kFewest = 4;
  const LaunchingAtRest launching = launching_at_rest(job);
  if (launching.lost < kLaunchingAtLeast || launching.samples < kFewest) return std::nullopt;
  const double confidence = syncs_often(job) ? 0.45 : many_stacks(job) ? 0.7 : 0.55;
  return about_job(FindingCode::launch_bound, job,
                   launching.lost > 0.3 ? Severity::critical : Severity::warning, confidence,
                   launching.lost,
                   {{"launches_while_the_gpus_rest", launching.lost, kLaunchingAtLeast, "fraction"},
                    {"stacks", static_cast<double>(launching.samples), static_cast<double>(kFewest),
                     "samples"}});
}

// Rests too short to be seen one by one, of a host that does nothing but launch.
std::optional<Finding> launches_by_all_stacks(const JobSignals& job) {
  constexpr double kRestsAtLeast = 0.1;
  if (!launches_all_the_time(job) || job.idle_together < kRestsAtLeast) return std::nullopt;
  const double launching = launching_of_all_stacks(job);
  const double lost = job.idle_together * launching;
  return about_job(
      FindingCode::launch_bound, job, lost > 0.3 ? Severity::critical : Severity::warning, 0.75,
      lost,
      {{"idle_together", job.idle_together, kRestsAtLeast, "fraction"},
       {"stacks_that_launch", launching, kLaunchesAllTheTime, "fraction"},
       {"stacks", static_cast<double>(job.host.doing->stacks_in_all), std::nullopt, "samples"}});
}

// Without stacks: the GPU rests half of the time in gaps too short for its power to show, though
// the loader's queues are full and the main process fills a core. Much of that its main thread
// waits in a lock, as it does while the backward pass launches; one that waits for the GPU runs.
std::optional<Finding> launches_by_looks(const JobSignals& job) {
  constexpr double kIdleByLooks = 0.3;
  constexpr double kInALock = 0.35;
  constexpr double kFillsACore = 0.85;
  const HostDoing& doing = *job.host.doing;
  if (doing.joined || job.idle_together < kIdleByLooks || doing.always_in_a_lock < kInALock ||
      !queues_always_full(doing, false) || job.host.main_cpu.value_or(0) < kFillsACore ||
      doing.sleeping + doing.talking + doing.reading + doing.writing > 0.05 ||
      job.members.size() > 1 || !job.fine || job.fine->kind != LaneKind::power_samples)
    return std::nullopt;
  return about_job(FindingCode::launch_bound, job, Severity::warning, 0.58, job.idle_together,
                   {{"idle_together", job.idle_together, kIdleByLooks, "fraction"},
                    {"main_process_cpu", *job.host.main_cpu, kFillsACore, "cores"},
                    {"main_thread_in_a_lock", doing.always_in_a_lock, kInALock, "fraction"}});
}

// With nothing but the GPUs' counters and the processor's: busy GPUs with few full SMs or little
// power, beside a main process that fills one core.
std::optional<Finding> launches_by_counters(const JobSignals& job, const Signals& signals,
                                            std::optional<double> sm) {
  constexpr double kBusyAtLeast = 0.15;  // 0.28 on an H200 that ran 64 x 64 products one by one
  constexpr double kSmAtMost = 0.3;
  constexpr double kPowerAtMost = 0.4;
  constexpr double kFillsACore = 0.85;
  constexpr double kOneCoreAtMost = 1.6;
  const double busy = busy_on_average(job);
  const double cores = job.host.main_cpu.value_or(0);
  double power = 0;
  for (const GpuInJob& member : job.members)
    power += member.power_of_limit.value_or(1) / static_cast<double>(job.members.size());
  const bool hollow = sm ? *sm < kSmAtMost : power < kPowerAtMost;
  if (busy < kBusyAtLeast || !hollow || cores <= kFillsACore || cores >= kOneCoreAtMost)
    return std::nullopt;
  std::vector<Evidence> evidence = {{"busy", busy, kBusyAtLeast, "fraction"},
                                    {"main_process_cpu", cores, kFillsACore, "cores"}};
  if (sm)
    evidence.push_back({"sm", *sm, kSmAtMost, "fraction"});
  else
    evidence.push_back({"power_of_limit", power, kPowerAtMost, "fraction"});
  // One rank whose kernels fill half of the GPU at best, and whose host never rests: nothing else
  // does that but copies, which read as busy.
  const auto filled = filled_while_busy(job, signals);
  const bool alone_and_tiny = job.members.size() == 1 && filled && *filled < kTinyKernels &&
                              busy < 0.6 && over_pcie(job, signals).received < kGigabytesArrive;
  if (filled) evidence.push_back({"filled_while_busy", *filled, kTinyKernels, "fraction"});
  return about_job(FindingCode::launch_bound, job, Severity::info, alone_and_tiny ? 0.55 : 0.45,
                   sm ? 0.5 * (1 - *sm) : 0.3, std::move(evidence));
}

std::optional<Finding> launches_from_outside(const JobSignals& job, const Signals& signals,
                                             std::optional<double> sm) {
  // of a step: copies from pageable memory fill a core, too
  constexpr double kElsewhereAtMost = 0.3;
  if (job.longest_hollow_ms > 10'000) return std::nullopt;  // stuck, which is worse
  if (stacks_tell(job)) return launches_by_stacks(job);
  if (only_all_stacks_tell(job)) return launches_by_all_stacks(job);
  // Where steps tell that the host is busy with something else, it is that.
  if (job.steps && job.steps->count >= 5 &&
      share_of_slowest(job, StepPart::copy) + share_of_slowest(job, StepPart::data_wait) >
          kElsewhereAtMost)
    return std::nullopt;
  if (job.host.doing)
    if (auto finding = launches_by_looks(job)) return finding;
  return launches_by_counters(job, signals, sm);
}

// The best that is known of the job decides alone: the GPUs' records, else probes, else what is
// seen from outside.
std::optional<Finding> launch_bound(const Seen& seen, std::size_t i) {
  const JobSignals& job = seen.signals.jobs[i];
  if (job.steps && job.steps->devices && job.steps->devices->steps >= kFewestRecordedSteps)
    return steps_can_be_judged(seen, i) ? launches_from_records(job) : std::nullopt;
  std::optional<double> sm;
  for (const GpuSignals& gpu : seen.signals.gpus)
    if (!job.gpus.empty() && gpu.index == job.gpus.front()) sm = gpu.sm;
  if (is_probed(job) && job.steps->gpu_ran_dry) return launches_from_probes(job, sm);
  if (!in_step_or_alone(pattern_of(seen, i)) || !trains(job) || is_coarse(seen.signals))
    return std::nullopt;
  return launches_from_outside(job, seen.signals, sm);
}

}  // namespace

std::vector<Finding> find_launch_bound(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i)
    if (auto finding = launch_bound(seen, i)) findings.push_back(std::move(*finding));
  return findings;
}

}  // namespace lockstep
