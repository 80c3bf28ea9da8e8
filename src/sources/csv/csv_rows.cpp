#include "sources/csv/csv_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

// Whether rows that far apart are of the same GPU: memory and temperature change slowly.
bool repeats_after(std::size_t apart, const CsvLayout& layout, const CsvRows& rows) {
  constexpr double kMemoryMoves = 0.02;  // of it
  constexpr double kWarmsBy = 2;         // degrees between two readings
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    const CsvRole role = layout.columns[at].role;
    if (role != CsvRole::memory_used && role != CsvRole::memory_total &&
        role != CsvRole::temperature && role != CsvRole::name)
      continue;
    for (std::size_t i = apart; i < rows.size(); ++i) {
      if (at >= rows[i].size() || at >= rows[i - apart].size()) return false;
      const auto now = parse_cell(rows[i][at]);
      const auto before = parse_cell(rows[i - apart][at]);
      if (now.has_value() != before.has_value()) return false;
      if (!now && rows[i][at] != rows[i - apart][at]) return false;
      if (!now) continue;
      const double limit =
          role == CsvRole::temperature ? kWarmsBy : kMemoryMoves * std::max(1.0, before->value);
      if (std::abs(now->value - before->value) > limit) return false;
    }
  }
  return true;
}

// GPUs of different models, one row each, look after look.
std::size_t gpus_by_their_models(const CsvLayout& layout, const CsvRows& rows) {
  const auto column = std::ranges::find(layout.columns, CsvRole::name, &CsvColumn::role);
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

}  // namespace

std::size_t gpus_in_turn(const CsvLayout& layout, const CsvRows& rows) {
  constexpr std::size_t kMost = 16;
  if (const std::size_t models = gpus_by_their_models(layout, rows); models > 1) return models;
  // Temperatures of a few rows may be alike by chance: memory is what tells GPUs apart.
  const bool has_memory = std::ranges::any_of(layout.columns, [](const CsvColumn& column) {
    return column.role == CsvRole::memory_used || column.role == CsvRole::memory_total;
  });
  if (!has_memory && rows.size() <= kOneLookAtMost) return 1;
  for (std::size_t gpus = 1; gpus <= std::min(kMost, rows.size() / 2); ++gpus)
    if (repeats_after(gpus, layout, rows)) return gpus;
  return 1;
}

std::optional<double> time_of(const CsvLayout& layout, const std::vector<std::string>& cells) {
  std::optional<double> time;
  for (std::size_t at = 0; at < cells.size() && at < layout.columns.size(); ++at) {
    const CsvColumn& column = layout.columns[at];
    if (column.role != CsvRole::time) continue;
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

double one_look_s(const CsvLayout& layout, const CsvRows& rows) {
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

double busy_scale(const CsvLayout& layout, const CsvRows& rows) {
  double most = 0;
  bool between = false;
  for (const auto& row : rows)
    for (std::size_t at = 0; at < row.size() && at < layout.columns.size(); ++at) {
      if (layout.columns[at].role != CsvRole::busy) continue;
      const auto cell = parse_cell(row[at]);
      if (!cell) continue;
      if (cell->unit == Unit::percent) return 0.01;
      most = std::max(most, cell->value);
      between = between || (cell->value > 0 && cell->value < 1);
    }
  return most <= 1 && between ? 1 : 0.01;
}

bool ends_in_mid_row(const CsvLayout& layout, const CsvRows& rows) {
  const auto& last = rows.back();
  const auto& before = rows[rows.size() - 2];
  if (last.size() < std::min(before.size(), layout.columns.size())) return true;
  if (last.size() != before.size()) return false;
  const auto cut = parse_cell(last.back());
  const auto whole = parse_cell(before.back());
  return whole && whole->unit != Unit::none && (!cut || cut->unit != whole->unit) &&
         !last.back().starts_with("[");
}

std::size_t take_torn_rows_off(const CsvLayout& layout, CsvRows& rows) {
  constexpr std::size_t kMany = 20;
  const auto column = std::ranges::find(layout.columns, CsvRole::name, &CsvColumn::role);
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

std::optional<LooksByHeader> looks_by_header(const std::vector<std::string>& lines,
                                             const std::string& header, const CsvLayout& layout,
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

void name_gpus(const LooksByHeader& looks, CsvLayout& layout, CsvRows& rows) {
  const std::size_t width = layout.columns.size();
  layout.columns.push_back({CsvRole::gpu});
  if (!looks.times.empty()) layout.columns.push_back({CsvRole::time});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].resize(width);
    rows[i].push_back(std::to_string(i % looks.gpus));
    if (i / looks.gpus < looks.times.size()) rows[i].push_back(looks.times[i / looks.gpus]);
  }
}

bool goes_back_and_forth(const CsvLayout& layout, const CsvRows& rows) {
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

bool settle_second_time(const CsvLayout& layout, CsvRows& rows) {
  const auto is_longer = [&](const std::vector<std::string>& row) {
    return row.size() == layout.columns.size() + 1 && !row.back().empty();
  };
  if (!layout.header || 2 * std::ranges::count_if(rows, is_longer) <= std::ssize(rows)) return true;
  const bool has_two = layout.columns.front().role == CsvRole::time &&
                       std::ranges::all_of(rows, [&](const std::vector<std::string>& row) {
                         return !is_longer(row) || parse_time(row[1]);
                       });
  if (!has_two) return false;
  for (auto& row : rows)
    if (is_longer(row)) row.erase(row.begin() + 1);
  return true;
}

bool leave_out_memory_without_unit(CsvLayout& layout, const CsvRows& rows) {
  constexpr double kNoContextMiB = 150;  // CUDA's own context takes more
  for (std::size_t at = 0; at < layout.columns.size(); ++at) {
    CsvColumn& column = layout.columns[at];
    if (column.role != CsvRole::memory_used || column.unit != Unit::none) continue;
    double most = 0;
    bool has_fractions = false;
    for (const auto& row : rows) {
      const auto cell = at < row.size() ? parse_cell(row[at]) : std::nullopt;
      if (!cell) continue;
      if (cell->unit != Unit::none) return false;
      most = std::max(most, cell->value);
      has_fractions = has_fractions || cell->value != std::floor(cell->value);
    }
    if (!has_fractions || most >= kNoContextMiB) continue;
    column.role = CsvRole::none;
    return true;
  }
  return false;
}

}  // namespace lockstep
