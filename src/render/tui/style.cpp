#include "render/tui/style.hpp"

#include <algorithm>
#include <array>
#include <ftxui/dom/node.hpp>
#include <ftxui/screen/string.hpp>
#include <utility>

namespace lockstep {
namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char letter) { return static_cast<unsigned char>(letter) < 0x80; });
}

// Bytes of the UTF-8 letter that starts so.
std::size_t letter_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Every code point of one column: no wide letters, none that combine.
bool has_narrow_letters_only(std::string_view text) {
  for (const std::string& glyph : ftxui::Utf8ToGlyphs(std::string(text)))
    if (glyph.empty() || glyph.size() != letter_bytes(glyph.front())) return false;
  return true;
}

// The sixteen colours that every terminal has and every user has chosen to be able to read.
ftxui::Color color_of(Tone tone) {
  switch (tone) {
    case Tone::plain: return ftxui::Color::Default;
    case Tone::faint: return ftxui::Color::GrayDark;
    case Tone::accent: return ftxui::Color::Cyan;
    case Tone::good: return ftxui::Color::Green;
    case Tone::waiting: return ftxui::Color::Yellow;
    case Tone::problem: return ftxui::Color::Red;
  }
  return ftxui::Color::Default;
}

void put(ftxui::Screen& screen, int x, int y, std::string_view glyph, const Style& style,
         const Theme& theme) {
  ftxui::Pixel& pixel = screen.PixelAt(x, y);
  pixel.character.assign(glyph);
  pixel.automerge = false;  // the frame of a window that was here before
  pixel.bold = style.bold || (!theme.colors && style.tone == Tone::problem);
  pixel.dim = !theme.colors && style.tone == Tone::faint;
  pixel.inverted = style.inverted;
  pixel.foreground_color =
      theme.colors ? color_of(style.tone) : ftxui::Color(ftxui::Color::Default);
}

// The column after the last one written.
int draw_spans(ftxui::Screen& screen, const Line& line, int x, int y, int last, const Theme& theme,
               int spared_from = 0, int spared_to = 0) {
  const auto write = [&](std::string_view glyph, const Style& style) {
    if (x < spared_from || x >= spared_to) put(screen, x, y, glyph, style, theme);
  };
  for (const Line::Span& span : line.spans()) {
    if (span.narrow) {
      for (std::size_t at = 0; at < span.text.size() && x <= last; ++x) {
        const std::size_t bytes = letter_bytes(span.text[at]);
        write(std::string_view(span.text).substr(at, bytes), span.style);
        at += bytes;
      }
      continue;
    }
    for (const std::string& glyph : ftxui::Utf8ToGlyphs(span.text)) {
      if (x > last) return x;
      write(glyph, span.style);
      ++x;
    }
  }
  return x;
}

// Rows of words within a window.
class LinesNode : public ftxui::Node {
 public:
  LinesNode(std::vector<Line> lines, const Theme& theme)
      : lines_(std::move(lines)), theme_(theme) {}

  void ComputeRequirement() override {
    requirement_.min_y = static_cast<int>(lines_.size());
    requirement_.min_x = 0;
    for (const Line& line : lines_) requirement_.min_x = std::max(requirement_.min_x, line.width());
  }

  void Render(ftxui::Screen& screen) override {
    int y = box_.y_min;
    for (const Line& line : lines_) {
      if (y > std::min(box_.y_max, screen.dimy() - 1)) break;
      draw_spans(screen, line, box_.x_min, y, std::min(box_.x_max, screen.dimx() - 1), theme_);
      ++y;
    }
  }

 private:
  std::vector<Line> lines_;
  Theme theme_;
};

struct AsciiGlyph {
  std::string_view glyph;
  char letter;
};
constexpr std::array kAsciiGlyphs = {
    AsciiGlyph{"\u2581", '.'}, AsciiGlyph{"\u2582", ','}, AsciiGlyph{"\u2583", '-'},
    AsciiGlyph{"\u2584", '~'}, AsciiGlyph{"\u2585", '+'}, AsciiGlyph{"\u2586", 'x'},
    AsciiGlyph{"\u2587", 'X'}, AsciiGlyph{"\u2588", '#'}, AsciiGlyph{"\u00B7", '.'},
    AsciiGlyph{"\u2500", '-'}, AsciiGlyph{"\u2502", '|'}, AsciiGlyph{"\u251C", '|'},
    AsciiGlyph{"\u2514", '`'}, AsciiGlyph{"\u250C", '+'}, AsciiGlyph{"\u2510", '+'},
    AsciiGlyph{"\u2518", '+'}, AsciiGlyph{"\u2524", '|'}, AsciiGlyph{"\u252C", '+'},
    AsciiGlyph{"\u2534", '+'}, AsciiGlyph{"\u256D", '+'}, AsciiGlyph{"\u256E", '+'},
    AsciiGlyph{"\u256F", '+'}, AsciiGlyph{"\u2570", '+'}, AsciiGlyph{"\u25CF", '*'},
    AsciiGlyph{"\u25B6", '>'}, AsciiGlyph{"\u25BC", 'v'}, AsciiGlyph{"\u25B2", '^'},
    AsciiGlyph{"\u2026", '~'}, AsciiGlyph{"\u00D7", 'x'}, AsciiGlyph{"\u2192", '>'},
    AsciiGlyph{"\u2190", '<'}, AsciiGlyph{"\u2191", '^'}, AsciiGlyph{"\u2193", 'v'},
    AsciiGlyph{"\u2212", '-'}, AsciiGlyph{"\u2013", '-'}, AsciiGlyph{"\u2713", 'o'},
    AsciiGlyph{"\u2016", '|'}, AsciiGlyph{"\u2022", '*'}, AsciiGlyph{"\u2265", '>'},
    AsciiGlyph{"\u2264", '<'}};

}  // namespace

int columns_of(std::string_view text) {
  return is_ascii(text) ? static_cast<int>(text.size()) : ftxui::string_width(std::string(text));
}

std::string cut(std::string_view text, int columns) {
  if (columns <= 0) return {};
  if (columns_of(text) <= columns) return std::string(text);
  std::string result;
  int width = 0;
  for (const std::string& glyph : ftxui::Utf8ToGlyphs(std::string(text))) {
    // a wide one is followed by an empty one
    const int taken = glyph.empty() ? 0 : columns_of(glyph);
    if (width + taken + 1 > columns) break;
    result += glyph;
    width += taken;
  }
  result += "\u2026";
  return width + 1 < columns
             ? result + std::string(static_cast<std::size_t>(columns - width - 1), ' ')
             : result;
}

std::vector<std::string> wrapped(std::string_view text, int columns) {
  if (columns_of(text) <= columns) return {std::string(text)};
  std::vector<std::string> lines;
  std::string line;
  int width = 0;
  const auto flush = [&] {
    lines.push_back(std::exchange(line, {}));
    width = 0;
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::string word(text.substr(at, end - at));
    at = end + 1;
    if (width > 0 && width + 1 + columns_of(word) > columns) flush();
    if (width > 0) {
      line += ' ';
      ++width;
    }
    while (columns_of(word) > columns) {  // longer than a line: broken anywhere
      std::string head;
      int taken = 0;
      const auto glyphs = ftxui::Utf8ToGlyphs(word);
      for (; taken < columns && taken < static_cast<int>(glyphs.size()); ++taken)
        head += glyphs[static_cast<std::size_t>(taken)];
      if (head.empty()) break;
      word = word.substr(head.size());
      line += head;
      flush();
    }
    line += word;
    width += columns_of(word);
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

Line& Line::add(std::string_view text, Style style) {
  if (text.empty()) return *this;
  const bool ascii = is_ascii(text);
  const int width = ascii ? static_cast<int>(text.size()) : columns_of(text);
  const bool narrow = ascii || has_narrow_letters_only(text);
  width_ += width;
  if (!spans_.empty() && spans_.back().style == style && spans_.back().narrow == narrow) {
    spans_.back().text += text;
    spans_.back().width += width;
  } else {
    spans_.push_back({std::string(text), style, width, narrow});
  }
  return *this;
}

Line& Line::repeat(std::string_view glyph, int times, Style style) {
  if (times <= 0) return *this;
  Span span{{}, style, times, true};
  for (int i = 0; i < times; ++i) span.text += glyph;
  width_ += times;
  spans_.push_back(std::move(span));
  return *this;
}

Line& Line::fit(int columns) {
  if (width_ <= columns) return add(std::string(static_cast<std::size_t>(columns - width_), ' '));
  while (!spans_.empty() && width_ - spans_.back().width >= columns) {
    width_ -= spans_.back().width;
    spans_.pop_back();
  }
  if (!spans_.empty() && width_ > columns) {
    Span& last = spans_.back();
    const int kept = last.width - (width_ - columns);
    last.text = cut(last.text, kept);
    width_ += columns_of(last.text) - last.width;
    last.width = columns_of(last.text);
  }
  return *this;
}

Line& Line::left(std::string_view text, int columns, Style style) {
  const std::string shown = cut(text, columns);
  const int blanks = columns - columns_of(shown);
  add(shown, style);
  return blanks > 0 ? add(std::string(static_cast<std::size_t>(blanks), ' ')) : *this;
}

Line& Line::right(std::string_view text, int columns, Style style) {
  const std::string shown = cut(text, columns);
  const int blanks = columns - columns_of(shown);
  if (blanks > 0) add(std::string(static_cast<std::size_t>(blanks), ' '));
  return add(shown, style);
}

Line& Line::inverted() {
  for (Span& span : spans_) span.style.inverted = true;
  return *this;
}

std::string Line::text() const {
  std::string all;
  for (const Span& span : spans_) all += span.text;
  return all;
}

ftxui::Element element_of(std::vector<Line> lines, const Theme& theme) {
  return std::make_shared<LinesNode>(std::move(lines), theme);
}

void draw_glyph(ftxui::Screen& screen, int x, int y, std::string_view glyph, const Style& style,
                const Theme& theme) {
  put(screen, x, y, glyph, style, theme);
}

void draw_row(ftxui::Screen& screen, const Line& line, int y, const Theme& theme, int spared_from,
              int spared_to) {
  for (int x = draw_spans(screen, line, 0, y, screen.dimx() - 1, theme, spared_from, spared_to);
       x < screen.dimx(); ++x)
    if (x < spared_from || x >= spared_to) put(screen, x, y, " ", {}, theme);
}

void make_ascii(ftxui::Screen& screen, int y) {
  for (int x = 0; x < screen.dimx(); ++x) {
    std::string& character = screen.PixelAt(x, y).character;
    // the second half of a wide letter, which has become a narrow one
    if (character.empty()) character = " ";
    if (is_ascii(character)) continue;
    const auto known = std::ranges::find_if(
        kAsciiGlyphs, [&](const AsciiGlyph& row) { return row.glyph == character; });
    character = std::string(1, known == kAsciiGlyphs.end() ? '?' : known->letter);
  }
}

}  // namespace lockstep
