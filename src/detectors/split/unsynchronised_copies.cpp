// P105: the same command line runs once on each GPU with no rank and no world size: several
// separate models train.
//
// Why it shows: `CUDA_VISIBLE_DEVICES=0 python train.py & CUDA_VISIBLE_DEVICES=1 python train.py &`
// looks like data parallelism on nvidia-smi, but no gradient is ever exchanged. The process list
// has equal command lines without RANK. Confused with: a sweep (the arguments differ), servers (one
// replica a GPU is right), mp.spawn (children of one parent set their rank after they start),
// command lines that could not be read.
#include <map>
#include <set>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

// Several on one GPU are no data parallelism, whatever they were meant for (L802).
bool have_a_gpu_each(const std::vector<const JobSignals*>& jobs) {
  std::set<int> gpus;
  for (const JobSignals* const job : jobs) gpus.insert(job->gpus.front());
  return gpus.size() == jobs.size();
}

}  // namespace

std::vector<Finding> find_unsynchronised_copies(const Seen& seen) {
  std::map<std::vector<std::string>, std::vector<const JobSignals*>> same;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!trains(job) || job.processes.size() != 1 || job.gpus.size() != 1) continue;
    const ProcessSample& process = job.processes.front();
    if (!process.command || process.command->size() < 2 || !process.environment || process.rank ||
        process.world_size || has_launcher(process))
      continue;
    same[*process.command].push_back(&job);
  }
  std::vector<Finding> findings;
  for (const auto& [command, jobs] : same) {
    if (jobs.size() < 2 || !have_a_gpu_each(jobs)) continue;
    JobSignals all;
    for (const JobSignals* const job : jobs) {
      all.gpus.push_back(job->gpus.front());
      all.pids.push_back(job->pids.front());
    }
    const auto copies = static_cast<double>(jobs.size());
    findings.push_back(about_job(FindingCode::unsynchronised_copies, all, Severity::critical, 0.8,
                                 1 - 1 / copies,
                                 {{"equal_command_lines", copies, 1.0, "processes"}}));
  }
  return findings;
}

}  // namespace lockstep
