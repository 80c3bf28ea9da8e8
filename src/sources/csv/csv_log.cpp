#include "sources/csv/csv_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>

#include "base/text.hpp"
#include "sources/csv/csv_layout.hpp"
#include "sources/csv/csv_rows.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

class Rows {
 public:
  // `gpus_in_turn`: of rows that name neither a GPU nor a time.
  Rows(CsvLayout layout, SourceKind kind, std::size_t gpus_in_turn, double one_look_s)
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
      const CsvColumn& column = layout_.columns[at];
      if (column.role == CsvRole::uuid) uuid = cells[at];
      if (column.role == CsvRole::name) model = cells[at];
      if (column.role == CsvRole::gpu) {
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
      const CsvColumn& column = layout_.columns[at];
      if (column.role == CsvRole::none || column.role == CsvRole::time ||
          column.role == CsvRole::gpu)
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

  static void put(const CsvColumn& column, const std::string& text, double busy_scale,
                  LogRow& row) {
    if (column.role == CsvRole::name) row.name = text;
    if (column.role == CsvRole::uuid) row.uuid = text;
    if (column.role == CsvRole::limits_mask)
      if (const auto limits = parse_limits_mask(text)) row.limits = *limits;
    if (column.role == CsvRole::one_limit && column.limit) {
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
      case CsvRole::busy:
        row.busy = unit == Unit::percent ? cell->value / 100 : cell->value * busy_scale;
        break;
      case CsvRole::memory_share: row.memory_fraction = cell->value / 100; break;
      case CsvRole::memory_used:
        if (unit == Unit::percent)
          row.memory_fraction = cell->value / 100;
        else
          row.memory_used_bytes = as_bytes(cell->value, unit);
        break;
      case CsvRole::memory_total: row.memory_total_bytes = as_bytes(cell->value, unit); break;
      case CsvRole::power: row.power_mw = as_milliwatts(cell->value, unit); break;
      case CsvRole::power_limit: row.power_limit_mw = as_milliwatts(cell->value, unit); break;
      case CsvRole::temperature: row.temperature_c = cell->value; break;
      case CsvRole::clock: row.sm_clock_mhz = cell->value; break;
      default: break;
    }
  }

  CsvLayout layout_;
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

bool names_any(const CsvLayout& layout, std::initializer_list<CsvRole> roles) {
  return layout.wide || std::ranges::any_of(layout.columns, [&](const CsvColumn& column) {
           return std::ranges::find(roles, column.role) != roles.end();
         });
}

}  // namespace

bool names_no_gpu(const std::vector<std::string>& lines) {
  const auto has_units = [](const std::string& line) {
    return holds_any(line, {","}) && holds_any(line, {" %", "utilization.gpu"}) &&
           holds_any(line, {" MiB", " W", "[MiB]", "[W]"});
  };
  return lines.size() <= kOneLookAtMost + 1 && std::ranges::any_of(lines, has_units);
}

std::optional<ParsedLog> parse_csv_log(const std::vector<std::string>& lines) {
  constexpr std::size_t kHeaderWithin = 20;  // lines: scripts print a word or two first
  std::optional<CsvLayout> layout;
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
      holds_any(header, {"utilization.gpu", "power.draw", "memory.used ["}) ||
      (!layout->header && std::ranges::any_of(rows.front(), [](const std::string& cell) {
        return holds_any(cell, {" %", " MiB", " W"});
      }));
  if (goes_back_and_forth(*layout, rows)) return std::nullopt;
  const bool no_unit = leave_out_memory_without_unit(*layout, rows);
  const auto by_header =
      !header.empty() && !names_any(*layout, {CsvRole::gpu, CsvRole::uuid, CsvRole::time})
          ? looks_by_header(lines, header, *layout, separator)
          : std::nullopt;
  if (by_header) name_gpus(*by_header, *layout, rows);
  const bool nobody_named = !names_any(*layout, {CsvRole::gpu, CsvRole::uuid, CsvRole::time});
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
  if (no_unit)
    log->notes.push_back(
        "a column of memory has no unit, and numbers too small for MiB: it is left out");
  if (torn > 0)
    log->notes.push_back(fmt::format("{} rows were torn by another writer and left out", torn));
  if (is_cut) log->notes.push_back("the last row is cut in the middle and was left out");
  if (!layout->header)
    log->notes.push_back("there is no header line: columns are told by what they hold");
  const auto unreadable = std::ranges::count_if(rows, [](const std::vector<std::string>& row) {
    return std::ranges::any_of(row, [](const std::string& cell) {
      return holds_any(cell, {"Unknown Error", "GPU is lost"});
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
