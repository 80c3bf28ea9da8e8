// D201: the GPUs wait for data.
//
// Why it shows: when the loader is slower than the step, every rank's GPU is empty at the same
// moment in every step: no kernel runs (a rank that waits for another rank would spin in NCCL and
// read busy). With step marks the wait is measured; from outside it is inferred from idle time that
// all ranks share, and from the host: workers that wait for the disk, a main process that sleeps
// although the GPU has nothing to do, or one that loads the data itself. Looks at the threads
// decide where they were taken: it waits while the workers make batches. Confused with: a main
// process that cannot launch kernels fast enough (launch-bound: the GPU hardly works even while it
// reads busy: 118 of 700 W on an H200 that ran 64 x 64 products),
// logging, evaluation or saving (stretches of a second and more, taken out here), servers (no
// period). Blind: input waits hidden behind the GPU are no loss and do not show; a wait of one rank
// only shows as a straggler.
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"

namespace lockstep {
namespace {

constexpr double kIdleAtLeast = 0.1;  // healthy steps leave 1 to 8 % of the windows empty

double host_says_input(const HostSignals& host, double idle) {
  const bool reads = reads_much(host);
  // Who waits for a batch sleeps: a main process that never does launches kernels, or computes.
  if (host.loader_workers.value_or(0) > 0 && host.waiting_for_disk == 0 &&
      host.main_cpu.value_or(0) > 1 - 0.5 * idle)
    return 0.42;
  if (host.loader_workers && *host.loader_workers == 0) {
    // nobody does anything: it waits for people, not for data
    if (!reads && host.main_cpu.value_or(1) < 0.3) return 0.45;
    // A main thread that is busy may make batches, launch kernels or compute something else: told
    // once, as D202.
    return reads ? 0.75 : 0.45;
  }
  if (reads) return 0.75;
  if (!host.main_cpu) return 0.48;
  // It sleeps: for data, or for anything else that it waits for between steps (seen on an H200:
  // logging that sleeps looks the same).
  return *host.main_cpu < 0.75 ? 0.5 : 0.42;
}

// A batch that workers made comes through a queue: unpickling and mapping it takes about a
// millisecond (seen: 0.9 to 1.3 ms, 32 x 256 floats), whoever made it. More workers do not shorten
// that.
constexpr double kQueueMs = 1.0;
constexpr double kStarvedWorthwhile = 0.02;
constexpr double kWorthTelling = 0.005;
constexpr double kShortWaitMs = 5;      // a batch
constexpr double kWorkersKeepUp = 0.8;  // of a step: what a batch takes, over the workers

// Whether the loader's workers are what is slow. Nothing: it cannot be told.
std::optional<bool> workers_are_slow(const JobSignals& job, const LoaderSetting& loader) {
  const auto found = job.settings->batch_ms_of_worker.find(loader.id);
  if (found == job.settings->batch_ms_of_worker.end() || loader.workers == 0) return std::nullopt;
  // Batches come in bursts, one of each worker: with two the median step may be a long one, with
  // six it is a short one. A save in some steps lengthens the mean.
  const double step = std::min(job.steps->mean_ms(), job.steps->duration_p50_ms);
  return found->second / loader.workers > kWorkersKeepUp * step;
}

// Of the time, while a GPU had nothing to do: by the GPUs' own records, else by what probes saw of
// its queue.
double waited_for_data(const JobSignals& job) {
  const double exposed = exposed_data_wait(job);
  if (!job.steps->devices || job.steps->devices->steps < kFewestRecordedSteps) return exposed;
  double most = 0;
  for (const RankDevices& rank : job.steps->devices->ranks)
    if (rank.devices.size() == 1)
      most = std::max(most, rank.idle[index_of(StepPart::data_wait)]);
    else
      return exposed;
  return most;
}

// Of the waits for data, what the training thread makes itself (get_batch, augment): no loader's
// workers are to blame for that.
double made_by_hand(const JobSignals& job) {
  double made = 0;
  double in_all = 0;
  for (const PlaceSignals& place : job.steps->places) {
    if (place.part != StepPart::data_wait) continue;
    in_all += place.share;
    if (!place.place.what.starts_with("DataLoader")) made += place.share;
  }
  return in_all > 0 ? made / in_all : 0;
}

// Or waits for a thread or process of the program's own to make.
bool waits_for_its_own_thread(const JobSignals& job) {
  for (const PlaceSignals& place : job.steps->places)  // costliest first
    if (place.part == StepPart::data_wait)
      return place.place.what.starts_with("threading:") || place.place.what.starts_with("queue:") ||
             place.place.what.starts_with("multiprocessing:");
  return false;
}

std::optional<Finding> starved_from_probes(const JobSignals& job) {
  constexpr double kMostOfIt = 0.5;
  const double share = waited_for_data(job);
  if (share < kStarvedWaitShare) return std::nullopt;
  const double by_hand = made_by_hand(job);
  const LoaderSetting* const loader = by_hand < kMostOfIt ? training_loader(job) : nullptr;
  const auto slow = loader != nullptr ? workers_are_slow(job, *loader) : std::nullopt;
  // Every pass takes a batch. Workers that have each ready in time: what is left is the queue, or
  // cores that are all taken.
  const double passes = std::max(1.0, job.steps->passes_a_step);
  // A batch that the program makes itself costs what it waits for it, whatever takes its place.
  const double queue = by_hand < kMostOfIt ? passes * kQueueMs / job.steps->mean_ms() : 0;
  const double removable = std::max(0.0, share - queue);
  if (removable < kStarvedWorthwhile ||
      (slow == false && job.steps->p50_ms[index_of(StepPart::data_wait)] < passes * kShortWaitMs))
    return std::nullopt;
  const double confidence = slow == false ? 0.4 : 0.95;
  std::vector<Evidence> evidence = {
      {"data_wait_share", share, kStarvedWaitShare, "fraction"},
      {"data_wait_p50_ms", job.steps->p50_ms[index_of(StepPart::data_wait)], std::nullopt, "ms"}};
  if (job.steps->hidden_data_wait)
    evidence.push_back(
        {"hidden_behind_the_gpu", *job.steps->hidden_data_wait, std::nullopt, "fraction"});
  if (share - removable >= kWorthTelling)
    evidence.push_back({"left_for_the_queue", share - removable, std::nullopt, "fraction"});
  if (by_hand >= kMostOfIt)
    evidence.push_back({waits_for_its_own_thread(job) ? "made_in_a_thread_of_its_own"
                                                      : "made_in_the_training_thread",
                        by_hand, kMostOfIt, "fraction"});
  if (loader != nullptr) {
    evidence.push_back(
        {"loader_workers", static_cast<double>(loader->workers), std::nullopt, "processes"});
    if (const auto found = job.settings->batch_ms_of_worker.find(loader->id);
        found != job.settings->batch_ms_of_worker.end())
      evidence.push_back({"batch_takes_a_worker_ms", found->second, std::nullopt, "ms"});
  }
  Finding finding = about_job(FindingCode::input_starved, job,
                              share > 0.3 ? Severity::critical : Severity::warning, confidence,
                              removable, std::move(evidence));
  name_places(finding, job, main_places(job, StepPart::data_wait));
  return finding;
}

std::optional<Finding> starved_from_steps(const JobSignals& job) {
  if (!job.steps || job.steps->count < 5) return std::nullopt;
  const std::size_t wait = index_of(StepPart::data_wait);
  const double share = job.steps->share[wait];
  if (share < kStarvedWaitShare) return std::nullopt;
  Finding finding = about_job(FindingCode::input_starved, job,
                              share > 0.3 ? Severity::critical : Severity::warning, 0.95,
                              std::min(share, most_that_can_be_lost(job)),
                              {{"data_wait_share", share, kStarvedWaitShare, "fraction"},
                               {"data_wait_p50_ms", job.steps->p50_ms[wait], std::nullopt, "ms"}});
  // In bursts: the usual step has its batch, and few steps wait for all.
  if (job.steps->p50_ms[wait] < 0.5 * share * job.steps->mean_ms())
    finding.evidence.push_back(
        {"data_wait_longest_ms", job.steps->max_ms[wait], std::nullopt, "ms"});
  finding.rung = 1;
  return finding;
}

// What looks at the threads say: how much it waits for data, and how sure that is. 0: the workers
// have nothing to do, their queues are full, and it is something else. Nothing: it is not decided.
struct InputByLooks {
  double lost = 0;
  double confidence = 0;
};
std::optional<InputByLooks> input_by_looks(const JobSignals& job) {
  // A loader that holds the GPU up has all its workers at work, but for one slow sample that the
  // others wait for; one that keeps up has most of them waiting.
  constexpr double kWorkersWork = 0.75;
  constexpr double kWorkersRest = 0.1;
  const HostDoing& doing = *job.host.doing;
  if (stacks_tell(job) && loads_data_at_rest(job))
    return InputByLooks{
        doing.by_stacks(StepPart::data_wait)->lost,
        many_stacks(job) || doing.workers_at_work.value_or(0) >= kWorkersWork ? 0.85 : 0.58};
  if (stacks_say_it_is_not_data(job)) return InputByLooks{};
  if (only_all_stacks_tell(job) &&
      doing.share_of_all_stacks(StepPart::data_wait) < 0.5 * kStarvedWaitShare)
    return InputByLooks{};
  if (job.host.loader_workers.value_or(0) > 0 && queues_always_full(doing, false))
    return InputByLooks{};
  if (job.host.loader_workers.value_or(0) > 0) {
    const double at_work = doing.workers_at_work.value_or(0.5);
    if (at_work >= kWorkersWork && doing.for_another >= kStarvedWaitShare)
      return InputByLooks{doing.for_another, sure_if_joined(job, 0.85)};
    if (at_work <= kWorkersRest && doing.joined) return InputByLooks{};
    return std::nullopt;
  }
  if (doing.reading < kStarvedWaitShare) return std::nullopt;
  return InputByLooks{doing.reading, sure_if_joined(job, 0.75)};
}

// Of the idle time, what the main thread sleeps, waits for a server or writes: not for data, as far
// as it has workers for that.
bool does_something_else(const JobSignals& job, double idle) {
  return job.host.doing &&
         job.host.doing->sleeping + job.host.doing->talking + job.host.doing->writing > 0.5 * idle;
}

std::optional<Finding> starved_from_outside(const JobSignals& job, const Signals& signals,
                                            bool in_turns) {
  if (!trains(job) || job.origin == JobOrigin::foreign) return std::nullopt;
  double idle = in_turns ? job.idle_together : job.at_rest();
  // Windows blur turns into rest: lanes tell when none works.
  if (in_turns) {
    double left = 1;  // where one works at a time
    for (const GpuInJob& member : job.members) left -= member.busy.value_or(0);
    idle = std::min({idle, job.time->idle_together, std::max(0.0, left)});
  }
  if (idle < kIdleAtLeast || idle_is_saving(job)) return std::nullopt;
  const bool regular = job.fine && (job.fine->period_strength > 0.3 || job.fine->swing < 0.12);
  const auto by_looks = job.host.doing ? input_by_looks(job) : std::nullopt;
  if (by_looks && by_looks->lost == 0) return std::nullopt;
  double confidence = by_looks ? by_looks->confidence : host_says_input(job.host, idle);
  if (!by_looks && does_something_else(job, idle)) confidence = std::min(confidence, 0.4);
  if (is_coarse(signals)) confidence = std::min(confidence, 0.4);
  // nobody's processes: nothing says why
  if (job.origin != JobOrigin::processes) confidence = std::min(confidence, 0.45);
  // the host is slow, but not with data
  if (hardly_works_when_busy(job, signals)) confidence = std::min(confidence, 0.4);
  // Workers deliver in bursts: where they are there, the rank itself does nothing and its GPU
  // hardly anything, rhythm is not needed.
  const bool waits_for_workers =
      job.host.loader_workers.value_or(0) > 0 && job.host.main_cpu.value_or(1) < 0.4 && idle > 0.3;
  if (!regular && !by_looks) confidence = std::min(confidence, waits_for_workers ? 0.55 : 0.45);
  std::vector<Evidence> evidence = {{"idle_together", idle, kIdleAtLeast, "fraction"}};
  if (by_looks) {
    idle = std::min(idle, by_looks->lost);
    evidence.push_back({stacks_tell(job)                          ? "in_the_loader_while_gpus_rest"
                        : job.host.loader_workers.value_or(0) > 0 ? "waits_while_workers_work"
                                                                  : "main_thread_reads_files",
                        by_looks->lost, kStarvedWaitShare, "fraction"});
    if (job.host.doing->workers_at_work)
      evidence.push_back(
          {"workers_at_work", *job.host.doing->workers_at_work, std::nullopt, "fraction"});
  }
  if (job.host.main_cpu)
    evidence.push_back({"main_process_cpu", *job.host.main_cpu, std::nullopt, "cores"});
  if (job.host.loader_workers)
    evidence.push_back({"loader_workers", static_cast<double>(*job.host.loader_workers),
                        std::nullopt, "processes"});
  if (job.host.waiting_for_disk > 0)
    evidence.push_back({"waiting_for_disk", job.host.waiting_for_disk, std::nullopt, "fraction"});
  if (job.fine && job.fine->period_ms)
    evidence.push_back({"period_ms", *job.fine->period_ms, std::nullopt, "ms"});
  Finding finding = about_job(FindingCode::input_starved, job,
                              idle > 0.3 ? Severity::critical : Severity::warning, confidence, idle,
                              std::move(evidence));
  if (by_looks && stacks_tell(job))
    if (const StackPart* const seen = job.host.doing->by_stacks(StepPart::data_wait))
      name_line(finding, seen->place);
  return finding;
}

}  // namespace

std::vector<Finding> find_input_starved(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    const bool in_turns = pattern_of(seen, i) == Pattern::taking_turns && job.time &&
                          job.time->resolved && !job.steps;
    if (!steps_can_be_judged(seen, i) && !in_turns) continue;
    auto finding = is_probed(job) ? starved_from_probes(job)
                   : job.steps && job.steps->count >= 5
                       ? starved_from_steps(job)
                       : starved_from_outside(job, seen.signals, in_turns);
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
