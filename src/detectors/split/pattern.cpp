// How the pattern is told.
//
// Data-parallel ranks do the same work at the same moment, so their lanes rise and fall together.
// Parts of a split model wait for each other, so one lane is high while the others are low: the sum
// of the lanes is flat, and exactly one works at a time. A pipeline lies between: its stages
// overlap, but one works alone while it fills and drains.
//
// NVML's utilization is a window (200 ms on an H200, up to 1 s on older GPUs) and averages turns
// shorter than twice its length into 50/50. Power samples every 20 ms show turns down to about 30
// ms. Where neither is fine enough, what is left is the process map (one process on all GPUs is a
// split model or DataParallel, one process per GPU is not) and the sum of the busy fractions (about
// 1 for a split model, since one GPU works at a time).
//
// Utilization alone proves no turns: ranks that wait for each other in NCCL read 100/7, 6/100 for
// hours. The busy one then draws little power, for it spins. So without power a pattern of turns
// between several processes stays unclear.
#include "detectors/split/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/text.hpp"
#include "detectors/finding_tools.hpp"
#include "detectors/split/cluster_pattern.hpp"
#include "detectors/trace/judge_devices.hpp"

namespace lockstep {
namespace {

// readings further apart are means over many turns and steps
constexpr double kResolvableTickMs = 2500;
constexpr double kLeastSwing = 0.08;   // noise of a lane at constant load: 0.01 to 0.04
constexpr double kVoteStrength = 2.2;  // ln 9: a block that votes wrong is one in ten
// one GPU at a time, plus what a window smears over a hand-over
constexpr double kTurnsSumAtMost = 1.25;
constexpr double kSecondAtLeast = 0.03;  // below, the other GPUs do not work at all
// DataParallel keeps outputs and gradients of all on the first GPU: 1.8 to 3.8 seen
constexpr double kLeadMemory = 1.25;
constexpr double kReplicasAlike = 0.8;
constexpr double kMostConfident = 0.99;

bool is_resolved(const TurnSignals& turns, const Signals& signals) {
  // Turns of a minute show in readings five seconds apart: hand-overs that are seen are resolved.
  const bool slow_turns = turns.hand_backs >= 3 && turns.exclusive_busy > 0.85;
  return turns.kind != LaneKind::busy || signals.tick_ms <= kResolvableTickMs || slow_turns;
}

// Sum of the blocks' log likelihoods: positive for turns, negative for together.
double turn_weight(const TurnSignals& turns) {
  double exclusive = turns.blocks_exclusive;
  // Turns longer than a block leave most blocks to one owner, who abstains: then hand-overs are
  // what was seen.
  if (turns.exclusive_busy > 0.6) exclusive = std::max(exclusive, turns.hand_overs / 2.0);
  return kVoteStrength * (exclusive - turns.blocks_together);
}

double confidence_of(double weight) {
  return std::min(kMostConfident, 1 / (1 + std::exp(-std::abs(weight))));
}

// Ranks that hand over by NCCL spin until it is their turn: all read busy all the time, and their
// power is one's after the other's, the same in every step. Late ranks alternate in no such order.
bool spin_in_turns(const JobSignals& job, const TurnSignals& turns) {
  constexpr double kOpposed = 0.8;
  constexpr double kRepeats = 0.85;
  constexpr double kSwings = 0.2;
  constexpr double kMoreThanChance = 0.15;
  return turns.kind == LaneKind::power_samples && turns.opposed > kOpposed &&
         turns.period_strength > kRepeats && turns.swing > kSwings && turns.hand_backs >= 4 &&
         turns.exclusive_busy > turns.exclusive_by_chance + kMoreThanChance && job.gpus.size() >= 2;
}

bool shares_the_work(const TurnSignals& turns) {
  return std::ranges::count_if(turns.owned, [](double share) { return share > 0.02; }) >= 2;
}

// Power in turns while all read busy is waiting, not turns: a GPU that waits for its turn runs no
// kernel.
bool in_turns(const JobSignals& job, const TurnSignals& turns) {
  constexpr double kBusySumAtMost = 1.5;
  constexpr double kSpinsAtMost = 0.3;  // of the time
  if (job.busy_sum > kBusySumAtMost) return false;
  for (const GpuInJob& member : job.members)
    if (member.work && member.busy.value_or(0) - *member.work > kSpinsAtMost) return false;
  const bool beyond_chance =
      turns.exclusive_busy > turns.exclusive_by_chance + 0.1 || turns.opposed > 0.25;
  return turns.swing > kLeastSwing && beyond_chance && shares_the_work(turns) &&
         turns.hand_backs >= 2 && turn_weight(turns) >= kVoteStrength;
}

// More than one GPU busy on average is overlap, whatever windows blur: sums of means do not change
// by averaging. A split model reads 1.00 (both real runs), two stages with two micro-batches 1.33.
bool overlaps_by_sum(const JobSignals& job) {
  constexpr double kIdleReads = 0.03;  // a GPU that waits may still show a little
  double sum = 0;
  for (const GpuInJob& member : job.members) sum += member.busy.value_or(0);
  return sum > 1.2 + kIdleReads * (static_cast<double>(job.members.size()) - 2);
}

// Stages work equally long and are equally busy; a late or slow rank is not.
bool stages_alike(const JobSignals& job) {
  double least_busy = 1;
  double most_busy = 0;
  double least_work = 1;
  double most_work = 0;
  for (const GpuInJob& member : job.members) {
    least_busy = std::min(least_busy, member.busy.value_or(0));
    most_busy = std::max(most_busy, member.busy.value_or(0));
    if (!member.work) continue;
    least_work = std::min(least_work, *member.work);
    most_work = std::max(most_work, *member.work);
  }
  return most_busy - least_busy < 0.1 && (most_work <= 0 || least_work > 0.85 * most_work);
}

// While a pipeline fills and drains exactly one of its stages works, and that more often than
// chance would have it; between, all of them do. Ranks in step are the opposite: they share their
// holes, so exactly one works less often.
bool fills_and_drains(const JobSignals& job, const TurnSignals& turns) {
  constexpr double kAtLeast = 0.025;
  // ranks in step: 0.85 and more where their lanes change at all; pipelines 0.2 to 0.6
  constexpr double kAgreeAtMost = 0.75;
  constexpr double kDisagree = 0.6;
  // Two stages with a hole h each never share it: exclusive 2h against 2h/(1+h) by chance, and
  // hardly correlated. That is too near to chance to tell from strangers, so they must be known to
  // be one job.
  const bool two = job.gpus.size() == 2;
  // Ranks whose work differs from step to step (sequence lengths) end their steps one after the
  // other, and begin the next together.
  if (begin_together(turns)) return false;
  // One that all others wait for is late, or does something of its own; stages wait for each other.
  constexpr double kForOne = 0.9;
  if (job.time && job.time->resolved &&
      std::ranges::any_of(job.members, [](const GpuInJob& member) {
        return member.time && member.time->waited_for > kForOne;
      }))
    return false;
  if (two && (job.origin != JobOrigin::processes || turns.together > 0.1)) return false;
  // Stages that hardly agree at all (few micro-batches, large holes) come near to chance too; ranks
  // in step never do.
  const bool far_apart =
      job.origin == JobOrigin::processes && turns.together < 0.3 && turns.swing > 0.2;
  // Nor do they begin one after the other, the same in every step.
  constexpr double kHardlyEver = 0.15;
  constexpr double kTheSameEachStep = 0.84;
  const bool staggered =
      turns.rises_together.value_or(1) < kHardlyEver && turns.period_strength > kTheSameEachStep;
  const double beyond_chance = two || far_apart || staggered ? 0.8 : 1.5;
  // Stages repeat themselves, 0.84 and more; steps of uneven lengths have 0.2 to 0.75.
  constexpr double kRepeats = 0.6;
  return turns.kind != LaneKind::busy && turns.swing > 0.12 && turns.period_strength > kRepeats &&
         turns.exclusive_busy > kAtLeast &&
         turns.exclusive_busy > beyond_chance * turns.exclusive_by_chance &&
         turns.exclusive_busy < 0.6 && turns.opposed < 0.4 && turns.together < kAgreeAtMost &&
         (two ? turns.hand_backs >= 4 : turns.hand_backs >= 2 || turns.together < kDisagree) &&
         stages_alike(job);
}

// The sum of the lanes does not move though each of them does, period after period: whatever the
// window blurs, one has what the others lack. Short turns of small parts (71/10/10/9) show only so.
bool sum_stands_still(const TurnSignals& turns) {
  constexpr double kOpposed = 0.8;
  return turns.opposed > kOpposed && turns.swing > kLeastSwing && turns.period_strength > 0.5 &&
         turns.bins > 40;
}

JobVerdict make(Pattern pattern, double confidence, std::string sentence,
                std::vector<Evidence> evidence) {
  return {{pattern, confidence, std::move(sentence)}, std::move(evidence)};
}

Evidence exclusive_evidence(const TurnSignals& turns) {
  return {"exclusive_busy", turns.exclusive_busy, std::max(0.5, turns.exclusive_by_chance),
          "fraction"};
}

std::vector<Evidence> turn_evidence(const JobSignals& job, const TurnSignals& turns) {
  std::vector<Evidence> evidence = {
      exclusive_evidence(turns),
      {"exclusive_by_chance", turns.exclusive_by_chance, std::nullopt, "fraction"},
      {"lane_correlation", turns.together, 0.0, "correlation"},
      {"busy_sum", job.busy_sum, kTurnsSumAtMost, "GPUs"}};
  if (turns.period_ms) evidence.push_back({"turn_period_ms", *turns.period_ms, std::nullopt, "ms"});
  return evidence;
}

JobVerdict taking_turns(const JobSignals& job, const TurnSignals& turns, double confidence) {
  const double alone = std::max(turns.exclusive_busy, turns.opposed);
  std::string sentence = gpu_names(job.gpus) + " take turns: ";
  sentence +=
      turns.exclusive_busy > 0.6
          ? "at most one is busy " + percent(turns.exclusive_busy) + " of the time."
          : "one works while the others wait (" + percent(std::min(alone, 1.0)) + " opposed).";
  return make(Pattern::taking_turns, confidence, std::move(sentence), turn_evidence(job, turns));
}

JobVerdict turns_by_sum(const JobSignals& job, double confidence) {
  const std::string sum = std::to_string(static_cast<int>(std::lround(job.busy_sum * 100)));
  return make(Pattern::taking_turns, confidence,
              gpu_names(job.gpus) +
                  " take turns, too fast to see: one process holds them all, and together they are "
                  "busy like one GPU (" +
                  sum + " %).",
              {{"busy_sum", job.busy_sum, kTurnsSumAtMost, "GPUs"},
               {"second_busiest", job.second_busy, kSecondAtLeast, "fraction"},
               {"processes", 1, static_cast<double>(job.gpus.size()), "processes"}});
}

// Too fast for the window, or too few readings: the sum and the process map are what is left.
bool sum_says_turns(const JobSignals& job) {
  return job.busy_sum > 0.25 && job.busy_sum < kTurnsSumAtMost && job.second_busy >= kSecondAtLeast;
}

bool first_leads(const JobSignals& job) {
  return job.memory_lead && *job.memory_lead > kLeadMemory &&
         job.replica_balance.value_or(0) > kReplicasAlike;
}

JobVerdict one_leads(const JobSignals& job, double confidence) {
  std::string sentence = "GPU " + std::to_string(job.gpus.front()) + " leads: ";
  sentence += job.one_process_on_all ? "one process drives " + gpu_names(job.gpus)
                                     : gpu_names(job.gpus) + " are busy together";
  if (job.memory_lead && *job.memory_lead > 1)
    sentence += ", and the first holds " +
                std::to_string(static_cast<int>(std::lround(*job.memory_lead * 100))) +
                " % of the memory of the others";
  std::vector<Evidence> evidence;
  if (job.memory_lead) evidence.push_back({"memory_lead", *job.memory_lead, kLeadMemory, "ratio"});
  evidence.push_back({"busy_sum", job.busy_sum, kTurnsSumAtMost, "GPUs"});
  return make(Pattern::one_leads, confidence, sentence + ".", std::move(evidence));
}

JobVerdict pipeline(const JobSignals& job, const TurnSignals& turns, double confidence) {
  return make(Pattern::pipeline, confidence,
              gpu_names(job.gpus) + " work as a pipeline: they overlap " +
                  percent(1 - turns.exclusive_busy) +
                  " of the time, and one works alone while it fills and drains.",
              {{"exclusive_busy", turns.exclusive_busy, turns.exclusive_by_chance, "fraction"},
               {"lane_correlation", turns.together, std::nullopt, "correlation"}});
}

JobVerdict unclear(const JobSignals& job, std::string why, std::vector<Evidence> evidence) {
  return make(Pattern::unclear, 0.5, gpu_names(job.gpus) + ": " + std::move(why),
              std::move(evidence));
}

JobVerdict in_step(const JobSignals& job, double confidence) {
  const double busy = busy_on_average(job);
  std::vector<Evidence> evidence;
  if (job.fine) {
    evidence.push_back(exclusive_evidence(*job.fine));
    evidence.push_back({"lane_correlation", job.fine->together, std::nullopt, "correlation"});
  }
  if (job.memory_balance)
    evidence.push_back({"memory_balance", *job.memory_balance, std::nullopt, "ratio"});
  return make(Pattern::in_step, confidence,
              gpu_names(job.gpus) + " work in step, " + percent(busy) + " busy on average.",
              std::move(evidence));
}

}  // namespace

bool seem_to_alternate(const TurnSignals& turns) {
  constexpr double kOneAtATime = 0.85;
  constexpr double kWorks = 0.1;  // of the time
  const auto workers =
      std::ranges::count_if(turns.duty, [](double share) { return share > kWorks; });
  return turns.exclusive_busy > kOneAtATime && workers >= 2 && turns.hand_overs >= 1;
}

namespace {

JobVerdict judge_one_process(const JobSignals& job, const Signals& signals) {
  const TurnSignals& turns = *job.fine;
  const bool resolved = is_resolved(turns, signals);
  if (resolved && fills_and_drains(job, turns)) return pipeline(job, turns, 0.75);
  const bool alternate = resolved && in_turns(job, turns);
  if (alternate && overlaps_by_sum(job) && stages_alike(job)) return pipeline(job, turns, 0.6);
  if (alternate) return taking_turns(job, turns, std::max(0.9, confidence_of(turn_weight(turns))));
  if (job.coarse && in_turns(job, *job.coarse)) return taking_turns(job, *job.coarse, 0.85);
  if (resolved && job.busy_sum < kTurnsSumAtMost && sum_stands_still(turns))
    return taking_turns(job, turns, 0.8);
  const bool lanes_agree = resolved && turns.swing > kLeastSwing && turns.together > 0.3;
  if (first_leads(job) && (job.busy_sum > kTurnsSumAtMost || lanes_agree))
    return one_leads(job, job.busy_sum > kTurnsSumAtMost ? 0.9 : 0.75);
  if (job.serves && !job.in_a_notebook)
    return unclear(job, "a server holds them, and they work when requests come.",
                   turn_evidence(job, turns));
  if (!lanes_agree && sum_says_turns(job)) {
    return turns_by_sum(
        job, turns.kind == LaneKind::busy && signals.tick_ms <= kResolvableTickMs ? 0.7 : 0.65);
  }
  const bool some_spin = std::ranges::any_of(job.members, [](const GpuInJob& member) {
    return member.work && member.busy.value_or(0) - *member.work > 0.3;
  });
  if (resolved && seem_to_alternate(turns) && job.busy_sum < kTurnsSumAtMost && !some_spin) {
    if (turns.hand_backs >= 1) return taking_turns(job, turns, 0.7);
    return unclear(job,
                   "one after the other has worked so far, and none came back yet: watch longer "
                   "(--duration 60s) to tell turns from loading.",
                   turn_evidence(job, turns));
  }
  if (job.second_busy < kSecondAtLeast)
    return first_leads(job) || !job.memory_lead
               ? one_leads(job, 0.55)
               : unclear(job,
                         "one process holds them all and only one works: "
                         "the script and its device_map would decide.",
                         {});
  if (std::ranges::any_of(job.processes, is_one_process_framework)) return in_step(job, 0.85);
  const bool first_busier = turns.duty.size() > 1 && turns.duty.front() > 1.08 * turns.duty.back();
  if (!job.memory_lead) return one_leads(job, 0.55);
  if (first_busier) return one_leads(job, 0.6);
  if (lanes_agree && turns.together > 0.7) return in_step(job, 0.65);
  return unclear(job,
                 "one process drives them all, and none leads: a trace would tell a pipeline from "
                 "DataParallel.",
                 turn_evidence(job, turns));
}

bool busy_ones_work(const JobSignals& job) {
  // Of the members that read busy, do the lanes of power follow? Spinning ranks are hollow.
  double busy = 0;
  double hollow = 0;
  for (const GpuInJob& member : job.members) {
    if (!member.hollow) return job.work_power_turns.value_or(0) > 0.5;
    busy += member.busy.value_or(0);
    hollow += member.busy.value_or(0) * *member.hollow;
  }
  return busy > 0 && hollow / busy < 0.5;
}

// Step marks tell what lanes cannot: where in most steps a collective travels beside backward,
// gradients are averaged a bucket at a time. Stages of a pipeline hand over activations, which
// nothing hides. (Seen: DDP on two noisy cores, whose lanes had holes of their own, took the look
// of a pipeline.)
bool averages_gradients(const JobSignals& job) {
  constexpr std::size_t kHidden = 5;
  static_assert(kStepSpanNames[kHidden] == "collective_hidden");
  return job.steps && job.steps->ranks.size() >= 2 && job.steps->count >= 5 &&
         job.steps->present[kHidden] > 0.5;
}

JobVerdict judge_ranks(const JobSignals& job, const Signals& signals) {
  const TurnSignals& turns = *job.fine;
  const bool resolved = is_resolved(turns, signals) && !averages_gradients(job);
  if (resolved && fills_and_drains(job, turns) && busy_ones_work(job))
    return pipeline(job, turns, 0.75);
  if (resolved && spin_in_turns(job, turns)) return taking_turns(job, turns, 0.8);
  const bool alternate = resolved && in_turns(job, turns);
  if (alternate && overlaps_by_sum(job) && stages_alike(job) && busy_ones_work(job))
    return pipeline(job, turns, 0.6);
  if (alternate && turns.kind != LaneKind::busy && busy_ones_work(job))
    return taking_turns(job, turns, std::min(0.9, confidence_of(turn_weight(turns))));
  if (alternate && turns.kind == LaneKind::busy)
    return busy_ones_work(job) && job.work_power_turns.value_or(0) > 0.4
               ? taking_turns(job, turns, 0.7)
               : unclear(job,
                         "they read busy one at a time, but ranks that wait for each other read "
                         "the same: "
                         "power samples or SM activity would decide.",
                         turn_evidence(job, turns));
  const bool agrees = turns.swing > kLeastSwing ? turns.together > 0.2 : turns.exclusive_busy < 0.5;
  return in_step(job, agrees && resolved ? std::max(0.9, confidence_of(turn_weight(turns))) : 0.8);
}

// What would tell whose a GPU is: more of the processes where they are listed, else their list.
std::string who_they_are(const Signals& signals) {
  return signals.processes_known ? "the processes' environment (RANK, WORLD_SIZE)"
                                 : "the process list";
}

JobVerdict judge_by_likeness(const JobSignals& job, const Signals& signals) {
  const TurnSignals& turns = *job.fine;
  const bool resolved = is_resolved(turns, signals);
  const bool power_or_sm = turns.kind != LaneKind::busy;
  if (resolved && in_turns(job, turns)) {
    if (power_or_sm && busy_ones_work(job)) return taking_turns(job, turns, 0.8);
    if (!power_or_sm && busy_ones_work(job) && job.work_power_turns.value_or(0) > 0.5)
      return taking_turns(job, turns, 0.65);
    return unclear(job,
                   "they read busy one at a time; power samples, SM activity or " +
                       who_they_are(signals) + " would tell turns from waiting ranks.",
                   turn_evidence(job, turns));
  }
  if (resolved && power_or_sm && fills_and_drains(job, turns)) return pipeline(job, turns, 0.6);
  // Ranks that spin for one that does not come are alike but for that one.
  if (job.origin == JobOrigin::partial && !job.memory_balance.has_value()) return in_step(job, 0.6);
  const bool same_memory = !job.memory_balance || *job.memory_balance > 0.85;
  double least = 1;
  double most = 0;
  double all = 0;  // of the job's own time, as it is printed
  for (const GpuInJob& member : job.members) {
    least = std::min(least, member.busy.value_or(0));
    most = std::max(most, member.busy.value_or(0));
    all += member.busy.value_or(0);
  }
  const bool same_load = most - least < 0.2;
  const bool waits_for_one = job.longest_hollow_ms > 10'000;
  if (waits_for_one && job.origin == JobOrigin::partial) return in_step(job, 0.65);
  const bool agree = (turns.swing > 0.06 && turns.together > 0.5) ||
                     (job.power_swing.value_or(0) > 0.03 && job.power_together.value_or(0) > 0.6);
  // Who never rests takes no turns.
  constexpr double kNeverRests = 0.9;
  if (job.busy_sum < kTurnsSumAtMost && all < kTurnsSumAtMost && !agree && most < kNeverRests)
    return unclear(job,
                   "together they are busy like one GPU: " + who_they_are(signals) +
                       " or power samples would tell turns from waiting for data.",
                   turn_evidence(job, turns));
  // Replicas alike, the first with far more memory, all busy at the same moments: DataParallel.
  const bool side_by_side =
      job.gpus.back() - job.gpus.front() + 1 == static_cast<int>(job.gpus.size());
  if (agree && first_leads(job) && side_by_side && job.busy_sum > kTurnsSumAtMost &&
      job.processes.size() < 2)
    return one_leads(job, 0.65);
  if ((!same_memory || !same_load) && !(same_memory && resolved && begin_as_one(turns)))
    return unclear(job,
                   "they are busy at once, but differ in memory or load: " + who_they_are(signals) +
                       " would tell ranks from separate jobs.",
                   turn_evidence(job, turns));
  if (agree || (resolved && begin_as_one(turns))) return in_step(job, 0.85);
  // Far apart readings show no steps; then equal memory, load and power of all must do. Two GPUs
  // may be equal by chance.
  const bool equal = job.memory_balance.value_or(0) > 0.95 && job.power_balance.value_or(0) > 0.85;
  const bool many = job.gpus.size() >= 4 && job.power_balance.value_or(0) > 0.85 && least > 0.9;
  if (!resolved && (equal || many)) return in_step(job, 0.7);
  if (many && job.pids.empty()) return in_step(job, 0.65);
  return unclear(job,
                 "they are busy at once, but nothing shows that they work together: " +
                     who_they_are(signals) + " would tell ranks from separate jobs.",
                 turn_evidence(job, turns));
}

JobVerdict single(const JobSignals& job, double confidence) {
  std::vector<Evidence> evidence;
  if (!job.members.empty() && job.members.front().busy)
    evidence.push_back({"busy", *job.members.front().busy, std::nullopt, "fraction"});
  std::string sentence = "One job works on GPU " + std::to_string(job.gpus.front());
  if (!evidence.empty()) sentence += ", " + percent(evidence.front().value) + " busy";
  return make(Pattern::single_gpu, confidence, sentence + ".", std::move(evidence));
}

// No GPU is seen: the steps themselves tell whether ranks work together.
JobVerdict judge_steps(const JobSignals& job) {
  const std::size_t ranks = job.steps ? job.steps->ranks.size() : 0;
  if (ranks < 2)
    return make(Pattern::unclear, 0.5, "One process takes steps; no GPU that it works on was seen.",
                {});
  std::int64_t fewest = job.steps->count;
  for (const RankSteps& rank : job.steps->ranks) fewest = std::min(fewest, rank.count);
  const bool abreast = fewest + 2 >= job.steps->count;
  if (abreast && job.steps->is_sharded())
    return make(Pattern::in_step, 0.9,
                std::to_string(ranks) +
                    " ranks step together, each with a part of the model, by their own steps; no "
                    "GPU was seen.",
                {});
  if (!abreast || job.steps->synced_passes_a_step <= 0)
    return make(Pattern::unclear, 0.5,
                std::to_string(ranks) +
                    " processes take steps, and nothing shows that they average gradients; no GPU "
                    "was seen.",
                {});
  return make(
      Pattern::in_step, 0.9,
      std::to_string(ranks) +
          " ranks step together and average their gradients, by their own steps; no GPU was seen.",
      {});
}

bool busy_is_known(const JobSignals& job) {
  return std::ranges::any_of(job.members,
                             [](const GpuInJob& member) { return member.busy.has_value(); });
}

bool is_idle(const JobSignals& job) {
  double most = 0;
  for (const GpuInJob& member : job.members) most = std::max(most, member.busy.value_or(0));
  return !job.active || most < 0.02;
}

}  // namespace

std::string gpu_names(const std::vector<int>& gpus) {
  if (gpus.empty()) return "no GPU";
  std::string text = "GPU " + std::to_string(gpus.front());
  if (gpus.size() == 1) return text;
  const bool run =
      gpus.size() > 2 && gpus.back() - gpus.front() == static_cast<int>(gpus.size()) - 1;
  if (run) return text + " to " + std::to_string(gpus.back());
  for (std::size_t i = 1; i < gpus.size(); ++i)
    text += (i + 1 == gpus.size() ? " and " : ", ") + std::to_string(gpus[i]);
  return text;
}

namespace {

// One process on several GPUs whose own records were read: every kernel is known to the
// microsecond.
std::optional<JobVerdict> judge_by_records(const JobSignals& job) {
  constexpr std::int64_t kStepsAtLeast = 3;
  // of the time: a context that was opened on another GPU by mistake computes nothing
  constexpr double kWorks = 0.01;
  if (!job.steps || !job.steps->devices || job.steps->devices->ranks.size() != 1 ||
      job.steps->devices->steps < kStepsAtLeast)
    return std::nullopt;
  const RankDevices& rank = job.steps->devices->ranks.front();
  DeviceTurns turns;
  for (const DeviceUse& use : rank.devices) {
    if (use.computes < kWorks) continue;
    // the process's own, which is the place among the GPUs that it sees
    const auto number = static_cast<std::size_t>(use.device);
    turns.devices.push_back(number < job.gpus.size() ? job.gpus[number] : use.device);
    turns.busy.push_back(use.computes);
  }
  if (turns.devices.size() < 2) return std::nullopt;
  turns.exclusive = rank.exclusive;
  turns.hand_overs = static_cast<int>(
      std::lround(rank.hand_overs_a_step * static_cast<double>(job.steps->devices->steps)));
  JobVerdict verdict = judge_devices(turns);
  verdict.evidence = {{"exclusive_by_records", rank.exclusive, std::nullopt, "fraction"},
                      {"hand_overs_a_step", rank.hand_overs_a_step, std::nullopt, "times"}};
  return verdict;
}

// NCCL's own count: so many processes have begun collectives together while they were watched.
bool proves_ranks(const JobSignals& job) {
  return job.communicators && job.communicators->looks >= 2 && job.communicators->processes >= 2 &&
         job.communicators->begun > 0 &&
         static_cast<int>(job.communicators->processes) == job.communicators->largest;
}

// That one GPU alone holds a program needs no second look: the most usual mistake of all.
std::string one_alone_holds_a_program(const JobSignals& job, const Signals& signals) {
  constexpr double kOfTheOther = 0.1;
  constexpr double kContextBytes = 1.5e9;
  constexpr double kAtRest = 0.05;
  if (job.gpus.size() != 1 || signals.gpus.size() < 2) return "";
  // a listed process may hold next to nothing yet
  if (std::ranges::any_of(signals.jobs, [&](const JobSignals& other) {
        return other.gpus != job.gpus && !other.processes.empty();
      }))
    return "";
  double held = 0;
  double most_of_others = 0;
  for (const GpuSignals& gpu : signals.gpus) {
    const double bytes = gpu.memory_used_bytes.value_or(-1);
    if (bytes < 0) return "";
    if (gpu.index == job.gpus.front())
      held = bytes;
    else if (gpu.busy_highest.value_or(0) > kAtRest)
      return "";
    else
      most_of_others = std::max(most_of_others, bytes);
  }
  if (most_of_others > std::min(kContextBytes, kOfTheOther * held)) return "";
  const std::size_t others = signals.gpus.size() - 1;
  constexpr double kDriversOwnBytes = 5e7;
  if (most_of_others > kDriversOwnBytes)
    return gpu_names(job.gpus) + " holds a program, the other" +
           (others == 1 ? " holds" : " " + std::to_string(others) + " hold") + " no more than " +
           format_bytes(most_of_others) + "; ";
  return "only " + gpu_names(job.gpus) + " holds a program, the other" +
         (others == 1 ? " holds none; " : " " + std::to_string(others) + " hold none; ");
}

// GPUs that spin for each other read 100 % busy and draw a quarter of what they could.
std::string busy_and_hardly_drawing(const JobSignals& job, const Signals& signals) {
  constexpr double kBusy = 0.95;
  constexpr double kHardly = 0.35;
  constexpr double kHoldsAContext = 2e8;  // who holds less runs nothing that could wait
  if (job.gpus.size() < 2) return "";
  double most = 0;
  for (const GpuSignals& gpu : signals.gpus) {
    if (std::ranges::find(job.gpus, gpu.index) == job.gpus.end()) continue;
    if (gpu.busy_fraction.value_or(0) < kBusy || !gpu.power_mw || !gpu.info.power_limit_mw ||
        gpu.memory_used_bytes.value_or(kHoldsAContext) < kHoldsAContext)
      return "";
    most = std::max(most, *gpu.power_mw / *gpu.info.power_limit_mw);
  }
  if (most <= 0 || most > kHardly) return "";
  // Who may be the one that they wait for: it holds a model, too, and does nothing.
  constexpr double kHoldsAModel = 2e9;
  std::vector<int> resting;
  for (const GpuSignals& gpu : signals.gpus)
    if (gpu.busy_fraction.value_or(1) < 0.05 && gpu.memory_used_bytes.value_or(0) > kHoldsAModel)
      resting.push_back(gpu.index);
  const std::string waited_for =
      resting.empty() ? ""
                      : " " + gpu_names(resting) + (resting.size() == 1 ? " holds" : " hold") +
                            " memory and " + (resting.size() == 1 ? "does" : "do") +
                            " nothing: perhaps what the others wait for.";
  return " All read 100 % busy and draw at most " + percent(most) +
         " of their power limit, as GPUs do that wait for each other (and those that run small "
         "kernels)." +
         waited_for;
}

// Of the whole watch, by the GPU that worked most.
double most_busy(const JobSignals& job, const Signals& signals) {
  double most = 0;
  for (const GpuSignals& gpu : signals.gpus)
    if (std::ranges::find(job.gpus, gpu.index) != job.gpus.end())
      most = std::max(most, gpu.busy_fraction.value_or(0));
  return most;
}

JobVerdict judge_from_outside(const JobSignals& job, const Signals& signals) {
  constexpr std::size_t kFewestTicks = 4;
  constexpr double kWorthSaying = 0.005;
  if (signals.ticks < kFewestTicks)
    return unclear(
        job,
        one_alone_holds_a_program(job, signals) +
            (signals.ticks < 2 ? std::string("one snapshot shows")
                               : std::to_string(signals.ticks) + " looks show") +
            " no pattern: take more readings (lockstep diagnose, or nvidia-smi with -l 1)." +
            busy_and_hardly_drawing(job, signals),
        {});
  if (!busy_is_known(job))
    return unclear(job,
                   "utilization was read too seldom, or never, on some of them: it would tell work "
                   "from rest.",
                   {});
  if (is_idle(job)) {
    const double worked = most_busy(job, signals);
    std::string sentence =
        gpu_names(job.gpus) + (job.gpus.size() > 1 ? " do" : " does") + " nothing";
    if (worked >= kWorthSaying)
      sentence = gpu_names(job.gpus) + (job.gpus.size() > 1 ? " rest " : " rests ") +
                 percent(1 - worked) + " of the time";
    // What starts and cannot is no rest.
    if (job.host.waiting_for_cpu.value_or(0) > 0.1)
      sentence +=
          ": " +
          std::string(job.processes.size() == 1 ? "its process waits" : "the processes wait") +
          " for a core " + percent(*job.host.waiting_for_cpu) + " of the time";
    return make(Pattern::idle, 0.95, sentence + ".", {});
  }
  if (job.gpus.size() == 1) return single(job, job.origin == JobOrigin::processes ? 0.95 : 0.7);
  if (!job.fine) return unclear(job, "too few readings of all of them at once: record longer.", {});
  if (job.one_process_on_all) return judge_one_process(job, signals);
  if (job.origin == JobOrigin::processes) return judge_ranks(job, signals);
  return judge_by_likeness(job, signals);
}

}  // namespace

JobVerdict judge_pattern(const JobSignals& job, const Signals& signals) {
  constexpr double kProved = 0.97;
  constexpr double kCounted = 0.8;  // collectives alone: stages of a pipeline have some, too
  if (auto verdict = judge_by_records(job)) return std::move(*verdict);
  if (job.origin == JobOrigin::steps) return judge_steps(job);
  if (job.origin == JobOrigin::cluster) return judge_cluster_job(job, signals);
  JobVerdict verdict = judge_from_outside(job, signals);
  const Pattern pattern = verdict.verdict.pattern;
  if (job.stopped_ms && pattern != Pattern::idle)
    verdict.verdict.sentence +=
        " Nothing has run for " + std::to_string(std::lround((job.to_ms - *job.stopped_ms) / 1e3)) +
        " s, though " + (job.pids.size() == 1 ? "its process is" : "its processes are") +
        " still there.";
  if (!proves_ranks(job) || (pattern != Pattern::in_step && pattern != Pattern::unclear))
    return verdict;
  if (pattern == Pattern::unclear)
    verdict.verdict.sentence =
        gpu_names(job.gpus) + " work in step: NCCL counts " +
        std::to_string(job.communicators->processes) + " processes in one communicator, with " +
        std::to_string(job.communicators->begun) + " collectives begun meanwhile.";
  verdict.verdict.pattern = Pattern::in_step;
  verdict.verdict.confidence =
      std::max(verdict.verdict.confidence, pattern == Pattern::in_step ? kProved : kCounted);
  verdict.evidence.push_back({"processes_in_one_communicator",
                              static_cast<double>(job.communicators->processes), 2.0, "processes"});
  return verdict;
}

std::vector<JobVerdict> judge_patterns(const Signals& signals) {
  std::vector<JobVerdict> verdicts;
  for (const JobSignals& job : signals.jobs) verdicts.push_back(judge_pattern(job, signals));
  return verdicts;
}

namespace {

// No process is known, and no GPU holds memory or was seen busy.
Verdict verdict_without_jobs(const Signals& signals) {
  const bool utilization_is_read = std::ranges::any_of(
      signals.gpus, [](const GpuSignals& gpu) { return gpu.busy_highest.has_value(); });
  // A program on a GPU holds some hundred MB before it has done anything.
  constexpr double kNobodyHoldsBytes = 64e6;
  const bool nobody_is_there = std::ranges::all_of(signals.gpus, [](const GpuSignals& gpu) {
    return gpu.memory_used_bytes && static_cast<double>(*gpu.memory_used_bytes) < kNobodyHoldsBytes;
  });
  if (!utilization_is_read && !nobody_is_there && !signals.gpus.empty()) {
    // An H200 without work draws 76 W, an H100 that holds a context 115.
    constexpr double kMoreThanIdleMw = 130'000;
    std::vector<int> drawing;
    for (const GpuSignals& gpu : signals.gpus)
      if (gpu.power_highest_mw.value_or(gpu.power_mw.value_or(0)) > kMoreThanIdleMw)
        drawing.push_back(gpu.index);
    return {Pattern::unclear, 0.5,
            drawing.empty() ? "Utilization is not in the input: whether a GPU works is not known."
                            : "Utilization is not in the input; " + gpu_names(drawing) +
                                  (drawing.size() == 1 ? " draws" : " draw") +
                                  " more than 130 W, as a GPU without work hardly does."};
  }
  // One may be held without work: that shows in its memory alone.
  const bool memory_is_read = std::ranges::all_of(
      signals.gpus, [](const GpuSignals& gpu) { return gpu.memory_used_bytes.has_value(); });
  const std::string now = memory_is_read ? "No GPU is in use" : "No GPU works";
  const std::string then = memory_is_read ? "No GPU was in use" : "No GPU worked";
  const std::string unknown =
      memory_is_read ? "" : " How many bytes they hold is not in the input.";
  if (signals.ticks < 2)
    return {Pattern::unclear, 0.5, now + " in this one look, which shows no pattern." + unknown};
  if (signals.ticks < 4)
    return {
        Pattern::unclear, 0.5,
        then + " in " + std::to_string(signals.ticks) + " looks, which show no pattern." + unknown};
  return {Pattern::idle, 0.95, now + "." + unknown};
}

}  // namespace

MachineVerdict judge_machine(const Signals& signals, const std::vector<JobVerdict>& verdicts) {
  MachineVerdict result;
  if (signals.jobs.empty()) {
    result.verdict = verdict_without_jobs(signals);
    return result;
  }
  const auto busy_gpus = [](const JobSignals& job) {
    return std::ranges::count_if(
        job.members, [](const GpuInJob& member) { return member.busy.value_or(0) > 0.05; });
  };
  const auto lost = [](const JobSignals& job) {
    double idle = 0;
    for (const GpuInJob& member : job.members) idle += 1 - member.busy.value_or(0);
    return idle;
  };
  for (std::size_t i = 1; i < signals.jobs.size(); ++i) {
    const JobSignals& best = signals.jobs[result.first_job];
    const JobSignals& job = signals.jobs[i];
    if (busy_gpus(job) > busy_gpus(best) ||
        (busy_gpus(job) == busy_gpus(best) && lost(job) > lost(best) + 0.05))
      result.first_job = i;
  }
  result.verdict = verdicts[result.first_job].verdict;
  const bool each_has_one =
      std::ranges::all_of(signals.jobs, [](const JobSignals& job) { return job.gpus.size() == 1; });
  // A listed process that does nothing is no job that runs; of one that is not listed only its
  // memory is known.
  std::size_t jobs_that_run = 0;
  for (std::size_t i = 0; i < signals.jobs.size(); ++i)
    jobs_that_run += verdicts[i].verdict.pattern != Pattern::idle ||
                             signals.jobs[i].origin != JobOrigin::processes
                         ? 1U
                         : 0U;
  const bool any_runs = std::ranges::any_of(verdicts, [](const JobVerdict& verdict) {
    return verdict.verdict.pattern != Pattern::idle && verdict.verdict.pattern != Pattern::unclear;
  });
  const bool nobody_known = std::ranges::all_of(
      signals.jobs, [](const JobSignals& job) { return job.origin == JobOrigin::likeness; });
  // Of a desktop's GPU 7 % is drawn windows.
  constexpr double kWorksAtLeast = 0.1;
  std::set<int> working;
  for (std::size_t i = 0; i < signals.jobs.size(); ++i)
    if (verdicts[i].verdict.pattern != Pattern::idle)
      for (const GpuInJob& member : signals.jobs[i].members)
        if (member.busy.value_or(1) >= kWorksAtLeast) working.insert(member.index);
  if (nobody_known && working.size() > 1 && signals.jobs[result.first_job].gpus.size() == 1) {
    result.verdict = {Pattern::unclear, 0.5,
                      std::to_string(working.size()) + " GPUs work and are not alike: " +
                          who_they_are(signals) + " would tell separate jobs from parts of one."};
    return result;
  }
  if (jobs_that_run > 1 && each_has_one && any_runs) {
    const bool all_listed = std::ranges::all_of(
        signals.jobs, [](const JobSignals& job) { return job.origin == JobOrigin::processes; });
    std::vector<int> gpus;
    for (const JobSignals& job : signals.jobs)
      if (std::ranges::find(gpus, job.gpus.front()) == gpus.end()) gpus.push_back(job.gpus.front());
    const std::string where = gpus.size() == signals.jobs.size() ? ", one GPU each: "
                              : gpus.size() == 1                 ? " share "
                                                                 : " share GPUs: ";
    result.verdict = {
        Pattern::independent, all_listed ? 0.95 : 0.7,
        std::to_string(signals.jobs.size()) + " separate jobs" + where + gpu_names(gpus) + "."};
  }
  return result;
}

}  // namespace lockstep
