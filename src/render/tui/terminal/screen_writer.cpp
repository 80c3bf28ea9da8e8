#include "render/tui/terminal/screen_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ftxui/screen/string.hpp>
#include <iterator>
#include <utility>

namespace lockstep {
namespace {

// So many unchanged cells are rewritten rather than jumped over: a jump is four bytes or more.
constexpr int kRewritten = 3;

// A blank looks the same in any colour.
bool is_blank(const ftxui::Pixel& pixel) {
  return pixel.character == " " && !pixel.inverted &&
         pixel.background_color == ftxui::Color(ftxui::Color::Default);
}

bool same(const ftxui::Pixel& a, const ftxui::Pixel& b) {
  if (is_blank(a) && is_blank(b)) return true;
  return a.character == b.character && a.bold == b.bold && a.dim == b.dim &&
         a.inverted == b.inverted && a.foreground_color == b.foreground_color &&
         a.background_color == b.background_color;
}

int width_of(const std::string& character) {
  return character.size() <= 1 ? 1 : std::max(1, ftxui::string_width(character));
}

// A wide letter fills its cell and an empty one after it. Where a window covers one of the two, the
// other is a blank.
bool is_second_half(const ftxui::Screen& screen, int x, int y) {
  return x > 0 && screen.PixelAt(x, y).character.empty() &&
         width_of(screen.PixelAt(x - 1, y).character) > 1;
}
const std::string& glyph_at(const ftxui::Screen& screen, int x, int y) {
  static const std::string kBlank = " ";
  const std::string& character = screen.PixelAt(x, y).character;
  if (character.empty()) return kBlank;
  const bool torn = width_of(character) > 1 &&
                    (x + 1 >= screen.dimx() || !screen.PixelAt(x + 1, y).character.empty());
  return torn ? kBlank : character;
}
// Cells [from, to) that can be written one by one.
bool are_plain_letters(const ftxui::Screen& screen, int from, int to, int y) {
  for (int x = from; x < to; ++x)
    if (screen.PixelAt(x, y).character.empty() || width_of(screen.PixelAt(x, y).character) > 1)
      return false;
  return true;
}

// The bytes, with the cursor and the style that the terminal has after them.
class Output {
 public:
  void go_to(int x, int y) {
    if (x == x_ && y == y_) return;
    if (y == y_ && x > x_)
      fmt::format_to(std::back_inserter(bytes_), "\x1b[{}C", x - x_);
    else
      fmt::format_to(std::back_inserter(bytes_), "\x1b[{};{}H", y + 1, x + 1);
    x_ = x;
    y_ = y;
  }

  void put(const ftxui::Pixel& pixel, const std::string& glyph) {
    if (!is_blank(pixel) || inverted_ || background_ != ftxui::Color(ftxui::Color::Default))
      dress(pixel);
    bytes_ += glyph;
    x_ += width_of(glyph);
  }

  std::string take() {
    if (!plain_) bytes_ += "\x1b[0m";
    return std::move(bytes_);
  }

  bool is_at(int x, int y) const { return y == y_ && x >= x_ && x - x_ <= kRewritten; }
  int x() const { return x_; }
  bool stands_after(int x, int y) const { return y == y_ && x_ > x; }

 private:
  void dress(const ftxui::Pixel& pixel) {
    const ftxui::Color foreground = pixel.foreground_color;
    const bool same_flags = bold_ == pixel.bold && dim_ == pixel.dim &&
                            inverted_ == pixel.inverted && pixel.background_color == background_;
    if (same_flags && foreground == foreground_) return;
    if (same_flags) {
      fmt::format_to(std::back_inserter(bytes_), "\x1b[{}m", foreground.Print(false));
    } else {
      bytes_ += "\x1b[0";
      if (pixel.bold) bytes_ += ";1";
      if (pixel.dim) bytes_ += ";2";
      if (pixel.inverted) bytes_ += ";7";
      if (foreground != ftxui::Color(ftxui::Color::Default))
        bytes_ += ";" + foreground.Print(false);
      if (pixel.background_color != ftxui::Color(ftxui::Color::Default))
        bytes_ += ";" + pixel.background_color.Print(true);
      bytes_ += "m";
    }
    bold_ = pixel.bold;
    dim_ = pixel.dim;
    inverted_ = pixel.inverted;
    foreground_ = foreground;
    background_ = pixel.background_color;
    plain_ = !bold_ && !dim_ && !inverted_ && foreground_ == ftxui::Color(ftxui::Color::Default) &&
             background_ == ftxui::Color(ftxui::Color::Default);
  }

  std::string bytes_;
  int x_ = -1;
  int y_ = -1;
  bool plain_ = true;
  bool bold_ = false;
  bool dim_ = false;
  bool inverted_ = false;
  ftxui::Color foreground_ = ftxui::Color::Default;
  ftxui::Color background_ = ftxui::Color::Default;
};

}  // namespace

std::string ScreenWriter::update(const ftxui::Screen& next, std::span<const CellRun> changed) {
  const bool all = !shown_ || shown_->dimx() != next.dimx() || shown_->dimy() != next.dimy();
  Output output;
  const auto write = [&](const CellRun& run) {
    const int y = run.y;
    for (int x = run.from; x < run.to; ++x) {
      const ftxui::Pixel& pixel = next.PixelAt(x, y);
      if (!all && same(pixel, std::as_const(*shown_).PixelAt(x, y))) continue;
      if (!all) shown_->PixelAt(x, y) = pixel;
      // A wide letter is written as a whole, from its first cell.
      const int start = is_second_half(next, x, y) ? x - 1 : x;
      if (start < x && output.stands_after(start, y)) continue;  // it was, just now
      if (output.is_at(start, y) && are_plain_letters(next, output.x(), start, y))
        while (output.x() < start)
          output.put(next.PixelAt(output.x(), y), glyph_at(next, output.x(), y));
      else
        output.go_to(start, y);
      output.put(next.PixelAt(start, y), glyph_at(next, start, y));
    }
  };
  if (all)
    for (int y = 0; y < next.dimy(); ++y) write({y, 0, next.dimx()});
  else
    for (const CellRun& run : changed) write(run);
  std::string bytes = output.take();
  if (all) {
    bytes.insert(0, "\x1b[0m\x1b[2J");
    shown_ = next;
  }
  return bytes;
}

}  // namespace lockstep
