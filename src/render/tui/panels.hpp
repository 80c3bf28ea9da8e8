// The parts of the live screen. Each writes the rows of its band; none knows of the others.
#pragma once

#include <string_view>
#include <vector>

#include "monitor/monitored.hpp"
#include "render/tui/layout.hpp"
#include "render/tui/monitor_screen.hpp"
#include "render/tui/monitor_state.hpp"
#include "render/tui/style.hpp"
#include "render/tui/time_view.hpp"

namespace lockstep {

// What every part draws from.
struct Scene {
  const Monitored& seen;
  const MonitorState& state;
  const Layout& layout;
  TimeView view;
  std::string_view (*explain)(FindingCode) = nullptr;  // a finding's page; may be none
};

std::vector<Line> title_lines(const Scene& scene);
std::vector<Line> verdict_lines(const Scene& scene);
Line axis_line(const Scene& scene);
std::vector<Line> lane_lines(const Scene& scene);  // what stands beside the lanes
std::vector<LaneStrip> lane_strips(const Scene& scene);
std::vector<Line> step_lines(const Scene& scene);
std::vector<Line> rank_lines(const Scene& scene);
std::vector<Line> finding_lines(const Scene& scene);
Line footer_line(const Scene& scene);

// What lies over the screen.
Window help_window(const Scene& scene);
Window detail_window(const Scene& scene);
Window sort_window(const Scene& scene);
Window setup_window(const Scene& scene);
Window signal_window(const Scene& scene);

// "── ranks ─────": the heading of a panel, brighter where the keys go.
Line heading(const Scene& scene, Panel panel, std::string_view words, std::string_view right = {});

}  // namespace lockstep
