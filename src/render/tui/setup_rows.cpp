#include "render/tui/setup_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "render/tui/time_view.hpp"

namespace lockstep {
namespace {

constexpr std::array kLaneQuantities = {Quantity::busy,  Quantity::sm,     Quantity::tensor,
                                        Quantity::power, Quantity::memory, Quantity::pcie,
                                        Quantity::nvlink};

Quantity next_quantity(Quantity now, int by) {
  const auto at = std::ranges::find(kLaneQuantities, now) - kLaneQuantities.begin();
  const auto count = static_cast<std::ptrdiff_t>(kLaneQuantities.size());
  return kLaneQuantities[static_cast<std::size_t>((at % count + by + count) % count)];
}

}  // namespace

std::vector<SetupRow> setup_rows(const MonitorSetup& setup) {
  const auto shown = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  return {{"lanes show", std::string(kQuantityNames[static_cast<std::size_t>(setup.lanes)])},
          {"time a column", column_words(setup.column_ms)},
          {"steps panel", shown(setup.show_steps)},
          {"ranks panel", shown(setup.show_ranks)},
          {"findings panel", shown(setup.show_findings)},
          {"colours", shown(setup.colors)},
          {"plain ASCII", shown(setup.ascii)}};
}

void change_setup(MonitorSetup& setup, int row, int by) {
  switch (row) {
    case kLanesRow: setup.lanes = next_quantity(setup.lanes, by); return;
    case 1: setup.column_ms = by > 0 ? coarser(setup.column_ms) : finer(setup.column_ms); return;
    case 2: setup.show_steps = !setup.show_steps; return;
    case 3: setup.show_ranks = !setup.show_ranks; return;
    case 4: setup.show_findings = !setup.show_findings; return;
    case 5: setup.colors = !setup.colors; return;
    case 6: setup.ascii = !setup.ascii; return;
    default: return;
  }
}

}  // namespace lockstep
