// What this binary is.
#pragma once

#include <string>

namespace lockstep {

std::string version_number();
std::string version_text();  // with the commit, the compiler and what is built in

}  // namespace lockstep
