#include "sources/csv/csv_layout.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// "gpu0_util", "util_gpu_3", "gpu.1.power": the number behind the last "gpu".
std::optional<int> gpu_in_name(std::string_view name) {
  std::optional<int> found;
  for (auto at = name.find("gpu"); at != std::string_view::npos; at = name.find("gpu", at + 3)) {
    std::size_t digit = at + 3;
    if (digit < name.size() &&
        (name[digit] == '_' || name[digit] == '.' || name[digit] == ' ' || name[digit] == '-'))
      ++digit;
    if (digit < name.size() && name[digit] >= '0' && name[digit] <= '9')
      found = std::atoi(std::string(name.substr(digit, 4)).c_str());
  }
  // "util0", "power_1": a number behind the quantity itself.
  if (!found && !name.empty() && name.back() >= '0' && name.back() <= '9' &&
      (has(name, "util") || has(name, "power") || has(name, "mem") || has(name, "temp"))) {
    std::size_t digit = name.size();
    while (digit > 0 && name[digit - 1] >= '0' && name[digit - 1] <= '9') --digit;
    if (name.size() - digit <= 2) found = std::atoi(std::string(name.substr(digit)).c_str());
  }
  return found;
}

bool has_any(std::string_view name, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* word) { return has(name, word); });
}
bool is_any(std::string_view name, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* word) { return name == word; });
}
bool names_limit(std::string_view name) { return has_any(name, {"limit", "cap", "max"}); }

// Loads of something else than the GPU's own engine.
bool is_of_something_else(std::string_view name) {
  return has_any(name, {"cpu", "encod", "decod", "_enc", "_dec", ".enc", ".dec", "jpeg", "jpg",
                        "ofa", "disk", "swap", "reserved"});
}

bool names_busy(std::string_view name, bool numbered) {
  return has_any(name, {"util", "busy", "gfx_activity", "gpu_activity"}) ||
         is_any(name, {"gpu %", "gpu%", "sm"}) || (numbered && has(name, "load"));
}

CsvRole power_role(std::string_view name) {
  if (has_any(name, {"max_limit", "min_limit", "default"})) return CsvRole::none;
  if (names_limit(name)) return CsvRole::power_limit;
  return has_any(name, {"state", "manag"}) ? CsvRole::none : CsvRole::power;
}

CsvRole memory_role(std::string_view name) {
  if (has_any(name, {"clock", "free", "temp"})) return CsvRole::none;
  if (has(name, "total") || names_limit(name)) return CsvRole::memory_total;
  return unit_in_name(name) == Unit::percent ? CsvRole::memory_share : CsvRole::memory_used;
}

CsvRole clock_role(std::string_view name) {
  if (names_limit(name)) return CsvRole::none;
  return has_any(name, {"sm", "graphics"}) || name == "clock" ? CsvRole::clock : CsvRole::none;
}

bool names_gpu(std::string_view name) {
  return is_any(name, {"index", "gpu", "id", "gpu_index", "gpu_id", "gpu index", "device",
                       "device_id", "gpu id", "gpuid", "rank", "local_rank"}) ||
         name.ends_with("idx") || name.ends_with("gpu_id") || name.ends_with("index");
}

// What a column holds, by its name; the order matters, for names have several of the words.
CsvRole role_of(std::string_view name, bool numbered) {
  if (is_of_something_else(name)) return CsvRole::none;
  // a memory's utilization is its bus's
  if (names_busy(name, numbered)) return has(name, "mem") ? CsvRole::none : CsvRole::busy;
  // before power: "clocks_event_reasons.sw_power_cap"
  if (has_any(name, {"event_reasons", "throttle_reasons"})) {
    if (name.ends_with(".active") || name.ends_with("_active")) return CsvRole::limits_mask;
    return limit_named(name) ? CsvRole::one_limit : CsvRole::none;
  }
  if (has_any(name, {"power", "watt"})) return power_role(name);
  if (has(name, "temp"))
    return names_limit(name) || has(name, "mem") ? CsvRole::none : CsvRole::temperature;
  if (has_any(name, {"mem", "vram"})) return memory_role(name);
  if (has(name, "clock")) return clock_role(name);
  if (has_any(name, {"uuid", "bus_id", "bus-id", "busid"})) return CsvRole::uuid;
  if (has_any(name, {"time", "date"})) return CsvRole::time;
  if (is_any(name, {"name", "gpu_name", "product", "model"})) return CsvRole::name;
  if (!numbered && names_gpu(name)) return CsvRole::gpu;
  if (is_any(name,
             {"t", "ts", "t_s", "t_ms", "t (s)", "epoch", "unix", "sec", "secs", "seconds", "ms"}))
    return CsvRole::time;
  return has(name, "elapsed") ? CsvRole::time : CsvRole::none;
}

double tick_of(std::string_view name) {
  if (has(name, "milli") || name.ends_with("ms") || has(name, "(ms") || has(name, "[ms"))
    return 1e-3;
  if (has(name, "minute") || name.ends_with("min") || has(name, "(min")) return 60;
  return 1;
}

// What the cells of a column have in common.
struct ColumnContent {
  Unit unit = Unit::none;
  std::set<double> distinct;
  std::size_t numbers = 0;
  bool whole = true;
  double least = 1e300;
  double most = -1e300;
};

// Nothing: a row is too short to have it.
std::optional<ColumnContent> content_of(const CsvRows& rows, std::size_t at) {
  ColumnContent content;
  for (const auto& row : rows) {
    if (at >= row.size()) return std::nullopt;
    const auto cell = parse_cell(row[at]);
    if (!cell) continue;
    ++content.numbers;
    if (cell->unit != Unit::none) content.unit = cell->unit;
    content.whole = content.whole && cell->value == std::floor(cell->value) &&
                    row[at].find('.') == std::string::npos;
    if (content.distinct.size() < 64) content.distinct.insert(cell->value);
    content.least = std::min(content.least, cell->value);
    content.most = std::max(content.most, cell->value);
  }
  return content;
}

// A column that is no number in most rows.
CsvRole role_of_words(const std::string& sample) {
  if (parse_time(sample) && sample.find(':') != std::string::npos) return CsvRole::time;
  if (sample.starts_with("GPU-")) return CsvRole::uuid;
  return has_any(sample, {"NVIDIA", "Tesla", "GeForce", "Quadro"}) ? CsvRole::name : CsvRole::none;
}

using IsTaken = std::function<bool(CsvRole)>;

// 0, 1, 2, ... each at least once: the GPUs' numbers.
bool counts_gpus(const ColumnContent& content, std::size_t rows) {
  return content.whole && content.least == 0 && content.most <= 63 &&
         static_cast<double>(content.distinct.size()) == content.most + 1 &&
         rows >= content.distinct.size();
}

// What a bare number can be, the surest first.
CsvRole role_of_bare_number(const ColumnContent& content, std::size_t rows, const IsTaken& taken) {
  const auto& [unit, distinct, numbers, whole, least, most] = content;
  if (most > 5e8 && !taken(CsvRole::time)) return CsvRole::time;
  if (counts_gpus(content, rows) && !taken(CsvRole::gpu)) return CsvRole::gpu;
  if (whole && most > 200)
    return taken(CsvRole::memory_used) ? CsvRole::memory_total : CsvRole::memory_used;
  if (!whole && most > 3 && !taken(CsvRole::power)) return CsvRole::power;
  const bool may_be_busy = whole && most <= 100 && !taken(CsvRole::busy);
  if (may_be_busy && (least < 15 || most > 97)) return CsvRole::busy;
  if (whole && least >= 15 && most <= 110 && !taken(CsvRole::temperature))
    return CsvRole::temperature;
  return may_be_busy ? CsvRole::busy : CsvRole::none;
}

CsvRole role_of_number(const ColumnContent& content, std::size_t rows, const IsTaken& taken) {
  switch (content.unit) {
    case Unit::percent: return taken(CsvRole::busy) ? CsvRole::none : CsvRole::busy;
    case Unit::watt:
    case Unit::milliwatt:
      if (!taken(CsvRole::power)) return CsvRole::power;
      return content.distinct.size() <= rows / 2 + 1 ? CsvRole::power_limit : CsvRole::none;
    case Unit::mebibyte:
    case Unit::gibibyte:
    case Unit::megabyte:
    case Unit::gigabyte:
    case Unit::byte:
      return taken(CsvRole::memory_used) ? CsvRole::memory_total : CsvRole::memory_used;
    case Unit::megahertz: return taken(CsvRole::clock) ? CsvRole::none : CsvRole::clock;
    case Unit::celsius: return CsvRole::temperature;
    case Unit::none: return role_of_bare_number(content, rows, taken);
  }
  return CsvRole::none;
}

// 0, 1, 0, 1, ...: as nvidia-smi lists them.
bool gpus_come_in_turn(const CsvLayout& layout, const CsvRows& rows) {
  const auto column = std::ranges::find(layout.columns, CsvRole::gpu, &CsvColumn::role);
  const auto at = static_cast<std::size_t>(column - layout.columns.begin());
  std::optional<double> before;
  double gpus = 0;
  for (const auto& row : rows)
    if (const auto cell = parse_cell(row[at])) gpus = std::max(gpus, cell->value + 1);
  return std::ranges::all_of(rows, [&](const auto& row) {
    const auto cell = parse_cell(row[at]);
    if (!cell) return false;
    const bool next = cell->value == (before ? std::fmod(*before + 1, gpus) : 0);
    before = cell->value;
    return next;
  });
}

// Columns of memory without a header: one is what is used; of two the larger is the total. Which of
// several, or of what is used and what is free, no number tells: then none is taken for it.
void settle_memory(CsvLayout& layout, const CsvRows& rows) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const CsvRole role = layout.columns[at].role;
    if (role == CsvRole::memory_used || role == CsvRole::memory_total) found.push_back(at);
  }
  if (found.size() < 2) return;
  const auto value = [](const std::vector<std::string>& row, std::size_t at) {
    const auto cell = parse_cell(row[at]);
    return cell ? cell->value : 0.0;
  };
  const std::size_t total =
      *std::ranges::max_element(found, {}, [&](std::size_t at) { return value(rows.front(), at); });
  const auto content = content_of(rows, total);
  const bool is_total = content && content->distinct.size() <= 1;
  for (const std::size_t at : found) layout.columns[at].role = CsvRole::none;
  if (found.size() > 3 || (found.size() == 3 && !is_total)) return;
  layout.columns[total].role = CsvRole::memory_total;
  if (found.size() == 3) return;
  const std::size_t other = found.front() == total ? found.back() : found.front();
  // What is used and what is free, small as it may be, make up the total, but for what the driver
  // keeps.
  constexpr double kMakesUp = 0.95;
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    if (at == other || at == total || layout.columns[at].role == CsvRole::gpu) continue;
    const bool complements = std::ranges::all_of(rows, [&](const auto& row) {
      const double sum = value(row, at) + value(row, other);
      return parse_cell(row[at]) && value(row, at) > 0 && sum <= value(row, total) &&
             sum >= kMakesUp * value(row, total);
    });
    if (complements && value(rows.front(), other) > 0.5 * value(rows.front(), total)) return;
  }
  layout.columns[other].role = CsvRole::memory_used;
}

// Bare whole numbers of 15 to 110 may be degrees, percent, or a fan's: of several nobody knows
// which.
void settle_temperature(CsvLayout& layout, const CsvRows& rows) {
  std::size_t candidates = 0;
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const CsvColumn& column = layout.columns[at];
    if (column.role != CsvRole::none && column.role != CsvRole::temperature) continue;
    const auto content = content_of(rows, at);
    if (content && content->unit == Unit::none && content->numbers == rows.size() &&
        content->whole && content->least >= 15 && content->most <= 110)
      ++candidates;
  }
  if (candidates < 2) return;
  for (CsvColumn& column : layout.columns)
    if (column.role == CsvRole::temperature && column.unit == Unit::none)
      column.role = CsvRole::none;
}

}  // namespace

char separator_of(std::string_view line) {
  for (const char c : {',', '\t', ';'})
    if (has(line, std::string_view(&c, 1))) return c;
  return ',';
}

std::optional<CsvLayout> layout_by_names(std::string_view line, char separator) {
  if (has(line, "--query-") || has(line, "--format")) return std::nullopt;  // the command itself
  const auto names = csv_cells(line, separator);
  CsvLayout layout;
  layout.header = true;
  std::size_t numbers = 0;
  for (const std::string& raw : names) {
    const std::string name = lower_case(raw);
    const auto gpu = gpu_in_name(name);
    CsvColumn column{role_of(name, gpu.has_value()), unit_in_name(name), gpu, limit_named(name),
                     tick_of(name)};
    const bool repeated = column.role != CsvRole::time && column.role != CsvRole::one_limit &&
                          std::ranges::any_of(layout.columns, [&](const CsvColumn& other) {
                            return other.role == column.role && other.gpu == column.gpu;
                          });
    if (repeated)
      column.role = CsvRole::none;  // the first column of a kind is the one that is meant
    layout.wide = layout.wide || (gpu && column.role != CsvRole::none);
    layout.columns.push_back(column);
    numbers += parse_cell(raw) ? 1U : 0U;
  }
  const bool is_one_column = names.size() == 1 && has(line, "utilization.gpu");
  // nvidia-smi --query-gpu=memory.used,memory.free tells no more, and is meant for readings
  const bool is_of_memory =
      has(line, "memory.used") && std::ranges::any_of(layout.columns, [](const CsvColumn& column) {
        return column.role == CsvRole::memory_used;
      });
  if (numbers * 2 > names.size() || (names.size() < 2 && !is_one_column) ||
      (!layout.usable() && !is_of_memory))
    return std::nullopt;
  return layout;
}

// Without a header the cells must tell: dates, units, names; then what a bare number can be.
std::optional<CsvLayout> layout_by_content(const CsvRows& rows) {
  if (rows.empty() || rows.front().size() < 2) return std::nullopt;
  CsvLayout layout;
  layout.columns.resize(rows.front().size());
  const IsTaken taken = [&](CsvRole role) {
    return std::ranges::any_of(layout.columns,
                               [&](const CsvColumn& column) { return column.role == role; });
  };
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const auto content = content_of(rows, at);
    if (!content) return std::nullopt;
    CsvColumn& column = layout.columns[at];
    column.unit = content->unit;
    column.role = content->numbers * 2 < rows.size() ? role_of_words(rows.front()[at])
                                                     : role_of_number(*content, rows.size(), taken);
  }
  settle_memory(layout, rows);
  settle_temperature(layout, rows);
  const bool any_unit = std::ranges::any_of(layout.columns, [](const CsvColumn& column) {
    return column.unit == Unit::percent || column.unit == Unit::watt ||
           column.unit == Unit::mebibyte;
  });
  // Bare numbers alone may be anything: a time or GPUs that come in turn make a log of them.
  const bool clear = any_unit || (taken(CsvRole::time) && taken(CsvRole::busy)) ||
                     (taken(CsvRole::gpu) && taken(CsvRole::busy) && taken(CsvRole::power) &&
                      taken(CsvRole::memory_used) && gpus_come_in_turn(layout, rows));
  return layout.usable() && clear ? std::optional(layout) : std::nullopt;
}

}  // namespace lockstep
