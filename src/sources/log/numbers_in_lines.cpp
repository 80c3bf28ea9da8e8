#include "sources/log/numbers_in_lines.hpp"

#include <charconv>
#include <cmath>

namespace lockstep {

std::optional<NumberInLine> number_at(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  return NumberInLine{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<NumberInLine> number_behind(std::string_view line, std::string_view word) {
  for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const bool is_within = before == '_' || before == '.' || (before >= 'a' && before <= 'z') ||
                           (before >= 'A' && before <= 'Z');
    if (is_within) continue;
    if (const auto number = number_at(line.substr(at + word.size()))) return number;
  }
  return std::nullopt;
}

std::optional<double> number_at_the_end(std::string_view text) {
  const auto begin = text.find_last_not_of("0123456789.");
  const auto number = number_at(text.substr(begin == std::string_view::npos ? 0 : begin + 1));
  return number && number->value > 0 ? std::optional(number->value) : std::nullopt;
}

std::optional<double> in_ms(const std::optional<NumberInLine>& number, double unit_ms) {
  constexpr double kLongestStepMs = 3.6e6;
  const double value = number ? number->value * unit_ms : 0;
  return value > 0 && value <= kLongestStepMs ? std::optional(value) : std::nullopt;
}

}  // namespace lockstep
