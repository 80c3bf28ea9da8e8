#include "render/tui/time_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace lockstep {

int TimeView::column_of(double t_ms) const {
  return static_cast<int>(std::floor((t_ms - left_ms()) / column_ms + 1e-6));
}

TimeView time_view(const Monitored& seen, const MonitorState& state, int columns) {
  TimeView view;
  view.column_ms = state.setup.column_ms;
  // A log with a reading every half minute shows nothing by columns of 200 ms.
  if (!state.zoomed && seen.history.spacing_ms() > 2 * view.column_ms)
    view.column_ms = *std::find_if(kColumnMs.begin(), std::prev(kColumnMs.end()),
                                   [&](double ms) { return ms >= seen.history.spacing_ms(); });
  view.columns = std::max(columns, 1);
  view.follows = !state.right_ms;
  double wanted = state.right_ms.value_or(seen.now_ms());
  // Finer than a reading there is power alone, and its samples come late: the picture waits for
  // them.
  constexpr double kReadingMs = 100;
  if (view.follows && view.column_ms < kReadingMs && state.setup.lanes == Quantity::power)
    if (const auto end = seen.history.power_samples_end_ms(); end && wanted - *end < 5000)
      wanted = std::min(wanted, *end - view.column_ms / 2);
  // Columns lie at multiples of their width: the picture moves by whole columns and never shimmers.
  view.right_ms = (std::floor(wanted / view.column_ms) + 1) * view.column_ms;
  return view;
}

double looked_at_ms(const Monitored& seen, const MonitorState& state) {
  return state.cursor_ms.value_or(state.right_ms.value_or(seen.now_ms()));
}

std::string column_words(double column_ms) {
  return column_ms < 1000 ? fmt::format("{:.0f} ms", column_ms) : ago(column_ms);
}

double finer(double column_ms) {
  const auto at = std::ranges::lower_bound(kColumnMs, column_ms);
  return at == kColumnMs.begin() ? kColumnMs.front() : *std::prev(at);
}

double coarser(double column_ms) {
  const auto at = std::ranges::upper_bound(kColumnMs, column_ms);
  return at == kColumnMs.end() ? kColumnMs.back() : *at;
}

std::string time_code(double ms, double column_ms) {
  const bool tenths = column_ms < 1000;
  const auto whole =
      static_cast<std::int64_t>(tenths ? std::floor(ms / 100) : std::floor(ms / 1000) * 10);
  const std::int64_t seconds = std::max<std::int64_t>(whole, 0) / 10;
  std::string text = seconds >= 3600 ? fmt::format("{}:{:02}:{:02}", seconds / 3600,
                                                   seconds / 60 % 60, seconds % 60)
                                     : fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  if (tenths) text += fmt::format(".{}", std::max<std::int64_t>(whole, 0) % 10);
  return text;
}

std::string ago(double ms) {
  const double seconds = ms / 1e3;
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600)
    return whole % 60 == 0 ? fmt::format("{} min", whole / 60)
                           : fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::optional<double> parse_time_code(const std::string& text) {
  if (auto duration = parse_duration(text)) return static_cast<double>(duration->count()) / 1e6;
  double seconds = 0;
  const auto parts = split(trim(text), ':');
  if (parts.empty() || parts.size() > 3) return std::nullopt;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = parse_unsigned(parts[i]);
    if (!number || *number > 1'000'000 || (i > 0 && *number > 59)) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*number);
  }
  return seconds * 1e3;
}

}  // namespace lockstep
