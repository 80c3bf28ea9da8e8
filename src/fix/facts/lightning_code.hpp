// PyTorch Lightning: the code that runs in every step, the loaders it gets its batches from, and
// its Trainer, in whichever file they stand. A module and its data are often put together by names
// in a configuration, so that no script is seen to use them: they are looked at file by file.
#pragma once

#include <string_view>
#include <vector>

#include "fix/project/project.hpp"

namespace lockstep {

// A cheap look at the text, before anything is parsed.
bool speaks_of_lightning(std::string_view text);
// lightning.Trainer, pytorch_lightning.Trainer, and none of another library's.
bool is_lightning_trainer(const PythonCall& call);

// Whether anything in the project makes a Trainer: else its modules are never trained by one.
bool has_a_lightning_trainer(const Project& project);

// A class with a training_step(): that function, and the methods of the class that it calls in
// every step.
struct LightningStep {
  Node step;
  std::vector<Node> functions;  // the step first
};
std::vector<LightningStep> lightning_steps(const PythonModule& module);

// The DataLoader(...) calls that training batches come from: those of a train_dataloader(), of the
// methods it calls, and those given to Trainer.fit().
std::vector<const PythonCall*> lightning_loaders(const PythonModule& module);

// Calls within a function that are made whenever it runs.
std::vector<const PythonCall*> calls_in_every_run(const PythonModule& module, Node function);

}  // namespace lockstep
