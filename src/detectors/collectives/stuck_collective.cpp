// C406: a collective does not end: ranks read 100 % busy and nothing gets on (hollow 100 %).
//
// Why it shows: for ten seconds or more GPUs read busy while none of them works (low power, low
// SM). The kernel that runs is NCCL's, waiting for a rank that does not come: it crashed, hangs,
// waits at another collective, or still loads. Confused with: a small batch or launch-bound
// training (low power all the time: here the job must have worked harder before or after, or one of
// its GPUs must be empty), waits that end and come again (straggler-rank, stalls). Blind: without
// power or SM; a rank that computes something endless on its own.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

constexpr double kStuckAfterMs = 10'000;
constexpr double kLongerThanSaving = 30'000;  // one rank's save of some tens of GB

bool worked_at_another_time(const JobSignals& job, const Signals& signals) {
  for (const GpuSignals& gpu : signals.gpus) {
    if (!holds(job, gpu.index)) continue;
    if (!gpu.power_highest_mw || !gpu.info.power_limit_mw) continue;
    if (*gpu.power_highest_mw > 0.5 * *gpu.info.power_limit_mw) return true;
  }
  return false;
}

bool one_does_not_come(const JobSignals& job) {
  const auto idle = std::ranges::count_if(
      job.members, [](const GpuInJob& member) { return member.busy.value_or(0) < 0.3; });
  const auto spinning = std::ranges::count_if(job.members, [](const GpuInJob& member) {
    return member.busy.value_or(0) > 0.7 && member.hollow.value_or(0) > 0.5;
  });
  return idle >= 1 && spinning >= 1;
}

// Waits that end and come again are saves, evaluations, or another part of the work (rollouts).
bool is_no_part_of_the_work(const JobSignals& job, const Signals& signals) {
  constexpr double kReadings = 3;
  constexpr double kTimesLonger = 3;
  constexpr double kPassing = 2000;         // shorter waits are the steps' own
  constexpr double kTooLongToEnd = 60'000;  // though it ended
  if (job.written_while_hollow.value_or(0) > kBurstBytes) return false;  // it saves
  if (job.second_hollow_ms > kPassing &&
      job.longest_hollow_ms < kTimesLonger * job.second_hollow_ms)
    return false;
  const bool lasts =
      job.to_ms - job.longest_hollow_until_ms <= std::max(2000.0, kReadings * signals.tick_ms);
  return lasts || job.longest_hollow_ms > kTooLongToEnd;
}

// Who may be the one that does not come: GPUs that hold a model and do nothing, of another job as
// far as readings tell.
std::vector<int> absent_ones(const JobSignals& job, const Signals& signals) {
  constexpr double kHoldsAModel = 0.3;  // of what those that wait hold
  double held = 0;
  for (const GpuInJob& member : job.members) held = std::max(held, member.memory_bytes.value_or(0));
  std::vector<int> absent;
  for (const GpuSignals& gpu : signals.gpus)
    if (!holds(job, gpu.index) && gpu.busy_highest.value_or(1) < 0.05 &&
        gpu.memory_median_bytes.value_or(0) > std::max(2e9, kHoldsAModel * held))
      absent.push_back(gpu.index);
  return absent;
}

std::string numbers(const std::vector<int>& list) {
  std::string text;
  for (const int number : list) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

// NCCL's own count does not move, and some ranks have begun fewer collectives than others: those
// are the ones that do not come.
std::optional<Finding> from_ras(const JobSignals& job) {
  constexpr double kNobodyWaitsSoLongMs = 20'000;  // a checkpoint of one rank takes some seconds
  constexpr double kSuspectedAfterMs = 5'000;
  for (const StuckCommunicator& stuck : job.communicators->stuck) {
    const bool long_enough = stuck.for_ms >= kNobodyWaitsSoLongMs;
    // A rank that only does not answer may have left when all was done.
    const bool saves = job.written_while_hollow.value_or(0) > kBurstBytes;
    if (!long_enough && (stuck.behind.empty() || saves || stuck.for_ms < kSuspectedAfterMs))
      continue;
    const double confidence = stuck.behind.empty() || !long_enough ? 0.45 : 0.95;
    Finding finding = about_job(
        FindingCode::stuck_collective, job, Severity::critical, confidence, 1,
        {{"no_collective_begun_ms", stuck.for_ms, kNobodyWaitsSoLongMs, "ms"},
         {"ranks_in_communicator", static_cast<double>(stuck.size), std::nullopt, "ranks"}});
    if (!stuck.behind.empty())
      finding.evidence.push_back({(stuck.behind.size() == 1 ? "rank " : "ranks ") +
                                      numbers(stuck.behind) +
                                      (stuck.behind.size() == 1 ? " has" : " have") + " begun " +
                                      std::to_string(stuck.fewest) + " " + stuck.operation +
                                      ", the others " + std::to_string(stuck.most),
                                  1, std::nullopt, "message"});
    if (!stuck.silent.empty())
      finding.evidence.push_back({(stuck.silent.size() == 1 ? "rank " : "ranks ") +
                                      numbers(stuck.silent) + " could not be reached",
                                  1, std::nullopt, "message"});
    finding.ranks = stuck.behind;
    finding.ranks.insert(finding.ranks.end(), stuck.silent.begin(), stuck.silent.end());
    finding.pids = stuck.behind_pids;
    if (!stuck.behind_gpus.empty()) finding.gpus = stuck.behind_gpus;
    return finding;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> find_stuck_collective(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (job.communicators)
      if (auto finding = from_ras(job)) {
        findings.push_back(std::move(*finding));
        continue;
      }
    const std::vector<int> never_came = absent_members(job, seen.signals);
    const bool still = !never_came.empty() || is_perfectly_still(job, seen.signals);
    const double hollow_ms = still ? job.to_ms - job.from_ms : job.longest_hollow_ms;
    const bool alone = job.gpus.size() == 1;  // its other ranks may be elsewhere
    if ((alone ? !still : job.one_process_on_all) || job.serves || hollow_ms < kStuckAfterMs)
      continue;
    if (!alone && pattern_of(seen, i) != Pattern::in_step &&
        pattern_of(seen, i) != Pattern::unclear)
      continue;
    const bool steps_went_on =
        job.steps && job.steps->last_step_ms >
                         (still ? job.to_ms : job.longest_hollow_until_ms) - kStuckAfterMs / 2;
    if (steps_went_on) continue;
    const bool steps_ended = job.steps && job.steps->count >= 5;
    if (!still && !is_no_part_of_the_work(job, seen.signals)) continue;
    std::vector<int> absent = still ? absent_ones(job, seen.signals) : std::vector<int>();
    absent.insert(absent.end(), never_came.begin(), never_came.end());
    const bool contrast =
        steps_ended || worked_at_another_time(job, seen.signals) || one_does_not_come(job) || still;
    // Who still reads data gets on: a mean over many steps of a late rank looks hollow too.
    const bool reads_on = is_coarse(seen.signals) && job.host.read_bytes_s.value_or(0) > 1e5;
    const double share = std::min(1.0, hollow_ms / std::max(1.0, job.to_ms - job.from_ms));
    Finding finding = about_job(FindingCode::stuck_collective, job, Severity::critical,
                                !contrast || reads_on                           ? 0.4
                                : still && absent.empty()                       ? 0.65
                                : hollow_ms < kLongerThanSaving && !steps_ended ? 0.7
                                                                                : 0.85,
                                share, {{"hollow_ms", hollow_ms, kStuckAfterMs, "ms"}});
    for (const GpuInJob& member : job.members) {
      if (member.busy.value_or(1) >= 0.3 ||
          std::ranges::find(never_came, member.index) != never_came.end())
        continue;
      finding.evidence.push_back(
          {"busy_of_gpu_" + std::to_string(member.index), *member.busy, 0.3, "fraction"});
    }
    for (const int gpu : absent)
      finding.evidence.push_back(
          {"idle_with_a_model_gpu_" + std::to_string(gpu), 1, std::nullopt, "yes"});
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
