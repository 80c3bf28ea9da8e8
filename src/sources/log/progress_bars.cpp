#include "sources/log/progress_bars.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "sources/log/numbers_in_lines.hpp"

namespace lockstep {
namespace {

constexpr double kShortestS = 10;  // a bar's clock shows whole seconds

// A bar without words of its own, and what the line above says: "INFO: Scanning mask files".
bool belongs_to_other_work(std::string_view above, std::string_view bar) {
  const std::string_view own = trim(bar);
  const bool has_words = own.empty() || own.front() < '0' || own.front() > '9';
  if (has_words || above.find('|') != std::string_view::npos) return false;
  const auto level = above.find(": ");
  return is_another_bar(above) ||
         (level != std::string_view::npos && is_another_bar(above.substr(level + 2)));
}

// Between two looks at one bar.
struct StretchOfABar {
  std::size_t line = 0;
  double steps = 0;
  double seconds = 0;
};

}  // namespace

bool is_another_bar(std::string_view line) {
  static constexpr std::array<std::string_view, 36> kOthers = {
      "valid",   "test",    "sanity", "predict", "eval",  "infer",   "generat", "download",
      "load",    "map",     "token",  "filter",  "fetch", "extract", "preproc", "sav",
      "running", "resolv",  "scan",   "cach",    "index", "pars",    "read",    "convert",
      "prepar",  "process", "comput", "encod",   "build", "creat",   "check",   "writ",
      "upload",  "verif",   "count",  "preload"};
  const std::string start = lower_case(line.substr(0, 24));
  const std::string_view words = trim(std::string_view(start));
  return std::ranges::any_of(kOthers,
                             [&](std::string_view other) { return words.starts_with(other); });
}

// "2/16 [01:23<08:10, 35.06s/it", "29948it [35:34, 7.00s/it"
std::optional<ProgressBars::Place> ProgressBars::place_of(std::string_view bar) {
  const auto open = bar.rfind(" [");
  const auto until = open == std::string_view::npos ? open : bar.find_first_of("<,", open);
  if (until == std::string_view::npos) return std::nullopt;
  const std::string_view before = bar.substr(0, open);
  const std::string_view count = before.substr(before.find_last_of(" |\r") + 1);
  const auto slash = count.find('/');
  const bool has_all = slash != std::string_view::npos;
  if (!has_all && !count.ends_with("it")) return std::nullopt;
  const auto step = parse_integer(count.substr(0, has_all ? slash : count.size() - 2));
  const auto all = has_all ? parse_integer(count.substr(slash + 1)) : std::optional(std::int64_t{});
  double seconds = 0;
  for (const std::string_view part : split(bar.substr(open + 2, until - open - 2), ':')) {
    const auto value = parse_integer(trim(part));
    if (!value) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*value);
  }
  if (!step || !all) return std::nullopt;
  return Place{static_cast<double>(*step), static_cast<double>(*all), seconds};
}

// A terminal writes one bar over the other, and a log keeps them in one line:
// "[00:12<01:03, 3.65s/it, loss=1]"
void ProgressBars::add(std::size_t line, std::string_view above, std::string_view text) {
  if (belongs_to_other_work(above, text)) return;
  while (true) {
    const auto rate = text.find("it/s");
    const auto unit = std::min(rate, text.find("s/it"));
    if (unit == std::string_view::npos) return;
    const auto end = std::min(text.find(']', unit), text.size() - 1) + 1;
    const std::string_view bar = trim(text.substr(0, end));
    const auto number = number_at_the_end(text.substr(0, unit));
    if (number && !is_another_bar(bar))
      if (const auto ms = in_ms(NumberInLine{unit == rate ? 1 / *number : *number, {}}, 1e3)) {
        const Bar next{{line, *ms, std::nullopt}, place_of(bar)};
        if (is_drawn_again(next)) bars_.pop_back();
        bars_.push_back(next);
      }
    text.remove_prefix(end);
  }
}

// At the same step, with words that came late: one look.
bool ProgressBars::is_drawn_again(const Bar& next) const {
  if (bars_.empty() || !next.place || !bars_.back().place) return false;
  const Place& last = *bars_.back().place;
  return bars_.back().by_rate.line == next.by_rate.line && last.all == next.place->all &&
         last.step == next.place->step && last.seconds <= next.place->seconds;
}

// Other bars run between: a hundred batches are evaluated, epochs are counted around the steps. Of
// the totals that take at least half of the longest's time it is the one with the most steps.
std::vector<const ProgressBars::Bar*> ProgressBars::of_the_training() const {
  struct Total {
    double seconds = 0;
    double steps = 0;
    const Place* before = nullptr;
  };
  std::map<double, Total> totals;
  for (const Bar& bar : bars_) {
    if (!bar.place) continue;
    Total& total = totals[bar.place->all];
    const bool goes_on = total.before != nullptr && bar.place->step >= total.before->step &&
                         bar.place->seconds >= total.before->seconds;
    total.seconds += bar.place->seconds - (goes_on ? total.before->seconds : 0);
    total.steps += bar.place->step - (goes_on ? total.before->step : 0);
    total.before = &*bar.place;
  }
  std::vector<const Bar*> chosen;
  if (totals.empty()) {
    for (const Bar& bar : bars_) chosen.push_back(&bar);
    return chosen;
  }
  double longest = 0;
  for (const auto& [all, total] : totals) longest = std::max(longest, total.seconds);
  const auto training = std::ranges::max_element(totals, {}, [&](const auto& entry) {
    return entry.second.seconds >= longest / 2 ? entry.second.steps : -1;
  });
  for (const Bar& bar : bars_)
    if (bar.place && bar.place->all == training->first) chosen.push_back(&bar);
  return chosen;
}

// A bar's rate is smoothed, and holds the start of the run for long: what lies between two looks at
// it is their difference.
std::vector<StepLine> ProgressBars::steps() const {
  constexpr std::size_t kFewest = 3;
  const std::vector<const Bar*> bars = of_the_training();
  std::vector<StretchOfABar> stretches;
  bool is_new = true;  // no stretch of this run of the bar is there yet
  const Place* before = nullptr;
  const Place* last = nullptr;
  std::size_t last_line = 0;
  const auto take = [&] {
    if (last == nullptr || last->step <= before->step) return;
    const StretchOfABar rest{last_line, last->step - before->step, last->seconds - before->seconds};
    if (rest.seconds >= kShortestS) {
      stretches.push_back(rest);
    } else if (!is_new) {
      // what is left of an epoch belongs to what came before it
      stretches.back().steps += rest.steps;
      stretches.back().seconds += rest.seconds;
    }
  };
  for (const Bar* bar : bars) {
    if (!bar->place) continue;
    const Place& now = *bar->place;
    if (before == nullptr || now.step < last->step || now.seconds < last->seconds) {
      take();
      before = last = &now;  // the next epoch
      is_new = true;
      continue;
    }
    last = &now;
    last_line = bar->by_rate.line;
    if (now.seconds - before->seconds < kShortestS || now.step <= before->step) continue;
    take();
    before = &now;
    is_new = false;
  }
  take();
  std::vector<StepsTogether> together;
  for (const StretchOfABar& stretch : stretches)
    together.push_back(
        {stretch.steps, {stretch.line, stretch.seconds * 1e3 / stretch.steps, std::nullopt}});
  std::vector<StepLine> steps = one_by_one(together);
  if (!steps.empty()) return steps;
  for (const Bar* bar : bars) steps.push_back(bar->by_rate);
  if (steps.size() >= kFewest) return steps;
  steps.clear();
  // One look at a bar tells of all steps before it.
  constexpr double kStepsEnough = 10;
  const bool has_ended = before != nullptr && last->all > 0 && last->step == last->all;
  if (before != nullptr && (last->step >= kStepsEnough || has_ended) && last->seconds >= kShortestS)
    steps.push_back({bars.back()->by_rate.line, last->seconds * 1e3 / last->step, std::nullopt});
  return steps;
}

}  // namespace lockstep
