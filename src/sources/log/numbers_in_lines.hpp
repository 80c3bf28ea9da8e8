// Numbers in a log's lines, and what a step may take.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

// A number, and what follows it.
struct NumberInLine {
  double value;
  std::string_view rest;
};

// The one that begins the text, behind blanks. Not a negative one.
std::optional<NumberInLine> number_at(std::string_view text);

// Behind a word that begins the line or follows no letter: "time: 0.3", but not "data_time: 0.3".
std::optional<NumberInLine> number_behind(std::string_view line, std::string_view word);

// The one that ends the text; none that is zero.
std::optional<double> number_at_the_end(std::string_view text);

// Nothing for what no step takes: none, or over an hour.
std::optional<double> in_ms(const std::optional<NumberInLine>& number, double unit_ms);

}  // namespace lockstep
