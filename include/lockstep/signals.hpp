// Numbers derived from a timeline: arithmetic only, no verdicts.
//
// A job is a set of processes that work together. Its GPUs are looked at as lanes: one row a GPU on
// one time axis, each value between 0 (nothing runs) and 1 (works as hard as this GPU was seen to).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/device_signals.hpp"
#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/sample.hpp"
#include "lockstep/timeline.hpp"
#include "lockstep/trace_signals.hpp"

namespace lockstep {

struct GpuSignals {
  int index = 0;
  GpuInfo info;
  // mean over the steps of its job, else over the run: each reading weighted by the time it stands
  // for
  std::optional<double> busy_fraction;
  bool busy_is_from_sm = false;             // no utilization was read: for judging, not for telling
  std::optional<double> memory_used_bytes;  // newest while its job ran
  std::optional<double> power_mw;           // mean, from the sample buffer where it was read

  std::optional<double> busy_highest;  // over the run
  std::optional<double> memory_median_bytes;
  std::optional<double> memory_highest_bytes;
  std::optional<double> memory_highest_fraction;  // of what the GPU has
  std::optional<double> power_highest_mw;         // the 99th percentile: one odd sample is no level
  std::optional<double> power_lowest_mw;
  // how many times as fast large products are on its tensor cores as in fp32, by its table
  std::optional<double> tensor_core_gain;
  std::optional<double> sm;  // means while something ran
  std::optional<double> tensor;
  std::optional<double> dram;
  std::optional<double> clock_mhz;  // median while something ran
  std::optional<double> clock_highest_mhz;
  std::optional<double> temperature_highest_c;
  // Of the time in which something ran: the share in which each limit was set. Nothing: limits were
  // not read.
  std::optional<std::array<double, kClockLimitNames.size()>> limit_shares;
  double limit_looks = 0;  // at how many moments of that time limits were read
  std::optional<double> clock_while_limited_mhz;  // median while a thermal or power limit was set
  std::optional<double> clock_while_free_mhz;     // median while busy and no limit was set
  std::optional<double> pcie_rx_bytes_s;
  std::optional<double> pcie_tx_bytes_s;
  // the 95th percentile of the rates between readings
  std::optional<double> pcie_rx_peak_bytes_s;
  std::optional<double> nvlink_bytes_s;  // both ways
  // when it was first busy, where it was seen without work before
  std::optional<double> begins_ms;
  std::size_t looks = 0;  // readings of `busy`
  bool vanished = false;  // its readings ended long before those of the others
};

// What the lanes were made of, finest first.
enum class LaneKind : std::uint8_t { power_samples, sm, busy };

// How the lanes of a job lie to each other.
struct TurnSignals {
  LaneKind kind = LaneKind::busy;
  double resolution_ms = 0;  // what a lane's value is a mean over
  std::size_t bins = 0;      // moments at which all lanes were known
  // of the time in which any works, the share in which exactly one does
  double exclusive_busy = 0;
  double exclusive_by_chance = 0;  // the same lanes shifted against each other
  // mean correlation, weighted by swing: 1 in step, -1/(n-1) in perfect turns
  double together = 0;
  // 1 minus variance of the sum over sum of variances: 1 in perfect turns, 0 by chance
  double opposed = 0;
  double swing = 0;           // mean standard deviation of a lane
  double any_active = 0;      // mean of the highest lane
  std::vector<double> duty;   // mean of each lane
  std::vector<double> owned;  // share of the exclusive time that each lane had
  int hand_overs = 0;         // times the one that works changed
  // of those, to one that had worked before: loading one after the other has none
  int hand_backs = 0;
  std::optional<double> period_ms;  // of steps or turns, by autocorrelation
  double period_strength = 0;       // height of that peak, 0..1
  // Of the moments at which a lane begins to work, the share at which all do: ranks begin their
  // steps together, stages of a pipeline one after the other. Nothing: too few were seen.
  std::optional<double> rises_together;
  // Independent blocks of one period, 400 ms at least, the first dropped: how each of them votes.
  int blocks = 0;
  int blocks_exclusive = 0;  // two or more lanes take the block in turns
  int blocks_together = 0;
};

// What a GPU did with the job's working time; the sum is 1.
struct GpuTime {
  double working = 0;
  double waiting = 0;  // a kernel runs and does not work: a collective that others have not joined
  double idle = 0;
  // of the waiting of the others for GPUs that still work, what this one is waited for
  double waited_for = 0;
  double unread = 0;  // of the watch: the shares above are of the rest
};

// One GPU within its job.
struct GpuInJob {
  int index = 0;
  std::optional<double> busy;  // mean over the job's working time
  std::optional<double> work;  // mean lane of power or SM: what it really did
  // of its busy time, the share in which it did not work: a spinning wait
  std::optional<double> hollow;
  std::optional<double> memory_bytes;  // median
  std::optional<double> memory_fraction;
  std::optional<double> power_mw;
  std::optional<double> power_of_limit;
  std::optional<GpuTime> time;
};

// Of the job's working time, what its GPUs did at the same moment.
struct JobTime {
  double idle_together = 0;  // no GPU ran anything
  // while none works: what even the one that waits least of them waits
  double waiting_together = 0;
  bool waiting_is_known = false;  // power samples or SM activity tell it from work
  bool resolved = false;          // and each moment is one or the other
  bool sees_rest = false;         // and some of them are rest, on every GPU
  double unread = 0;              // share of the GPUs' time without a reading
};

// A stretch in which the job did not get on, though it did before and after.
struct Stall {
  double from_ms = 0;
  double to_ms = 0;
  double working_gpus = 0;              // mean number of GPUs that worked meanwhile
  double spinning_gpus = 0;             // that read busy and did not work
  std::vector<int> workers;             // the GPUs that worked for most of it
  std::optional<double> written_bytes;  // by the job's processes, around it
};

struct StallSignals {
  std::vector<Stall> all;
  double share = 0;                 // of the working time
  std::optional<double> period_ms;  // median distance of their starts
};

// What the host saw of the job.
// Where the main threads' Python code was while the GPUs were idle.
struct StackPart {
  StepPart part = StepPart::other;
  double lost = 0;  // share of the job's time
  CodePlace place;  // the line of the user's that most of it comes from
  int samples = 0;
};

// What ranks' main threads did while the GPUs were idle, as shares of the job's time.
struct HostDoing {
  int looks = 0;
  bool joined = false;     // only moments at which the GPUs were seen at rest count
  double for_another = 0;  // waited for another process or thread
  double reading = 0;      // a file
  double writing = 0;
  double sleeping = 0;
  double talking = 0;  // to a server, or to another process by a socket
  // Ran, in rests too long for launching. Launching keeps the GPU at work now and then.
  double computing = 0;
  // Of all looks, whatever the GPUs did. A main thread waits for a lock while its backward pass
  // launches kernels in a thread of its own, and runs while it waits for the GPU.
  double always_in_a_lock = 0;
  // of all loader workers' looks; 0: their queues are always full
  std::optional<double> workers_ever_at_work;
  // of the loader workers that had work or waited for it, while the GPUs rested
  std::optional<double> workers_at_work;
  std::vector<StackPart> stacks;  // costliest first; empty: too few were taken
  int stacks_at_rest = 0;
  // Whatever the GPUs did, as shares of all moments.
  std::vector<StackPart> all_stacks;
  int stacks_in_all = 0;
  // Share of the time that the GPUs rest, by what they draw at rest and at work: readings of busy
  // count copies, too. Nothing: their power never falls to rest.
  std::optional<double> rest_by_power;

  const StackPart* by_stacks(StepPart part) const { return find(stacks, part); }
  double share_of_all_stacks(StepPart part) const {
    const StackPart* const found = find(all_stacks, part);
    return found != nullptr ? found->lost : 0;
  }

  static const StackPart* find(const std::vector<StackPart>& stacks, StepPart part) {
    for (const StackPart& entry : stacks)
      if (entry.part == part) return &entry;
    return nullptr;
  }
};

// One way through the code on which the main threads were found.
struct SeenStack {
  StepPart part = StepPart::other;
  CodePlace place;                // the innermost line of the user's own
  std::vector<CodeFrame> frames;  // outermost first
  double share = 0;               // of all moments, mean of the processes
};

// Where the Python code of a job's main threads was, whatever the GPUs did meanwhile.
struct StackProfile {
  int samples = 0;
  int processes = 0;
  std::vector<SeenStack> stacks;  // most often seen first
};

struct HostSignals {
  std::optional<HostDoing> doing;      // nothing: no looks at threads
  std::optional<StackProfile> stacks;  // nothing: too few were taken
  std::optional<double> main_cpu;      // mean cores of a rank's own process
  std::optional<int> loader_workers;   // fewest of any rank
  std::optional<int> most_loader_workers;
  std::optional<double> read_bytes_s;  // all ranks
  std::optional<double> write_bytes_s;
  // share of the time: ranks' main threads could run and had no core
  std::optional<double> waiting_for_cpu;
  double waiting_for_disk = 0;  // share of looks that found state D
  double runnable = 0;          // share of looks that found state R
  int looks = 0;
};

// What a rank's main thread did during some of its steps' time, by looks at moments by chance.
struct MainThreadDoing {
  int looks = 0;
  // Shares of them; the sum is 1.
  double running = 0;
  double waiting_for_a_core = 0;
  PerDoing<double> blocked = {};
};

// What one line of the user's code takes of the steps' time.
struct PlaceSignals {
  StepPart part = StepPart::other;
  CodePlace place;
  std::vector<int> ranks;   // that spend at least a tenth of what the most spending does
  double share = 0;         // of the whole time, mean of all ranks
  double most_share = 0;    // of the rank that spends most there
  double hidden_share = 0;  // of the whole time, while the GPU had work all the same
  double step_p50_ms = 0;   // of the steps that have it
  double step_max_ms = 0;
  double present = 0;       // share of the steps of those ranks that have it
  double calls_a_step = 0;  // mean over all steps of those ranks
  double bytes_a_step = 0;
  bool on_device = false;
  bool pageable = false;
  bool blocking = false;
  // the files that are written, the loaders that are waited for: a few
  std::vector<std::uint64_t> subjects;
  std::optional<MainThreadDoing> main_thread;  // meanwhile; nothing: it was not looked at

  // Parts of a model that is sharded over the ranks (FSDP, ZeRO, experts), not a metric.
  bool moves_shards() const {
    return part == StepPart::collective_exposed &&
           (place.what.starts_with("all_gather_into_tensor") ||
            place.what.starts_with("reduce_scatter") || place.what.starts_with("all_to_all"));
  }
};

// One rank's steps, as probes or the trainer marked them.
struct RankSteps {
  int rank = 0;
  std::int64_t count = 0;
  double duration_ms = 0;                             // median
  std::array<double, kStepSpanNames.size()> share{};  // of the rank's whole time
  // median of the part over median of the step: rare ones do not count
  std::array<double, kStepSpanNames.size()> usual_share{};
  // share of steps in which it waited least for the others
  double last_to_arrive = 0;
};

// Steps that follow each other, as one column of a picture.
struct StepColumn {
  std::int64_t first = 0;  // their numbers
  std::int64_t last = 0;
  double mean_ms = 0;
  double longest_ms = 0;
  std::array<double, kStepSpanNames.size()> spans_ms{};  // means
  bool counts = false;                                   // false: all of the warm-up, or left out
};

// What parts of the model that are alike take of one step together: the mean of a few steps and of
// the ranks.
struct ModuleTime {
  std::string name;  // "transformer.h.*.mlp"; of the first: "all", the whole of both passes
  std::string kind;  // its class
  int count = 0;     // how many there are
  double forward_ms = 0;
  double backward_ms = 0;
  bool on_gpu = false;  // as its queue took them; else by the host's clock
  int steps = 0;        // in which they were measured
};

// All steps of one rank, in their order.
struct RankCourse {
  int rank = 0;
  std::vector<StepColumn> columns;
};

struct StepSignals {
  std::vector<RankSteps> ranks;
  std::int64_t count = 0;
  double duration_p50_ms = 0;
  std::array<double, kStepSpanNames.size()> share{};  // mean of the ranks
  std::array<double, kStepSpanNames.size()> p50_ms{};
  std::array<double, kStepSpanNames.size()> p95_ms{};
  std::array<double, kStepSpanNames.size()> max_ms{};
  // share of steps in which the part was not 0
  std::array<double, kStepSpanNames.size()> present{};
  double steps_without_optimizer = 0;  // share: micro-steps of an accumulation
  // of those, the share that also waited for or hid a collective
  double micro_steps_with_collective = 0;
  int ranks_that_save = 0;
  // share of time that even the last rank to arrive spends in collectives
  double exposed_on_all = 0;
  // share of time by which the rank that waits longest for data is behind the mean of all
  double uneven_data_wait = 0;
  double first_step_ms = 0;  // when the oldest that counts began
  double last_step_ms = 0;   // when the newest ended
  // What probes add.
  double wall_ms = 0;                      // of all steps that count, mean of the ranks
  std::optional<double> hidden_data_wait;  // share of time: waited for data while the GPU had work
  std::optional<double> gpu_idle_share;    // between steps, the GPU had nothing to do
  // of the steps asked, the share whose work the GPU had done as soon as it was queued
  std::optional<double> gpu_ran_dry;
  int gpu_asked = 0;         // steps
  double passes_a_step = 0;  // backward passes; 0: not known
  double synced_passes_a_step = 0;
  std::vector<PlaceSignals> places;  // costliest first
  // What the Python probe's hooks add to a step's many short calls, by their cost in this run.
  double hooks_ms = 0;
  // during each part; nothing: it was not looked at
  std::array<std::optional<MainThreadDoing>, kStepSpanNames.size()> main_thread;
  std::vector<StepMark> median_step;  // on each rank that has it, by rank
  std::vector<StepMark> worst_step;
  std::vector<RankCourse> course;        // by rank
  std::vector<ModuleTime> modules;       // the whole first; empty: none were measured
  std::optional<DeviceSignals> devices;  // by the GPUs' own records

  bool is_sharded() const {
    constexpr double kInEveryStep = 0.9;
    return std::ranges::any_of(places, [](const PlaceSignals& place) {
      return place.moves_shards() && place.present >= kInEveryStep;
    });
  }

  // Of a step, with those that hold a save or a late batch; without probes the median stands for
  // it.
  double mean_ms() const {
    return wall_ms > 0 && count > 0 ? wall_ms / static_cast<double>(count) : duration_p50_ms;
  }
};

// A data loader as its process set it up; of several passes the newest.
struct LoaderSetting {
  std::uint64_t id = 0;
  int rank = 0;
  int passes = 0;  // begun over it
  int workers = 0;
  std::optional<int> prefetch;
  std::optional<int> batch;
  std::optional<int> batches;  // of a pass
  std::optional<int> shards;   // ranks that its sampler divides the data among
  bool pinned = false;
  bool persistent = false;
  bool shuffles = false;
  bool streams = false;  // no __getitem__: sharded by its own code, if at all
  int same_epochs = 0;   // passes whose sampler had the epoch of the pass before
  // of the order of samples, where it is not torch's own; empty: not known
  std::string order_seed;
  std::string sampler;
};

// The training loader by itself.
struct LoaderTrial {
  int workers = 0;
  int batches = 0;
  std::optional<int> batch_size;
  double first_ms = 0;    // until the first batch: the workers' start
  double batch_ms = 0;    // mean of the others
  double longest_ms = 0;  // of the others
};

// One batch's way to the GPU. Times: nothing without a GPU.
struct BatchTransfer {
  double bytes = 0;
  std::optional<double> pageable_ms;
  std::optional<double> pinned_ms;
};

// How the training is set up, as probes read it in its processes.
struct ProbeSettings {
  std::vector<LoaderSetting> loaders;
  // by loader: what one worker takes for one batch
  std::map<std::uint64_t, double> batch_ms_of_worker;
  double longest_batch_ms = 0;  // that a worker took for one
  int world_size = 1;
  std::string framework;  // whose loop it is: "transformers", "lightning", "none"; empty: not known
  std::optional<double> cores_a_rank;
  std::optional<int> threads_a_rank;  // that torch computes with
  std::optional<std::string> backend;
  std::optional<bool> finds_unused;
  double unused_bytes = 0;
  std::optional<double> collective_ms;  // of a backward pass, by DDP's own clock
  std::optional<double> overlapped_ms;
  double other_collectives_a_step = 0;  // beside the gradients', as the program counted them
  std::optional<double> bucket_bytes;
  std::optional<double> gradient_bytes;
  std::string optimizer;
  bool optimizer_fused = false;
  bool optimizer_can_fuse = false;
  bool on_gpu = false;
  double parameter_tensors = 0;
  std::optional<double> memory_states_bytes;  // the least that was allocated: between steps
  std::optional<double> memory_reserved_bytes;
  std::optional<double> memory_peak_bytes;
  std::optional<double> memory_total_bytes;
  // times the batch of a pass that would fit, by the memory model
  std::optional<double> batch_room;
  double allocation_retries = 0;            // in the time watched
  double device_allocations_a_s = 0;        // cudaMalloc calls once training runs
  std::map<int, std::string> seeds;         // torch's, by rank
  double read_hook_ns = 0;                  // what a hook adds to reading a value
  std::map<int, double> waits_for_a_core;   // by rank: share of the time, of its training thread
  std::optional<LoaderTrial> loader_alone;  // with its own settings, nothing else running
  std::vector<LoaderTrial> loader_trials;   // with other numbers of workers
  std::optional<BatchTransfer> transfer;
  std::string loader_trial_failed;  // why; empty: it was not asked for, or went well
};

// Memory that a rank holds on a GPU that is not its own: a context that was opened there by
// mistake.
struct LeakedContext {
  int pid = 0;
  int gpu = 0;
  double bytes = 0;
};

enum class JobOrigin : std::uint8_t {
  processes,  // the process list says who belongs together
  partial,    // some of its processes are known, other GPUs joined by likeness
  likeness,   // no process is known: the GPUs behave alike
  foreign,    // a GPU in use by processes that are not listed
  steps,      // no GPU is known: its ranks told their steps
  cluster,    // the cluster says whose the GPUs are
};

// A job whose GPUs lie in several machines: one lane a machine, the mean of its GPUs.
struct HostInJob {
  std::string name;
  std::vector<int> gpus;  // by the numbers that count over all machines
  std::string kind;       // of its GPUs; empty: several
  std::optional<double> busy;
  std::optional<double> busy_early;  // in the first half of the working time
  std::optional<double> busy_late;   // and in the second
  std::optional<double> sm;          // mean while something ran
  std::optional<double> clock_mhz;   // median while something ran
};

struct HostSpread {
  std::vector<HostInJob> hosts;      // in order of their first GPU
  std::optional<TurnSignals> turns;  // of the machines, not of their GPUs
  double busy_sum = 0;               // median over time of the sum of the machines' lanes
};

struct JobSignals {
  JobOrigin origin = JobOrigin::processes;
  std::string name;  // the cluster's; empty: it has none
  std::vector<int> gpus;
  std::vector<int> pids;
  std::vector<int> ranks;
  std::vector<ProcessSample> processes;  // newest look at each
  std::vector<LeakedContext> leaked_contexts;
  std::optional<int> world_size;
  bool one_process_on_all = false;  // one process holds every GPU of the job
  bool spawned = false;             // started together by one parent, though no rank is set
  bool serves = false;              // an inference server by its command line
  bool in_a_notebook = false;       // a kernel of Jupyter, which serves, and may train

  double from_ms = 0;  // working time: from the first to the last sign of work
  double to_ms = 0;
  // Its last sign of work, where it has done nothing since though its processes are still there.
  std::optional<double> stopped_ms;
  bool active = false;
  std::vector<GpuInJob> members;
  double busy_sum = 0;     // median over time of the sum of busy fractions
  double second_busy = 0;  // median over time of the second busiest GPU
  // share of time in which no GPU of the job was busy, in the median window of two periods
  double idle_together = 0;
  // What even the GPU that rests least rests. Ranks that each wait for a loader of their own do not
  // do so at one moment; who waits for another rank spins, and reads busy.
  double idle_each = 0;
  double at_rest() const { return std::max(idle_together, idle_each); }
  std::optional<double> memory_balance;   // smallest over largest median
  std::optional<double> memory_lead;      // the first GPU over the median of the others
  std::optional<double> replica_balance;  // smallest over largest of the others
  std::optional<double> power_balance;
  std::optional<TurnSignals> fine;    // from the finest lanes there are
  std::optional<TurnSignals> coarse;  // from busy, when `fine` is made of something else
  // exclusive_busy of plain power readings: do the busy ones also work?
  std::optional<double> work_power_turns;
  // correlation of plain power readings, and how much they change
  std::optional<double> power_together;
  std::optional<double> power_swing;
  StallSignals stalls;
  std::optional<JobTime> time;
  double longest_hollow_ms = 0;  // longest stretch in which GPUs read busy and none of those worked
  double longest_hollow_until_ms = 0;
  double second_hollow_ms = 0;                 // the longest other one
  std::optional<double> written_while_hollow;  // bytes, by the job's processes
  HostSignals host;
  std::optional<HostSpread> spread;  // over several machines
  std::optional<StepSignals> steps;
  std::optional<ProbeSettings> settings;
  // share of a step that collectives would take if all that can be hidden were, by the
  // communication model
  std::optional<double> exposed_at_best;
  std::optional<CollectiveSignals> collectives;      // where NCCL's probe told them
  std::optional<CommunicatorSignals> communicators;  // where NCCL's RAS answered
  // correlation of PCIe bytes to the GPUs with their work: -1 = copies wait
  std::optional<double> copy_while_idle;
};

struct Signals {
  double duration_s = 0;
  double tick_ms = 0;  // median spacing of readings
  std::size_t ticks = 0;
  ProcessCoverage process_coverage = ProcessCoverage::all;
  bool processes_known = false;  // at least one process list was read
  bool virtual_gpus = false;
  std::vector<GpuSignals> gpus;
  std::vector<JobSignals> jobs;  // in order of their first GPU
  std::vector<int> free_gpus;    // no process, next to no memory, never busy
  std::vector<EventAt> events;
  std::optional<std::vector<std::pair<int, int>>> peer_to_peer;
  std::optional<TraceSignals> trace;  // the GPUs' own records: where they are, they decide
};

}  // namespace lockstep
