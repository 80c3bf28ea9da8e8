// A model from a name, a count of parameters, or its own files.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/result.hpp"
#include "model/architecture.hpp"

namespace lockstep {

// "gpt2", "llama-8b"; or a path: config.json, a .safetensors file, or a folder that holds one of
// them. By content, not by name.
Result<Architecture> read_model(const std::string& name_or_path);

// The text of a config.json as transformers writes it. `name`: for words.
Result<Architecture> model_from_config(std::string_view json, const std::string& name);
// The header of a safetensors file: names and shapes of tensors.
Result<Architecture> model_from_safetensors(std::string_view header_json, const std::string& name);

}  // namespace lockstep
