// X708: an environment variable slows the job down, left over from debugging or copied from
// elsewhere.
//
// Why it shows: the listed variables of each process are recorded. CUDA_LAUNCH_BLOCKING=1 makes
// every kernel launch wait; TORCH_DISTRIBUTED_DEBUG=DETAIL checks each collective across ranks
// first; NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 send bytes through host memory or sockets.
// Confused with: NCCL_P2P_DISABLE=1 where peer-to-peer does not work anyway (RTX 40 cards, and
// Accelerate sets it there by itself): no finding unless the machine says that the job's GPUs reach
// each other.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"
#include "lockstep/harmful_variables.hpp"

namespace lockstep {
namespace {

bool gpus_reach_each_other(const JobSignals& job, const Signals& signals) {
  if (!signals.peer_to_peer) return false;
  const auto in_job = [&](int gpu) { return holds(job, gpu); };
  return std::ranges::any_of(*signals.peer_to_peer, [&](const std::pair<int, int>& pair) {
    return in_job(pair.first) && in_job(pair.second);
  });
}

}  // namespace

std::vector<Finding> find_harmful_environment(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    std::vector<Evidence> evidence;
    double lost = 0;
    for (const HarmfulVariable& harmful : kHarmfulVariables) {
      const bool set = std::ranges::any_of(job.processes, [&](const ProcessSample& process) {
        return environment_of(process, harmful.name) == harmful.value;
      });
      const bool of_several =
          job.gpus.size() > 1 || std::string_view(harmful.name) == "CUDA_LAUNCH_BLOCKING";
      if (!set || !of_several || (harmful.needs_peers && !gpus_reach_each_other(job, seen.signals)))
        continue;
      evidence.push_back({std::string(harmful.name) + "=" + harmful.value, 1, std::nullopt, "set"});
      lost = std::max(lost, harmful.lost);
    }
    if (!evidence.empty())
      findings.push_back(about_job(FindingCode::harmful_environment, job, Severity::warning, 0.7,
                                   lost, std::move(evidence)));
  }
  return findings;
}

}  // namespace lockstep
