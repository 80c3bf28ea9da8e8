#include "sources/log/stamped_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "sources/log/numbers_in_lines.hpp"

namespace lockstep {
namespace {

constexpr double kDayS = 86'400;
constexpr double kMostSteps = 1e12;

struct LineClock {
  double seconds = 0;
  double resolution_s = 1;
};

// The time of day with which a line begins, behind its date: "2025-08-15 08:41:20,580",
// "I1115 16:00:39.451247". Not how long something takes: "eta: 12:52:12".
std::optional<LineClock> time_of_day(std::string_view line) {
  constexpr std::size_t kAtFirst = 40;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto colon = line.substr(0, kAtFirst).find(':');
  if (colon == std::string_view::npos || colon < 2 || line.size() < colon + 6) return std::nullopt;
  const std::string_view before = line.substr(0, colon - 2);
  const std::string_view text = line.substr(colon - 2, 8);
  for (std::size_t i = 0; i < text.size(); ++i)
    if (i % 3 == 2 ? text[i] != ':' : !is_digit(text[i])) return std::nullopt;
  if (std::ranges::any_of(before, [](char c) { return c >= 'a' && c <= 'z'; })) return std::nullopt;
  const auto two = [&](std::size_t at) { return 10.0 * (text[at] - '0') + (text[at + 1] - '0'); };
  LineClock clock{3600 * two(0) + 60 * two(3) + two(6), 1};
  std::string_view rest = line.substr(colon + 6);
  if (!rest.empty() && (rest.front() == '.' || rest.front() == ',')) {
    double digit = 0.1;
    for (rest.remove_prefix(1); !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
      clock.seconds += digit * (rest.front() - '0');
      clock.resolution_s = digit;
      digit /= 10;
    }
  }
  return clock;
}

struct StampedStep {
  double step = 0;
  LineClock clock;
};

std::optional<StampedStep> counted_by_fairseq(std::string_view line) {
  auto step = number_behind(line, "num_updates=");
  auto wall = number_behind(line, "wall=");
  if (!step) step = number_behind(line, "num_updates");
  if (!wall) wall = number_behind(line, "| wall");
  if (!step || !wall) return std::nullopt;
  return StampedStep{step->value, {wall->value, 1}};
}

std::optional<StampedStep> counted_beside_a_clock(std::string_view line) {
  static constexpr std::array<std::string_view, 13> kCounters = {
      "global_step=", "step=",     "Step:",      "step:", "Step ",  "step ",  "Iter:",
      "Iter ",        "iteration", "Iteration ", "iter ", "Iters:", "[batch "};
  const auto clock = time_of_day(line);
  if (!clock) return std::nullopt;
  for (const std::string_view counter : kCounters)
    if (const auto step = number_behind(line, counter))
      if (step->value == std::floor(step->value) && step->value < kMostSteps)
        return StampedStep{step->value, *clock};
  return std::nullopt;
}

// Between two lines that count: all ranks may print one, and a clock goes on from midnight.
std::vector<StepLine> between(std::span<const std::string> lines,
                              std::optional<StampedStep> (*counted)(std::string_view)) {
  constexpr std::size_t kFewest = 10;
  constexpr double kOfItsResolution = 20;  // a stretch: its ends are known to 5 %
  std::vector<StepsTogether> steps;
  std::optional<StampedStep> before;
  std::optional<StampedStep> last;
  double days_s = 0;
  std::size_t counts = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto now = counted(lines[i]);
    if (!now) continue;
    now->clock.seconds += days_s;
    if (last && now->clock.seconds < last->clock.seconds - kDayS / 2) {
      days_s += kDayS;
      now->clock.seconds += kDayS;
    }
    if (!last || now->step < last->step || now->clock.seconds < last->clock.seconds) {
      // it began again, or another counter speaks
      if (last && now->step + 1 == last->step) continue;
      before = last = now;
      continue;
    }
    if (now->step > last->step) ++counts;
    last = now;
    const double seconds = now->clock.seconds - before->clock.seconds;
    const double count = now->step - before->step;
    if (count < 1 || seconds < kOfItsResolution * now->clock.resolution_s) continue;
    if (const auto ms = in_ms(NumberInLine{seconds / count, {}}, 1e3))
      steps.push_back({count, {i, *ms, std::nullopt}});
    before = now;
  }
  const bool is_enough = counts >= kFewest || (counted == counted_by_fairseq && counts > 0);
  return is_enough ? one_by_one(steps) : std::vector<StepLine>();
}

}  // namespace

std::vector<StepLine> stamped_steps(std::span<const std::string> lines) {
  auto steps = between(lines, counted_by_fairseq);
  return steps.empty() ? between(lines, counted_beside_a_clock) : steps;
}

}  // namespace lockstep
