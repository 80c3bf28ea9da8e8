// Where each step's time goes, written to the wire at the step's end for lockstep to read.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.hpp"
#include "probes/wire/lockstep_wire.h"
#include "reference_trainer/runtime_file.hpp"

namespace lockstep {

using Span = lockstep_span;

class StepMarks {
 public:
  enum class Wire : std::uint8_t { yes, none };
  explicit StepMarks(int rank, Wire wire = Wire::yes);
  ~StepMarks();
  StepMarks(const StepMarks&) = delete;
  StepMarks& operator=(const StepMarks&) = delete;

  void begin(std::int64_t index);
  void add(Span span, std::chrono::nanoseconds time) { spans_[span] += time; }
  std::chrono::nanoseconds spent(Span span) const { return spans_[span]; }
  // What no span holds is `other`.
  void end();

  // Times a piece of work.
  template <class Work>
  void time(Span span, const Work& work) {
    const auto from = monotonic_now();
    work();
    add(span, monotonic_now() - from);
  }

 private:
  std::optional<RuntimeFile> file_;
  lockstep_wire_header* wire_ = nullptr;  // mapped; nullptr where the file could not be made: nobody is told
  lockstep_step step_{};
  std::chrono::nanoseconds began_{};
  std::array<std::chrono::nanoseconds, LOCKSTEP_WIRE_SPANS> spans_{};
};

}  // namespace lockstep
