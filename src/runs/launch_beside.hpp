// What `lockstep launch` does beside the ranks with the GPUs' driver: who else holds the GPUs, and
// --watch.
#pragma once

#include "launch/launcher.hpp"

namespace lockstep {

Beside beside_the_ranks(bool watch, bool quiet);

}  // namespace lockstep
