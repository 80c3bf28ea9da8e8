// Numbers and times as people's logs write them: "97 %", "650.12 W", "[N/A]", "2025/01/31
// 12:00:00.123", epochs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/sample.hpp"

namespace lockstep {

enum class Unit {
  none,
  percent,
  watt,
  milliwatt,
  mebibyte,
  gibibyte,
  megabyte,
  gigabyte,
  byte,
  megahertz,
  celsius
};

struct Cell {
  double value = 0;
  Unit unit = Unit::none;
};

// A number with or without a unit behind it. Nothing for N/A, "-", ERR!, NaN and words.
std::optional<Cell> parse_cell(std::string_view text);
// The unit that a column's name carries: "[MiB]", "power_W", "util (%)", "memory_percent".
Unit unit_in_name(std::string_view lower_case_name);
// Bytes, milliwatts and fractions from a value and its unit.
std::optional<double> as_bytes(double value, Unit unit);
std::optional<double> as_milliwatts(double value, Unit unit);

// What holds a clock down, by nvidia-smi's mask ("0x0000000000000004"), which has NVML's bits.
// Nothing: no such number.
std::optional<ClockLimits> parse_limits_mask(std::string_view text);
// The limit that a name has: "clocks_event_reasons.sw_power_cap", "HW Thermal Slowdown".
std::optional<ClockLimit> limit_named(std::string_view lower_case_name);

// Seconds since 1970 from ISO 8601, nvidia-smi's and ctime's forms, or an epoch in s, ms, us or ns.
// A time of day alone counts from midnight. Zones are taken off, but for Z and offsets, which are
// added up.
std::optional<double> parse_time(std::string_view text);

// Words parted by blanks.
std::vector<std::string_view> words_in(std::string_view text);
// Parts of a CSV line, trimmed, quotes taken off.
std::vector<std::string> csv_cells(std::string_view line, char separator);

}  // namespace lockstep
