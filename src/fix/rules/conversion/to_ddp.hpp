// A script of one process, as far as it has to be understood to become one process per GPU.
#pragma once

#include <string>
#include <vector>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {

struct SingleProcessScript {
  FileId file = 0;
  std::string model;  // the variable that is trained
  Node scope;         // the function in which it lives; none: the module
  // the statement of that scope in which training happens: the model is wrapped right above it
  Node training;
  // the block of `if __name__ == "__main__":`; none: everything stands in the module
  Node main_part;
  std::vector<const PythonCall*> loaders;    // that training goes over
  std::vector<const PythonCall*> parallels;  // nn.DataParallel(...)
  std::string objection;                     // why it is not understood; empty: it is
};
// Whether a call of open() is one to write.
bool opens_for_writing(const PythonCall& call);
// What a loop calls the model that lives in the script's scope: its own name, or the parameter that
// it is given by. Empty: not seen.
std::string model_in_loop(const RuleInput& input, const ScriptFacts& script,
                          const SingleProcessScript& single, const TrainingLoop& loop);
SingleProcessScript understand_single_process(const RuleInput& input, const ScriptFacts& script);

// "self.head": a layer of the model's class that is made and never asked for again. DDP would wait
// for its gradient. Empty: none is seen.
std::string part_that_no_pass_uses(const RuleInput& input, const ScriptFacts& script,
                                   const SingleProcessScript& single);

// Progress bars that every rank would draw.
std::vector<const PythonCall*> bars_of(const PythonModule& module);
std::vector<Edit> means_over_a_ranks_share(const PythonModule& module, const ScriptFacts& script);

// Everything that changes in the script. Empty with an objection: what is in the way.
struct Converted {
  std::vector<Edit> edits;
  std::string objection;
};
Converted convert_to_ddp(const RuleInput& input, const ScriptFacts& script,
                         const SingleProcessScript& single);

}  // namespace lockstep
