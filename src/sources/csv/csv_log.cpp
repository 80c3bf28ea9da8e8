#include "sources/csv/csv_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

enum class Role {
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

struct Column {
  Role role = Role::none;
  Unit unit = Unit::none;
  std::optional<int> gpu;  // a column of one GPU: gpu0_util
  std::optional<ClockLimit> limit = {};
  double tick_s = 1;  // of a time that counts from the start: "elapsed_ms", "Time (s)"
};

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

Role power_role(std::string_view name) {
  if (has_any(name, {"max_limit", "min_limit", "default"})) return Role::none;
  if (names_limit(name)) return Role::power_limit;
  return has_any(name, {"state", "manag"}) ? Role::none : Role::power;
}

Role memory_role(std::string_view name) {
  if (has_any(name, {"clock", "free", "temp"})) return Role::none;
  if (has(name, "total") || names_limit(name)) return Role::memory_total;
  return unit_in_name(name) == Unit::percent ? Role::memory_share : Role::memory_used;
}

Role clock_role(std::string_view name) {
  if (names_limit(name)) return Role::none;
  return has_any(name, {"sm", "graphics"}) || name == "clock" ? Role::clock : Role::none;
}

bool names_gpu(std::string_view name) {
  return is_any(name, {"index", "gpu", "id", "gpu_index", "gpu_id", "gpu index", "device",
                       "device_id", "gpu id", "gpuid", "rank", "local_rank"}) ||
         name.ends_with("idx") || name.ends_with("gpu_id") || name.ends_with("index");
}

// What a column holds, by its name; the order matters, for names have several of the words.
Role role_of(std::string_view name, bool numbered) {
  if (is_of_something_else(name)) return Role::none;
  // a memory's utilization is its bus's
  if (names_busy(name, numbered)) return has(name, "mem") ? Role::none : Role::busy;
  // before power: "clocks_event_reasons.sw_power_cap"
  if (has_any(name, {"event_reasons", "throttle_reasons"})) {
    if (name.ends_with(".active") || name.ends_with("_active")) return Role::limits_mask;
    return limit_named(name) ? Role::one_limit : Role::none;
  }
  if (has_any(name, {"power", "watt"})) return power_role(name);
  if (has(name, "temp"))
    return names_limit(name) || has(name, "mem") ? Role::none : Role::temperature;
  if (has_any(name, {"mem", "vram"})) return memory_role(name);
  if (has(name, "clock")) return clock_role(name);
  if (has_any(name, {"uuid", "bus_id", "bus-id", "busid"})) return Role::uuid;
  if (has_any(name, {"time", "date"})) return Role::time;
  if (is_any(name, {"name", "gpu_name", "product", "model"})) return Role::name;
  if (!numbered && names_gpu(name)) return Role::gpu;
  if (is_any(name,
             {"t", "ts", "t_s", "t_ms", "t (s)", "epoch", "unix", "sec", "secs", "seconds", "ms"}))
    return Role::time;
  return has(name, "elapsed") ? Role::time : Role::none;
}

double tick_of(std::string_view name) {
  if (has(name, "milli") || name.ends_with("ms") || has(name, "(ms") || has(name, "[ms"))
    return 1e-3;
  if (has(name, "minute") || name.ends_with("min") || has(name, "(min")) return 60;
  return 1;
}

char separator_of(std::string_view line) {
  for (const char c : {',', '\t', ';'})
    if (has(line, std::string_view(&c, 1))) return c;
  return ',';
}

struct Layout {
  std::vector<Column> columns;
  bool header = false;
  bool wide = false;

  bool usable() const {
    return std::ranges::any_of(columns, [](const Column& column) {
      return column.role == Role::busy || column.role == Role::power;
    });
  }
};

std::optional<Layout> layout_by_names(std::string_view line, char separator) {
  if (has(line, "--query-") || has(line, "--format")) return std::nullopt;  // the command itself
  const auto names = csv_cells(line, separator);
  Layout layout;
  layout.header = true;
  std::size_t numbers = 0;
  for (const std::string& raw : names) {
    const std::string name = lower_case(raw);
    const auto gpu = gpu_in_name(name);
    Column column{role_of(name, gpu.has_value()), unit_in_name(name), gpu, limit_named(name),
                  tick_of(name)};
    const bool repeated = column.role != Role::time && column.role != Role::one_limit &&
                          std::ranges::any_of(layout.columns, [&](const Column& other) {
                            return other.role == column.role && other.gpu == column.gpu;
                          });
    if (repeated) column.role = Role::none;  // the first column of a kind is the one that is meant
    layout.wide = layout.wide || (gpu && column.role != Role::none);
    layout.columns.push_back(column);
    numbers += parse_cell(raw) ? 1U : 0U;
  }
  const bool is_one_column = names.size() == 1 && has(line, "utilization.gpu");
  if (numbers * 2 > names.size() || (names.size() < 2 && !is_one_column) || !layout.usable())
    return std::nullopt;
  return layout;
}

using CsvRows = std::vector<std::vector<std::string>>;

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
Role role_of_words(const std::string& sample) {
  if (parse_time(sample) && sample.find(':') != std::string::npos) return Role::time;
  if (sample.starts_with("GPU-")) return Role::uuid;
  return has_any(sample, {"NVIDIA", "Tesla", "GeForce", "Quadro"}) ? Role::name : Role::none;
}

using IsTaken = std::function<bool(Role)>;

// 0, 1, 2, ... each at least once: the GPUs' numbers.
bool counts_gpus(const ColumnContent& content, std::size_t rows) {
  return content.whole && content.least == 0 && content.most <= 63 &&
         static_cast<double>(content.distinct.size()) == content.most + 1 &&
         rows >= content.distinct.size();
}

// What a bare number can be, the surest first.
Role role_of_bare_number(const ColumnContent& content, std::size_t rows, const IsTaken& taken) {
  const auto& [unit, distinct, numbers, whole, least, most] = content;
  if (most > 5e8 && !taken(Role::time)) return Role::time;
  if (counts_gpus(content, rows) && !taken(Role::gpu)) return Role::gpu;
  if (whole && most > 200) return taken(Role::memory_used) ? Role::memory_total : Role::memory_used;
  if (!whole && most > 3 && !taken(Role::power)) return Role::power;
  const bool may_be_busy = whole && most <= 100 && !taken(Role::busy);
  if (may_be_busy && (least < 15 || most > 97)) return Role::busy;
  if (whole && least >= 15 && most <= 110 && !taken(Role::temperature)) return Role::temperature;
  return may_be_busy ? Role::busy : Role::none;
}

Role role_of_number(const ColumnContent& content, std::size_t rows, const IsTaken& taken) {
  switch (content.unit) {
    case Unit::percent: return taken(Role::busy) ? Role::none : Role::busy;
    case Unit::watt:
    case Unit::milliwatt:
      if (!taken(Role::power)) return Role::power;
      return content.distinct.size() <= rows / 2 + 1 ? Role::power_limit : Role::none;
    case Unit::mebibyte:
    case Unit::gibibyte:
    case Unit::megabyte:
    case Unit::gigabyte:
    case Unit::byte: return taken(Role::memory_used) ? Role::memory_total : Role::memory_used;
    case Unit::megahertz: return taken(Role::clock) ? Role::none : Role::clock;
    case Unit::celsius: return Role::temperature;
    case Unit::none: return role_of_bare_number(content, rows, taken);
  }
  return Role::none;
}

// 0, 1, 0, 1, ...: as nvidia-smi lists them.
bool gpus_come_in_turn(const Layout& layout, const CsvRows& rows) {
  const auto column = std::ranges::find(layout.columns, Role::gpu, &Column::role);
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
void settle_memory(Layout& layout, const CsvRows& rows) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const Role role = layout.columns[at].role;
    if (role == Role::memory_used || role == Role::memory_total) found.push_back(at);
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
  for (const std::size_t at : found) layout.columns[at].role = Role::none;
  if (found.size() > 3 || (found.size() == 3 && !is_total)) return;
  layout.columns[total].role = Role::memory_total;
  if (found.size() == 3) return;
  const std::size_t other = found.front() == total ? found.back() : found.front();
  // What is used and what is free, small as it may be, make up the total, but for what the driver
  // keeps.
  constexpr double kMakesUp = 0.95;
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    if (at == other || at == total || layout.columns[at].role == Role::gpu) continue;
    const bool complements = std::ranges::all_of(rows, [&](const auto& row) {
      const double sum = value(row, at) + value(row, other);
      return parse_cell(row[at]) && value(row, at) > 0 && sum <= value(row, total) &&
             sum >= kMakesUp * value(row, total);
    });
    if (complements && value(rows.front(), other) > 0.5 * value(rows.front(), total)) return;
  }
  layout.columns[other].role = Role::memory_used;
}

// Bare whole numbers of 15 to 110 may be degrees, percent, or a fan's: of several nobody knows
// which.
void settle_temperature(Layout& layout, const CsvRows& rows) {
  std::size_t candidates = 0;
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const Column& column = layout.columns[at];
    if (column.role != Role::none && column.role != Role::temperature) continue;
    const auto content = content_of(rows, at);
    if (content && content->unit == Unit::none && content->numbers == rows.size() &&
        content->whole && content->least >= 15 && content->most <= 110)
      ++candidates;
  }
  if (candidates < 2) return;
  for (Column& column : layout.columns)
    if (column.role == Role::temperature && column.unit == Unit::none) column.role = Role::none;
}

// Without a header the cells must tell: dates, units, names; then what a bare number can be.
std::optional<Layout> layout_by_content(const CsvRows& rows) {
  if (rows.empty() || rows.front().size() < 2) return std::nullopt;
  Layout layout;
  layout.columns.resize(rows.front().size());
  const IsTaken taken = [&](Role role) {
    return std::ranges::any_of(layout.columns,
                               [&](const Column& column) { return column.role == role; });
  };
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const auto content = content_of(rows, at);
    if (!content) return std::nullopt;
    Column& column = layout.columns[at];
    column.unit = content->unit;
    column.role = content->numbers * 2 < rows.size() ? role_of_words(rows.front()[at])
                                                     : role_of_number(*content, rows.size(), taken);
  }
  settle_memory(layout, rows);
  settle_temperature(layout, rows);
  const bool any_unit = std::ranges::any_of(layout.columns, [](const Column& column) {
    return column.unit == Unit::percent || column.unit == Unit::watt ||
           column.unit == Unit::mebibyte;
  });
  // Bare numbers alone may be anything: a time or GPUs that come in turn make a log of them.
  const bool clear = any_unit || (taken(Role::time) && taken(Role::busy)) ||
                     (taken(Role::gpu) && taken(Role::busy) && taken(Role::power) &&
                      taken(Role::memory_used) && gpus_come_in_turn(layout, rows));
  return layout.usable() && clear ? std::optional(layout) : std::nullopt;
}

// So few rows may be one look of nvidia-smi at several GPUs, or several looks at one.
constexpr std::size_t kOneLookAtMost = 16;

// Whether rows that far apart are of the same GPU: memory and temperature change slowly.
bool repeats_after(std::size_t apart, const Layout& layout, const CsvRows& rows) {
  constexpr double kMemoryMoves = 0.02;  // of it
  constexpr double kWarmsBy = 2;         // degrees between two readings
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const Role role = layout.columns[at].role;
    if (role != Role::memory_used && role != Role::memory_total && role != Role::temperature &&
        role != Role::name)
      continue;
    for (std::size_t i = apart; i < rows.size(); ++i) {
      if (at >= rows[i].size() || at >= rows[i - apart].size()) return false;
      const auto now = parse_cell(rows[i][at]);
      const auto before = parse_cell(rows[i - apart][at]);
      if (now.has_value() != before.has_value()) return false;
      if (!now && rows[i][at] != rows[i - apart][at]) return false;
      if (!now) continue;
      const double limit =
          role == Role::temperature ? kWarmsBy : kMemoryMoves * std::max(1.0, before->value);
      if (std::abs(now->value - before->value) > limit) return false;
    }
  }
  return true;
}

// GPUs of different models, one row each, look after look.
std::size_t gpus_by_their_models(const Layout& layout, const CsvRows& rows) {
  const auto column = std::ranges::find(layout.columns, Role::name, &Column::role);
  if (column == layout.columns.end()) return 1;
  const auto at = static_cast<std::size_t>(column - layout.columns.begin());
  std::vector<std::string_view> models;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (at >= rows[i].size()) return 1;
    const std::string_view model = rows[i][at];
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
    if (models[i % models.size()] != model) return 1;
  }
  return models.size();
}

// Rows with neither a time nor a GPU's number: how many GPUs they are of, in turn. One: nothing in
// them tells.
std::size_t gpus_in_turn(const Layout& layout, const CsvRows& rows) {
  constexpr std::size_t kMost = 16;
  if (const std::size_t models = gpus_by_their_models(layout, rows); models > 1) return models;
  // Temperatures of a few rows may be alike by chance: memory is what tells GPUs apart.
  const bool has_memory = std::ranges::any_of(layout.columns, [](const Column& column) {
    return column.role == Role::memory_used || column.role == Role::memory_total;
  });
  if (!has_memory && rows.size() <= kOneLookAtMost) return 1;
  for (std::size_t gpus = 1; gpus <= std::min(kMost, rows.size() / 2); ++gpus)
    if (repeats_after(gpus, layout, rows)) return gpus;
  return 1;
}

// A date in one column and the time of day in the next are one.
std::optional<double> time_of(const Layout& layout, const std::vector<std::string>& cells) {
  std::optional<double> time;
  for (std::size_t at = 0; at < cells.size() && at < layout.columns.size(); ++at) {
    const Column& column = layout.columns[at];
    if (column.role != Role::time) continue;
    auto part = parse_time(cells[at]);
    if (const auto count = part ? std::nullopt : parse_cell(cells[at]);
        count && count->unit == Unit::none && count->value >= 0)
      part = count->value * column.tick_s;
    if (part && time && *part < 86400 && std::fmod(*time, 86400) == 0)
      time = *time + *part;
    else if (part && !time)
      time = part;
  }
  return time;
}

// Rows so near to each other are GPUs of one look, in a log that names no GPU: much nearer than
// looks are. A log of one GPU at 20 Hz has all of its rows 50 ms apart.
double one_look_s(const Layout& layout, const CsvRows& rows) {
  constexpr double kAtMost = 0.05;
  constexpr double kOfALook = 0.25;
  constexpr double kNearlyTheLongest = 0.95;  // of 16 GPUs one row in 16 begins a look
  std::vector<double> gaps;
  std::optional<double> before;
  for (const auto& row : rows) {
    const auto time = time_of(layout, row);
    if (time && before) gaps.push_back(std::abs(*time - *before));
    before = time;
  }
  // A node has no more GPUs: so many rows of one moment are of one GPU, and the clock is coarse.
  std::size_t at_once = 1;
  for (const double gap : gaps) {
    at_once = gap == 0 ? at_once + 1 : 1;
    if (at_once > kOneLookAtMost) return 0;
  }
  if (gaps.empty()) return kAtMost;
  constexpr std::size_t kFewRows = 20;  // of them the longest is no outlier
  const double share = gaps.size() < kFewRows ? 1 : kNearlyTheLongest;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(gaps.size() - 1));
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<std::ptrdiff_t>(at));
  // stamped to the second: the same stamp is one look
  return gaps[at] > 0 ? std::min(kAtMost, kOfALook * gaps[at]) : kAtMost;
}

class Rows {
 public:
  // `gpus_in_turn`: of rows that name neither a GPU nor a time.
  Rows(Layout layout, SourceKind kind, std::size_t gpus_in_turn, double one_look_s)
      : layout_(std::move(layout)),
        builder_(kind, ProcessCoverage::none),
        gpus_in_turn_(gpus_in_turn),
        one_look_s_(one_look_s) {}

  void add(const std::vector<std::string>& cells, double busy_scale) {
    const std::optional<double> time = time_of(layout_, cells);
    std::map<int, LogRow> rows;
    std::optional<int> gpu;
    std::string uuid;
    std::string model;
    for (std::size_t at = 0; at < cells.size() && at < layout_.columns.size(); ++at) {
      const Column& column = layout_.columns[at];
      if (column.role == Role::uuid) uuid = cells[at];
      if (column.role == Role::name) model = cells[at];
      if (column.role == Role::gpu) {
        std::string_view text = cells[at];
        // "GPU 0", "cuda:1"
        while (!text.empty() && (text.front() < '0' || text.front() > '9')) text.remove_prefix(1);
        if (const auto number = parse_integer(text); number && *number >= 0 && *number < 1024)
          gpu = static_cast<int>(*number);
      }
    }
    if (gpu && !model.empty() && !layout_.wide) gpu = told_apart(*gpu, model);
    if (!gpu && uuid.empty() && !layout_.wide) gpu = position(time);
    if (!gpu && !uuid.empty())
      gpu = uuids_.emplace(uuid, static_cast<int>(uuids_.size())).first->second;
    for (std::size_t at = 0; at < cells.size() && at < layout_.columns.size(); ++at) {
      const Column& column = layout_.columns[at];
      if (column.role == Role::none || column.role == Role::time || column.role == Role::gpu)
        continue;
      if (layout_.wide && !column.gpu) continue;
      const int index = layout_.wide ? *column.gpu : *gpu;
      LogRow& row = rows[index];
      row.gpu = index;
      row.time_s = time;
      put(column, cells[at], busy_scale, row);
    }
    for (auto& [index, row] : rows) builder_.add(std::move(row));
    last_time_ = time;
    if (layout_.wide) builder_.end_tick();
  }

  std::optional<ParsedLog> build() {
    auto log = builder_.build();
    for (const auto& [gpu, models] : models_)
      if (log && models.size() > 1)
        log->notes.push_back(fmt::format(
            "rows of {} models have the number {} ({}): they are of several machines, and are told "
            "apart by {} added to the number",
            models.size(), gpu, join(models, ", "), kOfAnotherMachine));
    return log;
  }

 private:
  static constexpr int kOfAnotherMachine = 100;
  // Several machines wrote into one file.
  int told_apart(int gpu, const std::string& model) {
    std::vector<std::string>& models = models_[gpu];
    const auto known = std::ranges::find(models, model);
    const auto place = static_cast<int>(known - models.begin());
    if (known == models.end() && models.size() < kMostModels) models.push_back(model);
    return gpu + kOfAnotherMachine * std::min(place, static_cast<int>(kMostModels) - 1);
  }

  // Neither number nor uuid: rows of one time stamp are GPUs in order.
  int position(const std::optional<double>& time) {
    if (!time && gpus_in_turn_ > 1) return static_cast<int>(untimed_++ % gpus_in_turn_);
    place_ = time && last_time_ && std::abs(*time - *last_time_) < one_look_s_ ? place_ + 1 : 0;
    return place_;
  }

  static void put(const Column& column, const std::string& text, double busy_scale, LogRow& row) {
    if (column.role == Role::name) row.name = text;
    if (column.role == Role::uuid) row.uuid = text;
    if (column.role == Role::limits_mask)
      if (const auto limits = parse_limits_mask(text)) row.limits = *limits;
    if (column.role == Role::one_limit && column.limit) {
      const std::string word = lower_case(trim(text));
      const bool active = word == "active" || word == "1" || word == "true";
      if (active || word == "not active" || word == "0" || word == "false") {
        if (!row.limits) row.limits.emplace();
        if (active) row.limits->add(*column.limit);
      }
    }
    const auto cell = parse_cell(text);
    if (!cell) return;
    const Unit unit = cell->unit != Unit::none ? cell->unit : column.unit;
    switch (column.role) {
      case Role::busy:
        row.busy = unit == Unit::percent ? cell->value / 100 : cell->value * busy_scale;
        break;
      case Role::memory_share: row.memory_fraction = cell->value / 100; break;
      case Role::memory_used:
        if (unit == Unit::percent)
          row.memory_fraction = cell->value / 100;
        else
          row.memory_used_bytes = as_bytes(cell->value, unit);
        break;
      case Role::memory_total: row.memory_total_bytes = as_bytes(cell->value, unit); break;
      case Role::power: row.power_mw = as_milliwatts(cell->value, unit); break;
      case Role::power_limit: row.power_limit_mw = as_milliwatts(cell->value, unit); break;
      case Role::temperature: row.temperature_c = cell->value; break;
      case Role::clock: row.sm_clock_mhz = cell->value; break;
      default: break;
    }
  }

  Layout layout_;
  LogBuilder builder_;
  static constexpr std::size_t kMostModels = 8;  // a node has one or two
  std::map<std::string, int> uuids_;
  std::map<int, std::vector<std::string>> models_;
  std::optional<double> last_time_;
  int place_ = 0;
  std::size_t gpus_in_turn_;
  double one_look_s_;
  std::size_t untimed_ = 0;
};

bool names_any(const Layout& layout, std::initializer_list<Role> roles) {
  return layout.wide || std::ranges::any_of(layout.columns, [&](const Column& column) {
           return std::ranges::find(roles, column.role) != roles.end();
         });
}

// Utilization without a unit: a percentage, unless nothing exceeds 1 and something lies between.
double busy_scale(const Layout& layout, const CsvRows& rows) {
  double most = 0;
  bool between = false;
  for (const auto& row : rows)
    for (std::size_t at = 0; at < row.size() && at < layout.columns.size(); ++at) {
      if (layout.columns[at].role != Role::busy) continue;
      const auto cell = parse_cell(row[at]);
      if (!cell) continue;
      if (cell->unit == Unit::percent) return 0.01;
      most = std::max(most, cell->value);
      between = between || (cell->value > 0 && cell->value < 1);
    }
  return most <= 1 && between ? 1 : 0.01;
}

// Whoever wrote the file was stopped in the middle of a row: cells are missing, or the last one
// lacks the unit that it has in the row before.
bool ends_in_mid_row(const Layout& layout, const CsvRows& rows) {
  const auto& last = rows.back();
  const auto& before = rows[rows.size() - 2];
  if (last.size() < std::min(before.size(), layout.columns.size())) return true;
  if (last.size() != before.size()) return false;
  const auto cut = parse_cell(last.back());
  const auto whole = parse_cell(before.back());
  return whole && whole->unit != Unit::none && (!cut || cut->unit != whole->unit) &&
         !last.back().starts_with("[");
}

// Two programs that write into one file tear each other's lines: a model that is named once among
// many rows is such a piece. How many rows were taken away.
std::size_t take_torn_rows_off(const Layout& layout, CsvRows& rows) {
  constexpr std::size_t kMany = 20;
  const auto column = std::ranges::find(layout.columns, Role::name, &Column::role);
  if (column == layout.columns.end() || rows.size() < kMany) return 0;
  const auto at = static_cast<std::size_t>(column - layout.columns.begin());
  std::map<std::string_view, std::size_t> models;
  for (const auto& row : rows)
    if (at < row.size()) ++models[row[at]];
  std::set<std::string> torn;
  for (const auto& [model, count] : models)
    if (count == 1) torn.emplace(model);
  // Pieces are few; a column in which each cell differs is no model's.
  constexpr std::size_t kPieces = 10;
  if (torn.size() * kPieces > rows.size()) return 0;
  return std::erase_if(rows, [&](const std::vector<std::string>& row) {
    return at < row.size() && torn.contains(row[at]);
  });
}

bool has_a_number(const std::vector<std::string>& cells) {
  return std::ranges::any_of(cells,
                             [](const std::string& cell) { return parse_cell(cell).has_value(); });
}

// A loop around the command on a machine of several GPUs: a header, and a row per GPU in order.
struct LooksByHeader {
  std::size_t gpus = 0;
  std::vector<std::string> times;  // what stands above each header, where those are dates
};

std::optional<LooksByHeader> looks_by_header(const std::vector<std::string>& lines,
                                             const std::string& header, const Layout& layout,
                                             char separator) {
  constexpr std::size_t kAbove = 3;  // lines
  constexpr double kADate = 1e8;
  LooksByHeader looks;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == header) {
      sizes.push_back(0);
      for (std::size_t above = 1; above <= std::min(kAbove, i); ++above)
        if (parse_time(trim(lines[i - above])).value_or(0) > kADate) {
          looks.times.emplace_back(trim(lines[i - above]));
          break;
        }
    } else if (!sizes.empty()) {
      const auto cells = csv_cells(lines[i], separator);
      if (cells.size() == layout.columns.size() && has_a_number(cells)) ++sizes.back();
    }
  }
  if (sizes.size() < 2) return std::nullopt;
  looks.gpus = sizes.front();
  if (looks.gpus < 2 || looks.gpus > kOneLookAtMost) return std::nullopt;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    if (sizes[i] != looks.gpus) return std::nullopt;
  if (looks.times.size() != sizes.size()) looks.times.clear();
  return looks;
}

// Their numbers and times in columns of their own.
void name_gpus(const LooksByHeader& looks, Layout& layout, CsvRows& rows) {
  const std::size_t width = layout.columns.size();
  layout.columns.push_back({Role::gpu});
  if (!looks.times.empty()) layout.columns.push_back({Role::time});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].resize(width);
    rows[i].push_back(std::to_string(i % looks.gpus));
    if (i / looks.gpus < looks.times.size()) rows[i].push_back(looks.times[i / looks.gpus]);
  }
}

// What was taken for the time goes back again and again: a table of results, not a log.
bool goes_back_and_forth(const Layout& layout, const CsvRows& rows) {
  constexpr std::size_t kFewRows = 10;
  constexpr double kOften = 0.1;  // once per GPU, where those stand one behind the other
  constexpr double kHalfADay = 43'200;
  std::size_t timed = 0;
  std::size_t back = 0;
  std::optional<double> before;
  for (const auto& row : rows) {
    const auto time = time_of(layout, row);
    if (!time) continue;
    ++timed;
    // a time of day that passes midnight goes back by nearly a day
    if (before && *time < *before && *before - *time < kHalfADay) ++back;
    before = time;
  }
  return timed > kFewRows && static_cast<double>(back) > kOften * static_cast<double>(timed);
}

// Rows with a cell more than the header has names: somebody's own time stands before nvidia-smi's.
// False: which cell has no name cannot be told.
bool settle_second_time(const Layout& layout, CsvRows& rows) {
  const auto is_longer = [&](const std::vector<std::string>& row) {
    return row.size() == layout.columns.size() + 1 && !row.back().empty();
  };
  if (!layout.header || 2 * std::ranges::count_if(rows, is_longer) <= std::ssize(rows)) return true;
  const bool has_two = layout.columns.front().role == Role::time &&
                       std::ranges::all_of(rows, [&](const std::vector<std::string>& row) {
                         return !is_longer(row) || parse_time(row[1]);
                       });
  if (!has_two) return false;
  for (auto& row : rows)
    if (is_longer(row)) row.erase(row.begin() + 1);
  return true;
}

}  // namespace

bool names_no_gpu(const std::vector<std::string>& lines) {
  const auto has_units = [](const std::string& line) {
    return has(line, ",") && (has(line, " %") || has(line, "utilization.gpu")) &&
           (has(line, " MiB") || has(line, " W") || has(line, "[MiB]") || has(line, "[W]"));
  };
  return lines.size() <= kOneLookAtMost + 1 && std::ranges::any_of(lines, has_units);
}

std::optional<ParsedLog> parse_csv_log(const std::vector<std::string>& lines) {
  constexpr std::size_t kHeaderWithin = 20;  // lines: scripts print a word or two first
  std::optional<Layout> layout;
  std::size_t begin = 0;
  char separator = ',';
  for (std::size_t i = 0; i < std::min(lines.size(), kHeaderWithin) && !layout; ++i) {
    separator = separator_of(lines[i]);
    layout = layout_by_names(lines[i], separator);
    begin = i + 1;
  }
  CsvRows rows;
  const std::string header = layout ? lines[begin - 1] : std::string();
  if (!layout) {
    begin = 0;
    if (!lines.empty()) separator = separator_of(lines.front());
  }
  std::size_t width = 0;
  for (std::size_t i = begin; i < lines.size(); ++i) {
    if (trim(lines[i]).empty() || lines[i] == header) continue;
    auto cells = csv_cells(lines[i], separator);
    if (cells.size() < (layout ? std::min<std::size_t>(2, layout->columns.size()) : 2) ||
        (layout && 2 * cells.size() < layout->columns.size()))
      continue;
    if (!layout) {
      if (width == 0) width = cells.size();
      if (cells.size() != width) continue;
    }
    rows.push_back(std::move(cells));
  }
  // A first line of words names other things than these: it is no log of GPUs.
  if (!layout && !lines.empty()) {
    const auto first = csv_cells(lines.front(), separator);
    const auto numbers = std::ranges::count_if(
        first, [](const std::string& cell) { return parse_cell(cell) || parse_time(cell); });
    if (numbers * 2 >= static_cast<std::ptrdiff_t>(first.size())) layout = layout_by_content(rows);
  }
  // Another header in the middle, a command line: the tool was started again.
  std::erase_if(rows, [](const auto& cells) { return !has_a_number(cells); });
  if (!layout || rows.empty() || !settle_second_time(*layout, rows)) return std::nullopt;
  const std::size_t torn = take_torn_rows_off(*layout, rows);
  const bool by_nvidia_smi =
      has(header, "utilization.gpu") || has(header, "power.draw") || has(header, "memory.used [") ||
      (!layout->header && std::ranges::any_of(rows.front(), [](const std::string& cell) {
        return has(cell, " %") || has(cell, " MiB") || has(cell, " W");
      }));
  if (goes_back_and_forth(*layout, rows)) return std::nullopt;
  const auto by_header = !header.empty() && !names_any(*layout, {Role::gpu, Role::uuid, Role::time})
                             ? looks_by_header(lines, header, *layout, separator)
                             : std::nullopt;
  if (by_header) name_gpus(*by_header, *layout, rows);
  const bool nobody_named = !names_any(*layout, {Role::gpu, Role::uuid, Role::time});
  const std::size_t in_turn = nobody_named ? gpus_in_turn(*layout, rows) : 1;
  // A heading before each row: a loop around the command, on a machine with one GPU.
  const bool has_one_gpu =
      !header.empty() && rows.size() > 1 &&
      std::ranges::count(lines, header) == static_cast<std::ptrdiff_t>(rows.size());
  if (by_nvidia_smi && nobody_named && in_turn == 1 && rows.size() > 1 && !has_one_gpu &&
      rows.size() <= kOneLookAtMost)
    return std::nullopt;
  Rows collected(*layout, by_nvidia_smi ? SourceKind::nvidia_smi : SourceKind::csv, in_turn,
                 one_look_s(*layout, rows));
  const double scale = busy_scale(*layout, rows);
  const bool is_cut = rows.size() > 1 && ends_in_mid_row(*layout, rows);
  if (is_cut) rows.pop_back();
  for (const auto& cells : rows) collected.add(cells, scale);
  auto log = collected.build();
  const bool any_reading =
      log && std::ranges::any_of(log->records, [](const Record& record) {
        const auto* tick = std::get_if<GpuTick>(&record.content);
        return tick != nullptr && std::ranges::any_of(*tick, [](const GpuSample& gpu) {
                 return gpu.busy.has_value() || gpu.power_mw.has_value();
               });
      });
  if (!any_reading) return std::nullopt;
  if (torn > 0)
    log->notes.push_back(fmt::format("{} rows were torn by another writer and left out", torn));
  if (is_cut) log->notes.push_back("the last row is cut in the middle and was left out");
  if (!layout->header)
    log->notes.push_back("there is no header line: columns are told by what they hold");
  const auto unreadable = std::ranges::count_if(rows, [](const std::vector<std::string>& row) {
    return std::ranges::any_of(row, [](const std::string& cell) {
      return has(cell, "Unknown Error") || has(cell, "GPU is lost");
    });
  });
  if (unreadable > 0)
    log->notes.push_back(
        fmt::format("{} of {} rows hold errors where readings should be: the driver did not get "
                    "them from the GPU (dmesg | grep -i xid)",
                    unreadable, rows.size()));
  if (by_header)
    log->notes.push_back(fmt::format(
        "no column names the GPU: the {} rows under each header are taken as GPU 0 to {}",
        by_header->gpus, by_header->gpus - 1));
  if (nobody_named && rows.size() > 1)
    log->notes.push_back(
        in_turn > 1 ? fmt::format("no column names the GPU: the rows are those of {} GPUs in turn, "
                                  "by their models, or by their memory and temperature",
                                  in_turn)
                    : "no column names the GPU: all rows are taken as one GPU's");
  return log;
}

}  // namespace lockstep
