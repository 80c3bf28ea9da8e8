// What a job's GPUs did, on one grid: how busy each read, and how much each really worked.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/signals.hpp"
#include "signals/lanes.hpp"

namespace lockstep {

struct Activity {
  Lanes busy;  // the grid
  // rows on that grid, from power or SM; nothing: neither was read
  std::optional<std::vector<std::vector<double>>> work;

  std::vector<bool> read;  // rows that were read at all

  // A GPU that runs a kernel and does not compute waits in a collective: seen at 0.14 to 0.43 of
  // its power range (160 of 684 W on an H100, 142 to 180 of 338 W on an A100, 84 of 285 W on an RTX
  // 6000 Ada).
  static constexpr double kWorksAbove = 0.45;
  static constexpr double kRunsAbove = 0.8;
  bool works(std::size_t gpu, std::size_t bin) const;
  bool spins(std::size_t gpu, std::size_t bin) const;
  bool known_at(std::size_t bin) const;
};

Activity activity_of(const Timeline& timeline, const std::vector<int>& gpus, double from_ms,
                     double to_ms);

// Stretches in which fewer than half of the usual number of GPUs work, each at least `shortest_ms`
// long.
StallSignals stalls_of(const Activity& activity, const std::vector<int>& gpus, double shortest_ms);

// A stretch in which some GPU reads busy and none works.
struct Stretch {
  double from_ms = 0;
  double to_ms = 0;
  bool ended = false;  // work came after it
};
std::vector<Stretch> hollow_stretches(const Activity& activity);

}  // namespace lockstep
