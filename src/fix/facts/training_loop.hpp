// Training loops written by hand: the `for` whose turns end with an update, what it goes over, and
// what happens in a turn.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fix/facts/value_origins.hpp"

namespace lockstep {

struct TrainingLoop {
  FileId file = 0;
  Node loop;  // the innermost loop around backward() and the update
  // the loop within it around backward(), where an update takes several passes; none: there is none
  Node passes;
  Node epochs;                  // the loop around it in the same function; none: there is none
  Node function;                // that it stands in; none: the module
  Node source;                  // what it goes over, without enumerate and progress bars
  std::string counter;          // the name that enumerate gives the turn; empty: none
  int first_count = 0;          // enumerate(loader, 1) starts with 1
  std::set<std::string> batch;  // the names of what a turn gets
  const PythonCall* backward = nullptr;
  const PythonCall* update = nullptr;  // optimizer.step(), scaler.step(optimizer)
  std::size_t optimizers = 0;          // that a turn steps: two for a GAN
  bool scales = false;                 // scaler.scale(loss).backward()
  // accelerator.backward(loss), engine.backward(loss): who knows what else is done there
  bool by_library = false;
  // the `if` around the update, where only some turns end with one
  Node boundary;
  // `if …: with no_sync(): backward() else: backward(), update`, or the other way round
  Node fork;
  bool updates_in_else = false;
  std::vector<CallAt> loaders;  // the DataLoader(...) calls that it goes over
  // of a loop whose turn is a function of its own: that function, with backward() and the update
  Node turn;
  FileId turn_file = 0;

  bool accumulates() const { return passes || boundary; }
  // A turn's statements.
  Node body() const { return loop.field("body"); }
};

std::vector<TrainingLoop> training_loops(const TrainingCode& code, const ValueOrigins& origins);
// Trainers as classes: `for batch in self.loader: self._run_batch(batch)`. Their turns stand in
// another function, so only rules that ask what they go over take them.
std::vector<TrainingLoop> spread_loops(const TrainingCode& code, const ValueOrigins& origins);

// Whether a node is met in every turn of a loop: under no condition and in no handler.
bool in_every_turn(Node loop, Node node);
// Whether a node is met in nearly every turn: also under conditions that a run meets always or
// never
// (`if use_wandb:`, `if writer is not None:`) or one rank always (`if rank == 0:`).
bool in_nearly_every_turn(const TrainingLoop& loop, Node node);
// The loss that backward() starts from: `loss` of loss.backward(), of
// scaler.scale(loss).backward(), of (loss / 4).backward().
Node loss_of(const TrainingLoop& loop);
// `i % N == 0` and its kin: the counter, N, and whether one is added to the counter first.
struct EveryFew {
  Node modulo;  // the expression `… % N`
  std::string counter;
  Node period;
  bool plus_one = false;
  bool equals_zero = false;  // else another remainder, or something else is asked
  bool differs_from_zero = false;
};
std::optional<EveryFew> every_few(Node condition);

// The loops over epochs that lead to a training loop: around it, or around a call of its function.
struct EpochLoop {
  FileId file = 0;
  Node loop;
  std::string counter;  // the name of the epoch; empty: it has none
};
std::vector<EpochLoop> epoch_loops(const ValueOrigins& origins, const TrainingLoop& loop);

}  // namespace lockstep
