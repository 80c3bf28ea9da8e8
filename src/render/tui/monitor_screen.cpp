#include "render/tui/monitor_screen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "render/tui/panels.hpp"

namespace lockstep {
namespace {

std::optional<Window> window_of(const Scene& scene) {
  const Overlay& overlay = scene.state.overlay;
  if (std::holds_alternative<HelpView>(overlay)) return help_window(scene);
  if (std::holds_alternative<DetailView>(overlay)) return detail_window(scene);
  if (std::holds_alternative<SortMenu>(overlay)) return sort_window(scene);
  if (std::holds_alternative<SetupView>(overlay)) return setup_window(scene);
  if (std::holds_alternative<SignalMenu>(overlay)) return signal_window(scene);
  return std::nullopt;
}

std::vector<Line> all_lines(const Scene& scene) {
  std::vector<Line> lines(static_cast<std::size_t>(scene.layout.rows));
  const auto put = [&](const Band& band, std::vector<Line> content) {
    for (std::size_t i = 0; i < content.size() && static_cast<int>(i) < band.height; ++i)
      lines[static_cast<std::size_t>(band.y) + i] = std::move(content[i]);
  };
  put(scene.layout.title, title_lines(scene));
  put(scene.layout.verdict, verdict_lines(scene));
  put(scene.layout.axis, {axis_line(scene)});
  put(scene.layout.lanes, lane_lines(scene));
  put(scene.layout.of(Panel::steps), step_lines(scene));
  put(scene.layout.of(Panel::ranks), rank_lines(scene));
  put(scene.layout.of(Panel::findings), finding_lines(scene));
  put(scene.layout.footer, {footer_line(scene)});
  return lines;
}

// A sentence for a terminal that has no room for anything else.
std::vector<Line> too_small(Size size) {
  std::vector<Line> lines;
  for (std::string& part : wrapped(fmt::format("lockstep needs {}x{}, this is {}x{}; q quits",
                                               kLeastColumns, kLeastRows, size.columns, size.rows),
                                   std::max(1, size.columns)))
    lines.emplace_back(std::move(part));
  return lines;
}

}  // namespace

Frame draw_monitor(const Monitored& seen, const MonitorState& state, Size size,
                   std::string_view (*explain)(FindingCode)) {
  Frame frame;
  frame.size = {std::max(1, size.columns), std::max(1, size.rows)};
  frame.theme.colors = state.setup.colors;
  frame.ascii = state.setup.ascii;
  frame.layout = layout_of(seen, state, size.columns, size.rows);
  if (frame.layout.too_small()) {
    frame.rows = too_small(size);
  } else {
    const Scene scene{seen, state, frame.layout, time_view(seen, state, frame.layout.lane_columns),
                      explain};
    frame.rows = all_lines(scene);
    frame.lanes = lane_strips(scene);
    frame.window = window_of(scene);
    if (frame.window) frame.layout.last_scroll = frame.window->last_scroll(size.rows);
  }
  frame.rows.resize(static_cast<std::size_t>(frame.size.rows));
  return frame;
}

}  // namespace lockstep
