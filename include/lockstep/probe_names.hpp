// The probes, what each gives, and the rung of the ladder on which it stands.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct ProbeName {
  std::string_view name;
  std::string_view gives;
  int rung = 1;
};

inline constexpr std::array<ProbeName, 5> kProbeNames = {
    {{"cuda", "the GPUs' own records", 2},
     {"nccl", "collectives as each rank comes to them", 2},
     {"ras", "NCCL's own count", 0},
     {"python", "hooks in the training code", 1},
     {"host", "the training thread's calls", 1}}};

// 0: from outside alone.
inline int rung_of(const std::vector<std::string>& heard) {
  int rung = 0;
  for (const ProbeName& probe : kProbeNames)
    if (std::ranges::find(heard, probe.name) != heard.end()) rung = std::max(rung, probe.rung);
  return rung;
}

}  // namespace lockstep
