#include "detectors/ledger.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "detectors/finding_tools.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {
namespace {

constexpr double kHoursADay = 24;
// of the time: below, a GPU of a job that works does nothing at all
constexpr double kNeverWorks = 0.02;
constexpr double kMostOfIt = 0.7;
constexpr double kFewestThatWait = 0.25;  // of a job's GPUs, where it is not known who is late

bool is_of_the_host(LedgerPart part) {
  return part >= LedgerPart::input && part <= LedgerPart::host_code &&
         part != LedgerPart::checkpoint && part != LedgerPart::evaluation;
}

// What the host does while a GPU is idle, as a part of the ledger.
LedgerPart ledger_part(StepPart part) {
  switch (part) {
    case StepPart::data_wait:
    case StepPart::copy: return LedgerPart::input;
    case StepPart::forward:
    case StepPart::backward:
    case StepPart::optimizer: return LedgerPart::launching;
    case StepPart::collective_exposed:
    case StepPart::collective_hidden: return LedgerPart::link;
    case StepPart::sync: return LedgerPart::sync;
    case StepPart::logging: return LedgerPart::logging;
    case StepPart::checkpoint: return LedgerPart::checkpoint;
    case StepPart::evaluation: return LedgerPart::evaluation;
    case StepPart::gc: return LedgerPart::gc;
    case StepPart::other: return LedgerPart::host_code;
  }
  return LedgerPart::unknown;
}

// Along the critical path: a stretch in which the whole job saves or evaluates holds everything
// else; then what the host must have before it launches, launching, and what it does between.
constexpr std::array kChargeOrder = {
    LedgerPart::checkpoint, LedgerPart::evaluation, LedgerPart::input,
    LedgerPart::launching,  LedgerPart::sync,       LedgerPart::logging,
    LedgerPart::gc,         LedgerPart::host_code,  LedgerPart::slowed};

// What makes a rank late in the usual step, where that is known: not a save in every 40th.
std::optional<LedgerPart> lateness(const Finding& straggler) {
  constexpr std::string_view kLateBy = "late_by_";
  for (const Evidence& item : straggler.evidence)
    if (item.signal.starts_with(kLateBy)) {
      const std::string_view name = std::string_view(item.signal).substr(kLateBy.size());
      const auto found = std::ranges::find(kStepSpanNames, name);
      if (found != kStepSpanNames.end())
        return ledger_part(static_cast<StepPart>(found - kStepSpanNames.begin()));
    }
  return std::nullopt;
}

// Causes and their effects name the same loss: it counts once.
std::optional<FindingCode> effect_of(const Finding& finding,
                                     const std::vector<const Finding*>& all) {
  const auto first_of =
      [&](std::initializer_list<FindingCode> codes) -> std::optional<FindingCode> {
    for (const FindingCode code : codes)
      if (std::ranges::any_of(all, [&](const Finding* other) { return other->code == code; }))
        return code;
    return std::nullopt;
  };
  switch (finding.code) {
    case FindingCode::world_size_not_set:
      return first_of(
          {FindingCode::taking_turns, FindingCode::one_gpu_leads, FindingCode::idle_gpus});
    case FindingCode::loader_without_workers:
    case FindingCode::pageable_copies:
    case FindingCode::cpu_oversubscribed:
    case FindingCode::workers_restarted_each_epoch: return first_of({FindingCode::input_starved});
    case FindingCode::thermal_throttle:
    case FindingCode::power_capped:
    case FindingCode::pcie_degraded: return first_of({FindingCode::straggler_rank});
    // What a small batch costs, it costs because the host cannot launch its kernels in time.
    case FindingCode::launch_bound: return first_of({FindingCode::batch_too_small});
    case FindingCode::every_rank_saves: return first_of({FindingCode::checkpoint_stall});
    case FindingCode::sync_every_micro_step:
    case FindingCode::slow_link: return first_of({FindingCode::exposed_collectives});
    case FindingCode::reduce_every_step: return first_of({FindingCode::host_sync_every_step});
    // Behind each wait the host has everything to launch anew: where the waits are the surer of the
    // two, slow launching is what they lead to.
    case FindingCode::host_sync_every_step:
      return std::ranges::any_of(all,
                                 [&](const Finding* other) {
                                   return other->code == FindingCode::launch_bound &&
                                          other->confidence < finding.confidence;
                                 })
                 ? std::optional(FindingCode::launch_bound)
                 : std::nullopt;
    case FindingCode::logging_too_often:
    case FindingCode::checkpoint_stall:
    case FindingCode::evaluation_stall:
    case FindingCode::stopped_by_collector:
    case FindingCode::slow_host_code:
    case FindingCode::input_starved: {
      // One rank's own delay is what the others wait for.
      const bool late = std::ranges::any_of(all, [&](const Finding* other) {
        if (other->code != FindingCode::straggler_rank) return false;
        const auto late_by = lateness(*other);
        return late_by ? *late_by == name_of(finding.code).part
                       : other->ranks == finding.ranks && finding.ranks.size() == 1;
      });
      return late ? std::optional(FindingCode::straggler_rank) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

// Shares of the job's GPU time that are not yet given to a part.
struct Pools {
  double idle_together = 0;
  double idle_alone = 0;     // while another GPU of the job had work
  double waiting_alone = 0;  // in a kernel that does not work, for one that comes later
  double waiting_together = 0;

  static double take(double& pool, double wanted) {
    const double taken = std::clamp(wanted, 0.0, pool);
    pool -= taken;
    return taken;
  }
};

bool parts_take_turns(Pattern pattern) {
  return pattern == Pattern::taking_turns || pattern == Pattern::one_leads ||
         pattern == Pattern::pipeline;
}

class JobAccount {
 public:
  JobAccount(const JobSignals& job, const Signals& signals, Pattern pattern)
      : job_(job), signals_(signals), pattern_(pattern) {}

  // The findings of this job, for their costs to be taken from the ledger.
  Ledger settle(std::vector<Finding*>& findings) {
    ledger_.gpu_seconds = static_cast<double>(std::max<std::size_t>(1, job_.gpus.size())) *
                          std::max(0.0, job_.to_ms - job_.from_ms) / 1e3;
    if (signals_.trace)
      from_trace(*signals_.trace);
    else if (job_.steps && job_.steps->devices &&
             job_.steps->devices->steps >= kFewestRecordedSteps)
      from_records(*job_.steps->devices);
    else if (job_.time && job_.active)
      from_readings(findings);
    else if (job_.steps && job_.steps->count >= 5)
      from_steps(findings);
    else
      ledger_[job_.active ? LedgerPart::unknown : LedgerPart::unused] = 1;
    balance();
    for (Finding* const finding : findings) bound(*finding);
    return ledger_;
  }

 private:
  // The profiler saw every kernel, and what the host did while there was none.
  void from_trace(const TraceSignals& trace) {
    double least_exposed = 1;
    for (const TraceRankSignals& rank : trace.ranks)
      least_exposed = std::min(least_exposed, rank.exposed_communication);
    const double ranks = std::max<double>(1, static_cast<double>(trace.ranks.size()));
    for (const TraceRankSignals& rank : trace.ranks) {
      ledger_[LedgerPart::working] += rank.computes / ranks;
      ledger_[LedgerPart::input] += rank.exposed_copies / ranks;
      add_collectives(rank.exposed_communication, least_exposed, ranks);
      ledger_[LedgerPart::launching] += rank.idle_in_time / ranks;
      add_idle(rank.idle, ranks);
    }
    if (trace.ranks.empty()) ledger_[LedgerPart::unknown] = 1;
  }

  void from_records(const DeviceSignals& devices) {
    double least_exposed = 1;
    for (const RankDevices& rank : devices.ranks)
      if (const DeviceUse* const use = rank.main())
        least_exposed = std::min(least_exposed, use->exposed);
    const double ranks = static_cast<double>(devices.ranks.size());
    for (const RankDevices& rank : devices.ranks) {
      const DeviceUse* const use = rank.main();
      if (use == nullptr) continue;
      if (rank.devices.size() > 1 && parts_take_turns(pattern_)) {
        const double working = rank.computes_together() / static_cast<double>(rank.devices.size());
        ledger_[LedgerPart::working] += working / ranks;
        ledger_[LedgerPart::turn] += (rank.any_computes() - working) / ranks;
        // One is idle while another works: what the host did counts where none does.
        double idle = 0;
        for (const double share : rank.idle) idle += share;
        add_idle(rank.idle, ranks * std::max(1.0, idle / (1 - rank.any_computes() + 1e-9)));
        continue;
      }
      ledger_[LedgerPart::working] += use->computes / ranks;
      ledger_[LedgerPart::input] += use->copies / ranks;
      add_collectives(use->exposed, least_exposed, ranks);
      add_idle(rank.idle, ranks);
    }
  }

  void add_collectives(double exposed, double least, double ranks) {
    ledger_[LedgerPart::link] += least / ranks;
    ledger_[LedgerPart::other_rank] += (exposed - least) / ranks;
  }

  void add_idle(const std::array<double, kStepSpanNames.size()>& idle, double ranks) {
    for (std::size_t part = 0; part < idle.size(); ++part)
      ledger_[ledger_part(static_cast<StepPart>(part))] += idle[part] / ranks;
  }

  // No GPU is known: the host's own marks are what there is.
  void from_steps(const std::vector<Finding*>& findings) {
    for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
      const auto part = static_cast<StepPart>(i);
      if (part == StepPart::collective_hidden) continue;
      const double share = job_.steps->share[i];
      if (part == StepPart::forward || part == StepPart::backward || part == StepPart::optimizer)
        ledger_[LedgerPart::working] += share;
      else if (part == StepPart::collective_exposed) {
        const double on_all = std::min(share, job_.steps->exposed_on_all);
        ledger_[LedgerPart::link] += on_all;
        ledger_[LedgerPart::other_rank] += share - on_all;
      } else {
        ledger_[ledger_part(part)] += share;
      }
    }
    // Whoever waits for a core takes longer for everything.
    for (const Finding* const finding : findings)
      if (finding->code == FindingCode::cpu_oversubscribed && finding->confidence >= 0.5)
        ledger_[LedgerPart::host_code] +=
            Pools::take(ledger_[LedgerPart::working], finding->lost_throughput);
  }

  void from_readings(std::vector<Finding*>& findings) {
    const JobTime& time = *job_.time;
    const double gpus = static_cast<double>(job_.members.size());
    Pools pools;
    double busy_sum = 0;
    for (const GpuInJob& member : job_.members) {
      if (!member.time) continue;
      const double weight = weight_of(member);
      busy_sum += 1 - member.time->idle;
      if (member.time->idle > 1 - kNeverWorks && !somebody_is_waited_for(findings)) {
        ledger_[LedgerPart::unused] += weight;
        continue;
      }
      // One GPU alone waits for nobody: low power is small kernels.
      const bool waits = gpus > 1 && time.waiting_is_known;
      ledger_[LedgerPart::working] +=
          weight * (member.time->working + (waits ? 0 : member.time->waiting));
      if (waits) pools.waiting_alone += weight * member.time->waiting;
      pools.idle_alone += weight * member.time->idle;
    }
    // Parts that take turns wait for their turn.
    ledger_.waiting_is_known = gpus < 2 || time.waiting_is_known || parts_take_turns(pattern_);
    double together = std::min(time.idle_together, pools.idle_alone);
    // In step each waits for its own host, at the same moment or not: who waits for another rank
    // spins, and reads busy.
    if (pattern_ == Pattern::in_step && (!time.sees_rest || !waits_read_idle(findings)))
      together = std::max(together, least_idle_of_members());
    // One works at a time: the others' rest is what the sum leaves, however windows blur it.
    if (pattern_ == Pattern::taking_turns)
      together = std::min(together, std::max(0.0, 1 - busy_sum));
    pools.idle_together = Pools::take(pools.idle_alone, together);
    if (gpus > 1) pools.waiting_together = Pools::take(pools.waiting_alone, time.waiting_together);
    if (parts_take_turns(pattern_)) {
      // With n GPUs, n - 1 at most wait for the one that works.
      const double most = (1 - pools.idle_together) * (1 - 1 / gpus);
      const double turn = pools.idle_alone + pools.waiting_alone + pools.waiting_together;
      ledger_[LedgerPart::turn] = std::min(turn, most);
      ledger_[LedgerPart::unknown] += turn - ledger_[LedgerPart::turn];
      pools.idle_alone = pools.waiting_alone = pools.waiting_together = 0;
    }
    if (job_.steps && job_.steps->count >= 5 && job_.steps->ranks.size() > 1)
      take_collectives_of_steps(pools);
    // Whoever waits for a rank that never comes may never have been seen at work.
    for (const Finding* const finding : findings)
      if (is_never_coming(*finding))
        ledger_[LedgerPart::other_rank] +=
            Pools::take(ledger_[LedgerPart::working],
                        finding->lost_throughput * (1 - pools.idle_alone - pools.idle_together) -
                            pools.waiting_alone - pools.waiting_together);
    // With CUDA_LAUNCH_BLOCKING=1 every launch is waited for, whatever else the host does.
    for (const Finding* const finding : findings)
      if (blocks_launches(*finding))
        ledger_[LedgerPart::launching] += Pools::take(pools.idle_together, 1);
    for (const LedgerPart part : kChargeOrder)
      for (const Finding* const finding : findings)
        if (name_of(finding->code).part == part && finding->confidence >= kChargedFrom)
          charge(part, *finding, pools);
    // Where lanes are means over steps, or power and SM are missing, what waits reads as work; a
    // late rank's finding knows of it all the same.
    for (const Finding* const finding : findings) {
      if (finding->code != FindingCode::straggler_rank || finding->confidence < 0.5) continue;
      const double waits = finding->lost_throughput * waiting_share(*finding);
      // Who is late because it is slow has had its waiters already.
      const double seen = pools.waiting_alone + ledger_[LedgerPart::slowed];
      if (seen < 0.5 * waits)
        ledger_[LedgerPart::other_rank] += Pools::take(ledger_[LedgerPart::working], waits - seen);
    }
    charge_step_marks(pools);
    ledger_[LedgerPart::other_rank] += pools.waiting_alone;
    ledger_[LedgerPart::link] += pools.waiting_together;
    ledger_[LedgerPart::unknown] += pools.idle_together + pools.idle_alone;
  }

  // Of the GPU time that was read: one that fell off the bus was read for less of it.
  double weight_of(const GpuInJob& member) const {
    double read = 0;
    for (const GpuInJob& each : job_.members) read += each.time ? 1 - each.time->unread : 0;
    return (1 - member.time->unread) / std::max(1e-9, read);
  }

  double least_idle_of_members() const {
    double least = 1;
    for (const GpuInJob& member : job_.members)
      if (member.time) least = std::min(least, member.time->idle);
    return least;
  }

  // Marks tell time in collectives that power may be too slow to show.
  void take_collectives_of_steps(Pools& pools) {
    const double exposed = job_.steps->share[index_of(StepPart::collective_exposed)];
    const double on_all = std::min(exposed, job_.steps->exposed_on_all);
    const double seen = pools.waiting_alone + pools.waiting_together;
    if (seen >= exposed) return;
    ledger_[LedgerPart::working] = std::max(0.0, ledger_[LedgerPart::working] - (exposed - seen));
    pools.waiting_together = on_all;
    pools.waiting_alone = exposed - on_all;
  }

  // Of the job's GPUs, those that the finding names.
  double named_by(const Finding& finding) const {
    return static_cast<double>(
        std::ranges::count_if(finding.gpus, [&](int gpu) { return holds(job_, gpu); }));
  }

  // Of the job's GPUs, the share that is not late itself.
  double waiting_share(const Finding& finding) const {
    const auto gpus = static_cast<double>(std::max<std::size_t>(1, job_.members.size()));
    return std::max(0.0, 1 - std::max(1.0, named_by(finding)) / gpus);
  }

  static bool blocks_launches(const Finding& finding) {
    return finding.code == FindingCode::harmful_environment &&
           std::ranges::any_of(finding.evidence, [](const Evidence& item) {
             return item.signal == "CUDA_LAUNCH_BLOCKING=1";
           });
  }

  // Gloo blocks where NCCL spins.
  static bool waits_read_idle(const std::vector<Finding*>& findings) {
    return std::ranges::any_of(findings, [](const Finding* finding) {
      return finding->code == FindingCode::gloo_on_gpus;
    });
  }

  static bool is_never_coming(const Finding& finding) {
    return finding.confidence >= 0.5 && (finding.code == FindingCode::stuck_collective ||
                                         finding.code == FindingCode::ranks_missing);
  }

  // A rank that never comes is no GPU that nobody uses.
  static bool somebody_is_waited_for(const std::vector<Finding*>& findings) {
    return std::ranges::any_of(findings, [](const Finding* finding) {
      return is_never_coming(*finding) || finding->code == FindingCode::gpu_lost;
    });
  }

  void charge(LedgerPart part, const Finding& finding, Pools& pools) {
    // Another finding of the same part may have it already: D202 and D201 name the same moments.
    double wanted = finding.lost_throughput - ledger_[part];
    if (wanted <= 0) return;
    double taken = 0;
    // Where a cause stands for what is idle between steps, it stands for all of it that no other
    // cause has: means over the usual step leave out the longer ones.
    if (wanted > kMostOfIt * pools.idle_together && is_of_the_host(part))
      wanted = std::max(wanted, pools.idle_together);
    if (part == LedgerPart::checkpoint || part == LedgerPart::evaluation) {
      double working = 0;
      for (const Stall& stall : job_.stalls.all)
        working += stall.working_gpus / static_cast<double>(job_.stalls.all.size());
      const double gpus = static_cast<double>(job_.members.size());
      // From outside: of the stretch, what those that do not work in it have.
      if (!job_.steps && !job_.stalls.all.empty()) wanted *= std::max(0.0, 1 - working / gpus);
      for (double* const pool :
           {&pools.waiting_alone, &pools.waiting_together, &pools.idle_alone, &pools.idle_together})
        taken += Pools::take(*pool, wanted - taken);
      // Where moments are means, who waits for the one that evaluates reads as at work.
      if (job_.time && !job_.time->waiting_is_known && !job_.steps)
        taken += Pools::take(ledger_[LedgerPart::working], wanted - taken);
    } else if (part == LedgerPart::slowed) {
      charge_slowness(finding, wanted, pools);
      return;
    } else {
      // What one rank does, all others wait for.
      if (finding.ranks.size() == 1 && job_.members.size() > 1) {
        taken = Pools::take(pools.waiting_alone, wanted);
        taken += Pools::take(pools.idle_alone, wanted - taken);
      }
      taken += Pools::take(pools.idle_together, wanted - taken);
      // a copy reads as busy
      if (finding.code == FindingCode::pageable_copies)
        taken += Pools::take(ledger_[LedgerPart::working], wanted - taken);
    }
    ledger_[part] += taken;
  }

  // A slow GPU works all the time, and all others wait for it.
  void charge_slowness(const Finding& finding, double wanted, Pools& pools) {
    const double slow = named_by(finding);
    const auto gpus = static_cast<double>(job_.members.size());
    // The others wait as long as it is late, which is less than its clock says where memory limits.
    if (job_.time && job_.time->resolved && slow < gpus)
      wanted = std::min(wanted, pools.waiting_alone * gpus / (gpus - slow));
    const double own = wanted * slow / gpus;
    ledger_[LedgerPart::slowed] += Pools::take(ledger_[LedgerPart::working], own);
    const double waiting = Pools::take(pools.waiting_alone, wanted - own);
    ledger_[LedgerPart::slowed] += waiting;
    // Where moments are means, those who wait for it read as at work.
    if (!job_.time->resolved)
      ledger_[LedgerPart::slowed] +=
          Pools::take(ledger_[LedgerPart::working], wanted - own - waiting);
  }

  // What marks tell of the host is a reason for what is still idle, though too little for a
  // finding.
  void charge_step_marks(Pools& pools) {
    if (!job_.steps || job_.steps->count < 5) return;
    for (const StepPart part : {StepPart::data_wait, StepPart::sync, StepPart::logging,
                                StepPart::checkpoint, StepPart::evaluation, StepPart::gc}) {
      double& charged = ledger_[ledger_part(part)];
      charged += Pools::take(pools.idle_together, job_.steps->share[index_of(part)] - charged);
    }
  }

  // Readings that are missing belong to nobody; the parts make up the whole.
  void balance() {
    const double unread = job_.time ? std::clamp(job_.time->unread, 0.0, 1.0) : 0;
    double sum = 0;
    for (double& share : ledger_.share) {
      share = std::max(0.0, share) * (1 - unread);
      sum += share;
    }
    if (sum > 1)
      for (double& share : ledger_.share) share /= sum;
    else
      ledger_[LedgerPart::unknown] += 1 - sum;
    ledger_.unread = std::min(unread, ledger_[LedgerPart::unknown]);
  }

  double lost_in_all() const { return 1 - ledger_[LedgerPart::working]; }

  // A finding gives back no more than the GPUs lose; its GPU-hours are those of all that lose.
  void bound(Finding& finding) const {
    const LedgerPart part = name_of(finding.code).part;
    const double gpus = static_cast<double>(std::max<std::size_t>(1, job_.gpus.size()));
    // A trace was replayed without the cause: its answer is better than any share.
    if (!signals_.trace) take_cost_from_ledger(finding, part);
    double losing = gpus;
    // those that stand by could work beside the job's own
    if (finding.code == FindingCode::idle_gpus && job_.origin != JobOrigin::cluster)
      losing += static_cast<double>(finding.gpus.size());
    // Who share a GPU get less each; the GPU itself loses nothing.
    const bool shared = name_of(finding.code).kind == FindingKind::shared;
    const bool no_rate = std::ranges::any_of(
        finding.evidence, [](const Evidence& item) { return item.signal == kHappened; });
    finding.lost_gpu_hours_a_day = shared || no_rate || (job_.gpus.empty() && finding.gpus.empty())
                                       ? 0
                                       : kHoursADay * finding.lost_throughput * losing;
  }

  void take_cost_from_ledger(Finding& finding, LedgerPart part) const {
    double most = 1;
    switch (part) {
      case LedgerPart::working:  // the GPUs work, and could get on faster
      case LedgerPart::unused: break;
      case LedgerPart::slowed:
      case LedgerPart::other_rank:  // the one that is late or slow does work
        most = std::min(1.0, lost_in_all() / std::max(kFewestThatWait, waiting_share(finding)));
        break;
      default: most = lost_in_all(); break;
    }
    const bool measured_from_outside = !job_.steps && !signals_.trace && job_.time;
    if ((part == LedgerPart::turn || (is_of_the_host(part) && measured_from_outside)) &&
        finding.confidence >= 0.5 && ledger_[part] > 0)
      finding.lost_throughput = ledger_[part];
    // All but the late ones wait.
    const bool late = finding.code == FindingCode::straggler_rank && finding.confidence >= 0.5;
    if (late && measured_from_outside && job_.time->resolved && waiting_share(finding) > 0)
      finding.lost_throughput =
          std::min(most, ledger_[LedgerPart::other_rank] / waiting_share(finding));
    // The driver itself says that a GPU is hot: that is told, however little it costs.
    constexpr double kToldByTheDriver = 0.02;
    const double least = finding.code == FindingCode::thermal_throttle && finding.confidence >= 0.5
                             ? std::min(finding.lost_throughput, kToldByTheDriver)
                             : 0;
    if (!is_a_fault(finding))
      finding.lost_throughput = std::max(least, std::min(finding.lost_throughput, most));
  }

  const JobSignals& job_;
  const Signals& signals_;
  Pattern pattern_;
  Ledger ledger_;
};

// The job that a finding is about: by its processes, else its GPUs.
std::optional<std::size_t> job_of(const Finding& finding, const Signals& signals) {
  const auto shares = [](const std::vector<int>& own, const std::vector<int>& named) {
    return std::ranges::any_of(named,
                               [&](int one) { return std::ranges::find(own, one) != own.end(); });
  };
  for (std::size_t i = 0; i < signals.jobs.size(); ++i)
    if (shares(signals.jobs[i].pids, finding.pids)) return i;
  for (std::size_t i = 0; i < signals.jobs.size(); ++i)
    if (shares(signals.jobs[i].gpus, finding.gpus)) return i;
  if (signals.jobs.size() == 1) return 0;
  if (finding.code != FindingCode::idle_gpus || signals.jobs.empty()) return std::nullopt;
  // GPUs that nobody holds: of the largest, as the detector has it.
  std::size_t largest = 0;
  for (std::size_t i = 1; i < signals.jobs.size(); ++i)
    if (trains(signals.jobs[i]) && signals.jobs[i].gpus.size() > signals.jobs[largest].gpus.size())
      largest = i;
  return largest;
}

// In a fleet there are many of both: each finding's job is looked for once.
template <class F>
std::vector<std::vector<F*>> by_job(const Signals& signals, std::span<F> findings) {
  std::vector<std::vector<F*>> of_job(signals.jobs.size());
  for (F& finding : findings)
    if (const auto job = job_of(finding, signals)) of_job[*job].push_back(&finding);
  return of_job;
}

}  // namespace

std::vector<Ledger> settle(const Seen& seen, std::vector<Finding>& findings) {
  std::vector<Ledger> ledgers;
  for (Finding& finding : findings)  // of no job: as many GPUs as it names
    finding.lost_gpu_hours_a_day =
        kHoursADay * finding.lost_throughput * static_cast<double>(finding.gpus.size());
  auto of_job = by_job(seen.signals, std::span(findings));
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    ledgers.push_back(
        JobAccount(seen.signals.jobs[i], seen.signals, pattern_of(seen, i)).settle(of_job[i]));
    std::vector<const Finding*> stood_behind;
    for (const Finding* const finding : of_job[i])
      if (is_stood_behind(*finding)) stood_behind.push_back(finding);
    for (Finding* const finding : of_job[i]) {
      finding->cause_of = effect_of(*finding, stood_behind);
      for (const Finding* const effect : stood_behind)
        if (finding->cause_of == effect->code) {  // it gives back no more than its effect costs
          finding->lost_throughput = std::min(finding->lost_throughput, effect->lost_throughput);
          finding->lost_gpu_hours_a_day =
              std::min(finding->lost_gpu_hours_a_day, effect->lost_gpu_hours_a_day);
        }
    }
  }
  return ledgers;
}

std::optional<Throughput> throughput_of(const Seen& seen, const std::vector<Ledger>& ledgers,
                                        const std::vector<Finding>& findings) {
  double gpus_in_all = 0;
  double got = 0;
  bool judged = false;
  const auto of_job = by_job(seen.signals, std::span(findings));
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    const Pattern pattern = pattern_of(seen, i);
    if (pattern == Pattern::idle || pattern == Pattern::unclear) continue;
    judged = true;
    double gpus = static_cast<double>(std::max<std::size_t>(1, job.gpus.size()));
    double lost = 0;
    double most_of_one = 0;
    double slower = 1;
    for (const Finding* const told : of_job[i]) {
      const Finding& finding = *told;
      // what one of them loses, the other has
      if (finding.cause_of || name_of(finding.code).kind == FindingKind::shared) continue;
      if (finding.code == FindingCode::idle_gpus && job.origin != JobOrigin::cluster) {
        gpus += static_cast<double>(finding.gpus.size());
        slower *= 1 - finding.lost_throughput;
      } else if (name_of(finding.code).part == LedgerPart::working) {
        slower *= 1 - finding.lost_throughput;
      } else {
        lost += finding.lost_throughput;
        most_of_one = std::max(most_of_one, finding.lost_throughput);
      }
    }
    // Two findings may each claim the same moments: together they lose no more than the GPUs do.
    lost = std::min(lost, std::max(most_of_one, 1 - ledgers[i][LedgerPart::working]));
    gpus_in_all += gpus;
    got += gpus * std::max(0.0, 1 - lost) * slower;
  }
  if (!judged || gpus_in_all <= 0) return std::nullopt;
  return Throughput{got / gpus_in_all, 1};
}

}  // namespace lockstep
