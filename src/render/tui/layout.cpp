#include "render/tui/layout.hpp"

#include <algorithm>
#include <ftxui/screen/string.hpp>
#include <set>

#include "render/tui/rank_rows.hpp"
#include "render/words/fleet_words.hpp"

namespace lockstep {
namespace {

constexpr int kTallestLane = 6;
constexpr int kRowsAFinding = 2;  // itself, and its fix

// Rows that a panel would like, its heading included.
int wanted_rows(Panel panel, const Monitored& seen, const MonitorState& state) {
  switch (panel) {
    case Panel::gpus: return static_cast<int>(seen.gpus.size());
    case Panel::steps:
      return state.setup.show_steps && step_rows(seen) > 0 ? 1 + step_rows(seen) : 0;
    case Panel::ranks:
      return state.setup.show_ranks
                 ? 1 + std::max<int>(
                           1, static_cast<int>(rank_rows(seen, state, Workers::shown).size()))
                 : 0;
    case Panel::findings:
      return state.setup.show_findings
                 ? 1 + std::max<int>(
                           1, kRowsAFinding * static_cast<int>(finding_rows(seen, state).size()))
                 : 0;
  }
  return 0;
}

// Shares rows among the panels below the lanes: first a heading and a row for each, the focused one
// first, then the rest.
std::array<int, kPanels> share(int rows, const std::array<int, kPanels>& wanted, Panel focus) {
  constexpr int kLeast = 2;
  constexpr int kRoomForOne = 5;  // then the others would show a heading and next to nothing
  std::array<int, kPanels> given{};
  if (rows <= kRoomForOne) {
    const Panel only = focus != Panel::gpus && wanted[static_cast<std::size_t>(focus)] > 0 ? focus
                       : wanted[3] > 0 ? Panel::findings
                       : wanted[2] > 0 ? Panel::ranks
                                       : Panel::steps;
    const auto i = static_cast<std::size_t>(only);
    if (rows >= kLeast) given[i] = std::min(rows, wanted[i]);
    return given;
  }
  std::array<Panel, 4> order = {focus, Panel::findings, Panel::ranks, Panel::steps};
  for (const Panel panel : order) {
    const auto i = static_cast<std::size_t>(panel);
    if (panel == Panel::gpus || given[i] > 0 || wanted[i] == 0 || rows < kLeast) continue;
    given[i] = kLeast;
    rows -= kLeast;
  }
  for (bool changed = true; changed && rows > 0;) {
    changed = false;
    for (const Panel panel : order) {
      const auto i = static_cast<std::size_t>(panel);
      if (panel == Panel::gpus || given[i] == 0 || given[i] >= wanted[i] || rows == 0) continue;
      if (panel == focus && changed) continue;  // it stands twice in the order
      ++given[i];
      --rows;
      changed = true;
    }
  }
  return given;
}

void place_columns(const Monitored& seen, Layout& layout) {
  for (const GpuNow& gpu : seen.gpus)
    if (gpu.info.host && layout.columns >= 80)
      layout.lane_x = std::max(layout.lane_x, ftxui::string_width(short_gpu_label(gpu.info)) + 1);
  const bool wide = layout.columns >= 100;
  layout.all_numbers = layout.columns >= 72;
  const int numbers = layout.all_numbers ? 34 : 12;  // " 100%  80%  650/700W   71/80G  65C"
  layout.word_columns = wide ? 25 : 10;
  layout.word_x = layout.columns - layout.word_columns;
  layout.numbers_x = layout.word_x - numbers - 1;
  layout.lane_columns = std::max(1, layout.numbers_x - layout.lane_x);
}

}  // namespace

int step_rows(const Monitored& seen) {
  std::set<int> ranks;
  for (const StepAt& entry : seen.steps) ranks.insert(entry.step.rank);
  return static_cast<int>(ranks.size());
}

Layout layout_of(const Monitored& seen, const MonitorState& state, int columns, int rows) {
  Layout layout;
  layout.columns = columns;
  layout.rows = rows;
  if (layout.too_small()) return layout;
  place_columns(seen, layout);

  std::array<int, kPanels> wanted{};
  for (std::size_t i = 0; i < kPanels; ++i)
    wanted[i] = wanted_rows(static_cast<Panel>(i), seen, state);
  const int gpus = std::max(1, wanted[0]);
  const int verdict_rows = rows >= 16 ? 2 : 1;
  const int body = rows - 3 - verdict_rows;  // title, axis, footer
  const bool panels_wanted = wanted[1] + wanted[2] + wanted[3] > 0;
  // Lanes come first, but leave room for a panel: what is wrong is said there.
  const int for_panels = panels_wanted ? std::max(3, body - gpus > 0 ? body - gpus : 0) : 0;
  int lanes = std::min(gpus, body - for_panels);
  std::array<int, kPanels> given = share(body - lanes, wanted, state.focus);
  int left = body - lanes;
  for (const int height : given) left -= height;
  layout.gpus_shown = lanes;
  if (lanes == gpus) layout.lane_rows = std::clamp(1 + left / gpus, 1, kTallestLane);
  lanes = layout.gpus_shown * layout.lane_rows;

  int y = 0;
  const auto place = [&y](int height) {
    const Band band{y, height};
    y += height;
    return band;
  };
  layout.title = place(1);
  layout.verdict = place(verdict_rows);
  layout.axis = place(1);
  layout.lanes = place(lanes);
  for (const Panel panel : {Panel::steps, Panel::ranks, Panel::findings})
    layout.panels[static_cast<std::size_t>(panel)] = place(given[static_cast<std::size_t>(panel)]);
  layout.footer = {rows - 1, 1};
  layout.fold_workers =
      state.order == RankOrder::tree && given[static_cast<std::size_t>(Panel::ranks)] <
                                            wanted[static_cast<std::size_t>(Panel::ranks)];

  const int selected = std::clamp(state.selected[0], 0, gpus - 1);
  layout.first_gpu = first_shown(selected, gpus, layout.gpus_shown);
  return layout;
}

}  // namespace lockstep
