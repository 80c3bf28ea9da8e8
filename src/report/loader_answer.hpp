// Whether the data loader is what is slow, from what it does alone and what a step takes without
// it.
#pragma once

#include <optional>

#include "lockstep/report.hpp"

namespace lockstep {

// Nothing where the loader was not tried.
std::optional<LoaderAnswer> loader_answer(const JobSignals& job);

}  // namespace lockstep
