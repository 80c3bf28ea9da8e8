#include "sources/csv/text_blocks.hpp"

#include <cstdlib>

#include "base/text.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

// A time at the start of the line, in brackets or not.
std::optional<double> time_in(std::string_view line) {
  line = trim(line);
  if (!line.empty() && line.front() == '[') {
    const auto end = line.find(']');
    if (end != std::string_view::npos)
      if (const auto time = parse_time(line.substr(1, end - 1))) return time;
  }
  for (const std::size_t length :
       {line.size(), std::size_t{26}, std::size_t{24}, std::size_t{23}, std::size_t{19}})
    if (length <= line.size())
      if (const auto time = parse_time(line.substr(0, length));
          time && line.substr(0, length).find(':') != std::string_view::npos)
        return time;
  return std::nullopt;
}

// The number of "GPU 3", "GPU3:", "[GPU 3]" at the start of the line, and what follows.
std::optional<int> take_gpu(std::string_view& line) {
  const std::string lower = lower_case(line);
  const auto at = lower.find("gpu");
  if (at == std::string::npos || at > 30) return std::nullopt;
  std::size_t digit = at + 3;
  while (digit < line.size() && (line[digit] == ' ' || line[digit] == '#' || line[digit] == '[' ||
                                 line[digit] == '_' || line[digit] == ':'))
    ++digit;
  if (digit >= line.size() || line[digit] < '0' || line[digit] > '9') return std::nullopt;
  std::size_t end = digit;
  while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
  const auto number = parse_integer(line.substr(digit, end - digit));
  line.remove_prefix(end);
  return number && *number < 1024 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// A value behind a word and a colon or an equals sign: "Utilization: 97%".
std::optional<Cell> value_after(std::string_view text, std::size_t from) {
  const auto mark = text.find_first_of(":=", from);
  if (mark == std::string_view::npos || mark - from > 24) return std::nullopt;
  std::string_view rest = trim(text.substr(mark + 1));
  const auto end = rest.find_first_not_of("0123456789.+-");
  std::string_view number = rest.substr(0, end);
  std::string_view unit =
      end == std::string_view::npos ? std::string_view() : trim(rest.substr(end));
  const auto unit_end = unit.find_first_of(" |,/;)");
  return parse_cell(std::string(number) + " " + std::string(unit.substr(0, unit_end)));
}

std::optional<Cell> find_value(std::string_view text, std::string_view word,
                               std::string_view not_before = "") {
  const std::string lower = lower_case(text);
  for (auto at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1)) {
    if (!not_before.empty() && at >= not_before.size() &&
        lower.compare(at - not_before.size(), not_before.size(), not_before) == 0)
      continue;
    if (const auto cell = value_after(text, at)) return cell;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ParsedLog> parse_text_blocks(const std::vector<std::string>& lines) {
  LogBuilder builder(SourceKind::csv, ProcessCoverage::none);
  std::optional<double> time;
  std::size_t found = 0;
  for (const std::string& line : lines) {
    std::string_view rest = line;
    if (const auto seen = time_in(line)) {
      if (seen != time) builder.end_tick();
      time = seen;
    }
    const auto gpu = take_gpu(rest);
    if (!gpu) continue;
    LogRow row;
    row.gpu = *gpu;
    row.time_s = time;
    const auto colon = rest.find("):");
    if (rest.starts_with(" (") && colon != std::string_view::npos) {
      row.name = std::string(rest.substr(2, colon - 2));
      rest = rest.substr(colon + 2);
    }
    const auto busy = find_value(rest, "util", "memory ");
    if (busy && (busy->unit == Unit::percent || busy->unit == Unit::none))
      row.busy = busy->value / 100;
    if (const auto power = find_value(rest, "power"))
      row.power_mw = as_milliwatts(power->value, power->unit);
    if (const auto temperature = find_value(rest, "temp")) row.temperature_c = temperature->value;
    if (const auto memory = find_value(rest, "mem");
        memory && memory->unit != Unit::percent && memory->unit != Unit::none)
      row.memory_used_bytes = as_bytes(memory->value, memory->unit);
    if (!row.busy && !row.power_mw) continue;
    ++found;
    builder.add(std::move(row));
  }
  // A few such lines in a log of something else are not what it tells.
  constexpr std::size_t kManyLines = 200;
  constexpr std::size_t kOneInSo = 100;
  if (found == 0 || (lines.size() > kManyLines && found * kOneInSo < lines.size()))
    return std::nullopt;
  return builder.build();
}

}  // namespace lockstep
