// Why a script of one process is none to convert.
#pragma once

#include <string>

#include "fix/rules/conversion/to_ddp.hpp"

namespace lockstep {

// Nothing is to be said of it: it trains on several GPUs by other means, on the processor, or is
// the run on one GPU that others are compared with.
bool is_meant_for_one_process(const RuleInput& input, const ScriptFacts& script);

// What would break once it is N processes, in words; empty: nothing that is seen.
std::string breaks_as_several(const RuleInput& input, const ScriptFacts& script,
                              const SingleProcessScript& single);

}  // namespace lockstep
