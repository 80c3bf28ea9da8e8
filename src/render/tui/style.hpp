// Words with a tone: what the screen is written with. Tones become colours where there are any.
#pragma once

#include <cstdint>
#include <ftxui/dom/elements.hpp>
#include <ftxui/screen/screen.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/gpu_state.hpp"

namespace lockstep {

// Colour marks the problem, not the load. Whatever a tone says is also said by a word or a glyph
// beside it.
enum class Tone : std::uint8_t { plain, faint, accent, good, waiting, problem };

constexpr Tone tone_of(Concern concern) {
  switch (concern) {
    case Concern::good: return Tone::good;
    case Concern::waiting: return Tone::waiting;
    case Concern::problem: return Tone::problem;
    case Concern::none: return Tone::faint;
  }
  return Tone::plain;
}

struct Style {
  Tone tone = Tone::plain;
  bool bold = false;
  bool inverted = false;

  bool operator==(const Style&) const = default;
};

struct Theme {
  bool colors = true;
};

// One row of the screen, written from left to right.
class Line {
 public:
  Line() = default;
  explicit Line(std::string_view text, Style style = {}) { add(text, style); }

  Line& add(std::string_view text, Style style = {});
  // A glyph of one column, so many times.
  Line& repeat(std::string_view glyph, int times, Style style);
  // Fills with blanks up to a column; what reaches beyond it is cut.
  Line& fit(int columns);
  // So many columns of the text, cut or filled up.
  Line& left(std::string_view text, int columns, Style style = {});
  Line& right(std::string_view text, int columns, Style style = {});
  // All of it, whatever its parts said.
  Line& inverted();

  int width() const { return width_; }
  std::string text() const;

  struct Span {
    std::string text;
    Style style;
    int width = 0;
    bool narrow = true;  // every letter takes one column

    bool operator==(const Span&) const = default;
  };
  const std::vector<Span>& spans() const { return spans_; }
  bool operator==(const Line&) const = default;

 private:
  std::vector<Span> spans_;
  int width_ = 0;
};

// Columns that a text takes on a terminal.
int columns_of(std::string_view text);
// Its first columns, with an ellipsis where something was cut.
std::string cut(std::string_view text, int columns);
// At word boundaries where there are any.
std::vector<std::string> wrapped(std::string_view text, int columns);

ftxui::Element element_of(std::vector<Line> lines, const Theme& theme);

void draw_glyph(ftxui::Screen& screen, int x, int y, std::string_view glyph, const Style& style,
                const Theme& theme);
// Writes a row into the screen's cells; the rest of the row is blank. Columns [spared_from,
// spared_to) are left as they are.
void draw_row(ftxui::Screen& screen, const Line& line, int y, const Theme& theme,
              int spared_from = 0, int spared_to = 0);

// For terminals without UTF-8: bars and rules become letters that everyone has.
void make_ascii(ftxui::Screen& screen, int row);

}  // namespace lockstep
