#include "sources/rocm_smi/rocm_smi_list.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

using PutListed = void (*)(double value, LogRow& row);

struct ListedQuantity {
  std::string_view name;
  PutListed put;
};

constexpr std::array<ListedQuantity, 9> kListedQuantities = {{
    {"GPU use (%)", [](double value, LogRow& row) { row.busy = value / 100; }},
    {"GPU Memory Allocated (VRAM%)",
     [](double value, LogRow& row) { row.memory_fraction = value / 100; }},
    {"VRAM Total Memory (B)", [](double value, LogRow& row) { row.memory_total_bytes = value; }},
    {"VRAM Total Used Memory (B)",
     [](double value, LogRow& row) { row.memory_used_bytes = value; }},
    {"Current Socket Graphics Package Power (W)",
     [](double value, LogRow& row) { row.power_mw = value * 1e3; }},
    {"Average Graphics Package Power (W)",
     [](double value, LogRow& row) { row.power_mw = value * 1e3; }},
    {"Max Graphics Package Power (W)",
     [](double value, LogRow& row) { row.power_limit_mw = value * 1e3; }},
    {"Temperature (Sensor edge) (C)", [](double value, LogRow& row) { row.temperature_c = value; }},
    {"Temperature (Sensor junction) (C)",
     [](double value, LogRow& row) { row.temperature_c = value; }},
}};

struct ListedValue {
  int gpu = 0;
  std::string_view name;
  std::string_view value;
};

std::optional<ListedValue> listed_value(std::string_view line) {
  constexpr std::string_view kBegin = "GPU[";
  if (!line.starts_with(kBegin)) return std::nullopt;
  const auto close = line.find(']');
  const auto colon = line.find(':');
  if (close == std::string_view::npos || colon == std::string_view::npos || colon < close)
    return std::nullopt;
  const auto gpu = parse_integer(line.substr(kBegin.size(), close - kBegin.size()));
  const std::string_view rest = trim(line.substr(colon + 1));
  const auto end = rest.find(": ");
  if (!gpu || *gpu < 0 || *gpu > 1023 || end == std::string_view::npos) return std::nullopt;
  return ListedValue{static_cast<int>(*gpu), rest.substr(0, end), trim(rest.substr(end + 2))};
}

}  // namespace

std::optional<ParsedLog> parse_rocm_smi_list(const std::vector<std::string>& lines) {
  LogBuilder builder(SourceKind::csv, ProcessCoverage::none);
  std::map<int, LogRow> rows;
  std::set<std::pair<int, std::string_view>> seen;
  bool any = false;
  const auto end_look = [&] {
    for (auto& [gpu, row] : rows) builder.add(std::move(row));
    builder.end_tick();
    rows.clear();
    seen.clear();
  };
  for (const std::string& line : lines) {
    const auto entry = listed_value(line);
    if (!entry) continue;
    if (entry->name == "Card Series" || entry->name == "Card series")
      rows[entry->gpu].name = std::string(entry->value);
    const auto quantity = std::ranges::find(kListedQuantities, entry->name, &ListedQuantity::name);
    const auto cell = parse_cell(entry->value);
    if (quantity == kListedQuantities.end() || !cell) continue;
    // said once more: the next look
    if (!seen.emplace(entry->gpu, quantity->name).second) end_look();
    seen.emplace(entry->gpu, quantity->name);
    rows[entry->gpu].gpu = entry->gpu;
    quantity->put(cell->value, rows[entry->gpu]);
    any = any || rows[entry->gpu].busy || rows[entry->gpu].power_mw;
  }
  end_look();
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
