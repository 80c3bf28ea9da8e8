// S307: the GPUs wait for code of the user's own that is neither loading, logging nor saving.
//
// Why it shows: between two steps the main thread sleeps, or waits for a server's answer, and
// queues nothing; the kernel shows in what it waits. Looks at moments by chance count how long, and
// Python stacks name the line where they can be taken.
// Confused with: logging-too-often (a logger that sends or sleeps does just this: only stacks name
// the line), input-starved (with no workers a data set that waits does so in the main thread, too).
// Blind: in short rests code that computes looks like launching kernels; waits behind which the GPU
// goes on working cost nothing and are left out.
#include <functional>

#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"

namespace lockstep {
namespace {

// The main thread runs through rests that are too long for launching, and writes little: some code
// of its own, which may also be evaluation or the garbage collector. Without workers it may be the
// data set.
std::optional<Finding> computes(const JobSignals& job, double idle) {
  constexpr double kMostOfRest = 0.7;
  constexpr double kRestAtLeast = 0.1;
  constexpr double kLittle = 5e7;  // bytes/s: more is a save
  const HostDoing& doing = *job.host.doing;
  if (idle < kRestAtLeast || doing.computing < kMostOfRest * idle ||
      job.host.write_bytes_s.value_or(0) > kLittle)
    return std::nullopt;
  const bool may_be_input = doing.workers_ever_at_work.value_or(1) > 0.1;
  return about_job(
      FindingCode::slow_host_code, job, idle > 0.3 ? Severity::critical : Severity::warning,
      may_be_input ? 0.4 : 0.55, doing.computing,
      {{"main_thread_runs_while_gpus_rest", doing.computing, kMostOfRest * idle, "fraction"},
       {"looks", static_cast<double>(doing.looks), std::nullopt, "samples"}});
}

// Of the steps' time, on the rank that loses most: its GPU rested while the host was in code that
// is neither torch's nor a loader's, a logger's or a save.
double idle_in_own_code(const DeviceSignals& devices) {
  double most = 0;
  for (const RankDevices& rank : devices.ranks) {
    const double idle = rank.idle[index_of(StepPart::other)];
    // Of several GPUs one may rest while another works.
    most = std::max(most, rank.devices.size() > 1 ? std::min(idle, 1 - rank.any_computes()) : idle);
  }
  return most;
}

// A recording has the GPU's records and not the lines.
std::optional<Finding> host_code_from_records(const JobSignals& job) {
  constexpr double kIdleAtLeast = 0.1;
  if (!job.steps->devices) return std::nullopt;
  const double lost = idle_in_own_code(*job.steps->devices);
  if (lost < kIdleAtLeast) return std::nullopt;
  Finding finding = about_job(FindingCode::slow_host_code, job,
                              lost > 0.3 ? Severity::critical : Severity::warning, 0.75, lost,
                              {{"gpu_idle_in_own_code", lost, kIdleAtLeast, "fraction"}});
  finding.rung = 2;
  return finding;
}

// A framework's own loop, which the line that calls it cannot change: "lightning:advance".
bool is_of_a_framework(const CodePlace& place) {
  constexpr std::array<std::string_view, 5> kFrameworks = {
      "lightning:", "pytorch_lightning:", "transformers:", "accelerate:", "deepspeed:"};
  return std::ranges::any_of(
      kFrameworks, [&](std::string_view package) { return place.what.starts_with(package); });
}

// A line may show as several things that it does, and a function as several lines.
bool belong_together(const CodePlace& one, const CodePlace& other) {
  const bool one_function = one.what == other.what && !one.what.empty();
  return one.file == other.file && (one.line == other.line || one_function);
}

double share_with_its_function(const JobSignals& job, const CodePlace& place) {
  double share = 0;
  for (const PlaceSignals& other : job.steps->places)
    if (other.part == StepPart::other && belong_together(other.place, place))
      share += other.most_share;
  return share;
}

// What the main thread did meanwhile, where it was not just running.
void add_main_thread(const JobSignals& job, Finding& finding) {
  constexpr double kWorthTelling = 0.02;
  const auto& doing = job.steps->main_thread[index_of(StepPart::other)];
  if (!doing) return;
  const double own_code = job.steps->share[index_of(StepPart::other)];
  const auto add = [&](const char* name, double share) {
    if (share * own_code >= kWorthTelling)
      finding.evidence.push_back({name, share * own_code, std::nullopt, "fraction"});
  };
  add("main_thread_sleeps", doing->blocked[index_of(ThreadDoing::sleep)]);
  add("main_thread_waits_for_a_server", doing->blocked[index_of(ThreadDoing::socket)]);
  add("main_thread_reads_files", doing->blocked[index_of(ThreadDoing::read_file)]);
  add("main_thread_writes", doing->blocked[index_of(ThreadDoing::write_file)]);
  add("waits_for_a_core", doing->waiting_for_a_core);
}

// Probes know each line and what it takes. Of that, what the GPU works meanwhile costs nothing: by
// its own records, else by its idle time between steps, where these are known.
std::optional<Finding> host_code_from_probes(const JobSignals& job) {
  constexpr double kShareAtLeast = 0.05;
  constexpr double kInStepsAtLeast = 0.02;
  std::vector<const PlaceSignals*> places;
  for (const PlaceSignals* const place : main_places(job, StepPart::other))
    if (place->present >= kInStepsAtLeast && !is_of_a_framework(place->place))
      places.push_back(place);
  double share = 0;
  for (const PlaceSignals& place : job.steps->places) {
    const bool counts = std::ranges::any_of(places, [&](const PlaceSignals* named) {
      return belong_together(named->place, place.place);
    });
    if (place.part != StepPart::other || !counts || is_of_a_framework(place.place)) continue;
    share += place.most_share;
  }
  // Where it had no core its own code took none of that time (X709).
  const auto& doing = job.steps->main_thread[index_of(StepPart::other)];
  const double with_a_core = doing ? 1 - doing->waiting_for_a_core : 1;
  share *= with_a_core;
  // Nor the hooks' share: where values are read in a loop they lie between the reads.
  share = std::max(0.0, share - job.steps->hooks_ms / job.steps->mean_ms());
  if (places.empty() || share < kShareAtLeast) return std::nullopt;
  // A function's time is spread over its lines, and only the costliest are named: where these are
  // most of the host's own code, the GPU's rest meanwhile is theirs.
  constexpr double kMostOfIt = 0.6;
  const double in_all = share_of_slowest(job, StepPart::other);
  double lost = share;
  if (job.steps->devices) {
    const double idle = idle_in_own_code(*job.steps->devices);
    lost = share >= kMostOfIt * in_all ? idle : std::min(share, idle);
  } else if (job.steps->gpu_idle_share) {
    lost = std::min(lost, *job.steps->gpu_idle_share);
  }
  // Of a few per cent that only run, some are the hooks' and the next line's.
  constexpr double kClearlyMuch = 0.1;
  const bool rests = doing && doing->running < 0.5;
  Finding finding = about_job(
      FindingCode::slow_host_code, job, lost > 0.3 ? Severity::critical : Severity::warning,
      share >= kClearlyMuch || rests ? 0.85 : 0.45, lost,
      {{"own_code_share", share, kShareAtLeast, "fraction"},
       {"own_code_ms_a_step", share * job.steps->mean_ms(), std::nullopt, "ms"}});
  add_main_thread(job, finding);
  std::ranges::stable_sort(places, std::greater{}, [&](const PlaceSignals* place) {
    return share_with_its_function(job, place->place);
  });
  name_places(finding, job, places);
  return finding;
}

}  // namespace

std::vector<Finding> find_slow_host_code(const Seen& seen) {
  constexpr double kWaitsAtLeast = 0.05;  // of the time; 200 looks tell 5 % from 2 %
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job)) continue;
    if (job.steps && job.steps->count >= 5) {  // they tell more
      auto finding = is_probed(job) ? host_code_from_probes(job) : std::nullopt;
      if (!finding) finding = host_code_from_records(job);
      if (finding) findings.push_back(std::move(*finding));
      continue;
    }
    if (!job.host.doing) continue;
    if (stacks_tell(job)) {
      if (own_code_saves(job)) continue;
      if (auto finding =
              found_by_stacks(FindingCode::slow_host_code, StepPart::other, job, kWaitsAtLeast))
        findings.push_back(std::move(*finding));
      continue;
    }
    const HostDoing& doing = *job.host.doing;
    const double idle = idle_of(job);
    const double lost = std::min(idle, doing.sleeping + doing.talking);
    if (lost < kWaitsAtLeast) {
      if (auto finding = computes(job, idle)) findings.push_back(std::move(*finding));
      continue;
    }
    // Who loads data in its main thread may wait for it there.
    const bool may_be_input = job.host.loader_workers.value_or(0) == 0;
    Finding finding = about_job(
        FindingCode::slow_host_code, job, lost > 0.3 ? Severity::critical : Severity::warning,
        sure_if_joined(job, may_be_input ? 0.45 : 0.8), lost,
        {{"looks", static_cast<double>(doing.looks), std::nullopt, "samples"}});
    if (doing.sleeping > 0)
      finding.evidence.push_back({"main_thread_sleeps", doing.sleeping, kWaitsAtLeast, "fraction"});
    if (doing.talking > 0)
      finding.evidence.push_back(
          {"main_thread_waits_for_a_server", doing.talking, kWaitsAtLeast, "fraction"});
    if (doing.workers_at_work)
      finding.evidence.push_back(
          {"workers_at_work", *doing.workers_at_work, std::nullopt, "fraction"});
    tell_stop(finding, job);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
