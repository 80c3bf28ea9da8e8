// Texts of a JSON file.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// What a string says, of how it is written between its quotes.
std::string unescaped(std::string_view written);

}  // namespace lockstep
