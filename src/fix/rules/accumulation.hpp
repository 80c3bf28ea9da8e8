// When an accumulation's updates come, and when they should: what the rules about boundaries and
// about gradient syncs share.
#pragma once

#include <string>
#include <vector>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {

struct MendedBoundary {
  std::vector<std::string> faults;  // in words; empty: all is well
  std::string condition;            // what the update's `if` should ask; empty: what it asks
  bool off_by_one = false;
  bool loses_tail = false;
  bool undivided = false;
  std::string period;

  // Patched with --unsafe; a lost tail alone is a matter of taste, and shown only.
  bool is_patched() const { return off_by_one || undivided; }
};
MendedBoundary mended_boundary(const RuleInput& input, const ScriptFacts& script,
                               const TrainingLoop& loop);

// Whether the same optimizer is stepped once more after the loop, for the passes that were left.
bool steps_after(const RuleInput& input, const TrainingLoop& loop);
// Whether the script already leaves gradient syncs out of some passes: no_sync(),
// require_backward_grad_sync.
bool leaves_syncs_out(const RuleInput& input, const ScriptFacts& script);
// The line that averages gradients only in the pass that the update follows, for a loop under DDP:
// empty where it cannot be written. It leans on the update's condition, which is kept as it is by
// an edit that changes nothing: a patch of the condition has to wait for its own turn, and then
// changes both. One without the other would update from gradients that were not averaged, and the
// ranks' models would part.
std::vector<Edit> sync_with_the_update(const RuleInput& input, const TrainingLoop& loop,
                                       std::string_view model);

}  // namespace lockstep
