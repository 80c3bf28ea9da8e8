// Variables of the environment that slow training down, left over from debugging or copied from
// elsewhere (X708).
#pragma once

#include <array>

namespace lockstep {

struct HarmfulVariable {
  const char* name;
  const char* value;  // that harms
  const char* why;
  double lost;       // an estimate, said to be one in docs/findings/X708.md
  bool needs_peers;  // harms only where GPUs reach each other directly
};

inline constexpr std::array<HarmfulVariable, 5> kHarmfulVariables = {{
    {"CUDA_LAUNCH_BLOCKING", "1", "the host waits for every kernel", 0.15, false},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked by another one", 0.05,
     false},
    {"NCCL_P2P_DISABLE", "1", "gradients go through the host though the GPUs reach each other", 0.1,
     true},
    {"NCCL_SHM_DISABLE", "1", "ranks of one machine talk over the network", 0.05, false},
    {"NCCL_DEBUG", "TRACE", "every call is written to a log", 0.03, false},
}};

}  // namespace lockstep
