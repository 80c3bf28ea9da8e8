#include "render/text/steps_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "render/text/table.hpp"
#include "render/text/trace_text.hpp"
#include "render/words/device_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostPlaces = 12;
constexpr double kWorthALine = 0.005;
constexpr std::size_t kPlaceColumns = 34;
constexpr std::size_t kWhatColumns = 22;

// One line, for runs whose trainer marked its steps and nothing else.
std::string in_one_line(const StepSignals& steps) {
  std::vector<std::pair<double, std::size_t>> parts;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (steps.share[i] >= kWorthALine) parts.emplace_back(steps.share[i], i);
  std::sort(parts.rbegin(), parts.rend());
  std::vector<std::string> words;
  for (const auto& [share, part] : parts)
    words.push_back(fmt::format("{} {:.0f} %", kStepSpanNames[part], share * 100));
  return fmt::format("steps: {} of {:.1f} ms (median): {}\n\n", steps.count, steps.duration_p50_ms,
                     join(words, ", "));
}

std::string by_part(const StepSignals& steps, std::size_t width) {
  Table table({{"part", Align::left},
               {"median", Align::right},
               {"95 %", Align::right},
               {"longest", Align::right},
               {"share", Align::right}});
  double sum = 0;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
    const bool hidden = i == index_of(StepPart::collective_hidden);
    if (!hidden) sum += steps.share[i];
    if (steps.share[i] < 0.0005 && steps.max_ms[i] < 0.05) continue;
    table.add({part_words(i), milliseconds_words(steps.p50_ms[i]),
               milliseconds_words(steps.p95_ms[i]), milliseconds_words(steps.max_ms[i]),
               hidden ? fmt::format("({:.1f} %)", steps.share[i] * 100)
                      : fmt::format("{:.1f} %", steps.share[i] * 100)});
  }
  table.add({"all", "", "", "", fmt::format("{:.1f} %", sum * 100)});
  return table.text(width);
}

std::string by_place(const StepSignals& steps, std::size_t width) {
  Table table({{"share", Align::right},
               {"part", Align::left},
               {"what", Align::left},
               {"where", Align::left},
               {"how often", Align::left}});
  std::size_t lines = 0;
  for (const PlaceSignals& place : steps.places) {
    if (place.share < kWorthALine || place.place.file.empty() || lines == kMostPlaces) continue;
    ++lines;
    std::string ranks;
    if (steps.ranks.size() > 1 && place.ranks.size() < steps.ranks.size())
      ranks = fmt::format(", rank {}", join_numbers(place.ranks));
    table.add({fmt::format("{:.1f} %", place.share * 100), part_words(index_of(place.part)),
               cut_to(printable(what_words(place)), kWhatColumns),
               printable(short_place(place.place.file, place.place.line, kPlaceColumns)),
               how_often_words(place) + ranks});
  }
  return lines == 0 ? std::string() : table.text(width) + "\n";
}

// Where ranks differ, the parts in which they do.
std::string by_rank(const StepSignals& steps, std::size_t width) {
  if (steps.ranks.size() < 2) return "";
  constexpr std::size_t kMostRanks = 16;
  constexpr double kDiffer = 0.02;
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
    const auto [least, most] = std::ranges::minmax_element(
        steps.ranks,
        [i](const RankSteps& a, const RankSteps& b) { return a.share[i] < b.share[i]; });
    if (most->share[i] - least->share[i] >= kDiffer) parts.push_back(i);
  }
  if (parts.empty()) return "";
  std::vector<std::pair<std::string, Align>> columns = {
      {"rank", Align::right}, {"steps", Align::right}, {"median", Align::right}};
  for (const std::size_t part : parts) columns.emplace_back(part_words(part), Align::right);
  Table table(columns);
  for (std::size_t i = 0; i < steps.ranks.size() && i < kMostRanks; ++i) {
    const RankSteps& rank = steps.ranks[i];
    std::vector<std::string> cells = {std::to_string(rank.rank), std::to_string(rank.count),
                                      milliseconds_words(rank.duration_ms)};
    for (const std::size_t part : parts)
      cells.push_back(fmt::format("{:.1f} %", rank.share[part] * 100));
    table.add(std::move(cells));
  }
  return table.text(width) + "\n";
}

}  // namespace

std::string steps_text(const StepSignals& steps, std::size_t width, const Painter& paint) {
  if (steps.places.empty()) return in_one_line(steps);
  const std::size_t ranks = steps.ranks.size();
  std::string text =
      paint.bold(fmt::format("steps: {} of {} (median){}", steps.count,
                             milliseconds_words(steps.duration_p50_ms),
                             ranks > 1 ? fmt::format(" on each of {} ranks", ranks) : "")) +
      "\n\n";
  text += by_part(steps, width) + "\n";
  text += by_place(steps, width);
  text += by_rank(steps, width);
  if (steps.gpu_idle_share && !steps.devices) {
    text += fmt::format("between steps the GPU had nothing to do for {:.1f} % of the time",
                        *steps.gpu_idle_share * 100);
    if (steps.hidden_data_wait && *steps.hidden_data_wait >= kWorthALine)
      text +=
          fmt::format("; {:.1f} % of waiting for data was hidden behind its work and cost nothing",
                      *steps.hidden_data_wait * 100);
    text += "\n\n";
  }
  return text;
}

std::string devices_text(const Report& report, std::size_t width, const Painter& paint) {
  std::string text;
  for (const WordTable& table : device_tables(report)) text += word_table_text(table, width, paint);
  for (const std::string& sentence : device_sentences(report)) text += wrapped(sentence, 0, width);
  if (const std::string standing = standing_words(report); !standing.empty())
    text += paint.faint(standing) + "\n";
  return text.empty() ? text : text + "\n";
}

std::string loader_text(const LoaderAnswer& answer, std::size_t width, const Painter& paint) {
  std::string text =
      paint.bold(fmt::format(
          "data loader: {} batches{}", answer.alone.batches,
          answer.alone.batch_size ? fmt::format(" of {}", *answer.alone.batch_size) : "")) +
      "\n\n";
  Table table({{"", Align::left},
               {"a batch", Align::right},
               {"the first", Align::right},
               {"batches/s", Align::right}});
  const auto add = [&](const std::string& name, const LoaderTrial& trial) {
    table.add({name, milliseconds_words(trial.batch_ms), milliseconds_words(trial.first_ms),
               trial.batch_ms > 0 ? fmt::format("{:.0f}", 1e3 / trial.batch_ms) : "-"});
  };
  add(fmt::format("as it is, {} worker{}", answer.alone.workers,
                  answer.alone.workers == 1 ? "" : "s"),
      answer.alone);
  for (const LoaderTrial& trial : answer.trials)
    add(fmt::format("{} worker{}", trial.workers, trial.workers == 1 ? "" : "s"), trial);
  table.add({"step alone", milliseconds_words(answer.step_alone_ms), "",
             answer.step_alone_ms > 0 ? fmt::format("{:.0f}", 1e3 / answer.step_alone_ms) : "-"});
  text += table.text(width) + "\n";
  if (answer.transfer) {
    text += fmt::format("a batch is {}", format_bytes(answer.transfer->bytes));
    if (answer.transfer->pageable_ms && answer.transfer->pinned_ms)
      text += fmt::format(": to the GPU in {} from ordinary memory, {} from pinned",
                          milliseconds_words(*answer.transfer->pageable_ms),
                          milliseconds_words(*answer.transfer->pinned_ms));
    text += "\n";
  }
  text += answer.sentence + "\n";
  for (const std::string& warning : answer.warnings)
    text += paint.bold("note") + ": " + warning + "\n";
  return text + "\n";
}

}  // namespace lockstep
