// The parts that a training step's time is given to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// All but collective_hidden sum to the step's duration.
enum class StepPart : std::uint8_t {
  data_wait,
  copy,
  forward,
  backward,
  collective_exposed,
  collective_hidden,
  optimizer,
  sync,
  logging,
  checkpoint,
  evaluation,
  gc,
  other
};
inline constexpr std::array<std::string_view, 13> kStepSpanNames = {
    "data_wait",         "copy",      "forward", "backward", "collective_exposed",
    "collective_hidden", "optimizer", "sync",    "logging",  "checkpoint",
    "evaluation",        "gc",        "other"};
constexpr std::size_t index_of(StepPart part) { return static_cast<std::size_t>(part); }

}  // namespace lockstep
