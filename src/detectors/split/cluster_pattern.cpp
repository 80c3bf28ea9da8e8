// How the pattern of a cluster's job is told.
//
// Who belongs together is known: the cluster gave the GPUs to one job. What is not known is what
// happens between two scrapes, 15 to 30 s apart as a rule. So only what lasts can be told: machines
// that are busy one after the other for longer than two scrapes, and means, which no scrape
// interval changes. Together busy like one machine may be turns too fast to see or a job that waits
// for its data half of the time; the two read the same, and the verdict says so.
#include "detectors/split/cluster_pattern.hpp"

#include <algorithm>
#include <cmath>

#include "detectors/finding_tools.hpp"
#include "detectors/split/pattern.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kFewestTicksOfCluster = 4;
constexpr double kIdle = 0.02;
// by chance two lanes at half load are alone half of the time
constexpr double kExclusive = 0.85;
constexpr double kBeyondChance = 0.1;
constexpr int kHandBacks = 3;      // to and fro, and again: a rolling restart has none
constexpr double kLikeOne = 1.25;  // machines' worth of work, as in pattern.cpp
constexpr double kAlike = 0.25;    // of load, between the least and the most busy half

struct Turns {
  const TurnSignals* signals = nullptr;
  bool of_hosts = false;
};

bool are_turns(const TurnSignals& turns) {
  return turns.exclusive_busy > kExclusive &&
         turns.exclusive_busy > turns.exclusive_by_chance + kBeyondChance &&
         turns.hand_backs >= kHandBacks;
}

std::optional<Turns> turns_of(const JobSignals& job) {
  if (job.spread && job.spread->turns && are_turns(*job.spread->turns))
    return Turns{&*job.spread->turns, true};
  if (!job.spread && job.fine && are_turns(*job.fine)) return Turns{&*job.fine, false};
  return std::nullopt;
}

double mean_busy(const JobSignals& job) {
  double sum = 0;
  int told = 0;
  for (const GpuInJob& member : job.members) {
    sum += member.busy.value_or(0);
    told += member.busy ? 1 : 0;
  }
  return sum / std::max(1, told);
}

// Between the hosts that work, without the one that lies furthest off: one slow host is a finding
// (C401), not another pattern.
double spread_without_the_odd_one(const HostSpread& spread) {
  std::vector<double> loads;
  for (const HostInJob& host : spread.hosts)
    if (host.busy.value_or(0) >= kIdle) loads.push_back(*host.busy);
  if (loads.size() < 2) return 0;
  std::ranges::sort(loads);
  if (loads.size() == 2) return loads.back() - loads.front();
  const double middle = loads[loads.size() / 2];
  if (middle - loads.front() > loads.back() - middle)
    loads.erase(loads.begin());
  else
    loads.pop_back();
  return loads.back() - loads.front();
}

std::string every(double ms) {
  return std::to_string(static_cast<int>(std::lround(ms / 1000))) + " s";
}

// "job ml/llama (32 GPUs on 4 hosts)", "GPU 0 to 3".
std::string words_for_job(const JobSignals& job) {
  const std::string name = job.name.empty() ? gpu_names(job.gpus) : "job " + job.name;
  if (!job.spread)
    return job.name.empty() ? name
                            : name + " (" + std::to_string(job.gpus.size()) +
                                  (job.gpus.size() == 1 ? " GPU)" : " GPUs)");
  return name + " (" + std::to_string(job.gpus.size()) + " GPUs on " +
         std::to_string(job.spread->hosts.size()) + " hosts)";
}

JobVerdict unclear_cluster(const JobSignals& job, const std::string& why,
                           std::vector<Evidence> evidence = {}) {
  return {{Pattern::unclear, 0.5, words_for_job(job) + ": " + why}, std::move(evidence)};
}

JobVerdict hosts_in_turns(const JobSignals& job, const Turns& turns) {
  const std::string who = turns.of_hosts ? "its hosts" : "its GPUs";
  return {{Pattern::taking_turns, 0.85,
           words_for_job(job) + ": " + who + " take turns: at most one is busy " +
               percent(turns.signals->exclusive_busy) + " of the time."},
          {{"exclusive_busy", turns.signals->exclusive_busy, kExclusive, "fraction"},
           {"exclusive_by_chance", turns.signals->exclusive_by_chance, std::nullopt, "fraction"},
           {"hand_backs", static_cast<double>(turns.signals->hand_backs),
            static_cast<double>(kHandBacks), "times"}}};
}

}  // namespace

JobVerdict judge_cluster_job(const JobSignals& job, const Signals& signals) {
  if (signals.ticks < kFewestTicksOfCluster)
    return unclear_cluster(job, "too few readings: look for longer (--window of a server).");
  const bool known = std::ranges::any_of(
      job.members, [](const GpuInJob& member) { return member.busy.has_value(); });
  if (!known)
    return unclear_cluster(job,
                           "utilization is not among its metrics: it would tell work from rest.");
  const double busy = mean_busy(job);
  double most = 0;
  for (const GpuInJob& member : job.members) most = std::max(most, member.busy.value_or(0));
  if (!job.active || most < kIdle)
    return {{Pattern::idle, 0.95, words_for_job(job) + " does nothing."}, {}};
  if (job.gpus.size() == 1)
    return {{Pattern::single_gpu, 0.9, words_for_job(job) + " works, " + percent(busy) + " busy."},
            {{"busy", busy, std::nullopt, "fraction"}}};
  if (const auto turns = turns_of(job)) return hosts_in_turns(job, *turns);
  const double lanes = job.spread ? job.spread->busy_sum : job.busy_sum;
  const auto count = static_cast<double>(job.spread ? job.spread->hosts.size() : job.gpus.size());
  const char* const what = job.spread ? "host" : "GPU";
  const bool works_by_turns_or_half = lanes < kLikeOne && lanes > 0.25 && count >= 2;
  if (works_by_turns_or_half && busy < 0.75)
    return unclear_cluster(
        job,
        std::string("together they are busy like one ") + what + "; readings " +
            every(signals.tick_ms) +
            " apart do not tell turns faster than that from waiting: run `lockstep "
            "diagnose` on one of its machines.",
        {{"busy_sum", lanes, kLikeOne, job.spread ? EvidenceUnit("hosts") : EvidenceUnit("GPUs")}});
  // Members that never work are another matter (P103); of the others, most must carry the same
  // load.
  std::vector<double> loads;
  for (const GpuInJob& member : job.members)
    if (member.busy.value_or(0) >= kIdle) loads.push_back(*member.busy);
  std::ranges::sort(loads);
  if (loads.size() < 2)
    return {
        {Pattern::single_gpu, 0.7, words_for_job(job) + ": one GPU works, the others do nothing."},
        {{"busy", loads.empty() ? 0 : loads.front(), std::nullopt, "fraction"}}};
  const double spread = job.spread ? spread_without_the_odd_one(*job.spread)
                                   : loads[loads.size() * 3 / 4] - loads[loads.size() / 4];
  if (spread > kAlike)
    return unclear_cluster(
        job,
        "its GPUs are busy at once, but carry different loads: a trace or probes would "
        "tell a pipeline from ranks.",
        {{"busy_spread", spread, kAlike, "fraction"}});
  return {{Pattern::in_step, 0.8,
           words_for_job(job) + " works in step, " + percent(busy) + " busy on average."},
          {{"busy", busy, std::nullopt, "fraction"}, {"busy_spread", spread, kAlike, "fraction"}}};
}

}  // namespace lockstep
