#include "sources/parsed/cells.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace lockstep {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number at the start of the text, which is cut off.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const char* begin = text.data();
  const char* const end = text.data() + text.size();
  if (begin != end && *begin == '+') ++begin;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec != std::errc() || result.ptr == begin || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return value;
}

std::optional<int> take_integer(std::string_view& text, std::size_t digits_at_most) {
  std::size_t count = 0;
  int value = 0;
  while (count < text.size() && count < digits_at_most && is_digit(text[count])) {
    value = value * 10 + (text[count] - '0');
    ++count;
  }
  if (count == 0) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

bool take_any(std::string_view& text, std::string_view wanted) {
  if (text.empty() || wanted.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

double days_since_1970(int year, int month, int day) {
  // Howard Hinnant's civil calendar arithmetic, from its published description.
  const int y = month <= 2 ? year - 1 : year;
  const int era = (y >= 0 ? y : y - 399) / 400;
  const int year_of_era = y - era * 400;
  const int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return static_cast<double>(era) * 146097 + day_of_era - 719468;
}

bool plausible_date(int year, int month, int day) {
  return year >= 1970 && year <= 2200 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

// hh:mm[:ss[.fff]]
std::optional<double> take_time_of_day(std::string_view& text) {
  const auto hour = take_integer(text, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = take_integer(text, 2);
  if (!minute || *hour > 24 || *minute > 59) return std::nullopt;
  double seconds = *hour * 3600.0 + *minute * 60.0;
  if (take(text, ':')) {
    const auto second = take_integer(text, 2);
    if (!second || *second > 60) return std::nullopt;
    seconds += *second;
    if (take_any(text, ".,")) {
      double scale = 0.1;
      while (!text.empty() && is_digit(text.front())) {
        seconds += (text.front() - '0') * scale;
        scale /= 10;
        text.remove_prefix(1);
      }
    }
  }
  return seconds;
}

double take_zone(std::string_view text) {
  text = trim(text);
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return 0;
  const double sign = text.front() == '+' ? 1 : -1;
  text.remove_prefix(1);
  const auto hours = take_integer(text, 2);
  take(text, ':');
  const auto minutes = take_integer(text, 2);
  return hours ? sign * (*hours * 3600.0 + minutes.value_or(0) * 60.0) : 0;
}

// 2025-01-31T12:00:00.123Z, 2025/01/31 12:00:00.123, 20250131 12:00:00
std::optional<double> numeric_date(std::string_view text) {
  const auto year = take_integer(text, 4);
  if (!year || *year < 1970) return std::nullopt;
  const bool separated = take_any(text, "-/.");
  const auto month = take_integer(text, 2);
  if (!month || (separated && !take_any(text, "-/."))) return std::nullopt;
  const auto day = take_integer(text, 2);
  if (!day || !plausible_date(*year, *month, *day)) return std::nullopt;
  const double midnight = days_since_1970(*year, *month, *day) * 86400;
  if (!take_any(text, "T_ "))
    return text.empty() && separated ? std::optional(midnight) : std::nullopt;
  text = trim(text);
  const auto time = take_time_of_day(text);
  if (!time) return std::nullopt;
  return midnight + *time - take_zone(text);
}

// 31.01.2025 12:00:00, 01/31/2025 12:00:00, 01-31-2025 12:00:00. The month comes first but where
// dots part them or it cannot: for a log of one day both are as good.
std::optional<double> year_last_date(std::string_view text) {
  const auto first = take_integer(text, 2);
  if (!first || text.empty()) return std::nullopt;
  const char separator = text.front();
  if (!take_any(text, "-/.")) return std::nullopt;
  const auto second = take_integer(text, 2);
  if (!second || !take(text, separator)) return std::nullopt;
  const auto year = take_integer(text, 4);
  if (!year || *year < 1970) return std::nullopt;
  const bool day_first = separator == '.' || *first > 12;
  const int month = day_first ? *second : *first;
  const int day = day_first ? *first : *second;
  if (!plausible_date(*year, month, day) || !take_any(text, "T_ ,")) return std::nullopt;
  text = trim(text);
  const auto time = take_time_of_day(text);
  if (!time) return std::nullopt;
  return days_since_1970(*year, month, day) * 86400 + *time - take_zone(text);
}

// Wed Apr  9 10:26:15 2025
std::optional<double> ctime_date(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                        "jul", "aug", "sep", "oct", "nov", "dec"};
  const std::string lower = lower_case(text);
  for (std::size_t month = 0; month < kMonths.size(); ++month) {
    const auto at = lower.find(kMonths[month]);
    if (at == std::string::npos || at > 6) continue;
    std::string_view rest = trim(std::string_view(lower).substr(at + 3));
    const auto day = take_integer(rest, 2);
    rest = trim(rest);
    const auto time = take_time_of_day(rest);
    rest = trim(rest);
    while (!rest.empty() && !is_digit(rest.front())) rest.remove_prefix(1);  // a zone's name
    const auto year = take_integer(rest, 4);
    if (day && time && year && plausible_date(*year, static_cast<int>(month) + 1, *day))
      return days_since_1970(*year, static_cast<int>(month) + 1, *day) * 86400 + *time;
  }
  return std::nullopt;
}

std::optional<double> epoch(std::string_view text) {
  std::string_view rest = text;
  const auto value = take_number(rest);
  if (!value || !trim(rest).empty()) return std::nullopt;
  for (const double scale : {1.0, 1e3, 1e6, 1e9})
    if (*value / scale > 5e8 && *value / scale < 5e9) return *value / scale;  // 1985 to 2128
  return std::nullopt;
}

}  // namespace

std::optional<Cell> parse_cell(std::string_view text) {
  text = trim(text);
  const auto value = take_number(text);
  if (!value) return std::nullopt;
  const std::string unit = lower_case(trim(text));
  if (unit.empty()) return Cell{*value, Unit::none};
  if (unit == "%") return Cell{*value, Unit::percent};
  if (unit == "w" || unit == "watt" || unit == "watts") return Cell{*value, Unit::watt};
  if (unit == "mw") return Cell{*value, Unit::milliwatt};
  if (unit == "mib") return Cell{*value, Unit::mebibyte};
  if (unit == "gib") return Cell{*value, Unit::gibibyte};
  if (unit == "mb") return Cell{*value, Unit::megabyte};
  if (unit == "gb") return Cell{*value, Unit::gigabyte};
  if (unit == "b" || unit == "bytes") return Cell{*value, Unit::byte};
  if (unit == "mhz") return Cell{*value, Unit::megahertz};
  if (unit == "c" ||
      unit ==
          "\xC2\xB0"
          "c" ||
      unit == "deg")
    return Cell{*value, Unit::celsius};
  return std::nullopt;
}

Unit unit_in_name(std::string_view name) {
  struct Sign {
    std::string_view word;
    Unit unit;
  };
  // The longer word first: "mib" is no "b", "mw" is no "w".
  constexpr std::array<Sign, 17> kSigns = {{{"percent", Unit::percent},
                                            {"pct", Unit::percent},
                                            {"mib", Unit::mebibyte},
                                            {"gib", Unit::gibibyte},
                                            {"bytes", Unit::byte},
                                            {"milliwatt", Unit::milliwatt},
                                            {"watt", Unit::watt},
                                            {"mhz", Unit::megahertz},
                                            {"%", Unit::percent},
                                            {"[mb]", Unit::megabyte},
                                            {"[gb]", Unit::gigabyte},
                                            {"_mb", Unit::megabyte},
                                            {"_gb", Unit::gigabyte},
                                            {"(mb)", Unit::megabyte},
                                            {"(gb)", Unit::gigabyte},
                                            {"_mw", Unit::milliwatt},
                                            {"(mw)", Unit::milliwatt}}};
  for (const Sign& sign : kSigns)
    if (name.find(sign.word) != std::string_view::npos) return sign.unit;
  if (name.ends_with("_w") || name.ends_with("[w]") || name.ends_with("(w)")) return Unit::watt;
  if (name.ends_with(" mb")) return Unit::megabyte;
  if (name.ends_with(" gb")) return Unit::gigabyte;
  return Unit::none;
}

std::optional<double> as_bytes(double value, Unit unit) {
  switch (unit) {
    case Unit::mebibyte: return value * 1048576;
    case Unit::gibibyte: return value * 1073741824;
    case Unit::megabyte: return value * 1e6;
    case Unit::gigabyte: return value * 1e9;
    case Unit::byte: return value;
    case Unit::none:  // nvidia-smi's own unit, unless the number is too large for it
      return value > 1e7 ? value : value * 1048576;
    default: return std::nullopt;
  }
}

std::optional<double> as_milliwatts(double value, Unit unit) {
  if (unit == Unit::milliwatt) return value;
  if (unit == Unit::watt) return value * 1e3;
  if (unit == Unit::none) return value > 3000 ? value : value * 1e3;  // no GPU draws 3 kW
  return std::nullopt;
}

std::optional<ClockLimits> parse_limits_mask(std::string_view text) {
  text = trim(text);
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  std::uint64_t mask = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + 2, end, mask, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  ClockLimits limits;
  for (std::size_t bit = 0; bit < kClockLimitNames.size(); ++bit)
    if ((mask >> bit & 1U) != 0) limits.add(static_cast<ClockLimit>(bit));
  return limits;
}

std::optional<ClockLimit> limit_named(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, ' ', '_');
  // The longer name first: "hw_slowdown" stands in no other, "sw_power_cap" in "sw_power_capping".
  for (const ClockLimit limit :
       {ClockLimit::hw_thermal_slowdown, ClockLimit::hw_power_brake_slowdown,
        ClockLimit::sw_thermal_slowdown, ClockLimit::hw_slowdown, ClockLimit::sw_power_cap,
        ClockLimit::sync_boost, ClockLimit::applications_clocks_setting, ClockLimit::gpu_idle,
        ClockLimit::display_clock_setting}) {
    const auto known = kClockLimitNames[static_cast<std::size_t>(limit)];
    const auto at = words.find(known);
    if (at == std::string::npos) continue;
    const std::size_t behind = at + known.size();
    if (behind == words.size() || words[behind] == '_' || words[behind] == '.') return limit;
  }
  // nvidia-smi's own word in the full table is "HW Power Brake Slowdown"; "Idle" stands for itself
  return words == "idle" ? std::optional(ClockLimit::gpu_idle) : std::nullopt;
}

std::optional<double> parse_time(std::string_view text) {
  text = trim(text);
  if (text.size() < 5 || text.size() > 48) return std::nullopt;
  if (const auto date = numeric_date(text)) return date;
  if (const auto date = year_last_date(text)) return date;
  if (const auto date = ctime_date(text)) return date;
  std::string_view rest = text;
  if (const auto time = take_time_of_day(rest); time && trim(rest).empty()) return time;
  return epoch(text);
}

std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const auto begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const auto end = text.find_first_of(" \t");
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end);
  }
}

std::vector<std::string> csv_cells(std::string_view line, char separator) {
  std::vector<std::string> cells;
  std::string cell;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == separator && !quoted) {
      cells.emplace_back(trim(cell));
      cell.clear();
    } else {
      cell += c;
    }
  }
  cells.emplace_back(trim(cell));
  return cells;
}

}  // namespace lockstep
