// X701: a training script was started with plain `python`: WORLD_SIZE is not set, so there is one
// process for all GPUs.
//
// Why it shows: one Python process, several GPUs that it holds or leaves empty, no launcher above
// it, and no WORLD_SIZE in its environment. Transformers then picks DataParallel, device_map="auto"
// splits the model, and a plain loop uses one GPU. Confused with: mp.spawn (children set their rank
// after they start: several processes, one parent), servers, notebooks on purpose on one GPU, JAX
// (one process for all GPUs is right). Blind: where the environment cannot be read (another user's
// process).
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

bool is_python(const ProcessSample& process) {
  if (!process.command || process.command->empty()) return false;
  const std::string& path = process.command->front();
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("pypy");
}

}  // namespace

std::vector<Finding> find_world_size_not_set(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!trains(job) || job.processes.size() != 1) continue;
    const ProcessSample& process = job.processes.front();
    if (!is_python(process) || is_one_process_framework(process) || !process.environment ||
        process.world_size || process.rank || has_launcher(process))
      continue;
    const Pattern pattern = pattern_of(seen, i);
    const bool splits = pattern == Pattern::taking_turns || pattern == Pattern::one_leads;
    const std::vector<int> empty = empty_gpus_for(job, seen.signals);
    const bool leaves_empty = pattern == Pattern::single_gpu && seen.signals.jobs.size() == 1 &&
                              !empty.empty() &&
                              environment_of(process, "CUDA_VISIBLE_DEVICES").empty();
    if (!splits && !leaves_empty) continue;
    const double gpus = static_cast<double>(job.gpus.size() + (leaves_empty ? empty.size() : 0));
    double lost = 1 - 1 / gpus;
    for (const GpuInJob& member : job.members)
      if (pattern == Pattern::one_leads)
        lost = std::min(lost, std::max(0.05, 1 - member.busy.value_or(0)));
    findings.push_back(about_job(
        FindingCode::world_size_not_set, job, splits ? Severity::critical : Severity::warning,
        splits ? std::min(0.9, seen.verdicts[i].verdict.confidence) : 0.7, lost,
        {{"processes", 1, gpus, "processes"}, {"world_size_set", 0, 1.0, "yes"}}));
  }
  return findings;
}

}  // namespace lockstep
