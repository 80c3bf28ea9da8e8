// What the GPUs of one job do together: in step, in turns, one leads, a pipeline, alone, nothing,
// or unclear.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/signals.hpp"

namespace lockstep {

JobVerdict judge_pattern(const JobSignals& job, const Signals& signals);
std::vector<JobVerdict> judge_patterns(const Signals& signals);

// The one sentence for the whole machine: the job with the most busy GPUs, `independent` where
// several jobs have one GPU each, `idle` where nothing runs. `first_job` is that job's place in
// signals.jobs.
struct MachineVerdict {
  Verdict verdict;
  std::size_t first_job = 0;
};
MachineVerdict judge_machine(const Signals& signals, const std::vector<JobVerdict>& verdicts);

// One works at a time, and another one after it: turns, or parts that are loaded one by one.
bool seem_to_alternate(const TurnSignals& turns);

// "GPU 0", "GPU 0 and 1", "GPU 0 to 3".
std::string gpu_names(const std::vector<int>& gpus);

}  // namespace lockstep
