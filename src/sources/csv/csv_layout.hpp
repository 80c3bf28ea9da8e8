// What the columns of a CSV file hold, by their names or by what stands in them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sources/parsed/cells.hpp"

namespace lockstep {

enum class CsvRole {
  none,
  time,
  gpu,
  name,
  uuid,
  busy,
  memory_used,
  memory_total,
  memory_share,
  power,
  power_limit,
  temperature,
  clock,
  limits_mask,  // of clock limits
  one_limit     // "Active" or not
};

struct CsvColumn {
  CsvRole role = CsvRole::none;
  Unit unit = Unit::none;
  std::optional<int> gpu;  // a column of one GPU: gpu0_util
  std::optional<ClockLimit> limit = {};
  double tick_s = 1;  // of a time that counts from the start: "elapsed_ms", "Time (s)"
};

struct CsvLayout {
  std::vector<CsvColumn> columns;
  bool header = false;
  bool wide = false;

  bool usable() const {
    return std::ranges::any_of(columns, [](const CsvColumn& column) {
      return column.role == CsvRole::busy || column.role == CsvRole::power;
    });
  }
};

using CsvRows = std::vector<std::vector<std::string>>;

char separator_of(std::string_view line);
// Nothing: the line is no header of readings.
std::optional<CsvLayout> layout_by_names(std::string_view line, char separator);
// Of rows without a header. Nothing: they do not tell.
std::optional<CsvLayout> layout_by_content(const CsvRows& rows);

}  // namespace lockstep
