// A net as a row of parts, so that it can run whole on one device or in pieces on several.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference_trainer/torch_headers.hpp"
#include "training/model_shapes.hpp"

namespace lockstep {

struct Parameter {
  std::string name;
  Tensor value;
  int part = 0;
};

// Parts [from, to).
struct PartRange {
  int from = 0;
  int to = 0;
};

struct ModelOptions {
  double dropout = 0;
  std::int64_t freeze = 0;  // blocks, from the first on
  bool activation_checkpointing = false;
  bool fused = true;  // kernels of our own where they fit (CUDA, bf16)
};

class Model {
 public:
  virtual ~Model() = default;

  int parts() const { return parts_; }
  PartRange all_parts() const { return {0, parts_}; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Parameter> trainable(PartRange range) const;

  // Runs the parts of the range on `x`: the first part takes the inputs, the last gives the output.
  // `head_weight`: what the last part uses in place of tied_weight(), when that lives on another
  // device.
  Tensor forward(Tensor x, PartRange range, const Tensor& head_weight = {});
  virtual Tensor loss(const Tensor& output, const Tensor& targets) const = 0;
  // All parts and the loss, for a model that lies whole on one device.
  virtual Tensor whole_loss(const Tensor& inputs, const Tensor& targets) {
    return loss(forward(inputs, all_parts()), targets);
  }
  // The weight that the first and the last part share; undefined: none.
  virtual Tensor tied_weight() const { return {}; }
  // How much work a part is, to compare with other parts.
  virtual double part_cost(int part) const = 0;

  // Moves the parameters of these parts. Who holds a parameter still holds it.
  void move_to(at::Device device, PartRange range);

 protected:
  explicit Model(const ModelOptions& options) : options_(options) {}
  virtual Tensor run_part(int part, const Tensor& x, const Tensor& head_weight) = 0;
  virtual bool is_block(int part) const = 0;  // worth computing twice to save memory
  Tensor add(const std::string& name, Tensor value, int part);
  const ModelOptions& options() const { return options_; }
  void set_parts(int parts);  // last in a constructor: freezes what is to be frozen
  Tensor drop(const Tensor& x) const {
    return options_.dropout > 0 ? at::dropout(x, options_.dropout, true) : x;
  }

 private:
  friend struct CheckpointedPart;
  ModelOptions options_;
  std::vector<Parameter> parameters_;
  int parts_ = 0;
};

// With weights from the seed: the same on every rank.
std::unique_ptr<Model> make_model(const ModelShape& shape, const ModelOptions& options,
                                  std::uint64_t seed);

// Cuts the parts into `pieces` neighbouring ranges of nearly equal work. Fewer where there are
// fewer parts.
std::vector<PartRange> cut_into(const Model& model, int pieces);

}  // namespace lockstep
