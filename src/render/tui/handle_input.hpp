// What a key or a click does: the state before in, the state after out, and what is asked of
// others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/monitor_request.hpp"
#include "monitor/monitored.hpp"
#include "render/tui/key.hpp"
#include "render/tui/layout.hpp"
#include "render/tui/monitor_state.hpp"

namespace lockstep {

struct Reaction {
  MonitorState state;
  std::vector<MonitorRequest> requests;
};

// What the input meets: what is known, and how it lay on the screen.
struct Situation {
  const Monitored& seen;
  Layout layout;
  std::string recording_path;  // where a recording would go
};

Reaction handle(MonitorState state, const Input& input, const Situation& situation);

// The signals that F9 offers, the mildest first.
struct SignalRow {
  int number;
  std::string_view name;
  std::string_view words;
};
std::span<const SignalRow> offered_signals();

}  // namespace lockstep
