#include "support/screen_text.hpp"

#include <cctype>

#include "render/tui/screen_painter.hpp"

namespace lockstep::testing {
namespace {

template <class Letter>
std::string rows_of(const ftxui::Screen& screen, Letter letter) {
  std::string text;
  for (int y = 0; y < screen.dimy(); ++y) {
    std::string row;
    for (int x = 0; x < screen.dimx(); ++x) row += letter(screen.PixelAt(x, y));
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

}  // namespace

std::string text_of(const ftxui::Screen& screen) {
  return rows_of(screen, [](const ftxui::Pixel& pixel) { return pixel.character; });
}

std::string tones_of(const ftxui::Screen& screen) {
  return rows_of(screen, [](const ftxui::Pixel& pixel) {
    const ftxui::Color color = pixel.foreground_color;
    char letter = ' ';
    if (color == ftxui::Color(ftxui::Color::Green))
      letter = 'g';
    else if (color == ftxui::Color(ftxui::Color::Yellow))
      letter = 'w';
    else if (color == ftxui::Color(ftxui::Color::Red))
      letter = 'p';
    else if (color == ftxui::Color(ftxui::Color::Cyan))
      letter = 'a';
    else if (color == ftxui::Color(ftxui::Color::GrayDark))
      letter = 'f';
    if (pixel.inverted)
      letter = letter == ' ' ? '#' : static_cast<char>(std::toupper(letter));
    else if (pixel.character == " ")
      letter = ' ';
    return std::string(1, letter);
  });
}

ftxui::Screen painted(Frame frame) {
  ScreenPainter painter;
  return painter.paint(std::move(frame)).cells;
}

}  // namespace lockstep::testing
