#include "sources/nvidia_smi/column_log.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

// `--format csv` puts commas where the columns were parted by blanks.
std::string parted_by_blanks(std::string line) {
  std::ranges::replace(line, ',', ' ');
  return line;
}

// The names of the columns, when the line is such a heading: "# gpu   pwr gtemp ..." or "#Date Time
// gpu ...".
std::optional<std::vector<std::string>> names_in(std::string_view line) {
  if (!line.starts_with("#")) return std::nullopt;
  std::vector<std::string> names;
  const std::string heading = parted_by_blanks(std::string(line.substr(1)));
  for (const std::string_view word : words_in(heading)) names.push_back(lower_case(word));
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  const bool known =
      has("sm") || has("pwr") || has("pid") || has("gtemp") || has("pclk") || has("fb");
  return has("gpu") && known ? std::optional(names) : std::nullopt;
}

// Pasted into a program as its comment, rows have the mark of the heading, too.
bool is_row_behind_mark(std::string_view line) {
  const std::string_view rest = trim(line.substr(1));
  return !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
}

struct ColumnRow {
  std::optional<double> time_s;
  std::map<std::string, std::string> cells;

  std::optional<double> number(const char* name) const {
    const auto found = cells.find(name);
    if (found == cells.end()) return std::nullopt;
    const auto cell = parse_cell(found->second);
    return cell ? std::optional(cell->value) : std::nullopt;
  }
};

ColumnRow row_of(const std::vector<std::string>& names,
                 const std::vector<std::string_view>& words) {
  ColumnRow row;
  std::string time;
  for (std::size_t i = 0; i < names.size() && i < words.size(); ++i) {
    if (names[i] == "date" || names[i] == "time") {
      if (!time.empty()) time += ' ';
      time += words[i];
    }
    row.cells[names[i]] = words[i];
  }
  if (!time.empty()) row.time_s = parse_time(time);
  return row;
}

// `dmon -s v`: power violations as a share of the time, thermal ones as yes or no.
void add_violations(const ColumnRow& row, LogRow& entry) {
  const auto power = row.number("pviol");
  const auto thermal = row.number("tviol");
  if (!power && !thermal) return;
  entry.limits.emplace();
  if (power.value_or(0) > 0) entry.limits->add(ClockLimit::sw_power_cap);
  if (thermal.value_or(0) > 0) entry.limits->add(ClockLimit::sw_thermal_slowdown);
}

void add_process(const ColumnRow& row, LogBuilder& builder, std::map<int, double>& busy_of_gpu) {
  const auto gpu = row.number("gpu");
  const auto pid = row.number("pid");
  if (!gpu || *gpu < 0 || *gpu > 1023) return;
  const int index = static_cast<int>(*gpu);
  // A GPU with two processes has two lines: its share of SMs is their sum. The first line of a GPU
  // begins it.
  if (const auto sm = row.number("sm"))
    busy_of_gpu[index] = std::min(1.0, busy_of_gpu[index] + *sm / 100);
  else
    busy_of_gpu.try_emplace(index, 0.0);
  if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF) return;
  const auto type = row.cells.find("type");
  // A desktop's windows do both; what only computes is a C.
  const auto command = row.cells.find("command");
  const bool is_python = command != row.cells.end() && command->second.starts_with("python");
  if (type != row.cells.end() && type->second.ends_with('G') && !(is_python && type->second != "G"))
    return;
  ProcessSample process;
  process.pid = static_cast<int>(*pid);
  ProcessOnGpu use{index, std::nullopt};
  if (const auto memory = row.number("fb"))
    use.memory_bytes = static_cast<std::uint64_t>(std::clamp(*memory, 0.0, 1e8) * 1048576);
  process.gpus = {use};
  builder.add_processes(row.time_s, {std::move(process)});
}

// "# nvidia-smi dmon -i 0 -d 15": people note how they made the file.
std::optional<double> interval_in(std::string_view line) {
  constexpr std::string_view kDelay = " -d ";
  const auto at = line.find(kDelay);
  if (at == std::string_view::npos ||
      (line.find("dmon") == std::string_view::npos && line.find("pmon") == std::string_view::npos))
    return std::nullopt;
  const auto words = words_in(line.substr(at + kDelay.size()));
  const auto seconds = words.empty() ? std::nullopt : parse_integer(words.front());
  return seconds && *seconds > 0 && *seconds <= 3600 ? std::optional<double>(*seconds)
                                                     : std::nullopt;
}

}  // namespace

std::optional<ParsedLog> parse_nvidia_smi_columns(const std::vector<std::string>& lines) {
  std::vector<std::string> names;
  bool of_processes = false;
  std::size_t rows = 0;
  std::optional<LogBuilder> builder;
  std::map<int, double> busy_of_gpu;
  std::optional<double> pending_time;
  int last_gpu = -1;
  std::set<std::pair<int, std::string>> in_round;
  const auto flush_processes = [&] {
    for (const auto& [gpu, busy] : busy_of_gpu) {
      LogRow row;
      row.gpu = gpu;
      row.time_s = pending_time;
      row.busy = busy;
      builder->add(std::move(row));
    }
    busy_of_gpu.clear();
    builder->end_tick();
  };
  std::optional<double> interval_s;
  bool any_of_another_command = false;
  for (const std::string& in_text : lines) {
    const std::string line(trim(in_text));
    if (const auto stated = interval_in(line)) interval_s = stated;
    if (auto found = names_in(line)) {
      const bool has_pids = std::ranges::find(*found, "pid") != found->end();
      // dmon and pmon in one text were read one after the other, and do not belong together.
      if (builder && rows > 0 && has_pids != of_processes) {
        any_of_another_command = true;
        names.clear();
        continue;
      }
      names = std::move(*found);
      of_processes = has_pids;
      if (!builder)
        builder.emplace(SourceKind::nvidia_smi,
                        of_processes ? ProcessCoverage::all : ProcessCoverage::none);
      if (interval_s) builder->taken_every(*interval_s);
      continue;
    }
    if (names.empty() || trim(line).empty() || (line.starts_with("#") && !is_row_behind_mark(line)))
      continue;
    const std::string parted = parted_by_blanks(line.substr(line.starts_with("#") ? 1 : 0));
    const ColumnRow row = row_of(names, words_in(parted));
    const auto gpu = row.number("gpu");
    if (!gpu || *gpu < 0 || *gpu > 1023) continue;
    ++rows;
    if (of_processes) {
      // Lines are in the order of GPUs: a smaller number, or a process that comes again, begins the
      // next round.
      const bool again = !in_round
                              .insert({static_cast<int>(*gpu),
                                       row.cells.contains("pid") ? row.cells.at("pid") : ""})
                              .second;
      if (static_cast<int>(*gpu) < last_gpu || again) {
        flush_processes();
        in_round = {{static_cast<int>(*gpu), row.cells.contains("pid") ? row.cells.at("pid") : ""}};
      }
      last_gpu = static_cast<int>(*gpu);
      pending_time = row.time_s;
      add_process(row, *builder, busy_of_gpu);
      continue;
    }
    LogRow entry;
    entry.gpu = static_cast<int>(*gpu);
    entry.time_s = row.time_s;
    if (const auto sm = row.number("sm")) entry.busy = *sm / 100;
    if (const auto power = row.number("pwr")) entry.power_mw = *power * 1e3;
    if (const auto temperature = row.number(row.cells.contains("gtemp") ? "gtemp" : "temp"))
      entry.temperature_c = *temperature;
    if (const auto clock = row.number("pclk")) entry.sm_clock_mhz = *clock;
    if (const auto memory = row.number("fb")) entry.memory_used_bytes = *memory * 1048576;
    add_violations(row, entry);
    builder->add(std::move(entry));
  }
  if (!builder || rows == 0) return std::nullopt;
  if (of_processes) flush_processes();
  auto log = builder->build();
  if (log && any_of_another_command)
    log->notes.push_back(
        "dmon and pmon were read one after the other: the readings of the first are taken");
  return log;
}

}  // namespace lockstep
