// What one GPU is doing at the moment, in a word, and whether that word is a problem.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

enum class GpuState : std::uint8_t {
  unknown,     // nothing is known yet
  no_reading,  // the driver gives none, or stopped giving any
  lost,
  idle,     // nothing runs on it, nor anywhere in its job
  free,     // nobody holds it
  working,  // alone, or not judged yet
  in_step,
  in_pipeline,
  its_turn,     // works while the others of its job wait
  takes_turns,  // turns too short to be seen one by one
  idle_while_others_work,
  late,  // the others of its job wait for it, step after step
  leads,
  follows,
  waiting_for_data,
  waiting_for_host,  // idle with all of its job, and not for data as far as is known
  spinning,          // reads busy and does not work: waits in a collective
  throttled,
  power_capped,
};

// What colour says: whether this is as it should be, never how high the load is.
enum class Concern : std::uint8_t { none, good, waiting, problem };

struct GpuStateName {
  GpuState state;
  std::string_view word;
  std::string_view short_word;  // 10 letters at most
  Concern concern;
};

inline constexpr std::array kGpuStateNames = {
    GpuStateName{GpuState::unknown, "", "", Concern::none},
    GpuStateName{GpuState::no_reading, "no reading", "no reading", Concern::problem},
    GpuStateName{GpuState::lost, "lost", "lost", Concern::problem},
    GpuStateName{GpuState::idle, "idle", "idle", Concern::none},
    GpuStateName{GpuState::free, "free", "free", Concern::none},
    GpuStateName{GpuState::working, "working", "working", Concern::good},
    GpuStateName{GpuState::in_step, "in step", "in step", Concern::good},
    GpuStateName{GpuState::in_pipeline, "in a pipeline", "pipeline", Concern::good},
    GpuStateName{GpuState::its_turn, "its turn", "its turn", Concern::waiting},
    GpuStateName{GpuState::takes_turns, "takes turns", "by turns", Concern::problem},
    GpuStateName{GpuState::idle_while_others_work, "idle while others work", "left idle",
                 Concern::problem},
    GpuStateName{GpuState::late, "late, others wait", "late", Concern::problem},
    GpuStateName{GpuState::leads, "leads, others wait", "leads", Concern::waiting},
    GpuStateName{GpuState::follows, "waits for the first", "follows", Concern::waiting},
    GpuStateName{GpuState::waiting_for_data, "waiting for data", "data wait", Concern::waiting},
    GpuStateName{GpuState::waiting_for_host, "waiting for the host", "host wait", Concern::waiting},
    GpuStateName{GpuState::spinning, "spinning in a collective", "spinning", Concern::waiting},
    GpuStateName{GpuState::throttled, "throttled", "throttled", Concern::problem},
    GpuStateName{GpuState::power_capped, "power-capped", "power cap", Concern::waiting},
};

consteval bool gpu_states_are_in_order() {
  for (std::size_t row = 0; row < kGpuStateNames.size(); ++row)
    if (static_cast<std::size_t>(kGpuStateNames[row].state) != row ||
        kGpuStateNames[row].short_word.size() > 10)
      return false;
  return true;
}
static_assert(gpu_states_are_in_order());

constexpr const GpuStateName& name_of(GpuState state) {
  return kGpuStateNames[static_cast<std::size_t>(state)];
}

}  // namespace lockstep
