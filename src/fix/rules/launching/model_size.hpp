// How much memory a model that is loaded by name asks for in training, as far as its name tells.
#pragma once

#include <string>

#include "fix/facts/training_code.hpp"

namespace lockstep {

struct ModelNeeds {
  bool is_named = false;   // the name is written in the code, with or without a size in it
  bool fits_80_gb = true;  // also when nothing is known: most models people train do
  // "7B with LoRA in 4 bit: about 6 GB a GPU before activations"; empty: the name does not tell
  std::string words;
};

ModelNeeds model_needs(const PythonModule& module, const TrainingCode& code, const PythonCall& load,
                       bool quantised);

// "Llama-2-7b-hf" is 7, "opt-350m" is 0.35 (billions).
std::optional<double> billions_in_name(std::string_view name);

}  // namespace lockstep
