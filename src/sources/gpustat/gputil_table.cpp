#include "sources/gpustat/gputil_table.hpp"

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kColumns = 3;

// Of "|  0 | 11% |  4% |" the three cells.
std::vector<std::string_view> cells_of(std::string_view line) {
  line = trim(line);
  if (!line.starts_with('|') || !line.ends_with('|') || line.size() < 2) return {};
  std::vector<std::string_view> cells;
  for (const std::string_view cell : split(line.substr(1, line.size() - 2), '|'))
    cells.push_back(trim(cell));
  return cells.size() == kColumns ? cells : std::vector<std::string_view>();
}

std::optional<double> percent(std::string_view text) {
  const auto cell = parse_cell(text);
  return cell && cell->unit == Unit::percent ? std::optional(cell->value / 100) : std::nullopt;
}

}  // namespace

std::optional<ParsedLog> parse_gputil_table(const std::vector<std::string>& lines) {
  LogBuilder builder(SourceKind::csv, ProcessCoverage::none);
  bool in_table = false;
  bool any = false;
  for (const std::string& line : lines) {
    const auto cells = cells_of(line);
    if (cells.empty()) {
      in_table = in_table && trim(line).starts_with("---");
      continue;
    }
    if (cells[0] == "ID" && cells[1] == "GPU" && cells[2] == "MEM") {
      in_table = true;
      builder.end_tick();
      continue;
    }
    const auto index = parse_integer(cells[0]);
    const auto busy = percent(cells[1]);
    if (!in_table || !index || *index < 0 || *index > 1023 || !busy) continue;
    LogRow row;
    row.gpu = static_cast<int>(*index);
    row.busy = *busy;
    row.memory_fraction = percent(cells[2]);
    builder.add(std::move(row));
    any = true;
  }
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
