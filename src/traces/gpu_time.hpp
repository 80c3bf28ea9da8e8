// A rank's time as its GPUs had it: every moment is a computing kernel's, a collective's, a copy's,
// or nobody's; and what is nobody's is the host's that did not launch, by what it did instead.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/record.hpp"
#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"
#include "traces/host_labels.hpp"
#include "traces/step_cut.hpp"
#include "traces/work_rows.hpp"

namespace lockstep {

enum class GpuUse : std::uint8_t { computes, communicates, copies, idle };

struct GpuPiece {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  GpuUse use = GpuUse::idle;
  // of the step: by who launched it; of an idle one, by what kept the host
  StepPart part = StepPart::other;
  NameTable::Id name = 0;           // of the kernel; of an idle one the host row's
  std::uint32_t host_row = kNoRow;  // of an idle one: what kept the host
  // of an idle one: the host had not launched the next kernel when the GPU became empty
  bool launched_late = false;
};

// In order, without holes, from the first kernel's begin (of one step alone from its own) to the
// last one's end. `rows` in order of their begin.
std::vector<GpuPiece> gpu_pieces(const RankTrace& trace, const std::vector<WorkRow>& rows,
                                 const HostLabels& labels, const std::vector<HostStep>& steps);

// A step as the GPU had it: from the end of the step before to the end of its last kernel, or of
// the host's step where that is later.
struct GpuStep {
  std::int64_t index = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};
std::vector<GpuStep> gpu_steps(const std::vector<HostStep>& steps,
                               const std::vector<WorkRow>& rows);

// Stretches of communication while something was computed, in order.
struct GpuStretch {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};
std::vector<GpuStretch> hidden_communication(const std::vector<WorkRow>& rows);

}  // namespace lockstep
