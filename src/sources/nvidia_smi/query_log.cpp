#include "sources/nvidia_smi/query_log.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

struct Entry {
  std::size_t indent = 0;
  std::string name;
  std::string value;  // empty: the heading of a section
};

std::optional<Entry> entry_of(const std::string& line) {
  const auto indent = line.find_first_not_of(' ');
  if (indent == std::string::npos) return std::nullopt;
  Entry entry;
  entry.indent = indent;
  const auto colon = line.find(" : ");
  if (colon == std::string::npos) {
    entry.name = std::string(trim(line));
  } else {
    entry.name = std::string(trim(std::string_view(line).substr(0, colon)));
    entry.value = std::string(trim(std::string_view(line).substr(colon + 3)));
  }
  return entry;
}

// "GPU 00000000:07:00.0"
bool begins_a_gpu(const Entry& entry) {
  return entry.indent == 0 && entry.name.starts_with("GPU ") &&
         std::ranges::count(entry.name, ':') == 2;
}

// Sections from the outermost in.
class Sections {
 public:
  void enter(const Entry& entry) {
    while (!open_.empty() && open_.back().first >= entry.indent) open_.pop_back();
    if (entry.value.empty()) open_.emplace_back(entry.indent, entry.name);
  }
  bool within(std::string_view name) const {
    return std::ranges::any_of(open_, [&](const auto& section) { return section.second == name; });
  }
  bool within_any(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(names, [&](std::string_view name) { return within(name); });
  }

 private:
  std::vector<std::pair<std::size_t, std::string>> open_;
};

std::optional<double> in_mebibytes(const std::optional<Cell>& cell) {
  return cell && cell->unit == Unit::mebibyte ? std::optional(cell->value * 1048576) : std::nullopt;
}

void put(const Sections& at, const Entry& entry, LogRow& row) {
  const auto cell = parse_cell(entry.value);
  const std::string& name = entry.name;
  if (name == "Product Name") row.name = entry.value;
  if (name == "GPU UUID") row.uuid = entry.value;
  if (at.within("Utilization") && (name == "Gpu" || name == "GPU") && cell)
    row.busy = cell->value / 100;
  if (at.within("FB Memory Usage")) {
    if (name == "Total") row.memory_total_bytes = in_mebibytes(cell);
    if (name == "Used") row.memory_used_bytes = in_mebibytes(cell);
  }
  if (at.within("Temperature") && name == "GPU Current Temp" && cell)
    row.temperature_c = cell->value;
  if (at.within_any({"GPU Power Readings", "Power Readings"}) && cell && cell->unit == Unit::watt) {
    if (name == "Power Draw" || name == "Average Power Draw") row.power_mw = cell->value * 1e3;
    if (name == "Instantaneous Power Draw" && !row.power_mw) row.power_mw = cell->value * 1e3;
    if (name == "Current Power Limit" || name == "Power Limit")
      row.power_limit_mw = cell->value * 1e3;
    if (name == "Default Power Limit") row.power_limit_default_mw = cell->value * 1e3;
  }
  if (at.within("Clocks") && name == "SM" && cell) row.sm_clock_mhz = cell->value;
  if (at.within_any({"Clocks Event Reasons", "Clocks Throttle Reasons"})) {
    const auto limit = limit_named(lower_case(name));
    if (limit && !row.limits) row.limits.emplace();
    if (limit && entry.value == "Active") row.limits->add(*limit);
  }
}

}  // namespace

std::optional<ParsedLog> parse_nvidia_smi_query(const std::vector<std::string>& lines) {
  if (std::ranges::none_of(lines, [](const std::string& line) {
        return line.find("NVSMI LOG") != std::string::npos;
      }))
    return std::nullopt;
  LogBuilder builder(SourceKind::nvidia_smi, ProcessCoverage::all);
  std::optional<double> time;
  std::optional<LogRow> row;
  int next_gpu = 0;
  Sections at;
  ProcessTick processes;
  bool any = false;
  const auto finish = [&] {
    if (!row) return;
    any = any || row->busy || row->memory_used_bytes || row->power_mw ||
          (row->limits && row->temperature_c);
    row->time_s = time;
    builder.add(std::move(*row));
    builder.add_processes(time, std::move(processes));
    processes.clear();
    row.reset();
  };
  for (const std::string& line : lines) {
    if (line.find("NVSMI LOG") != std::string::npos) {  // repeated with -l
      finish();
      builder.end_tick();
      next_gpu = 0;
    }
    const auto entry = entry_of(line);
    if (!entry) continue;
    if (begins_a_gpu(*entry)) {
      finish();
      row.emplace();
      row->gpu = next_gpu++;
      at = {};
      continue;
    }
    if (!row) {
      if (entry->name == "Timestamp") time = parse_time(entry->value);
      continue;
    }
    at.enter(*entry);
    if (entry->name == "Process ID") {
      const auto pid = parse_integer(entry->value);
      if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF) continue;
      ProcessSample process;
      process.pid = static_cast<int>(*pid);
      process.gpus = {ProcessOnGpu{row->gpu, std::nullopt}};
      processes.push_back(std::move(process));
    } else if (entry->name == "Type" && entry->value.ends_with('G') && !processes.empty()) {
      processes.pop_back();  // draws a screen: G, C+G
    } else if (entry->name == "Used GPU Memory" && !processes.empty()) {
      if (const auto bytes = in_mebibytes(parse_cell(entry->value)))
        processes.back().gpus.front().memory_bytes = static_cast<std::uint64_t>(*bytes);
    } else {
      put(at, *entry, *row);
    }
  }
  finish();
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
