#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace lockstep {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool holds_any(std::string_view text, std::span<const std::string_view> words) {
  return std::ranges::any_of(
      words, [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

namespace {
template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}
}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}
std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse_whole<std::uint64_t>(text);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double nanoseconds;
  };
  constexpr std::array kUnits = {Unit{"ns", 1},     Unit{"us", 1e3},   Unit{"ms", 1e6},
                                 Unit{"s", 1e9},    Unit{"min", 6e10}, Unit{"m", 6e10},
                                 Unit{"h", 3.6e12}, Unit{"d", 8.64e13}};
  const auto refuse = [&](std::string_view why) {
    return usage_error(fmt::format("duration '{}' {}", printable(text), why),
                       "write a number with its unit, such as 100ms, 10s, 5m or 1h");
  };

  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) return refuse("is not a number with a unit");
  const std::string_view unit_name(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit_name.empty()) return refuse("has no unit");
  if (!std::isfinite(number) || std::signbit(number)) return refuse("is negative or not finite");
  for (const Unit& unit : kUnits) {
    if (unit.name != unit_name) continue;
    const double nanoseconds = number * unit.nanoseconds;
    if (nanoseconds > 3.2e16) return refuse("is longer than a year");
    return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
  }
  return refuse(fmt::format("has the unknown unit '{}'", printable(unit_name)));
}

Result<std::vector<int>> parse_index_list(std::string_view text) {
  std::vector<int> indices;
  const auto refuse = [&] {
    return usage_error(fmt::format("GPU list '{}' is not a list of indices", printable(text)),
                       "write indices with commas, or ranges: --gpus 0,1 or --gpus 0-3");
  };
  for (const std::string_view part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_integer(trim(part.substr(0, dash)));
    const auto last =
        dash == std::string_view::npos ? first : parse_integer(trim(part.substr(dash + 1)));
    if (!first || !last || *first < 0 || *last < *first || *last > 4095) return refuse();
    for (auto index = *first; index <= *last; ++index) indices.push_back(static_cast<int>(index));
  }
  std::ranges::sort(indices);
  const auto doubles = std::ranges::unique(indices);
  indices.erase(doubles.begin(), doubles.end());
  return indices;
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  const int decimals = bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits[unit]);
}

std::string format_duration(std::chrono::nanoseconds duration) {
  if (duration == std::chrono::nanoseconds::zero()) return "0 s";
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 60) return fmt::format("{} min {:02} s", minutes, static_cast<int>(seconds) % 60);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

namespace {
// Optimal string alignment distance: insertions, deletions, replacements and swapped neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> distance(a.size() + 1,
                                                 std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) distance[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) distance[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}
}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > 64) return std::nullopt;
  std::optional<std::string> best;
  // one slip in three letters is still the same word
  std::size_t best_distance = word.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 128) continue;
    const bool is_prefix = word.size() >= 3 && candidate.starts_with(word);
    const std::size_t distance = is_prefix ? 1 : edit_distance(word, candidate);
    if (distance < best_distance || (distance == best_distance && !best)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

namespace {
// Length of a valid UTF-8 sequence at the start of `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80                      ? 1
                             : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2
                             : byte(0) >= 0xE0 && byte(0) < 0xF0 ? 3
                             : byte(0) >= 0xF0 && byte(0) < 0xF5 ? 4
                                                                 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  if (length == 3 && ((byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F)))
    return 0;
  if (length == 4 && ((byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F)))
    return 0;
  return length;
}
}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 controls (U+0080..U+009F) are escape introducers on some terminals.
    const bool c1_control =
        length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0) {
      safe += '?';
    } else if (length == 1 && (first < 0x20 || first == 0x7F)) {
      safe += first == '\n'   ? std::string("\\n")
              : first == '\t' ? std::string("\\t")
                              : fmt::format("\\x{:02x}", first);
    } else if (c1_control) {
      safe += '?';
    } else {
      safe += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return safe;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  const auto continues = [text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && continues(end)) --end;
  return std::string(trim(text.substr(0, end))) + "…";
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%\xE2\x80\xA6";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string quoted = "'";
  for (const char letter : word)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

void say(std::string_view words) {
  std::fflush(stdout);
  std::fwrite(words.data(), 1, words.size(), stderr);
  std::fflush(stderr);
}

std::optional<std::string> from_utf16(std::string_view bytes) {
  const bool little = bytes.starts_with("\xFF\xFE");
  if (!little && !bytes.starts_with("\xFE\xFF")) return std::nullopt;
  const auto unit_at = [&](std::size_t at) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    const auto second = static_cast<unsigned char>(bytes[at + 1]);
    return static_cast<std::uint32_t>(little ? first | second << 8U : first << 8U | second);
  };
  std::string text;
  text.reserve(bytes.size() / 2);
  for (std::size_t at = 2; at + 1 < bytes.size(); at += 2) {
    std::uint32_t point = unit_at(at);
    if (point >= 0xD800 && point < 0xDC00 && at + 3 < bytes.size()) {
      const std::uint32_t low = unit_at(at + 2);
      if (low >= 0xDC00 && low < 0xE000) {
        point = 0x10000 + ((point - 0xD800) << 10U) + (low - 0xDC00);
        at += 2;
      }
    }
    if (point >= 0xD800 && point < 0xE000) point = 0xFFFD;  // half of a pair
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else if (point < 0x800) {
      text += static_cast<char>(0xC0U | point >> 6U);
      text += static_cast<char>(0x80U | (point & 0x3FU));
    } else if (point < 0x10000) {
      text += static_cast<char>(0xE0U | point >> 12U);
      text += static_cast<char>(0x80U | (point >> 6U & 0x3FU));
      text += static_cast<char>(0x80U | (point & 0x3FU));
    } else {
      text += static_cast<char>(0xF0U | point >> 18U);
      text += static_cast<char>(0x80U | (point >> 12U & 0x3FU));
      text += static_cast<char>(0x80U | (point >> 6U & 0x3FU));
      text += static_cast<char>(0x80U | (point & 0x3FU));
    }
  }
  return text;
}

std::string ranks_words(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i)
    words += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > kMost ? words + " and " + std::to_string(ranks.size() - kMost) + " more"
                              : words;
}

std::string hash_words(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::string words;
  for (int shift = 60; shift >= 0; shift -= 4) words += "0123456789abcdef"[(hash >> shift) & 15U];
  return words;
}

}  // namespace lockstep
