// Samples by number: text as bytes, GPT-2-style token files, synthetic tokens, random rows.
//
// Reading is safe from several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference_trainer/torch_headers.hpp"
#include "training/model_shapes.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

// Samples side by side, as the model takes them.
struct Batch {
  Tensor inputs;
  Tensor targets;
  std::int64_t samples() const { return inputs.size(0); }
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual Batch batch_of(const std::vector<std::int64_t>& samples) const = 0;
  virtual std::string description() const = 0;
};

// Throws TrainFailure for a file that cannot be read, is too short, or holds tokens that the model
// does not know.
std::unique_ptr<Dataset> open_dataset(const TrainSettings& settings, const ModelShape& shape);

}  // namespace lockstep
