// Published nets by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.hpp"

namespace lockstep {

// "gpt2", "llama-8b", "meta-llama/Llama-3.1-8B", "Phi-3-mini-4k-instruct": any case, with or
// without the owner's name and the words that name a variant of the same shape. nullptr: not known.
const Architecture* known_model(std::string_view name);
// The short names.
std::vector<std::string> known_model_names();

}  // namespace lockstep
