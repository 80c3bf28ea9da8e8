#include "sources/nvidia_smi/table_log.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

std::optional<Cell> unit_cell(std::string_view word) {
  const auto end = word.find_first_not_of("0123456789.");
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  return parse_cell(std::string(word.substr(0, end)) + " " + std::string(word.substr(end)));
}

struct FirstLine {
  LogRow row;
  std::string bus;
};

// "|   0  NVIDIA A100-SXM4-80GB          Off | 00000000:07:00.0 Off |"
std::optional<FirstLine> first_line_of_gpu(std::string_view line) {
  if (!line.starts_with("|") || line.find(":") == std::string_view::npos) return std::nullopt;
  const auto bar = line.find('|', 1);
  if (bar == std::string_view::npos) return std::nullopt;
  const auto words = words_in(line.substr(1, bar - 1));
  if (words.size() < 2) return std::nullopt;
  const auto index = parse_integer(words.front());
  const auto bus = words_in(line.substr(bar + 1));
  if (!index || *index < 0 || *index > 1023 || bus.empty() ||
      std::ranges::count(bus.front(), ':') != 2)
    return std::nullopt;
  LogRow row;
  row.gpu = static_cast<int>(*index);
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "On" || words[i] == "Off" || words[i] == "N/A") break;
    if (!row.name.empty()) row.name += ' ';
    row.name += words[i];
  }
  return FirstLine{std::move(row), std::string(bus.front())};
}

// "| N/A   29C    P0              71W / 400W |   5729MiB / 81920MiB |      0%      Default |"
bool second_line_of_gpu(std::string_view line, LogRow& row) {
  bool any = false;
  // "70W|": newer drivers and Windows leave no blank before a bar.
  std::string without_bars(line);
  std::ranges::replace(without_bars, '|', ' ');
  const auto words = words_in(without_bars);
  std::size_t percent_after_memory = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto cell = unit_cell(words[i]);
    if (!cell) continue;
    if (cell->unit == Unit::watt) {
      // "ERR! / 250W": the limit alone
      const bool is_the_limit = row.power_mw || (i > 0 && words[i - 1] == "/");
      (is_the_limit ? row.power_limit_mw : row.power_mw) = cell->value * 1e3;
      any = true;  // with MIG neither memory nor utilization is told of the whole GPU
    }
    if (cell->unit == Unit::celsius && !row.temperature_c) row.temperature_c = cell->value;
    if (cell->unit == Unit::mebibyte || cell->unit == Unit::gibibyte) {  // GiB: nvitop
      (row.memory_used_bytes ? row.memory_total_bytes : row.memory_used_bytes) =
          as_bytes(cell->value, cell->unit);
      percent_after_memory = 1;
      any = true;
    }
    // the one before is the fan's
    if (cell->unit == Unit::percent && percent_after_memory == 1 && !row.busy)
      row.busy = cell->value / 100;
  }
  return any;
}

// "|    0   N/A  N/A    123456      C   python3                        5000MiB |"
std::optional<ProcessSample> process_line(std::string_view line) {
  if (!line.starts_with("|")) return std::nullopt;
  const auto words = words_in(line.substr(1));
  if (words.size() < 5) return std::nullopt;
  const auto gpu = parse_integer(words[0]);
  if (!gpu || *gpu < 0 || *gpu > 1023) return std::nullopt;
  for (std::size_t i = 1; i + 2 < words.size(); ++i) {
    const auto pid = parse_integer(words[i]);
    const bool type = words[i + 1] == "C" || words[i + 1] == "G" || words[i + 1] == "C+G" ||
                      words[i + 1] == "M+C";
    if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF || !type) continue;
    if (words[i + 1] == "G") return std::nullopt;  // draws a screen
    // A desktop's windows do both, all of them on Windows; what only computes is a C.
    if (words[i + 1] == "C+G" && words[i + 2].find("python") == std::string_view::npos)
      return std::nullopt;
    ProcessSample process;
    process.pid = static_cast<int>(*pid);
    ProcessOnGpu use{static_cast<int>(*gpu), std::nullopt};
    for (std::size_t rest = i + 2; rest < words.size(); ++rest)
      if (const auto cell = unit_cell(words[rest]);
          cell && cell->unit == Unit::mebibyte && cell->value < 1e8)
        use.memory_bytes = static_cast<std::uint64_t>(cell->value * 1048576);
    process.gpus = {use};
    // "VLLM::Worker_TP0" tells what runs; "…/bin/python3" tells nothing.
    if (const std::string name(words[i + 2]);
        name.find("python") == std::string::npos && name != "N/A" && !unit_cell(words[i + 2]))
      process.command = {name};
    return process;
  }
  return std::nullopt;
}

constexpr std::string_view kTable = "| NVIDIA-SMI";
constexpr std::string_view kNoReading = "ERR!";

std::string joined_numbers(const std::set<int>& numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return join(words, ", ");
}

// Looks so far apart say nothing of the time between them, and may be of different jobs: the last
// one counts.
bool are_far_apart(const std::vector<std::string>& lines) {
  constexpr double kFarApartS = 600;
  std::vector<double> gaps;
  std::optional<double> before;
  for (const std::string& line : lines) {
    const auto time = line.find('|') == std::string::npos ? parse_time(line) : std::nullopt;
    if (time && before) gaps.push_back(*time - *before);
    if (time) before = time;
  }
  if (gaps.empty()) return false;
  const auto middle = gaps.begin() + std::ssize(gaps) / 2;
  std::ranges::nth_element(gaps, middle);
  return *middle >= kFarApartS;
}

}  // namespace

std::optional<ParsedLog> parse_nvidia_smi_tables(const std::vector<std::string>& lines) {
  const bool far_apart = are_far_apart(lines);
  const auto speaks_of_a_table = [](const std::string& line) {
    return line.find(kTable) != std::string::npos;
  };
  auto begin = lines.begin();
  if (far_apart)
    if (const auto last = std::ranges::find_if(lines.rbegin(), lines.rend(), speaks_of_a_table);
        last != lines.rend())
      begin = last.base() - 1;
  std::map<int, std::string> bus_of_gpu;
  bool of_another_machine = false;
  bool any_of_another_machine = false;
  std::set<int> unreadable;
  std::size_t tables = 0;
  std::size_t rows = 0;
  bool in_processes = false;
  bool any_process = false;
  std::optional<double> time;
  std::optional<LogRow> pending;
  LogBuilder with_processes(SourceKind::nvidia_smi, ProcessCoverage::all);
  LogBuilder without(SourceKind::nvidia_smi, ProcessCoverage::none);
  const auto both = [&](const auto& act) {
    act(with_processes);
    act(without);
  };
  for (const std::string& line : std::ranges::subrange(begin, lines.end())) {
    if (speaks_of_a_table(line)) {
      ++tables;
      in_processes = of_another_machine = false;
      both([](LogBuilder& builder) { builder.end_tick(); });
    }
    if (const auto seen = parse_time(line); seen && line.find('|') == std::string::npos)
      time = seen;
    if (line.find("| Processes:") != std::string::npos) in_processes = true;
    if (of_another_machine) continue;
    if (in_processes) {
      if (auto process = process_line(line)) {
        any_process = true;
        with_processes.add_processes(time, {std::move(*process)});
      }
      continue;
    }
    if (pending && line.find(kNoReading) != std::string::npos) unreadable.insert(pending->gpu);
    if (auto first = first_line_of_gpu(line)) {
      if (line.find(kNoReading) != std::string::npos) unreadable.insert(first->row.gpu);
      // GPUs keep their places on a bus: this one is a GPU of another machine.
      const auto known = bus_of_gpu.emplace(first->row.gpu, first->bus).first;
      of_another_machine = known->second != first->bus;
      any_of_another_machine = any_of_another_machine || of_another_machine;
      pending.reset();
      if (!of_another_machine) pending = std::move(first->row);
      continue;
    }
    if (pending && second_line_of_gpu(line, *pending)) {
      ++rows;
      pending->time_s = time;
      both([&](LogBuilder& builder) { builder.add(*pending); });
      pending.reset();
    }
  }
  if (tables == 0 && rows == 0) return std::nullopt;  // the first lines may be cut off
  // In a container the list is empty though GPUs are in use: then it says nothing.
  auto log = any_process ? with_processes.build() : without.build();
  if (log && any_of_another_machine)
    log->notes.push_back(
        "tables of several machines, for a GPU's number has several places on the bus: those of "
        "the first machine are read");
  if (log && !unreadable.empty())
    log->notes.push_back("GPU " + joined_numbers(unreadable) +
                         ": ERR! stands where readings should: the driver does not get them from "
                         "it (dmesg | grep -i xid; a reset or a reboot)");
  if (log && far_apart)
    log->notes.push_back("the looks are ten minutes and more apart: only the last is read");
  return log;
}

}  // namespace lockstep
