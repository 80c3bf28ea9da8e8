// Recordings of several machines as one: GPUs counted over all of them, processes told apart,
// records in the order in which they happened, by clocks that were aligned.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/source.hpp"

namespace lockstep {

// Each a recording, in a file: they are read twice. The first machine that tells steps gives the
// clock. Of machines with several files each GPU and each rank is taken from the first file that
// has it.
Result<std::unique_ptr<Source>> open_merged_recordings(const std::vector<std::string>& paths);

}  // namespace lockstep
