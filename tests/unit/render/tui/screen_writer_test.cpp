#include "render/tui/terminal/screen_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "render/tui/style.hpp"
#include "support/screen_text.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ftxui::Screen screen_of(const std::vector<Line>& rows, int columns = 20) {
  ftxui::Screen screen(columns, static_cast<int>(rows.size()));
  for (std::size_t y = 0; y < rows.size(); ++y) draw_row(screen, rows[y], static_cast<int>(y), {});
  return screen;
}

std::vector<CellRun> everywhere(const ftxui::Screen& screen) {
  std::vector<CellRun> runs;
  for (int y = 0; y < screen.dimy(); ++y) runs.push_back({y, 0, screen.dimx()});
  return runs;
}

// The least of a terminal: places, letters, and a style for each cell as the numbers that set it.
class Emulator {
 public:
  Emulator(int columns, int rows)
      : cells_(static_cast<std::size_t>(rows),
               std::vector<std::string>(static_cast<std::size_t>(columns), " ")),
        styles_(cells_) {}

  void take(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      if (bytes[at] == '\x1b') {
        std::size_t end = at + 2;
        while (bytes[end] < 0x40) ++end;
        obey(bytes.substr(at + 2, end - at - 2), bytes[end]);
        at = end + 1;
        continue;
      }
      std::size_t length = 1;
      while (at + length < bytes.size() &&
             (static_cast<unsigned char>(bytes[at + length]) & 0xC0U) == 0x80U)
        ++length;
      cells_.at(y_).at(x_) = bytes.substr(at, length);
      styles_.at(y_).at(x_) = style_;
      ++x_;
      at += length;
    }
  }
  std::string text() const {
    std::string all;
    for (const auto& row : cells_) {
      std::string line;
      for (const std::string& cell : row) line += cell;
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    }
    return all;
  }
  const std::string& style_at(std::size_t x, std::size_t y) const { return styles_.at(y).at(x); }

 private:
  void obey(const std::string& numbers, char letter) {
    if (letter == 'H') {
      y_ = std::stoul(numbers) - 1;
      x_ = std::stoul(numbers.substr(numbers.find(';') + 1)) - 1;
    } else if (letter == 'C') {
      x_ += std::stoul(numbers);
    } else if (letter == 'J') {
      for (auto& row : cells_) std::ranges::fill(row, " ");
      x_ = y_ = 0;
    } else if (letter == 'm') {
      style_ =
          numbers.starts_with("0") ? numbers : style_.substr(0, style_.find(';')) + ";" + numbers;
    }
  }
  std::vector<std::vector<std::string>> cells_;
  std::vector<std::vector<std::string>> styles_;
  std::string style_ = "0";
  std::size_t x_ = 0;
  std::size_t y_ = 0;
};

TEST(ScreenWriter, WritesNothingWhenNothingChanged) {
  ScreenWriter writer;
  const auto screen = screen_of({Line("hello")});
  writer.update(screen, everywhere(screen));

  EXPECT_EQ(writer.update(screen, everywhere(screen)), "");
}

TEST(ScreenWriter, WritesOnlyTheCellsThatChanged) {
  ScreenWriter writer;
  const auto before = screen_of({Line("busy  40%"), Line("idle")});
  const auto after = screen_of({Line("busy  41%"), Line("idle")});
  writer.update(before, everywhere(before));

  EXPECT_EQ(writer.update(after, everywhere(after)), "\x1b[1;8H1");
}

TEST(ScreenWriter, ABlankHasNoColour) {
  ScreenWriter writer;
  const auto before = screen_of({Line("  x", {Tone::problem, false, false})});
  const auto after = screen_of({Line("  x").add("")});
  writer.update(before, everywhere(before));
  const std::string bytes = writer.update(after, everywhere(after));

  EXPECT_THAT(bytes, HasSubstr("x"));
  EXPECT_THAT(bytes, Not(HasSubstr(" "))) << "the blanks before it look as they did";
}

TEST(ScreenWriter, WritesEverythingAfterTheSizeChangedOrTheTerminalWasUsedByOthers) {
  ScreenWriter writer;
  const auto small = screen_of({Line("a")}, 5);
  const auto large = screen_of({Line("a")}, 9);
  writer.update(small, everywhere(small));

  EXPECT_THAT(writer.update(large, {}), HasSubstr("\x1b[2J"));
  writer.forget();
  EXPECT_THAT(writer.update(large, {}), HasSubstr("a"));
}

TEST(ScreenWriter, LeavesTheTerminalPlain) {
  ScreenWriter writer;
  const auto screen = screen_of({Line("x", {Tone::good, true, true})}, 1);

  EXPECT_TRUE(writer.update(screen, everywhere(screen)).ends_with("\x1b[0m"));
}

TEST(ScreenWriter, WritesAWideLetterFromItsFirstCell) {
  ScreenWriter writer;
  const auto before = screen_of({Line("ab")}, 4);
  const auto after = screen_of({Line("\xE6\xBC\xA2")}, 4);
  writer.update(before, everywhere(before));

  EXPECT_EQ(writer.update(after, everywhere(after)), "\x1b[1;1H\xE6\xBC\xA2");
}

TEST(ScreenWriter, HalfAWideLetterIsABlank) {
  ScreenWriter writer;
  auto screen = screen_of({Line("\xE6\xBC\xA2\xE6\xBC\xA2 x")}, 8);
  screen.PixelAt(1, 0).character = "|";  // a window's frame over the second half of the first
  screen.PixelAt(2, 0).character = "|";  // and over the first half of the second

  EXPECT_THAT(writer.update(screen, everywhere(screen)), HasSubstr(" ||  x"));
}

TEST(ScreenWriter, ThousandRandomPicturesArriveAsTheyAre) {
  std::mt19937 chance(7);
  const auto pick = [&](int most) {
    return static_cast<int>(chance() % static_cast<unsigned>(most));
  };
  ScreenWriter writer;
  Emulator terminal(30, 6);
  std::vector<std::string> letters = {" ", "a", "b", "\u2588", "\u2581", "%"};
  std::vector<Line> rows(6);
  for (int picture = 0; picture < 1000; ++picture) {
    Line row;
    for (int x = 0; x < 30; ++x)
      row.add(letters[static_cast<std::size_t>(pick(6))],
              {static_cast<Tone>(pick(6)), pick(5) == 0, pick(9) == 0});
    const int y = pick(6);
    if (picture < 6 || pick(3) == 0)
      rows[static_cast<std::size_t>(picture < 6 ? picture : y)] = row;
    const auto screen = screen_of(rows, 30);

    terminal.take(writer.update(screen, everywhere(screen)));

    ASSERT_EQ(terminal.text(), testing::text_of(screen)) << "picture " << picture;
  }
}

}  // namespace
}  // namespace lockstep
