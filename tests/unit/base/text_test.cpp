#include "base/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Durations, AreReadWithTheirUnit) {
  EXPECT_EQ(*parse_duration("100ms"), 100ms);
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(*parse_duration("2m"), 2min);
  EXPECT_EQ(*parse_duration("1h"), 1h);
  EXPECT_EQ(*parse_duration("0s"), 0s);
}

TEST(Durations, WithoutAUnitAreRefusedWithAnExample) {
  const auto duration = parse_duration("10");

  ASSERT_FALSE(duration);
  EXPECT_THAT(duration.error().what, HasSubstr("'10' has no unit"));
  EXPECT_THAT(duration.error().next, HasSubstr("10s"));
  EXPECT_EQ(duration.error().kind, ErrorKind::usage);
}

TEST(Durations, ThatMakeNoSenseAreRefused) {
  for (const char* text :
       {"", "s", "-5s", "-0s", "nans", "infs", "5 s", "5sec", "1e300s", "5ss", "0x5s", "\x1b[31ms"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(IndexLists, TakeCommasAndRanges) {
  EXPECT_THAT(*parse_index_list("0,2-4"), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(*parse_index_list("1,1,0"), ElementsAre(0, 1));
}

TEST(IndexLists, OfAnythingElseAreRefused) {
  for (const char* text : {"", "a", "0,,1", "-1", "3-1", "0-99999999", "1.5"})
    EXPECT_FALSE(parse_index_list(text)) << text;
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  const std::vector<std::string> commands = {"monitor", "record", "doctor"};

  EXPECT_EQ(nearest("monitr", commands), "monitor");
  EXPECT_EQ(nearest("recrod", commands), "record");
  EXPECT_EQ(nearest("mon", commands), "monitor");
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  const std::vector<std::string> commands = {"monitor", "record"};

  EXPECT_EQ(nearest("zebra", commands), std::nullopt);
  EXPECT_EQ(nearest("", commands), std::nullopt);
  EXPECT_EQ(nearest(std::string(10'000, 'x'), commands), std::nullopt);
}

TEST(Shortened, CutsBetweenLetters) {
  EXPECT_EQ(shortened("short", 10), "short");
  EXPECT_EQ(shortened("a longer one", 8), "a longer…");
  EXPECT_EQ(shortened("\xC3\xA9\xC3\xA9", 3), "\xC3\xA9…") << "the second letter has two bytes";
}

TEST(Printable, MakesEscapeSequencesVisible) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("two\nlines"), "two\\nlines");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "?31m")
      << "a C1 control introduces escape sequences too";
}

TEST(Printable, KeepsTextAndReplacesWhatIsNoUtf8) {
  EXPECT_EQ(printable("caf\xC3\xA9 \xE2\x80\xA6"), "caf\xC3\xA9 \xE2\x80\xA6");
  EXPECT_EQ(printable("\xFFx\xC3"), "?x?");
  EXPECT_EQ(printable("\xED\xA0\x80"), "???") << "a lone surrogate is no character";
}

TEST(Bytes, AreShownWithThreeFigures) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(150e9), "140 GiB");
}

TEST(Utf16, BecomesUtf8InBothByteOrdersAndNeverHalfACharacter) {
  using namespace std::string_view_literals;
  EXPECT_EQ(from_utf16("\xFF\xFEG\0\xE9\0\x26\x20\x3D\xD8\x00\xDE"sv),
            "G\xC3\xA9\xE2\x80\xA6\xF0\x9F\x98\x80");
  EXPECT_EQ(from_utf16("\xFE\xFF\0G"sv), "G");
  EXPECT_EQ(from_utf16("\xFF\xFE\x3D\xD8x\0"sv), "\xEF\xBF\xBDx");
  EXPECT_EQ(from_utf16("\xFF\xFEG"sv), "") << "cut within a unit";
  EXPECT_EQ(from_utf16("plain"), std::nullopt);
}

TEST(ShellQuoted, LeavesPlainWordsAndQuotesTheRest) {
  EXPECT_EQ(shell_quoted("--lr=1e-3"), "--lr=1e-3");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

}  // namespace
}  // namespace lockstep
