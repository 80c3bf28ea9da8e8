#include "sources/log/step_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr double kLongestStepMs = 3.6e6;

// The number that begins the text, behind blanks, and what follows it.
struct Number {
  double value;
  std::string_view rest;
};
std::optional<Number> number_at(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  return Number{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

// Behind a word that begins the line or follows no letter: "time: 0.3", but not "data_time: 0.3".
std::optional<Number> number_behind(std::string_view line, std::string_view word) {
  for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const bool is_within = before == '_' || before == '.' || (before >= 'a' && before <= 'z') ||
                           (before >= 'A' && before <= 'Z');
    if (is_within) continue;
    if (const auto number = number_at(line.substr(at + word.size()))) return number;
  }
  return std::nullopt;
}

std::optional<double> in_ms(const std::optional<Number>& number, double unit_ms) {
  const double value = number ? number->value * unit_ms : 0;
  return value > 0 && value <= kLongestStepMs ? std::optional(value) : std::nullopt;
}

StepLine of_step(std::optional<double> step_ms, std::optional<double> data_ms = std::nullopt) {
  return {0, step_ms.value_or(0), data_ms};
}

// PyTorch's ImageNet example and its many children: this batch, and in brackets the mean so far.
// The mean is taken: one batch in ten may always be the one that a worker brings late.
std::optional<double> mean_so_far(std::string_view line, std::string_view word) {
  const auto now = number_behind(line, word);
  if (!now) return std::nullopt;
  const auto open = now->rest.find_first_not_of(" s\t");
  if (open == std::string_view::npos || now->rest[open] != '(') return std::nullopt;
  const auto mean = number_at(now->rest.substr(open + 1));
  return mean ? std::optional(mean->value * 1e3) : std::nullopt;
}
StepLine time_and_data(std::string_view line) {
  const auto step = mean_so_far(line, "Time");
  const auto data = mean_so_far(line, "Data");
  return step && data && *data <= *step ? of_step(step, data) : StepLine{};
}

// Of "[0][200/5005]" the 200: which batch of its epoch a line tells of.
std::optional<double> batch_of_epoch(std::string_view line) {
  const auto slash = line.find('/');
  if (slash == std::string_view::npos || line.find(']', slash) == std::string_view::npos)
    return std::nullopt;
  const auto open = line.substr(0, slash).rfind('[');
  if (open == std::string_view::npos) return std::nullopt;
  const auto number = parse_integer(trim(line.substr(open + 1, slash - open - 1)));
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

// Lines of nearly every batch: what each says of its own, the first of an epoch left out.
std::vector<StepLine> means_of_batches(std::span<const std::string> lines,
                                       const std::vector<StepLine>& means) {
  std::vector<StepLine> batches;
  for (const StepLine& mean : means) {
    const std::string_view line = lines[mean.line];
    const auto step = in_ms(number_behind(line, "Time"), 1e3);
    const auto data = number_behind(line, "Data");
    if (batch_of_epoch(line).value_or(1) > 0 && step && data)
      batches.push_back({mean.line, *step, std::min(*step, data->value * 1e3)});
  }
  return batches;
}

// A mean so far holds the first batch of its epoch, for which all workers start: what lies between
// two lines of an epoch is their difference. Lines without a number stay as they are.
std::vector<StepLine> between_means(const std::vector<StepLine>& means,
                                    std::span<const std::string> lines) {
  std::vector<StepLine> between;
  for (std::size_t i = 1; i < means.size(); ++i) {
    const auto before = batch_of_epoch(lines[means[i - 1].line]);
    const auto now = batch_of_epoch(lines[means[i].line]);
    if (!before || !now) return means;
    if (*now <= *before) continue;  // the next epoch
    const auto mean = [&](double first, double second) {
      return std::max(0.0, (second * (*now + 1) - first * (*before + 1)) / (*now - *before));
    };
    StepLine step = means[i];
    // Means are printed to the millisecond: their difference over a few batches is mostly rounding.
    if (*now - *before < 5) return means_of_batches(lines, means);
    step.step_ms = mean(means[i - 1].step_ms, means[i].step_ms);
    step.data_ms = std::min(step.step_ms, mean(*means[i - 1].data_ms, *means[i].data_ms));
    // The mean of many counts as many.
    constexpr double kAsMany = 20;
    if (step.step_ms > 0)
      between.insert(between.end(), static_cast<std::size_t>(std::min(kAsMany, *now - *before)),
                     step);
  }
  return between.empty() ? means : between;
}

// mmcv, Detectron2.
StepLine time_and_data_time(std::string_view line) {
  auto data = number_behind(line, "data_time:");
  const auto step = in_ms(number_behind(line, "time:"), 1e3);
  return step && data && data->value * 1e3 <= *step ? of_step(step, data->value * 1e3) : StepLine{};
}

StepLine megatron(std::string_view line) {
  if (const auto step = in_ms(number_behind(line, "elapsed time per iteration (ms):"), 1))
    return of_step(step);
  return of_step(in_ms(number_behind(line, "elapsed time per iteration (s):"), 1e3));
}

StepLine nemo(std::string_view line) {
  if (const auto step = in_ms(number_behind(line, "train_step_timing in s:"), 1e3))
    return of_step(step);
  return of_step(in_ms(number_behind(line, "train_step_timing in s="), 1e3));
}

StepLine step_average(std::string_view line) {
  const auto number = number_behind(line, "step_avg:");
  return number && number->rest.starts_with("ms") ? of_step(in_ms(number, 1)) : StepLine{};
}

// nanoGPT: "iter 100: loss 3.2, time 134.50ms, mfu 12.00%"
StepLine time_in_ms(std::string_view line) {
  if (!line.starts_with("iter ") && line.find("loss") == std::string_view::npos) return {};
  // and build-nanogpt: "Step 1 | loss: 10.9 | dt 335.23ms | 1563963 tokens/sec"
  auto number = number_behind(line, "time ");
  if (!number) number = number_behind(line, "dt");
  if (!number) number = number_behind(line, "dt:");
  return number && number->rest.starts_with("ms") ? of_step(in_ms(number, 1)) : StepLine{};
}

// verl: "step:2 - ... - timing_s/step:522.7 - ..."
StepLine verl(std::string_view line) {
  return of_step(in_ms(number_behind(line, "timing_s/step:"), 1e3));
}

// Bars that are no steps of the training.
bool is_another_bar(std::string_view line) {
  static constexpr std::array<std::string_view, 34> kOthers = {
      "valid", "test",  "sanity", "predict", "eval",    "infer",   "generat", "download", "load",
      "map",   "token", "filter", "fetch",   "extract", "preproc", "sav",     "running",  "resolv",
      "scan",  "cach",  "index",  "pars",    "read",    "convert", "prepar",  "process",  "comput",
      "encod", "build", "creat",  "check",   "writ",    "upload",  "verif"};
  const std::string start = lower_case(line.substr(0, 24));
  const std::string_view words = trim(std::string_view(start));
  return std::ranges::any_of(kOthers,
                             [&](std::string_view other) { return words.starts_with(other); });
}

// A bar without words of its own, and what the line above says: "INFO: Scanning mask files".
bool belongs_to_other_work(std::string_view above, std::string_view bar) {
  const std::string_view own = trim(bar);
  const bool has_words = own.empty() || own.front() < '0' || own.front() > '9';
  if (has_words || above.find('|') != std::string_view::npos) return false;
  const auto level = above.find(": ");
  return is_another_bar(above) ||
         (level != std::string_view::npos && is_another_bar(above.substr(level + 2)));
}

// The number that ends the text; none that is zero.
std::optional<double> number_at_the_end(std::string_view text) {
  const auto begin = text.find_last_not_of("0123456789.");
  const auto number = number_at(text.substr(begin == std::string_view::npos ? 0 : begin + 1));
  return number && number->value > 0 ? std::optional(number->value) : std::nullopt;
}

// "412.3 ms/step", "0.41 s/iter", "2.4 steps/s"
StepLine with_its_unit(std::string_view line) {
  struct Unit {
    std::string_view words;
    double ms;       // of one
    bool is_a_rate;  // so many in a second
  };
  static constexpr std::array<Unit, 16> kUnits = {{{"ms/step", 1, false},
                                                   {"ms/iter", 1, false},
                                                   {"ms/it", 1, false},
                                                   {"ms/batch", 1, false},
                                                   {"ms per step", 1, false},
                                                   {"s/step", 1e3, false},
                                                   {"sec/step", 1e3, false},
                                                   {"s/iter", 1e3, false},
                                                   {"sec/iter", 1e3, false},
                                                   {"s/batch", 1e3, false},
                                                   {"sec/batch", 1e3, false},
                                                   {"steps/s", 1e3, true},
                                                   {"step/s", 1e3, true},
                                                   {"iter/s", 1e3, true},
                                                   {"iters/s", 1e3, true},
                                                   {"batches/s", 1e3, true}}};
  if (is_another_bar(line)) return {};
  for (const Unit& unit : kUnits) {
    const auto at = line.rfind(unit.words);
    if (at == std::string_view::npos) continue;
    const auto number = number_at_the_end(trim(line.substr(0, at)));
    if (!number) continue;
    return of_step(in_ms(Number{unit.is_a_rate ? 1 / *number : *number, {}}, unit.ms));
  }
  return {};
}

// "  12%|█▎ | 2/16 [01:23<08:10, 35.06s/it]": how far the bar is, and since when it runs.
struct BarPlace {
  double step = 0;
  double all = 0;
  double seconds = 0;
};
std::optional<BarPlace> bar_place(std::string_view line) {
  const auto open = line.rfind(" [");
  const auto until = open == std::string_view::npos ? open : line.find('<', open);
  if (until == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.substr(0, open);
  const std::string_view count = before.substr(before.find_last_of(" |") + 1);
  const auto slash = count.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto step = parse_integer(count.substr(0, slash));
  const auto all = parse_integer(count.substr(slash + 1));
  std::optional<double> seconds = 0;
  for (const std::string_view part : split(line.substr(open + 2, until - open - 2), ':')) {
    const auto value = parse_integer(trim(part));
    if (!value) return std::nullopt;
    seconds = *seconds * 60 + static_cast<double>(*value);
  }
  if (!step || !all) return std::nullopt;
  return BarPlace{static_cast<double>(*step), static_cast<double>(*all), *seconds};
}

struct Bar {
  StepLine step;  // by its rate
  BarPlace place;
};

// A terminal writes one bar over the other, and a log keeps them in one line:
// "[00:12<01:03, 3.65s/it, loss=1]"
std::vector<Bar> bars_in(std::string_view line) {
  std::vector<Bar> bars;
  while (true) {
    const auto rate = line.find("it/s");
    const auto unit = std::min(rate, line.find("s/it"));
    if (unit == std::string_view::npos) return bars;
    const auto end = std::min(line.find(']', unit), line.size() - 1) + 1;
    const std::string_view bar = trim(line.substr(0, end));
    const auto number = number_at_the_end(line.substr(0, unit));
    if (number && !is_another_bar(bar))
      if (const auto step_ms = in_ms(Number{unit == rate ? 1 / *number : *number, {}}, 1e3))
        bars.push_back({of_step(step_ms), bar_place(bar).value_or(BarPlace{})});
    line.remove_prefix(end);
  }
}

// A bar's rate is smoothed, and holds the start of the run for long: what lies between two of them
// is their difference. The clock shows whole seconds.
std::vector<StepLine> between_bars(const std::vector<Bar>& bars) {
  constexpr double kShortestS = 10;
  constexpr double kAsMany = 20;
  std::vector<StepLine> rates;
  std::vector<StepLine> between;
  const BarPlace* before = nullptr;
  for (const Bar& bar : bars) {
    rates.push_back(bar.step);
    const BarPlace& now = bar.place;
    if (before == nullptr || now.all == 0 || now.all != before->all || now.step < before->step ||
        now.seconds < before->seconds) {
      before = &now;  // the next epoch
      continue;
    }
    const double steps = now.step - before->step;
    const double seconds = now.seconds - before->seconds;
    if (steps < 1 || seconds < kShortestS) continue;
    between.insert(between.end(), static_cast<std::size_t>(std::min(kAsMany, steps)),
                   StepLine{bar.step.line, seconds * 1e3 / steps, std::nullopt});
    before = &now;
  }
  return between.empty() ? rates : between;
}

constexpr std::array kForms = {time_and_data, time_and_data_time, megatron,      nemo,
                               step_average,  time_in_ms,         with_its_unit, verl};

}  // namespace

bool tells_progress(const std::string& line) {
  return holds_any(lower_case(line), {"loss", "it/s", "s/it", "epoch", "tokens/s", "tok/s",
                                      "samples/s", "iteration", "step "});
}

std::vector<StepLine> step_lines(std::span<const std::string> lines) {
  constexpr std::size_t kFewest = 3;
  std::array<std::vector<StepLine>, kForms.size()> found;
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = trim(std::string_view(lines[i]).substr(lines[i].rfind('\r') + 1));
    bool is_known = false;
    for (std::size_t form = 0; form < kForms.size() && !is_known; ++form)
      if (StepLine step = kForms[form](line); step.step_ms > 0) {
        step.line = i;
        found[form].push_back(step);
        is_known = true;
      }
    if (is_known || (i > 0 && belongs_to_other_work(lines[i - 1], lines[i]))) continue;
    for (Bar& bar : bars_in(lines[i])) {
      bar.step.line = i;
      bars.push_back(bar);
    }
  }
  auto& most = *std::ranges::max_element(found, {}, &std::vector<StepLine>::size);
  // Two lines that are two hundred batches apart are the mean of two hundred.
  constexpr std::size_t kMeansOfMany = 2;
  if (&most == &found.front() && most.size() >= kMeansOfMany) most = between_means(most, lines);
  if (bars.size() > most.size() && bars.size() >= kFewest) most = between_bars(bars);
  return most.size() < kFewest ? std::vector<StepLine>() : std::move(most);
}

}  // namespace lockstep
