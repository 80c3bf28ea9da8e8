// L806: WORLD_SIZE promises more ranks than were started, so those that did start wait for ever.
//
// Why it shows: the ranks of a job on this machine are fewer than its LOCAL_WORLD_SIZE, or than its
// WORLD_SIZE where the master is this very machine, or where no master is named and nothing works.
// The ranks that are there do not get on: their GPUs are idle or spin. Confused with: jobs over
// several machines (only LOCAL_WORLD_SIZE counts there), ranks that hold no GPU yet (start-up: so
// the job must not work), process lists that are not whole.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

std::optional<int> number_of(const ProcessSample& process, const char* name) {
  const std::string text = environment_of(process, name);
  if (text.empty() || text.size() > 6 ||
      !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoi(text);
}

// WORLD_SIZE alone, with no master and no second node in sight: the other ranks should be here.
std::optional<int> ranks_by_world_size(const JobSignals& job) {
  for (const ProcessSample& process : job.processes)
    if (process.world_size && environment_of(process, "MASTER_ADDR").empty() &&
        number_of(process, "SLURM_NNODES").value_or(1) == 1)
      return process.world_size;
  return std::nullopt;
}

bool never_works(const JobSignals& job) {
  return std::ranges::all_of(job.members,
                             [](const GpuInJob& member) { return member.busy.value_or(0) < 0.05; });
}

}  // namespace

std::optional<int> promised_ranks(const JobSignals& job) {
  for (const ProcessSample& process : job.processes) {
    if (const auto local = number_of(process, "LOCAL_WORLD_SIZE")) return local;
    const std::string master = environment_of(process, "MASTER_ADDR");
    const bool here = master == "localhost" || master == "127.0.0.1" || master == "::1";
    if (here && process.world_size) return process.world_size;
  }
  return std::nullopt;
}

std::vector<Finding> find_ranks_missing(const Seen& seen) {
  std::vector<Finding> findings;
  if (seen.signals.process_coverage != ProcessCoverage::all) return findings;
  for (const JobSignals& job : seen.signals.jobs) {
    const auto promised = promised_ranks(job);
    const auto wanted = promised || !never_works(job) ? promised : ranks_by_world_size(job);
    if (!wanted || job.ranks.empty() || *wanted <= static_cast<int>(job.ranks.size())) continue;
    // Steps that come and go, or hard work, mean that it gets on all the same (an elastic job, a
    // list cut short).
    bool gets_on = job.fine && job.fine->swing > 0.1 && job.fine->period_strength > 0.5;
    for (const GpuInJob& member : job.members)
      gets_on =
          gets_on || (member.busy.value_or(0) > 0.2 && member.power_of_limit.value_or(0) > 0.5);
    findings.push_back(about_job(FindingCode::ranks_missing, job, Severity::critical,
                                 gets_on    ? 0.4
                                 : promised ? 0.85
                                            : 0.6,
                                 gets_on ? 0 : 1,
                                 {{"ranks_seen", static_cast<double>(job.ranks.size()),
                                   static_cast<double>(*wanted), "ranks"}}));
  }
  return findings;
}

}  // namespace lockstep
