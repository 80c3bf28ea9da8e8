#include "sources/gpustat/gpustat_table.hpp"

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

std::vector<std::string_view> parted_by_bars(std::string_view line) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto bar = line.find('|');
    parts.push_back(trim(line.substr(0, bar)));
    if (bar == std::string_view::npos) return parts;
    line.remove_prefix(bar + 1);
  }
}

// "61234 / 81920 MB", "250 / 400 W": two numbers and what they count.
struct OfAll {
  double used;
  double all;
  std::string_view unit;
};
std::optional<OfAll> used_of_all(std::string_view text) {
  const auto words = words_in(text);
  if (words.size() < 4 || words[1] != "/") return std::nullopt;
  const auto used = parse_cell(words[0]);
  const auto all = parse_cell(words[2]);
  if (!used || !all || used->unit != Unit::none || all->unit != Unit::none) return std::nullopt;
  return OfAll{used->value, all->value, words[3]};
}

// "ada:python/4242(61000M)": gpustat -cp; without the pid nobody is named.
std::optional<ProcessSample> process_of(std::string_view word, int gpu) {
  const auto bracket = word.find('(');
  const auto slash = word.rfind('/', bracket);
  if (bracket == std::string_view::npos || slash == std::string_view::npos) return std::nullopt;
  const auto pid = parse_integer(word.substr(slash + 1, bracket - slash - 1));
  if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF) return std::nullopt;
  ProcessSample process;
  process.pid = static_cast<int>(*pid);
  ProcessOnGpu use{gpu, std::nullopt};
  std::string_view memory = word.substr(bracket + 1);
  if (const auto end = memory.find('M'); end != std::string_view::npos)
    if (const auto cell = parse_cell(memory.substr(0, end)); cell && cell->value < 1e8)
      use.memory_bytes = static_cast<std::uint64_t>(std::max(0.0, cell->value) * 1048576);
  process.gpus = {use};
  return process;
}

}  // namespace

std::optional<ParsedLog> parse_gpustat_table(const std::vector<std::string>& lines) {
  LogBuilder builder(SourceKind::gpustat, ProcessCoverage::partial);
  std::optional<double> time;
  bool any = false;
  for (const std::string& raw : lines) {
    std::string line(trim(raw));
    if (line.starts_with("| [")) line.erase(0, 2);  // rows of a Markdown table
    const auto parts = parted_by_bars(line);
    if (!line.starts_with("[") || parts.size() < 3) {
      // "node7   Wed Apr  9 10:26:15 2025  535.104.05"
      for (auto at = line.find_first_of(" \t"); at != std::string::npos && parts.size() == 1;
           at = line.find_first_of(" \t", at + 1))
        if (const auto seen = parse_time(std::string_view(line).substr(at).substr(0, 48))) {
          time = seen;
          builder.end_tick();
          break;
        }
      continue;
    }
    const auto bracket = parts[0].find(']');
    const auto index = bracket == std::string_view::npos
                           ? std::nullopt
                           : parse_integer(trim(parts[0].substr(1, bracket - 1)));
    if (!index || *index < 0 || *index > 1023) continue;
    LogRow row;
    row.gpu = static_cast<int>(*index);
    row.time_s = time;
    row.name = std::string(trim(parts[0].substr(bracket + 1)));
    // "45'C,  97 %,  250 / 400 W": fan and encoders, too, where they were asked for
    std::string_view rest = parts[1];
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      const std::string_view part = trim(rest.substr(0, comma));
      if (part.ends_with("'C") || part.ends_with("\xC2\xB0"
                                                 "C")) {
        if (const auto cell = parse_cell(part.substr(0, part.find_first_not_of("0123456789"))))
          row.temperature_c = cell->value;
      } else if (const auto power = used_of_all(part); power && power->unit == "W") {
        row.power_mw = power->used * 1e3;
        row.power_limit_mw = power->all * 1e3;
      } else if (const auto cell = parse_cell(part);
                 cell && cell->unit == Unit::percent && !row.busy) {
        row.busy = cell->value / 100;
      }
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (const auto memory = used_of_all(parts[2]); memory && memory->unit == "MB") {
      row.memory_used_bytes = memory->used * 1048576;  // gpustat's MB are MiB
      row.memory_total_bytes = memory->all * 1048576;
    }
    any = any || row.busy || row.memory_used_bytes;
    builder.add(std::move(row));
    if (parts.size() > 3)
      for (const std::string_view word : words_in(parts[3]))
        if (auto process = process_of(word, static_cast<int>(*index)))
          builder.add_processes(time, {std::move(*process)});
  }
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
