// Words and numbers as people write them: durations, lists, sizes, near misses.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

// Of ASCII letters.
std::string lower_case(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view separator);

bool holds_any(std::string_view text, std::span<const std::string_view> words);
inline bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return holds_any(text, std::span(words.begin(), words.size()));
}

// The whole text as a number of the type asked for, or nothing.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// "100ms", "10s", "2m", "1h", "1.5s": always with a unit, never negative.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// "0,2-4" as {0,2,3,4}.
Result<std::vector<int>> parse_index_list(std::string_view text);

// "1.5 GiB", with three figures.
std::string format_bytes(double bytes);
// "350 ms", "2.5 s", "1 h 02 min".
std::string format_duration(std::chrono::nanoseconds duration);

// The candidate nearest to a mistyped word, when it is near enough to be meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// Text from outside (command lines, file names) made safe to print: control characters and escape
// sequences become visible, invalid UTF-8 becomes '?'.
std::string printable(std::string_view text);

// At most so many bytes of it, without a part of a letter; what was cut off is marked by "…".
std::string shortened(std::string_view text, std::size_t most);

// A word as a POSIX shell would need it typed.
std::string shell_quoted(std::string_view word);

// To standard error, at once. One that cannot be written (a full disk, a closed pipe) is no reason
// to end: nothing is thrown.
void say(std::string_view words);

// UTF-8 from UTF-16 with a byte order mark, as PowerShell's `>` writes it; nothing when there is no
// such mark.
std::optional<std::string> from_utf16(std::string_view bytes);

// "rank 3", "ranks 0, 1, 2"; of very many the first eight.
std::string ranks_words(const std::vector<int>& ranks);

// The same words give the same sixteen letters, in every run and on every machine (FNV-1a).
std::string hash_words(std::string_view text);

}  // namespace lockstep
