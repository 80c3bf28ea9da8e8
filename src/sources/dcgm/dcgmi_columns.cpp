#include "sources/dcgm/dcgmi_columns.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

using Put = void (*)(double value, LogRow& row);

struct Field {
  std::string_view name;  // as the heading has it
  Put put;
};

// DCGM's short names of the fields that say what a GPU does.
constexpr std::array<Field, 11> kFields = {{
    {"GPUTL", [](double value, LogRow& row) { row.busy = value / 100; }},
    // a share of the time, too, in which the GPU's engine worked
    {"GRACT", [](double value, LogRow& row) { row.busy = row.busy.value_or(value); }},
    {"POWER", [](double value, LogRow& row) { row.power_mw = value * 1e3; }},
    {"TMPTR", [](double value, LogRow& row) { row.temperature_c = value; }},
    {"FBUSD", [](double value, LogRow& row) { row.memory_used_bytes = value * 1048576; }},
    {"FBTTL", [](double value, LogRow& row) { row.memory_total_bytes = value * 1048576; }},
    {"SMCLK", [](double value, LogRow& row) { row.sm_clock_mhz = value; }},
    {"PMLMT", [](double value, LogRow& row) { row.power_limit_mw = value * 1e3; }},
    {"SMACT", [](double value, LogRow& row) { row.sm = value; }},
    {"TENSO", [](double value, LogRow& row) { row.tensor = value; }},
    {"DRAMA", [](double value, LogRow& row) { row.dram = value; }},
}};

const Field* field_named(std::string_view name) {
  const auto found = std::ranges::find(kFields, name, &Field::name);
  return found == kFields.end() ? nullptr : &*found;
}

// "#Entity   GPUTL   POWER": the fields in their order, null for one that is of no use here.
std::optional<std::vector<const Field*>> heading(const std::string& line) {
  const auto words = words_in(line);
  if (words.size() < 2 || (words[0] != "#Entity" && !(words[0] == "#" && words[1] == "Entity")))
    return std::nullopt;
  std::vector<const Field*> fields;
  for (std::size_t i = words[0] == "#" ? 2 : 1; i < words.size(); ++i)
    fields.push_back(field_named(words[i]));
  return fields;
}

}  // namespace

std::optional<ParsedLog> parse_dcgmi_columns(const std::vector<std::string>& lines) {
  std::vector<const Field*> fields;
  LogBuilder builder(SourceKind::csv, ProcessCoverage::none);
  bool any = false;
  for (const std::string& line : lines) {
    if (auto found = heading(line)) {
      fields = std::move(*found);
      continue;
    }
    const auto words = words_in(line);
    if (fields.empty() || words.size() < 3 || words[0] != "GPU") continue;
    const auto index = parse_integer(words[1]);
    if (!index || *index < 0 || *index > 1023) continue;
    LogRow row;
    row.gpu = static_cast<int>(*index);
    for (std::size_t i = 0; i < fields.size() && i + 2 < words.size(); ++i) {
      const auto cell = parse_cell(words[i + 2]);
      if (fields[i] == nullptr || !cell) continue;
      fields[i]->put(cell->value, row);
      any = true;
    }
    builder.add(std::move(row));
  }
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
