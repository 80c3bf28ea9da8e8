// Takes secrets out of command lines before they are stored or shown.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Values after options named *token*, *key*, *secret*, *password*, and words that start with hf_,
// sk-, ghp_ or AKIA, become an ellipsis. Everything else is untouched.
std::vector<std::string> redact_command(std::vector<std::string> command);

}  // namespace lockstep
