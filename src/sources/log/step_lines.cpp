#include "sources/log/step_lines.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "sources/log/numbers_in_lines.hpp"
#include "sources/log/progress_bars.hpp"
#include "sources/log/stamped_steps.hpp"

namespace lockstep {
namespace {

StepLine of_step(std::optional<double> step_ms, std::optional<double> data_ms = std::nullopt) {
  return {0, step_ms.value_or(0), data_ms};
}

// PyTorch's ImageNet example and its many children: this batch, and in brackets the mean so far.
// The mean is taken: one batch in ten may always be the one that a worker brings late.
std::optional<double> mean_so_far(std::string_view line, std::string_view word) {
  const auto now = number_behind(line, word);
  if (!now) return std::nullopt;
  // timm has a rate between the two: "Time: 0.345s,  741.21/s  (0.351s,  729.50/s)"
  const auto open = now->rest.find_first_not_of(" s\t,/.0123456789");
  if (open == std::string_view::npos || now->rest[open] != '(') return std::nullopt;
  const auto mean = number_at(now->rest.substr(open + 1));
  return mean ? std::optional(mean->value * 1e3) : std::nullopt;
}

struct TwoWords {
  std::string_view step;
  std::string_view data;
};
constexpr std::array<TwoWords, 5> kTimeAndData = {{{"Time", "Data"},
                                                   {"Time:", "Data:"},
                                                   {"BatchTime:", "DataTime:"},
                                                   {"Batch time:", "Data time:"},
                                                   {"b_time=", "d_time="}}};
StepLine time_and_data(std::string_view line) {
  for (const TwoWords& words : kTimeAndData) {
    const auto step = mean_so_far(line, words.step);
    const auto data = mean_so_far(line, words.data);
    if (step && data && *data <= *step) return of_step(step, data);
  }
  return {};
}

// Of "[0][200/5005]" the 200, and of "[0][200]": which batch of its epoch a line tells of.
std::optional<double> batch_of_epoch(std::string_view line) {
  if (const auto second = line.find("]["); second != std::string_view::npos) {
    const std::string_view rest = line.substr(second + 2);
    if (const auto number = parse_integer(trim(rest.substr(0, rest.find_first_of("]/")))))
      return static_cast<double>(*number);
  }
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
    if (batch_of_epoch(line).value_or(1) <= 0) continue;
    for (const TwoWords& words : kTimeAndData) {
      const auto step = in_ms(number_behind(line, words.step), 1e3);
      const auto data = number_behind(line, words.data);
      if (!step || !data) continue;
      batches.push_back({mean.line, *step, std::min(*step, data->value * 1e3)});
      break;
    }
  }
  return batches;
}

// A mean so far holds the first batch of its epoch, for which all workers start: what lies between
// two lines of an epoch is their difference. Lines without a number stay as they are.
// Where that batch takes a good part of the epoch, it is a part of what a step costs: the mean
// stays.
std::vector<StepLine> between_means(const std::vector<StepLine>& means,
                                    std::span<const std::string> lines) {
  constexpr double kGoodPart = 0.25;
  std::vector<StepsTogether> between;
  double first_batch_ms = 0;
  for (std::size_t i = 1; i < means.size(); ++i) {
    const auto before = batch_of_epoch(lines[means[i - 1].line]);
    const auto now = batch_of_epoch(lines[means[i].line]);
    if (!before || !now) return means;
    if (*now <= *before) continue;  // the next epoch
    if (*before == 0) first_batch_ms = means[i - 1].step_ms;
    const auto mean = [&](double first, double second) {
      return std::max(0.0, (second * (*now + 1) - first * (*before + 1)) / (*now - *before));
    };
    StepLine step = means[i];
    // Means are printed to the millisecond: their difference over a few batches is mostly rounding.
    if (*now - *before < 5) return means_of_batches(lines, means);
    step.step_ms = mean(means[i - 1].step_ms, means[i].step_ms);
    step.data_ms = std::min(step.step_ms, mean(*means[i - 1].data_ms, *means[i].data_ms));
    const bool ends_the_epoch =
        i + 1 == means.size() || batch_of_epoch(lines[means[i + 1].line]).value_or(0) <= *now;
    if (ends_the_epoch && first_batch_ms > kGoodPart * means[i].step_ms * (*now + 1)) {
      if (*before > 0) continue;  // of many lines those between say enough
      step = means[i];
    }
    if (step.step_ms > 0) between.push_back({*now - *before, step});
  }
  return between.empty() ? means : one_by_one(between);
}

// mmcv, Detectron2, and torchvision's own logger: "time: 0.5024  data: 0.0002  max mem: 11664".
StepLine time_and_data_time(std::string_view line) {
  auto data = number_behind(line, "data_time:");
  if (!data && line.find("max mem:") != std::string_view::npos) data = number_behind(line, "data:");
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

// PaddlePaddle: "[Train][Epoch 24/400][Iter: 60/98] ..., batch_cost: 0.49053s, reader_cost:
// 0.00022"
StepLine paddle(std::string_view line) {
  if (line.find("[Eval]") != std::string_view::npos) return {};
  const auto step = in_ms(number_behind(line, "batch_cost:"), 1e3);
  const auto data = number_behind(line, "reader_cost:");
  return step && data && data->value * 1e3 <= *step ? of_step(step, data->value * 1e3)
                                                    : of_step(step);
}

// I-JEPA and its kin: "[30,   100/ 2562] - loss: 3.47 ... (1501.2 ms)"
StepLine time_in_brackets(std::string_view line) {
  const auto open = line.rfind('(');
  if (open == std::string_view::npos || !line.ends_with("ms)") ||
      lower_case(line).find("loss") == std::string::npos ||
      line.find('/') == std::string_view::npos)
    return {};
  const auto number = number_at(line.substr(open + 1));
  return number && trim(number->rest) == "ms)" ? of_step(in_ms(number, 1)) : StepLine{};
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

// SSD in PyTorch and its children: "Timer: 0.6698", "timer: 0.4321 sec. || iter 10".
StepLine timer(std::string_view line) {
  auto number = number_behind(line, "Timer:");
  if (!number) number = number_behind(line, "timer:");
  if (!number || !(trim(number->rest).empty() || trim(number->rest).starts_with("sec"))) return {};
  return of_step(in_ms(number, 1e3));
}

// verl: "step:2 - ... - timing_s/step:522.7 - ..."
StepLine verl(std::string_view line) {
  return of_step(in_ms(number_behind(line, "timing_s/step:"), 1e3));
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
    return of_step(in_ms(NumberInLine{unit.is_a_rate ? 1 / *number : *number, {}}, unit.ms));
  }
  return {};
}

// Transformers' last words: "'train_runtime': 11174.9, ..., 'train_steps_per_second': 0.081". Of a
// rate with one digit nothing follows.
std::vector<StepLine> by_the_summary(std::span<const std::string> lines) {
  constexpr double kTwoDigits = 0.01;
  for (std::size_t i = lines.size(); i-- > 0;)
    if (const auto rate = number_behind(lines[i], "'train_steps_per_second':");
        rate && rate->value >= kTwoDigits)
      if (const auto ms = in_ms(NumberInLine{1 / rate->value, {}}, 1e3))
        return {{i, *ms, std::nullopt}};
  return {};
}

constexpr std::array kForms = {time_and_data, time_and_data_time, megatron,      nemo,
                               step_average,  time_in_ms,         with_its_unit, verl,
                               paddle,        time_in_brackets,   timer};

}  // namespace

bool tells_progress(const std::string& line) {
  return holds_any(lower_case(line), {"loss", "it/s", "s/it", "epoch", "tokens/s", "tok/s",
                                      "samples/s", "iteration", "step "});
}

std::vector<StepLine> step_lines(std::span<const std::string> lines) {
  constexpr std::size_t kFewest = 3;
  std::array<std::vector<StepLine>, kForms.size()> found;
  ProgressBars bars;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = trim(std::string_view(lines[i]).substr(lines[i].rfind('\r') + 1));
    bool is_known = false;
    for (std::size_t form = 0; form < kForms.size() && !is_known; ++form)
      if (StepLine step = kForms[form](line); step.step_ms > 0) {
        step.line = i;
        found[form].push_back(step);
        is_known = true;
      }
    if (!is_known) bars.add(i, i > 0 ? lines[i - 1] : std::string_view(), lines[i]);
  }
  auto& most = *std::ranges::max_element(found, {}, &std::vector<StepLine>::size);
  // Two lines that are two hundred batches apart are the mean of two hundred.
  constexpr std::size_t kMeansOfMany = 2;
  if (&most == &found.front() && most.size() >= kMeansOfMany) most = between_means(most, lines);
  if (bars.size() > most.size())
    if (auto steps = bars.steps(); !steps.empty()) return steps;
  if (most.size() >= kFewest) return std::move(most);
  if (auto steps = stamped_steps(lines); !steps.empty()) return steps;
  return by_the_summary(lines);
}

}  // namespace lockstep
