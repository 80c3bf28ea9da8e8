// Names the time in steps that no hook explains, by where the training thread was seen meanwhile.
//
// A look every 10 ms says little of one step of 8 ms. But the same stretch (between the print on
// line 14 and the loader on line 11, say) comes again in every step: the looks into all of its
// appearances say what it is made of, and each appearance is split in those shares. Functions say
// the part: wandb's are logging, a user's `save_best` is a checkpoint.
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/timeline.hpp"

namespace lockstep {

// Steps without detail stay as they are.
void name_rests(std::vector<StepAt>& steps);

// The part that functions on the stack speak for: "wandb:log<report<train_step", innermost first.
StepPart part_of_functions(std::string_view stack);

}  // namespace lockstep
