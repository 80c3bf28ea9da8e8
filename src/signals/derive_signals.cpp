#include "signals/derive_signals.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/board_power.hpp"
#include "model/gpu_kind.hpp"
#include "model/time_model.hpp"
#include "signals/activity.hpp"
#include "signals/collective_arrivals.hpp"
#include "signals/communicators.hpp"
#include "signals/device_times.hpp"
#include "signals/gpu_signals.hpp"
#include "signals/host_doing.hpp"
#include "signals/host_load.hpp"
#include "signals/host_spread.hpp"
#include "signals/job_groups.hpp"
#include "signals/lanes.hpp"
#include "signals/looks_at_steps.hpp"
#include "signals/module_times.hpp"
#include "signals/probe_settings.hpp"
#include "signals/stack_profile.hpp"
#include "signals/statistics.hpp"
#include "signals/step_times.hpp"
#include "signals/time_account.hpp"
#include "signals/turns.hpp"
#include "signals/working_time.hpp"

namespace lockstep {
namespace {

// SM readings further apart than a busy window show no more than busy does
constexpr double kFinestLaneUsefulMs = 250;
constexpr double kShortestStallMs = 900;

void add_members(const Timeline& timeline, const Activity& activity, JobSignals& job) {
  for (std::size_t row = 0; row < job.gpus.size(); ++row) {
    GpuInJob member;
    member.index = job.gpus[row];
    if (row < activity.busy.rows.size()) member.busy = mean_of(activity.busy.rows[row]);
    if (activity.work && row < activity.work->size()) {
      member.work = mean_of((*activity.work)[row]);
      // Of means: a window smears `busy` over moments in which the GPU was empty already.
      if (member.work && member.busy.value_or(0) > 0)
        member.hollow = std::clamp(1 - *member.work / *member.busy, 0.0, 1.0);
    }
    if (const GpuTrack* const track = find_track(timeline, member.index)) {
      // while it works: a job that loads for a minute and is watched for ten seconds held nothing
      // at first
      std::vector<double> held;
      for (std::size_t i = 0; i < track->memory_used_bytes.size(); ++i)
        if (track->memory_used_bytes.t_ms[i] >= job.from_ms &&
            track->memory_used_bytes.t_ms[i] <= job.to_ms)
          held.push_back(track->memory_used_bytes.values[i]);
      member.memory_bytes = median_of(held.empty() ? track->memory_used_bytes.values : held);
      if (member.memory_bytes && track->info.memory_total_bytes &&
          *track->info.memory_total_bytes > 0)
        member.memory_fraction =
            *member.memory_bytes / static_cast<double>(*track->info.memory_total_bytes);
      const Series<double>& power =
          track->power_samples_mw.empty() ? track->power_mw : track->power_samples_mw;
      std::vector<double> working;
      for (std::size_t i = 0; i < power.size(); ++i)
        if (power.t_ms[i] >= job.from_ms && power.t_ms[i] <= job.to_ms)
          working.push_back(power.values[i]);
      member.power_mw = mean_of(working);
      if (member.power_mw && track->info.power_limit_mw && *track->info.power_limit_mw > 0)
        member.power_of_limit = *member.power_mw / *track->info.power_limit_mw;
    }
    job.members.push_back(member);
  }
}

std::optional<double> balance(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const double most = *std::ranges::max_element(values);
  return most > 0 ? std::optional(*std::ranges::min_element(values) / most) : std::nullopt;
}

void add_balances(JobSignals& job) {
  std::vector<double> memory;
  std::vector<double> power;
  for (const GpuInJob& member : job.members) {
    if (member.memory_bytes && *member.memory_bytes > 0) memory.push_back(*member.memory_bytes);
    if (member.power_mw) power.push_back(*member.power_mw);
  }
  if (memory.size() == job.gpus.size() && memory.size() > 1) {
    job.memory_balance = balance(memory);
    const std::vector<double> others(memory.begin() + 1, memory.end());
    job.memory_lead = memory.front() / std::max(1.0, *median_of(others));
    job.replica_balance = others.size() > 1 ? balance(others) : 1.0;
  }
  if (power.size() == job.gpus.size()) job.power_balance = balance(power);
}

// The median over windows of two periods and a second at least: stretches of compiling, saving and
// evaluating, which are not the usual step, do not count.
double in_usual_window(const std::vector<double>& values, double step_ms, const JobSignals& job) {
  const double period =
      job.fine && job.fine->period_strength > 0.3 ? job.fine->period_ms.value_or(0) : 0;
  if (values.empty() || step_ms <= 0) return 0;
  const auto length = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::lround(std::max(1000.0, 2 * period) / step_ms)));
  if (values.size() < 3 * length) return mean_of(values).value_or(0);
  std::vector<double> windows;
  for (std::size_t from = 0; from + length <= values.size(); from += length)
    windows.push_back(*mean_of({values.data() + from, length}));
  return *median_of(windows);
}

void add_sums(const Activity& activity, JobSignals& job) {
  std::vector<double> sums;
  std::vector<double> seconds;
  std::vector<double> idle;
  const auto read_rows = static_cast<std::size_t>(
      std::ranges::count_if(activity.busy.rows, [](const auto& row) { return any_known(row); }));
  if (read_rows == 0) return;
  for (std::size_t bin = 0; bin < activity.busy.bins(); ++bin) {
    std::vector<double> column;
    for (const auto& row : activity.busy.rows)
      if (known(row[bin])) column.push_back(row[bin]);
    if (column.size() != read_rows) continue;
    std::sort(column.rbegin(), column.rend());
    double sum = 0;
    for (const double value : column) sum += value;
    sums.push_back(sum);
    seconds.push_back(column.size() > 1 ? column[1] : 0);
    idle.push_back(1 - column.front());
  }
  job.busy_sum = median_of(sums).value_or(0);
  job.second_busy = median_of(seconds).value_or(0);
  job.idle_together = in_usual_window(idle, activity.busy.step_ms, job);
  job.idle_each = 1;
  for (const auto& row : activity.busy.rows) {
    if (!any_known(row)) continue;
    std::vector<double> own;
    for (const double value : row) own.push_back(known(value) ? 1 - value : value);
    job.idle_each = std::min(job.idle_each, in_usual_window(own, activity.busy.step_ms, job));
  }
}

double busy_window(const Timeline& timeline, const JobSignals& job, double spacing_ms) {
  double window = 0;
  for (const GpuTrack* const track : tracks_of(timeline, job.gpus))
    window = std::max(window, track->info.busy_window_ms.value_or(spacing_ms));
  return std::max(window, spacing_ms);
}

// Power goes on rising for its window of a second when kernels already run: what began within the
// recording has settled a little later.
double settled_from(const Timeline& timeline, const Activity& activity, const JobSignals& job) {
  constexpr double kSettlesMs = 2000;
  constexpr double kLongest = 0.3;  // of the working time
  const bool began_in_view = job.from_ms > timeline.from_ms + 500;
  if (!began_in_view) return job.from_ms;
  return job.from_ms + std::min(std::max(kSettlesMs, 2 * activity.busy.step_ms),
                                kLongest * (job.to_ms - job.from_ms));
}

void add_turns(const Timeline& timeline, const Activity& activity, JobSignals& job) {
  if (job.gpus.size() < 2 || !job.active) return;
  std::optional<TurnSignals> of_busy;
  if (activity.busy.bins() > 0)
    of_busy = turn_signals(activity.busy, LaneKind::busy,
                           busy_window(timeline, job, activity.busy.step_ms));
  if (const auto lanes = power_sample_lanes(timeline, job.gpus, job.from_ms, job.to_ms))
    job.fine = turn_signals(*lanes, LaneKind::power_samples, lanes->step_ms);
  if (!job.fine)
    if (const auto lanes = instant_power_lanes(timeline, job.gpus, job.from_ms, job.to_ms))
      job.fine = turn_signals(*lanes, LaneKind::power_samples, lanes->step_ms);
  if (!job.fine)
    if (const auto lanes = sm_lanes(timeline, job.gpus, job.from_ms, job.to_ms);
        lanes && lanes->step_ms <= kFinestLaneUsefulMs)
      job.fine = turn_signals(*lanes, LaneKind::sm, lanes->step_ms);
  if (job.fine)
    job.coarse = of_busy;
  else
    job.fine = of_busy;
  if (const auto lanes =
          plain_power_lanes(timeline, job.gpus, settled_from(timeline, activity, job), job.to_ms))
    if (const auto turns = turn_signals(*lanes, LaneKind::busy, lanes->step_ms)) {
      job.work_power_turns = turns->exclusive_busy;
      job.power_together = turns->together;
      job.power_swing = turns->swing;
    }
}

void add_period_of_one(const Timeline& timeline, const Activity& activity, JobSignals& job) {
  if (job.gpus.size() != 1 || !job.active) return;
  const auto lanes = power_sample_lanes(timeline, job.gpus, job.from_ms, job.to_ms);
  const Lanes& used = lanes ? *lanes : activity.busy;
  TurnSignals alone;
  alone.kind = lanes ? LaneKind::power_samples : LaneKind::busy;
  alone.resolution_ms = used.step_ms;
  alone.bins = used.bins();
  if (used.bins() == 0) return;
  alone.duty = {mean_of(used.rows.front()).value_or(0)};
  alone.any_active = alone.duty.front();
  alone.swing = std::sqrt(variance_of(used.rows.front()));
  if (const auto period = period_of(used)) {
    alone.period_ms = period->ms;
    alone.period_strength = period->strength;
  }
  job.fine = alone;
}

// Bytes that come to the GPUs, against what the GPUs do meanwhile.
std::optional<double> copies_against_work(const Timeline& timeline, const Activity& activity,
                                          const JobSignals& job) {
  std::vector<double> rates;
  std::vector<double> worked;
  for (std::size_t row = 0; row < job.gpus.size() && row < activity.busy.rows.size(); ++row) {
    const GpuTrack* const track = find_track(timeline, job.gpus[row]);
    if (track == nullptr) continue;
    const Series<double>& counter = track->pcie_rx_bytes;
    for (std::size_t i = 1; i < counter.size(); ++i) {
      if (counter.values[i] < counter.values[i - 1] || counter.t_ms[i] <= counter.t_ms[i - 1])
        continue;
      if (counter.t_ms[i - 1] < job.from_ms || counter.t_ms[i] > job.to_ms) continue;
      const auto bin = [&](double t_ms) {
        return static_cast<std::size_t>(
            std::max(0.0, (t_ms - activity.busy.from_ms) / activity.busy.step_ms));
      };
      const std::size_t from = bin(counter.t_ms[i - 1]);
      const std::size_t to =
          std::min(activity.busy.bins(), std::max(from + 1, bin(counter.t_ms[i])));
      if (from >= to) continue;
      const auto& lane = activity.work ? (*activity.work)[row] : activity.busy.rows[row];
      const auto mean = mean_of({lane.data() + from, to - from});
      if (!mean) continue;
      rates.push_back((counter.values[i] - counter.values[i - 1]) /
                      (counter.t_ms[i] - counter.t_ms[i - 1]));
      worked.push_back(*mean);
    }
  }
  if (rates.size() < 20) return std::nullopt;
  return correlation(rates, worked);
}

void measure(const Timeline& timeline, const std::vector<GpuSignals>& gpus, JobSignals& job) {
  find_working_time(timeline, job);
  const Activity activity = activity_of(timeline, job.gpus, job.from_ms, job.to_ms);
  add_members(timeline, activity, job);
  add_balances(job);
  add_turns(timeline, activity, job);
  add_period_of_one(timeline, activity, job);
  add_sums(activity, job);
  add_time_account(timeline, activity, job);
  job.spread = host_spread(activity, job, gpus);
  job.stalls = stalls_of(activity, job.gpus, kShortestStallMs);
  for (Stall& stall : job.stalls.all)
    stall.written_bytes = written_between(timeline, job.pids, stall.from_ms, stall.to_ms);
  for (const Stretch& hollow : hollow_stretches(activity)) {
    const double length = hollow.to_ms - hollow.from_ms;
    if (length <= job.longest_hollow_ms) {
      job.second_hollow_ms = std::max(job.second_hollow_ms, length);
      continue;
    }
    job.second_hollow_ms = job.longest_hollow_ms;
    job.longest_hollow_ms = length;
    job.longest_hollow_until_ms = hollow.to_ms;
    job.written_while_hollow = written_between(timeline, job.pids, hollow.from_ms, hollow.to_ms);
  }
  job.host = host_signals(timeline, job.pids, job.from_ms, job.to_ms);
  job.host.doing =
      host_doing(timeline, job, job.time ? job.time->idle_together : job.idle_together);
  job.host.stacks = stack_profile(timeline, job);
  job.copy_while_idle = copies_against_work(timeline, activity, job);
}

// Parts of a split model need not be alike, nor need the first GPU of DataParallel. Where no
// process is known, GPUs that hand the work to and fro, or that clearly move together, belong
// together.
void join_turns(const Timeline& timeline, const std::vector<GpuSignals>& gpus,
                std::vector<JobSignals>& jobs) {
  constexpr double kOpposed = 0.25;
  constexpr double kTogether = 0.6;
  const bool only_likeness = std::ranges::all_of(
      jobs, [](const JobSignals& job) { return job.origin == JobOrigin::likeness; });
  const bool one_machine = std::ranges::none_of(
      gpus, [&](const GpuSignals& gpu) { return gpu.info.host != gpus.front().info.host; });
  if (jobs.size() < 2 || !only_likeness || !one_machine) return;
  JobSignals all;
  all.origin = JobOrigin::likeness;
  for (const JobSignals& job : jobs) {
    all.gpus.insert(all.gpus.end(), job.gpus.begin(), job.gpus.end());
    all.pids.insert(all.pids.end(), job.pids.begin(), job.pids.end());
    all.processes.insert(all.processes.end(), job.processes.begin(), job.processes.end());
  }
  std::ranges::sort(all.gpus);
  measure(timeline, gpus, all);
  if (!all.fine) return;
  // DataParallel's first GPU holds more than its replicas, and is busy when they are.
  const bool leads = all.memory_lead.value_or(0) > 1.25 && all.replica_balance.value_or(0) > 0.8 &&
                     all.fine->together > kTogether && all.fine->swing > 0.1;
  if (all.fine->kind == LaneKind::busy && !leads) return;
  const bool to_and_fro = all.fine->opposed > kOpposed && all.fine->hand_backs >= 2;
  const bool as_one = all.fine->together > kTogether && all.fine->swing > 0.1;
  if (to_and_fro || as_one) jobs = {std::move(all)};
}

// Ranks that tell their steps, with no GPU that anyone sees them on: a job all the same.
JobSignals job_of_steps(const Timeline& timeline) {
  JobSignals job;
  job.origin = JobOrigin::steps;
  job.active = true;
  job.from_ms = timeline.steps.front().t_ms;
  job.to_ms = timeline.steps.back().t_ms;
  std::set<int> ranks;
  std::set<int> pids;
  for (const StepAt& entry : timeline.steps) ranks.insert(entry.step.rank);
  for (const FactAt& entry : timeline.facts) pids.insert(entry.fact.pid);
  job.ranks.assign(ranks.begin(), ranks.end());
  job.pids.assign(pids.begin(), pids.end());
  job.world_size = static_cast<int>(ranks.size());
  return job;
}

// Of a step, the share that collectives would take if gradients travelled in a few buckets, each as
// soon as it is full. Only where a GPU carries them beside its work, and a program tells how many
// bytes they are.
std::optional<double> exposed_at_best(const JobSignals& job) {
  constexpr double kBucketBytes = 25 * 1024 * 1024;
  constexpr double kLargestShare = 0.25;  // four buckets at least
  if (!job.settings || !job.settings->on_gpu || job.settings->gradient_bytes.value_or(0) <= 0)
    return std::nullopt;
  const auto share = [&](StepPart part) { return job.steps->share[index_of(part)]; };
  const double travel = share(StepPart::collective_hidden) + job.steps->exposed_on_all;
  return exposed_by_ddp(travel, share(StepPart::backward),
                        std::min(kLargestShare, kBucketBytes / *job.settings->gradient_bytes));
}

// What the links between a job's GPUs allow; nothing: a GPU of a kind that is not known, or several
// nodes.
std::optional<double> allowed_by_links(const JobSignals& job, const std::vector<GpuSignals>& gpus) {
  std::optional<double> slowest;
  for (const CollectiveSpeed& speed : job.collectives->speeds)
    if (speed.nodes > 1) return std::nullopt;
  for (const GpuSignals& gpu : gpus) {
    if (std::ranges::find(job.gpus, gpu.index) == job.gpus.end()) continue;
    const GpuKind* const known =
        gpu.info.name
            ? gpu_kind_of(*gpu.info.name,
                          gpu.info.memory_total_bytes
                              ? std::optional(static_cast<double>(*gpu.info.memory_total_bytes))
                              : std::nullopt)
            : nullptr;
    if (known == nullptr) return std::nullopt;
    GpuKind kind = *known;
    // its counters cannot be read where there are no links
    if (!gpu.nvlink_bytes_s) kind.nvlink_bytes_s = 0;
    slowest =
        std::min(slowest.value_or(reachable_link_bytes_s(kind)), reachable_link_bytes_s(kind));
  }
  return slowest;
}

// Collectives and communicators belong to the job whose processes or ranks made them.
void add_collectives(const Timeline& timeline, const std::vector<GpuSignals>& gpus,
                     std::vector<JobSignals>& jobs) {
  for (JobSignals& job : jobs) {
    std::vector<CollectiveCall> own;
    for (const CollectiveCall& call : timeline.collectives)
      if (jobs.size() == 1 || std::ranges::find(job.pids, call.pid) != job.pids.end())
        own.push_back(call);
    job.collectives = collective_signals(own);
    if (job.collectives) job.collectives->link_bytes_s = allowed_by_links(job, gpus);
    // others of the machine may answer at the same port
    job.communicators = communicator_signals(timeline.censuses, job.pids);
  }
}

// Values on the CPU that the program reads: a step may have thousands, each of which is no wait.
double cost_of_hooks(const std::vector<PlaceSignals>& places, const ProbeSettings& settings) {
  double reads = 0;
  for (const PlaceSignals& place : places)
    if (place.part == StepPart::sync && !place.on_device) reads += place.calls_a_step;
  return reads * settings.read_hook_ns / 1e6;
}

// Step marks carry ranks and no job: they belong to the job that has those ranks, else to the only
// or largest one.
void add_steps(const Timeline& timeline, std::vector<JobSignals>& jobs) {
  if (timeline.steps.empty()) return;
  const StepMark& first = timeline.steps.front().step;
  const bool told_by_itself = first.detail != nullptr || first.on_devices || first.passes ||
                              timeline.source_kind == SourceKind::log;
  if (jobs.empty() && told_by_itself) jobs.push_back(job_of_steps(timeline));
  if (jobs.empty()) return;
  JobSignals* owner = &jobs.front();
  for (JobSignals& job : jobs) {
    const bool has_rank =
        std::ranges::find(job.ranks, timeline.steps.front().step.rank) != job.ranks.end();
    const bool owner_has =
        std::ranges::find(owner->ranks, timeline.steps.front().step.rank) != owner->ranks.end();
    if ((has_rank && !owner_has) || (has_rank == owner_has && job.gpus.size() > owner->gpus.size()))
      owner = &job;
  }
  owner->steps = step_signals(timeline.steps);
  if (owner->steps) {
    add_main_thread(timeline, *owner->steps);
    owner->steps->modules = module_times(timeline.facts);
  }
  owner->settings = probe_settings(timeline.facts);
  if (owner->steps && owner->settings)
    owner->steps->hooks_ms = cost_of_hooks(owner->steps->places, *owner->settings);
  owner->exposed_at_best = exposed_at_best(*owner);
}

}  // namespace

namespace {

Series<double> scaled(const Series<double>& series, double from, double to) {
  Series<double> result;
  result.t_ms = series.t_ms;
  for (const double value : series.values)
    result.values.push_back(std::clamp((value - from) / (to - from), 0.0, 1.0));
  return result;
}

// MIG slices have no utilization: what their SMs do stands in for it, coarser than a kernel and
// finer than nothing. Power does not: it rises with the work, and says nothing of its absence.
Series<double> stand_in_for_busy(const GpuTrack& track) {
  return scaled(track.sm, 0, std::max(0.2, quantile(track.sm.values, 0.95).value_or(1)));
}
bool lacks_busy(const GpuTrack& track) { return track.busy.empty() && !track.sm.empty(); }

// Logs of other tools seldom have the limit; the name says what the card was made for.
bool lacks_limit(const GpuTrack& track) {
  return (!track.info.power_limit_mw || !track.info.power_limit_default_mw) && track.info.name &&
         (!track.power_mw.empty() || !track.power_samples_mw.empty()) &&
         board_power_mw(*track.info.name);
}

// Where only some steps have records: what the GPU did in the others, by how busy it was.
void add_what_records_leave_open(std::vector<JobSignals>& jobs) {
  for (JobSignals& job : jobs) {
    if (!job.steps || !job.steps->devices || job.members.size() != 1 || !job.members.front().busy)
      continue;
    if (job.steps->devices->steps >= job.steps->count) continue;  // all have records
    const double busy = *job.members.front().busy;
    for (RankDevices& rank : job.steps->devices->ranks) {
      for (const RankSteps& steps : job.steps->ranks)
        if (steps.rank == rank.rank)
          weigh_in_evaluation(steps.share[index_of(StepPart::evaluation)], busy, rank);
      weigh_in_work_behind_waits(busy, rank);
    }
  }
}

}  // namespace

Signals derive_signals(const Timeline& as_read) {
  const bool lacking = std::ranges::any_of(
      as_read.gpus, [](const GpuTrack& track) { return lacks_busy(track) || lacks_limit(track); });
  Timeline completed;
  if (lacking) {
    completed = as_read;
    for (GpuTrack& track : completed.gpus) {
      if (lacks_busy(track)) track.busy = stand_in_for_busy(track);
      if (!lacks_limit(track)) continue;
      const auto made_for = board_power_mw(*track.info.name);
      if (!track.info.power_limit_mw) track.info.power_limit_mw = made_for;
      if (!track.info.power_limit_default_mw) track.info.power_limit_default_mw = made_for;
    }
  }
  const Timeline& timeline = lacking ? completed : as_read;
  Signals signals;
  signals.duration_s = (timeline.to_ms - timeline.from_ms) / 1e3;
  signals.process_coverage = timeline.machine.process_coverage;
  signals.processes_known = !timeline.process_lists.empty();
  signals.virtual_gpus =
      timeline.source_kind == SourceKind::virtual_gpus ||
      std::ranges::any_of(timeline.gpus, [](const GpuTrack& gpu) { return is_virtual(gpu.info); });
  signals.events = timeline.events;
  signals.peer_to_peer = timeline.machine.peer_to_peer;
  signals.gpus = gpu_signals(timeline);
  for (std::size_t i = 0; i < signals.gpus.size() && i < as_read.gpus.size(); ++i)
    signals.gpus[i].busy_is_from_sm = lacks_busy(as_read.gpus[i]);
  for (const GpuTrack& track : timeline.gpus) {
    signals.ticks = std::max({signals.ticks, track.busy.size(), track.power_mw.size(),
                              track.sm.size(), track.memory_used_bytes.size()});
    signals.tick_ms = std::max(signals.tick_ms, spacing_of(track.busy).value_or(0));
  }
  signals.jobs = job_groups(timeline, signals.gpus);
  signals.free_gpus = free_gpus(signals.gpus, signals.jobs);
  for (JobSignals& job : signals.jobs) measure(timeline, signals.gpus, job);
  join_turns(timeline, signals.gpus, signals.jobs);
  add_steps(timeline, signals.jobs);
  add_collectives(timeline, signals.gpus, signals.jobs);
  tell_of_working_time(timeline, signals);
  add_what_records_leave_open(signals.jobs);
  return signals;
}

}  // namespace lockstep
