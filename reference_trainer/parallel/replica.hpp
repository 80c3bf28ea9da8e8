// One copy of the model on one device, or cut in pieces over several (the naive split), with or
// without other ranks:
//
//   single   one device, no other ranks      naive    several devices, no other ranks
//   ddp      one device, other ranks         hybrid   several devices, other ranks
//
// The naive split is what device_map="auto" and plain `python` give: a batch goes through the
// pieces one after the other, and while one device works the others wait. It is here to be seen,
// and measured.
#pragma once

#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/parallel/gradient_reducer.hpp"
#include "reference_trainer/parallel/strategy.hpp"
#include "reference_trainer/random_numbers.hpp"

namespace lockstep {

class Replica : public Strategy {
 public:
  Replica(Model& model, const StrategyOptions& options);

  Tensor pass(const Batch& batch, const PassOptions& options, StepMarks& marks) override;
  void warm_up(const Batch& batch) override;
  const std::vector<DeviceParameters>& parameters() const override { return parameters_; }
  std::string description() const override;
  bool overwrites_gradients() const override { return graphs_; }

 private:
  struct Piece {
    ComputeDevice* device = nullptr;
    PartRange parts;
    // Of the pass under way. Each piece's graph is cut off from the one before, so that its
    // backward runs on its own thread.
    Tensor input;
    Tensor output;
  };
  // The same work recorded as CUDA graphs: the host starts a pass in one call. An update's first
  // pass finds no gradients and leaves its own in their place, so that they need neither be cleared
  // nor added to; later ones add to them.
  struct RecordedPass {
    std::unique_ptr<RecordedWork> work;
    Tensor loss;
  };
  struct Graph {
    RecordedPass first_pass;
    RecordedPass later_pass;  // nothing: updates have one pass
    Batch batch;              // where the pass looks for its input
    Tensor loss_weight;       // and what its loss counts
  };
  bool can_be_graphed(const Batch& batch, const PassOptions& options) const;
  Tensor graphed_pass(const Batch& batch, const PassOptions& options, StepMarks& marks);
  void record(const Batch& batch, const PassOptions& options);
  void forget_gradients();
  void forward(const Batch& batch, StepMarks& marks);
  void backward(const PassOptions& options);
  Tensor last_root() const;
  void clear_gradients();
  void forget_pass();

  Model& model_;
  const Precision precision_;
  std::vector<Piece> pieces_;
  std::vector<DeviceParameters> parameters_;
  std::unique_ptr<GradientReducer> reducer_;  // nothing for a rank alone
  std::string name_;
  const std::int64_t graph_batch_;  // samples of a pass that is worth recording; 0: none is
  const bool accumulates_;
  bool graphs_ = false;  // passes are recorded and played
  std::optional<Graph> graph_;

  // Of the pass under way.
  Tensor loss_;
  Tensor tied_here_;   // the tied weight as the first piece's graph knows it
  Tensor tied_there_;  // and as the last piece's does
};

}  // namespace lockstep
