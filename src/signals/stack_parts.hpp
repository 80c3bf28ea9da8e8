// What a Python stack says of the part of a step that its rank is in.
#pragma once

#include "lockstep/host_look.hpp"
#include "lockstep/record.hpp"
#include "lockstep/step_part.hpp"

namespace lockstep {

StepPart part_of(const StackSample& stack);

// The innermost line of the user's own code, and what it calls there; of a library where there is
// none.
CodePlace place_of(const StackSample& stack);

}  // namespace lockstep
