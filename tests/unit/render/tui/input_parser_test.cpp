#include "render/tui/terminal/input_parser.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Input> parse(std::string_view bytes) { return InputParser().take(bytes); }

TEST(InputParser, ReadsLettersAndUtf8) {
  EXPECT_THAT(parse("qZ "), ElementsAre(Input(key('q')), Input(key('Z')), Input(key(' '))));
  EXPECT_THAT(parse("\xC3\xA9\xE2\x82\xAC"),
              ElementsAre(Input(key(U'\u00E9')), Input(key(U'\u20AC'))));
}

TEST(InputParser, ReadsKeysAsXtermRxvtAndTheConsoleSpellThem) {
  EXPECT_THAT(parse("\x1b[A\x1bOB"),
              ElementsAre(Input(key(KeyCode::up)), Input(key(KeyCode::down))));
  EXPECT_THAT(
      parse("\x1bOP\x1b[11~\x1b[[A"),
      ElementsAre(Input(key(KeyCode::f1)), Input(key(KeyCode::f1)), Input(key(KeyCode::f1))));
  EXPECT_THAT(parse("\x1b[21~\x1b[5~\x1b[6~"),
              ElementsAre(Input(key(KeyCode::f10)), Input(key(KeyCode::page_up)),
                          Input(key(KeyCode::page_down))));
  EXPECT_THAT(parse("\x1b[H\x1b[1~\x1b[F\x1b[4~"),
              ElementsAre(Input(key(KeyCode::home)), Input(key(KeyCode::home)),
                          Input(key(KeyCode::end)), Input(key(KeyCode::end))));
  EXPECT_THAT(parse("\x1b[Z\t\r\x7f"),
              ElementsAre(Input(key(KeyCode::back_tab)), Input(key(KeyCode::tab)),
                          Input(key(KeyCode::enter)), Input(key(KeyCode::backspace))));
}

TEST(InputParser, ReadsShiftWithArrows) {
  EXPECT_THAT(parse("\x1b[1;2D"), ElementsAre(Input(shifted(KeyCode::left))));
}

TEST(InputParser, ReadsClicksAndTheWheelAndNoReleases) {
  EXPECT_THAT(parse("\x1b[<0;10;5M\x1b[<0;10;5m"),
              ElementsAre(Input(Mouse{MouseAction::press, 9, 4})));
  EXPECT_THAT(parse("\x1b[<64;1;1M\x1b[<65;200;60M"),
              ElementsAre(Input(Mouse{MouseAction::wheel_up, 0, 0}),
                          Input(Mouse{MouseAction::wheel_down, 199, 59})));
}

TEST(InputParser, PutsSequencesTogetherThatComeInPieces) {
  InputParser parser;
  EXPECT_THAT(parser.take("\x1b"), IsEmpty());
  EXPECT_TRUE(parser.is_waiting());
  EXPECT_THAT(parser.take("["), IsEmpty());
  EXPECT_THAT(parser.take("A"), ElementsAre(Input(key(KeyCode::up))));
  EXPECT_FALSE(parser.is_waiting());
}

TEST(InputParser, AnEscThatNothingFollowsIsTheKey) {
  InputParser parser;
  parser.take("\x1b");

  EXPECT_THAT(parser.give_up_waiting(), ElementsAre(Input(key(KeyCode::escape))));
  EXPECT_FALSE(parser.is_waiting());
}

TEST(InputParser, AnEscThatIsTypedFastBeforeALetterIsStillBoth) {
  EXPECT_THAT(parse("\x1bq"), ElementsAre(Input(key(KeyCode::escape)), Input(key('q'))));
  EXPECT_THAT(parse("\x1b\x1b[A"),
              ElementsAre(Input(key(KeyCode::escape)), Input(key(KeyCode::up))));
}

TEST(InputParser, ASequenceThatNeverEndsIsGivenUp) {
  InputParser parser;
  parser.take("\x1b[12;");

  EXPECT_FALSE(parser.give_up_waiting().empty());
  EXPECT_FALSE(parser.is_waiting());
  EXPECT_THAT(parser.take("q"), ElementsAre(Input(key('q'))));
}

TEST(InputParser, DropsWhatItDoesNotKnow) {
  EXPECT_THAT(parse("\x1b[200~x"), ElementsAre(Input(key('x')))) << "a bracketed paste begins";
  EXPECT_THAT(parse("\x1b[?1;2cq"), ElementsAre(Input(key('q'))))
      << "a terminal that says what it is";
  EXPECT_THAT(parse("\xFF\xC0q"), ElementsAre(Input(key('q')))) << "no UTF-8";
  EXPECT_THAT(parse("\x1b[M !!q"), ElementsAre(Input(key('q')))) << "the old mouse";
}

TEST(InputParser, KnowsCtrlCAndCtrlL) {
  EXPECT_THAT(parse("\x03\x0c"),
              ElementsAre(Input(key(KeyCode::interrupt)), Input(key(KeyCode::redraw))));
}

}  // namespace
}  // namespace lockstep
