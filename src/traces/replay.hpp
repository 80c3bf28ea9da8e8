// What would the step be without this wait? The captured run, played again under other conditions.
//
// The host's calls keep their order and their own lengths, and so do the kernels. What follows from
// what is kept instead of when it was: a kernel begins once it is launched, once its stream is
// free, and once the kernel of another stream that it waited for has ended; a wait of the host ends
// when the kernel does that it waited for; a collective begins to move data when the last rank has
// arrived. Taking one thing away, such as the waits for data, then shows what the whole would take:
// waits that hide behind others give nothing back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/record.hpp"
#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"
#include "traces/collectives.hpp"
#include "traces/replay_model.hpp"

namespace lockstep {

// What is left out. By default nothing is: the run as it was.
struct WhatIf {
  // the host's time of these parts, waits for copies and the GPU among them
  std::array<bool, kStepSpanNames.size()> without{};
  // the host's own work on operators takes no time
  bool free_launches = false;
  // data moves at once, as soon as all have arrived
  bool free_collectives = false;
};

class Replay {
 public:
  Replay(const std::vector<RankRows>& ranks, const std::vector<Collective>& collectives);
  ~Replay();

  // From the first call to the last kernel's end, over all ranks.
  double seconds(const WhatIf& what_if) const;
  double captured_seconds() const;

  // The chain of what waited for what, from the end back to the begin: how long each kind held it
  // up, longest first.
  std::vector<CriticalShare> critical_path() const;

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace lockstep
