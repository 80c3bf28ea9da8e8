#include "sources/rocm_smi/rocm_smi_table.hpp"

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

// "GPU  Temp (DieEdge)  AvgPwr  SCLK ... VRAM%  GPU%", or "Device  Node ...": what stands between
// differs from version to version, the last three columns do not.
bool is_heading(std::string_view line) {
  const auto words = words_in(line);
  return words.size() > 4 && (words.front() == "GPU" || words.front() == "Device") &&
         words[words.size() - 2] == "VRAM%" && words.back() == "GPU%";
}

std::optional<double> number_before(std::string_view word, std::string_view unit) {
  if (!word.ends_with(unit)) return std::nullopt;
  const auto cell = parse_cell(word.substr(0, word.size() - unit.size()));
  return cell && cell->unit == Unit::none ? std::optional(cell->value) : std::nullopt;
}

// "0  [0x74a1 : 0x00]  45.0°C  173.0W  NPS1, SPX  132Mhz  900Mhz  0%  auto  750.0W  17%  98%"
std::optional<LogRow> row_of(std::string_view line) {
  const auto words = words_in(line);
  const auto index = words.size() < 5 ? std::nullopt : parse_integer(words.front());
  if (!index || *index < 0 || *index > 1023) return std::nullopt;
  const auto percent_at = [&](std::size_t from_the_end) {
    const auto share = number_before(words[words.size() - from_the_end], "%");
    return share ? std::optional(*share / 100) : std::nullopt;
  };
  LogRow row;
  row.gpu = static_cast<int>(*index);
  row.busy = percent_at(1);
  row.memory_fraction = percent_at(2);
  const auto limit = number_before(words[words.size() - 3], "W");
  if (limit) row.power_limit_mw = *limit * 1e3;
  for (std::size_t i = 1; i + 3 < words.size(); ++i) {
    for (const std::string_view degrees : {"\xC2\xB0"
                                           "C",
                                           "c", "C"})
      if (const auto heat = number_before(words[i], degrees); heat && !row.temperature_c)
        row.temperature_c = *heat;
    if (const auto power = number_before(words[i], "W"); power && !row.power_mw)
      row.power_mw = *power * 1e3;
    if (const auto clock = number_before(words[i], "Mhz"); clock && !row.sm_clock_mhz)
      row.sm_clock_mhz = *clock;  // SCLK stands before MCLK
  }
  return row.busy || row.power_mw ? std::optional(row) : std::nullopt;
}

}  // namespace

std::optional<ParsedLog> parse_rocm_smi_table(const std::vector<std::string>& lines) {
  LogBuilder builder(SourceKind::csv, ProcessCoverage::none);
  std::optional<LogRow> row;  // its name may stand in the next line
  bool in_table = false;
  bool has_rows = false;
  bool any = false;
  const auto add = [&] {
    if (row) builder.add(std::move(*row));
    any = any || row.has_value();
    row.reset();
  };
  for (const std::string& line : lines) {
    if (is_heading(line)) {
      add();
      builder.end_tick();
      in_table = true;
      has_rows = false;
      continue;
    }
    if (!in_table) continue;
    if (auto next = row_of(line)) {
      add();
      row = std::move(next);
      has_rows = true;
    } else if (row && line.starts_with("  ")) {
      row->name = std::string(trim(line));
    } else if (has_rows) {  // before them stand units, and what is left of a terminal's slants
      add();
      in_table = in_table && (line.find("====") != std::string::npos || line.starts_with("  "));
    }
  }
  add();
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
