// Where each step's time goes, as tables: by part, by line of code, by rank.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/report.hpp"
#include "render/text/paint.hpp"

namespace lockstep {

// What the GPUs' own records and NCCL's say; empty: nothing.
std::string devices_text(const Report& report, std::size_t width, const Painter& paint);
std::string loader_text(const LoaderAnswer& answer, std::size_t width, const Painter& paint);
std::string steps_text(const StepSignals& steps, std::size_t width, const Painter& paint);

}  // namespace lockstep
