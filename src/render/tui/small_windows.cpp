#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "render/tui/handle_input.hpp"
#include "render/tui/key_table.hpp"
#include "render/tui/panels.hpp"
#include "render/tui/setup_rows.hpp"

namespace lockstep {
namespace {

Line menu_line(std::string text, bool selected) {
  Line line(std::move(text));
  if (selected) line.inverted();
  return line;
}

}  // namespace

Window help_window(const Scene& scene) {
  Window window{"help", {}, std::get<HelpView>(scene.state.overlay).scroll, true};
  for (const KeyRow& row : key_table()) {
    if (row.scope == KeyScope::live && !scene.seen.live()) continue;
    if (row.scope == KeyScope::replay && scene.seen.live()) continue;
    if (row.action == Action::signal && scene.state.read_only) continue;
    std::vector<std::string> names;
    for (const Key& entry : row.keys)
      if (entry.code != KeyCode::unknown) names.push_back(name_of(entry));
    const int name_columns = scene.layout.columns >= 60 ? 16 : 13;
    const auto parts = wrapped(row.words, std::max(10, scene.layout.columns - 2 - name_columns));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Line line;
      line.left(i == 0 ? join(names, " ") : "", name_columns, {Tone::accent, true, false})
          .add(parts[i]);
      window.lines.push_back(std::move(line));
    }
  }
  window.lines.emplace_back();
  for (const std::string_view sentence :
       {"The mouse selects, opens what is selected, reads a moment of the lanes, and zooms them "
        "with its wheel.",
        "Colour marks the problem, not the load: red is idle while others work, late, lost or "
        "throttled; yellow waits; green works. The word beside it says the same."})
    for (const std::string& part :
         wrapped(sentence, std::max(10, std::min(100, scene.layout.columns - 2))))
      window.lines.emplace_back(part, Style{Tone::faint, false, false});
  return window;
}

Window sort_window(const Scene& scene) {
  Window window{"sort ranks by", {}, 0, false};
  const int selected = std::get<SortMenu>(scene.state.overlay).selected;
  for (std::size_t i = 0; i < kRankOrderNames.size(); ++i)
    window.lines.push_back(
        menu_line(fmt::format(" {:<16}", kRankOrderNames[i]), static_cast<int>(i) == selected));
  return window;
}

Window setup_window(const Scene& scene) {
  Window window{"setup", {}, 0, false};
  const int selected = std::get<SetupView>(scene.state.overlay).selected;
  const auto rows = setup_rows(scene.state.setup);
  for (std::size_t i = 0; i < rows.size(); ++i)
    window.lines.push_back(menu_line(fmt::format(" {:<16} {:<12}", rows[i].name, rows[i].value),
                                     static_cast<int>(i) == selected));
  window.lines.emplace_back();
  window.lines.emplace_back(" Space changes; Esc saves and closes",
                            Style{Tone::faint, false, false});
  return window;
}

Window signal_window(const Scene& scene) {
  const auto& menu = std::get<SignalMenu>(scene.state.overlay);
  const int columns = std::max(20, std::min(70, scene.layout.columns - 6));
  Window window{menu.asked ? "are you sure?" : "send a signal", {}, 0, false};
  window.lines.emplace_back(cut(fmt::format("to {} ({})", menu.pid, menu.of), columns));
  window.lines.emplace_back();
  const auto signals = offered_signals();
  if (menu.asked) {
    const SignalRow& row = signals[static_cast<std::size_t>(menu.selected)];
    window.lines.emplace_back(fmt::format("{}: {}", row.name, row.words),
                              Style{Tone::problem, true, false});
    window.lines.emplace_back("y sends it, any other key does not");
    return window;
  }
  for (std::size_t i = 0; i < signals.size(); ++i)
    window.lines.push_back(
        menu_line(cut(fmt::format(" {:<9} {} ", signals[i].name, signals[i].words), columns),
                  static_cast<int>(i) == menu.selected));
  return window;
}

}  // namespace lockstep
