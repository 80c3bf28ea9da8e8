// What is proven of a loader's batches, so that a patch about them can be applied unread.
//
// A proof holds or is absent: where anything that it needs is not seen, the patch stays unsafe.
// docs/fix.md lists them.
#pragma once

#include <string>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {

// Batches can be pinned: samples are made on the host by a dataset that is seen whole, and put
// together by PyTorch's own collate function, which gives the types that pinning keeps. In words;
// empty: not proven.
std::string proof_of_host_batches(const RuleInput& input, const ScriptFacts& script,
                                  const CallAt& loader);

// Copies need not be waited for: the work is queued on one stream, and nobody looks at the host's
// batch again once it is on its way.
bool copies_are_the_last_use(const RuleInput& input, const ScriptFacts& script,
                             const TrainingLoop& loop);

}  // namespace lockstep
