// S301: the host waits for the GPU in every step (.item(), .cpu(), print(loss),
// torch.cuda.synchronize()).
//
// Why it shows: while the host waits it queues nothing, so after each wait the GPU has nothing to
// do until the next kernels are launched. Step marks measure the wait. From outside the gap is
// there too, but it looks like any short idle time that all ranks share: so without marks it is a
// suspicion, raised where input does not explain the gap. Confused with: input-starved,
// launch-bound. A profile decides.
#include <array>

#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"
#include "detectors/step_share.hpp"

namespace lockstep {
namespace {

// What the host does by itself, without the GPU.
constexpr std::array kOwnWork = {StepPart::data_wait,  StepPart::logging, StepPart::checkpoint,
                                 StepPart::evaluation, StepPart::gc,      StepPart::other};

// By the GPUs' own records, of the rank that rests most: rest that no work of the host's own
// explains. A line that sleeps behind an .item() is not the .item()'s fault.
double rest_beside_own_work(const DeviceSignals& devices) {
  double most = 0;
  for (const RankDevices& rank : devices.ranks) {
    if (rank.main() == nullptr) continue;
    double rest = rank.main()->idle;
    for (const StepPart part : kOwnWork) rest -= rank.idle[index_of(part)];
    most = std::max(most, rest);
  }
  return most;
}

// A probe knows each call. On a GPU the wait itself is no loss, for the GPU works meanwhile: what
// is lost is the time it then has nothing to do. On the CPU a value is there at once: shown, for on
// a GPU it would cost.
std::optional<Finding> sync_from_probes(const JobSignals& job) {
  constexpr double kInEveryStep = 0.9;
  std::vector<const PlaceSignals*> places;
  for (const PlaceSignals& place : job.steps->places)
    if (place.part == StepPart::sync && place.present >= kInEveryStep && !place.place.file.empty())
      places.push_back(&place);
  if (places.empty()) return std::nullopt;
  const bool on_gpu =
      std::ranges::any_of(places, [](const PlaceSignals* place) { return place->on_device; });
  double waits = 0;
  double calls = 0;
  for (const PlaceSignals* const place : places) {
    waits += place->share;
    calls += place->calls_a_step;
  }
  constexpr double kWorthOnACpu = 0.05;  // a loop over a tensor's values; fewer cost nothing there
  double lost = waits < kWorthOnACpu ? 0 : waits;
  if (!on_gpu && lost == 0 && job.gpus.empty()) return std::nullopt;  // nobody has one
  if (on_gpu && job.steps->devices) {
    lost = rest_beside_own_work(*job.steps->devices);
  } else if (on_gpu && job.steps->gpu_idle_share) {
    double explained = exposed_data_wait(job);
    for (const StepPart part : kOwnWork)
      if (part != StepPart::data_wait) explained += job.steps->share[index_of(part)];
    lost = std::max(0.0, *job.steps->gpu_idle_share - explained);
  }
  Finding finding = about_job(FindingCode::host_sync_every_step, job, Severity::warning,
                              on_gpu ? 0.85 : 0.5, lost,
                              {{"sync_calls_a_step", calls, 1.0, "calls"},
                               {"sync_share", waits, std::nullopt, "fraction"}});
  if (job.steps->gpu_idle_share)
    finding.evidence.push_back(
        {"gpu_idle_between_steps", *job.steps->gpu_idle_share, std::nullopt, "fraction"});
  name_places(finding, job, places);
  return finding;
}

// The line that waits most often, whatever the GPU does meanwhile.
void name_sync_line(Finding& finding, const JobSignals& job) {
  const StackPart* const seen = HostDoing::find(job.host.doing->all_stacks, StepPart::sync);
  if (seen != nullptr && !seen->place.file.empty()) name_line(finding, seen->place);
}

// A wait for the GPU ends when the GPU has nothing left to do: what is lost is the launching that
// follows, and waits in lines that launch something small first and leave the GPU at rest
// (`p.grad.norm().item()` for each parameter: 16 of 24 % idle on an H200).
std::optional<Finding> sync_by_stacks(const JobSignals& job) {
  constexpr double kLaunchingAtLeast = 0.05;
  const StackPart* const waits = job.host.doing->by_stacks(StepPart::sync);
  const double lost = launching_at_rest(job).lost + (waits != nullptr ? waits->lost : 0);
  if (!syncs_often(job) || lost < kLaunchingAtLeast) return std::nullopt;
  Finding finding =
      about_job(FindingCode::host_sync_every_step, job, Severity::warning, 0.58, lost,
                {{"stacks_that_wait_for_the_gpu",
                  job.host.doing->share_of_all_stacks(StepPart::sync), kSyncsOften, "fraction"},
                 {"launches_while_the_gpus_rest", lost, kLaunchingAtLeast, "fraction"}});
  name_sync_line(finding, job);
  return finding;
}

// Rests too short to be seen one by one: without the waits the host, which needs less time for all
// else than the GPU for its work, would be ahead of it, and the GPU would not rest.
std::optional<Finding> sync_by_all_stacks(const JobSignals& job, double idle_at_least) {
  if (!syncs_often(job) || job.idle_together < idle_at_least) return std::nullopt;
  const double waits = job.host.doing->share_of_all_stacks(StepPart::sync);
  if (1 - waits > busy_on_average(job)) return std::nullopt;
  Finding finding =
      about_job(FindingCode::host_sync_every_step, job, Severity::warning, 0.7, job.idle_together,
                {{"stacks_that_wait_for_the_gpu", waits, kSyncsOften, "fraction"},
                 {"idle_together", job.idle_together, idle_at_least, "fraction"}});
  name_sync_line(finding, job);
  return finding;
}

}  // namespace

std::vector<Finding> find_host_sync_every_step(const Seen& seen) {
  constexpr double kIdleAtLeast = 0.05;
  constexpr double kWorthSaying = 0.02;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job)) continue;
    if (is_probed(job)) {
      if (auto finding = sync_from_probes(job)) findings.push_back(std::move(*finding));
      continue;
    }
    if (job.steps && job.steps->count >= 5) {
      auto finding =
          by_step_share({FindingCode::host_sync_every_step, StepPart::sync, 0.05, 0.9}, job);
      if (finding && job.steps->devices)
        finding->lost_throughput =
            std::min(finding->lost_throughput, rest_beside_own_work(*job.steps->devices));
      if (finding && finding->lost_throughput >= kWorthSaying)
        findings.push_back(std::move(*finding));
      continue;
    }
    if (stacks_tell(job)) {
      if (auto finding = sync_by_stacks(job)) findings.push_back(std::move(*finding));
      continue;
    }
    if (only_all_stacks_tell(job)) {
      if (auto finding = sync_by_all_stacks(job, kIdleAtLeast))
        findings.push_back(std::move(*finding));
      continue;
    }
    const double idle = job.idle_together;
    const bool host_busy =
        job.host.main_cpu.value_or(0) > 0.75 && job.host.loader_workers.value_or(0) > 0;
    if (idle < kIdleAtLeast || !host_busy || is_coarse(seen.signals)) continue;
    findings.push_back(about_job(FindingCode::host_sync_every_step, job, Severity::info, 0.35, idle,
                                 {{"idle_together", idle, kIdleAtLeast, "fraction"},
                                  {"main_process_cpu", *job.host.main_cpu, 0.75, "cores"}}));
  }
  return findings;
}

}  // namespace lockstep
