// What would go wrong if a script that runs as one process ran as one process per GPU.
#pragma once

#include <string>

#include "fix/rule.hpp"

namespace lockstep {

// In words, with the place: "train.py:12 gives its model a device_map that is not by rank". Empty:
// nothing that is seen.
std::string hazard_of_many_ranks(const Project& project, const TrainingCode& code);

// The same without what is said of maps and named GPUs.
std::string hazard_beside_the_map(const Project& project, const TrainingCode& code);
// What each rank would do once more than needed, without harm to the training. Empty: nothing that
// is seen.
std::string work_of_every_rank(const TrainingCode& code);

// Whether the script trains with DeepSpeed or FSDP by its arguments: those are no DDP, and have no
// nn.DataParallel to fall back to.
bool shards_by_arguments(const TrainingCode& code);

}  // namespace lockstep
