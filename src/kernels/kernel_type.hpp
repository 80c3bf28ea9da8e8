// What kind of work a kernel is, by its name.
#pragma once

#include <string_view>

#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

// Copies are known by their category; collectives by NCCL's names, old (ncclKernel_) and new
// (ncclDevKernel_), RCCL's and others'.
KernelType kernel_type(std::string_view name, TraceCategory category);

// As HolisticTraceAnalysis has it: by name alone. A kernel with "Sync" in its name is neither
// computing nor anything else.
KernelType kernel_type_like_hta(std::string_view name);

}  // namespace lockstep
