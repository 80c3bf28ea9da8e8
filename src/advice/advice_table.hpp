// What to do about each finding: a command to paste, a setting, or a sentence.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/signals.hpp"

namespace lockstep {

// Gives every finding and suspicion its fixes.
void add_advice(Diagnosis& diagnosis, const Signals& signals);

// The command line that starts one process per GPU: python train.py --x becomes
// torchrun --standalone --nproc_per_node=2 train.py --x. An unknown command becomes a template.
std::vector<std::string> launch_line(const ProcessSample* process, std::size_t gpus);

}  // namespace lockstep
