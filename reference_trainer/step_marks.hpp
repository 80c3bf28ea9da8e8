// Where each step's time goes, written to the wire at the step's end for lockstep to read.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "probes/wire/lockstep_wire.h"
#include "reference_trainer/runtime_file.hpp"

namespace lockstep {

using Span = lockstep_span;

class StepMarks {
 public:
  enum class Wire : std::uint8_t { yes, none };
  StepMarks(int rank, int world, Wire wire = Wire::yes);
  ~StepMarks();
  StepMarks(const StepMarks&) = delete;
  StepMarks& operator=(const StepMarks&) = delete;

  void begin(std::int64_t index);
  void add(Span span, std::chrono::nanoseconds time) { spans_[span] += time; }
  std::chrono::nanoseconds spent(Span span) const { return spans_[span]; }
  // What no span holds is `other`.
  void end();
  // How training is set up: `name key=value key=value`. Said again it replaces what was said
  // before.
  void fact(const std::string& words);
  // Collectives beside the gradients': said as a fact with the first step that has some.
  void count_collectives(int calls);

  // Times a piece of work.
  template <class Work>
  void time(Span span, const Work& work) {
    const auto from = monotonic_now();
    work();
    add(span, monotonic_now() - from);
  }

 private:
  std::optional<RuntimeFile> file_;
  // mapped; nullptr where the file could not be made: nobody is told
  lockstep_wire_header* wire_ = nullptr;
  lockstep_step step_{};
  std::chrono::nanoseconds began_{};
  std::array<std::chrono::nanoseconds, LOCKSTEP_WIRE_SPANS> spans_{};
  bool told_collectives_ = false;
};

}  // namespace lockstep
