#include "fix/edit.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(UnifiedDiff, ShowsAChangedLineWithThreeLinesAroundIt) {
  const std::string before = "a\nb\nc\nd\ne\nf\ng\nh\n";

  const std::string diff = unified_diff("x", before, {{8, 9, "E"}});

  EXPECT_EQ(diff, "--- a/x\n+++ b/x\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
}

TEST(UnifiedDiff, JoinsNearChangesAndPartsFarOnes) {
  std::string before;
  for (int i = 0; i < 40; ++i) before += std::to_string(i % 10) + "\n";

  const std::string diff = unified_diff("x", before, {{0, 1, "A"}, {8, 9, "B"}, {60, 61, "C"}});

  EXPECT_NE(diff.find("@@ -1,8 +1,8 @@"), std::string::npos) << diff;
  EXPECT_NE(diff.find("@@ -28,7 +28,7 @@"), std::string::npos) << diff;
}

TEST(UnifiedDiff, CountsTheLinesThatWereAddedBefore) {
  const std::string before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";

  const std::string diff =
      unified_diff("x", before, {{0, 0, "new\n"}, {line_start(before, 24), 26, "twelve"}});

  EXPECT_NE(diff.find("@@ -1,3 +1,4 @@\n+new\n"), std::string::npos) << diff;
  EXPECT_NE(diff.find("+10,"), std::string::npos) << diff;
}

TEST(UnifiedDiff, SaysWhereTheFileHasNoLastLineEnd) {
  const std::string diff = unified_diff("x", "a\nb", {{2, 3, "c"}});

  EXPECT_EQ(diff,
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No "
            "newline at end of file\n");
}

TEST(UnifiedDiff, IsEmptyWhereNothingChanges) {
  EXPECT_EQ(unified_diff("x", "a\n", {{0, 1, "a"}}), "");
}

// Every diff must lead back to the edited text, whatever the edits.
struct EditedText {
  std::string before;
  std::vector<Edit> edits;
};
void PrintTo(const EditedText& text, std::ostream* out) {
  *out << text.edits.size() << " edits of " << ::testing::PrintToString(text.before);
}
class DiffRoundTrip : public ::testing::TestWithParam<EditedText> {};

TEST_P(DiffRoundTrip, GivesTheEditedTextBack) {
  const auto& [before, edits] = GetParam();

  const auto files = files_of_diff(unified_diff("dir/x.py", before, edits));
  ASSERT_EQ(files.size(), 1U);
  const auto again = edits_of_diff(before, files.front().hunks);

  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(files.front().name, "dir/x.py");
  EXPECT_EQ(edited(before, *again), edited(before, edits));
}
INSTANTIATE_TEST_SUITE_P(
    Texts, DiffRoundTrip,
    ::testing::Values(EditedText{"a\nb\nc\n", {{2, 4, ""}}},
                      EditedText{"a\r\nb\r\nc\r\n", {{3, 4, "X"}}},
                      EditedText{"a", {{1, 1, "\nb"}}}, EditedText{"a\n", {{0, 2, ""}}},
                      EditedText{"-- x\n++ y\n", {{0, 5, "--- z\n"}}},
                      EditedText{"1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                                 {{0, 0, "0\n"}, {6, 7, "four"}, {16, 18, ""}}}));

TEST(EditsOfDiff, RefuseATextThatHasChangedSince) {
  const std::string before = "a\nb\nc\n";
  const auto files = files_of_diff(unified_diff("x", before, {{2, 3, "B"}}));

  EXPECT_FALSE(edits_of_diff("a\nother\nc\n", files.front().hunks).has_value());
  EXPECT_FALSE(edits_of_diff("zero\na\nb\nc\n", files.front().hunks).has_value());
}

TEST(Edits, InsertionsAtOnePlaceFollowEachOtherAndTheSameOneCountsOnce) {
  const auto edits = in_order({{1, 1, "x"}, {1, 1, "y"}, {1, 1, "x"}});

  EXPECT_FALSE(overlap(edits));
  EXPECT_EQ(edited("ab", edits), "axyb");
}

TEST(Edits, OnTheSameBytesOverlap) { EXPECT_TRUE(overlap(in_order({{0, 3, ""}, {2, 4, ""}}))); }

}  // namespace
}  // namespace lockstep
