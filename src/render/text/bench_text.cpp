#include "render/text/bench_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "render/text/paint.hpp"
#include "render/text/table.hpp"
#include "render/words/bench_words.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kPartsInTable = 3;

std::string starred(const BenchRow& row) {
  return row.what.title + (row.too_few_cores ? " *" : "");
}

std::string scaling_table(const BenchReport& report, std::optional<std::size_t> width) {
  const bool epochs =
      std::ranges::any_of(report.rows, [](const BenchRow& row) { return row.epoch_s.has_value(); });
  std::vector<std::pair<std::string, Align>> columns = {
      {"way", Align::left},        {"devices", Align::right}, {"batch", Align::left},
      {report.unit, Align::right}, {"rounds", Align::left},   {"speedup", Align::right},
      {"efficiency", Align::right}};
  if (epochs) columns.emplace_back("epoch", Align::right);
  columns.emplace_back("busy", Align::left);
  columns.emplace_back("time of a step", Align::left);
  Table table(columns);
  for (const BenchRow& row : report.rows) {
    std::vector<std::string> cells = {
        starred(row),
        std::to_string(row.what.devices),
        batch_words(row.what),
        speed_words(row.speed),
        row.rounds.size() < 2
            ? "one"
            : fmt::format("{}-{}", speed_words(row.slowest), speed_words(row.fastest)),
        fmt::format("{:.2f}x", row.speedup),
        fmt::format("{:.0f} %", row.efficiency * 100)};
    if (epochs) cells.push_back(row.epoch_s ? fmt::format("{:.1f} s", *row.epoch_s) : "-");
    cells.push_back(busy_words(row));
    cells.push_back(parts_words(row, kPartsInTable));
    table.add(std::move(cells));
  }
  return table.text(width);
}

std::string presets_table(const BenchReport& report, std::optional<std::size_t> width) {
  Table table({{"preset", Align::left},
               {"devices", Align::right},
               {"batch", Align::left},
               {report.unit, Align::right},
               {"rounds", Align::left},
               {"speedup", Align::right},
               {"an epoch here", Align::right},
               {"published", Align::right},
               {"speedup", Align::right},
               {"busy", Align::left}});
  const double first = report.rows.front().what.published_minutes.value_or(0);
  for (const BenchRow& row : report.rows) {
    const double minutes = row.what.published_minutes.value_or(0);
    table.add({starred(row), std::to_string(row.what.devices), batch_words(row.what),
               speed_words(row.speed),
               row.rounds.size() < 2
                   ? "one"
                   : fmt::format("{}-{}", speed_words(row.slowest), speed_words(row.fastest)),
               fmt::format("{:.2f}x", row.speedup),
               row.epoch_s ? minutes_words(*row.epoch_s / 60) : "-", minutes_words(minutes),
               minutes > 0 ? fmt::format("{:.2f}x", first / minutes) : "-", busy_words(row)});
  }
  return table.text(width);
}

// A bar a row; the stroke is what so many devices could give.
std::string bars(const BenchReport& report, const Painter& paint) {
  constexpr int kColumns = 48;
  int most = 1;
  std::size_t longest = 0;
  for (const BenchRow& row : report.rows) {
    most = std::max(most, row.what.devices);
    longest = std::max(longest, display_width(starred(row)));
  }
  const auto column = [&](double speedup) {
    return static_cast<int>(std::lround(std::clamp(speedup / most, 0.0, 1.0) * kColumns));
  };
  std::string text;
  for (const BenchRow& row : report.rows) {
    const int filled = column(row.speedup);
    const int ideal = column(row.what.devices);
    std::string bar;
    for (int i = 0; i < kColumns; ++i) bar += i < filled ? "█" : i < ideal ? "·" : " ";
    const std::string title = starred(row);
    const std::string said = fmt::format("{:.2f}x of {}", row.speedup, row.what.devices);
    text += fmt::format("  {}{}  {}  {}\n", title, std::string(longest - display_width(title), ' '),
                        row.efficiency >= 0.85 ? paint.good(bar) : bar, said);
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

}  // namespace

std::string bench_text(const BenchReport& report, Colors colors, std::optional<std::size_t> width) {
  const Painter paint(colors);
  std::string text = paint.bold(heading_words(report)) + "\n\n";
  text += report.kind == BenchKind::scaling ? scaling_table(report, width)
                                            : presets_table(report, width);
  text += "\nspeedup over the first row; the dots are what so many devices could give\n" +
          bars(report, paint);
  const auto sentences = [&](const std::vector<std::string>& words) {
    for (const std::string& sentence : words) text += wrapped(sentence, 2, width.value_or(110));
  };
  const auto fit = fit_words(report);
  if (!fit.empty()) text += "\n" + paint.bold("more devices") + "\n";
  sentences(fit);
  const auto published = published_words(report);
  if (!published.empty()) text += "\n" + paint.bold("published") + "\n";
  sentences(published);
  if (!report.notes.empty()) text += "\n" + paint.bold("to be known") + "\n";
  sentences(report.notes);
  return text;
}

std::string bench_csv(const BenchReport& report) {
  std::string text =
      "title,way,growth,devices,ranks,batch,accumulation,unit,speed,slowest,fastest,rounds,speedup,"
      "efficiency,step_ms,epoch_s,mean_busy,published_minutes,too_few_cores\n";
  for (const BenchRow& row : report.rows) {
    double busy = 0;
    for (const double one : row.busy) busy += one / static_cast<double>(row.busy.size());
    const char* growth = row.what.growth == Growth::weak     ? "weak"
                         : row.what.growth == Growth::strong ? "strong"
                                                             : "";
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{:.4g},{:.4g},{:.4g},{},{:.4f},{:.4f},{:.3f},{},{},{},{}\n",
        csv_cell(row.what.title), row.what.way, growth, row.what.devices, row.what.ranks,
        row.what.batch, row.what.accumulation, report.unit, row.speed, row.slowest, row.fastest,
        row.rounds.size(), row.speedup, row.efficiency, row.step_ms,
        row.epoch_s ? fmt::format("{:.2f}", *row.epoch_s) : "",
        row.busy.empty() ? "" : fmt::format("{:.4f}", busy),
        row.what.published_minutes ? fmt::format("{}", *row.what.published_minutes) : "",
        row.too_few_cores ? 1 : 0);
  }
  return text;
}

}  // namespace lockstep
