// The live screen of `lockstep monitor`: joins the feed, the picture, the keys and the terminal.
#pragma once

#include <filesystem>

#include "lockstep/result.hpp"
#include "monitor/monitor_feed.hpp"
#include "render/tui/monitor_state.hpp"
#include "runs/run_options.hpp"

namespace lockstep {

struct LiveScreenOptions {
  MonitorState start;
  std::optional<std::chrono::nanoseconds> duration;  // then it ends by itself
  std::filesystem::path config;                      // where the setup is kept; empty: nowhere
  // what the terminal and the user's environment allow, whatever the setup says
  bool colors = true;
  bool utf8 = true;
};

// Runs until the user quits; the exit code.
Result<int> run_live_screen(FeedOptions feed, const LiveScreenOptions& options);

}  // namespace lockstep
