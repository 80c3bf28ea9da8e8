// Where the time of each rank's latest steps went.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "monitor/monitored.hpp"

namespace lockstep {

// How a part of a step is written: a letter in the bar, words beside it, and whether it is work or
// waiting.
struct StepLetter {
  std::string_view name;  // as in a recording
  char letter;
  std::string_view words;
  Concern concern;
  bool counts;  // part of the step's duration
};
inline constexpr std::array<StepLetter, kStepSpanNames.size()> kStepLetters = {
    {{"data_wait", 'd', "data wait", Concern::waiting, true},
     {"copy", 'c', "copy", Concern::waiting, true},
     {"forward", 'f', "forward", Concern::good, true},
     {"backward", 'b', "backward", Concern::good, true},
     {"collective_exposed", 'x', "exposed collective", Concern::waiting, true},
     {"collective_hidden", 'h', "hidden collective", Concern::none, false},
     {"optimizer", 'o', "optimizer", Concern::good, true},
     {"sync", 's', "sync", Concern::waiting, true},
     {"logging", 'l', "logging", Concern::waiting, true},
     {"checkpoint", 'k', "checkpoint", Concern::waiting, true},
     {"evaluation", 'e', "evaluation", Concern::waiting, true},
     {"gc", 'g', "collector", Concern::waiting, true},
     {"other", '.', "other", Concern::none, true}}};
consteval bool step_letters_follow_the_spans() {
  for (std::size_t i = 0; i < kStepLetters.size(); ++i)
    if (kStepLetters[i].name != kStepSpanNames[i]) return false;
  return true;
}
static_assert(step_letters_follow_the_spans());

struct StepParts {
  std::size_t steps = 0;
  std::int64_t last_index = 0;
  double duration_ms = 0;                             // mean
  std::array<double, kStepSpanNames.size()> share{};  // of the duration
};

// By rank, over the last ten seconds before a moment.
std::map<int, StepParts> step_parts(const Monitored& seen, double until_ms);

}  // namespace lockstep
