#include "fix/write_back.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::content_of;
using testing::TemporaryFolder;

std::size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

TEST(WriteBack, WritesAllFilesKeepsTheirModesAndLeavesNothingBeside) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a.sh", "old a");
  const auto b = tree.write("b.py", "old b");
  ::chmod(a.c_str(), 0751);

  const Status written = write_back({{a, "old a", "new a"}, {b, "old b", "new b"}}, state / "undo");

  ASSERT_TRUE(static_cast<bool>(written));
  EXPECT_EQ(content_of(a), "new a");
  EXPECT_EQ(content_of(b), "new b");
  struct stat facts{};
  ::stat(a.c_str(), &facts);
  EXPECT_EQ(facts.st_mode & 07777U, 0751U);
  EXPECT_EQ(entries_in(tree.path()), 2U);
}

TEST(WriteBack, IsTakenBackExactlyAndOnce) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a", std::string("old\r\n\xef\xbb\xbf\0x", 10));
  ASSERT_TRUE(static_cast<bool>(write_back({{a, content_of(a), "new"}}, state / "undo")));

  const auto restored = undo_newest(state / "undo", {});

  ASSERT_TRUE(static_cast<bool>(restored));
  EXPECT_EQ(content_of(a), std::string("old\r\n\xef\xbb\xbf\0x", 10));
  EXPECT_FALSE(static_cast<bool>(undo_newest(state / "undo", {})))
      << "there is nothing left to undo";
}

TEST(WriteBack, IsTakenBackNewestFirst) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a", "1");
  ASSERT_TRUE(static_cast<bool>(write_back({{a, "1", "2"}}, state / "undo")));
  ASSERT_TRUE(static_cast<bool>(write_back({{a, "2", "3"}}, state / "undo")));

  ASSERT_TRUE(static_cast<bool>(undo_newest(state / "undo", {})));
  EXPECT_EQ(content_of(a), "2");
  ASSERT_TRUE(static_cast<bool>(undo_newest(state / "undo", {})));
  EXPECT_EQ(content_of(a), "1");
}

TEST(WriteBack, IsNotTakenBackOverAChangedFile) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a", "1");
  const auto b = tree.write("b", "1");
  ASSERT_TRUE(static_cast<bool>(write_back({{a, "1", "2"}, {b, "1", "2"}}, state / "undo")));
  tree.write("b", "changed by hand");

  const auto restored = undo_newest(state / "undo", {});

  ASSERT_FALSE(static_cast<bool>(restored));
  EXPECT_NE(restored.error().what.find("has changed since"), std::string::npos);
  EXPECT_EQ(content_of(a), "2") << "all or none";
}

TEST(WriteBack, TakesBackWhatConcernsThePathOnly) {
  TemporaryFolder tree;
  TemporaryFolder state;
  std::filesystem::create_directory(tree / "x");
  std::filesystem::create_directory(tree / "y");
  const auto a = tree.write("x/a", "1");
  const auto b = tree.write("y/b", "1");
  ASSERT_TRUE(static_cast<bool>(write_back({{a, "1", "2"}}, state / "undo")));
  ASSERT_TRUE(static_cast<bool>(write_back({{b, "1", "2"}}, state / "undo")));

  ASSERT_TRUE(static_cast<bool>(undo_newest(state / "undo", {tree / "x"})));

  EXPECT_EQ(content_of(a), "1");
  EXPECT_EQ(content_of(b), "2");
}

TEST(WriteBack, IsTakenBackForNamesThatAreNotUtf8) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a\xe9.py", "1");
  ASSERT_TRUE(static_cast<bool>(write_back({{a, "1", "2"}}, state / "undo")));

  ASSERT_TRUE(static_cast<bool>(undo_newest(state / "undo", {})));

  EXPECT_EQ(content_of(a), "1");
}

TEST(WriteBack, DoesNotPartAFileFromItsOtherName) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a.py", "1");
  std::filesystem::create_hard_link(a, tree / "b.py");

  EXPECT_FALSE(static_cast<bool>(write_back({{a, "1", "2"}}, state / "undo")));

  EXPECT_EQ(content_of(a), "1");
}

TEST(WriteBack, RefusesAFileThatChangedAfterTheDiff) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a", "1");
  const auto b = tree.write("b", "changed");

  const Status written = write_back({{a, "1", "2"}, {b, "1", "2"}}, state / "undo");

  ASSERT_FALSE(static_cast<bool>(written));
  EXPECT_EQ(content_of(a), "1") << "all or none";
  EXPECT_EQ(content_of(b), "changed");
  EXPECT_EQ(entries_in(tree.path()), 2U);
  EXPECT_FALSE(static_cast<bool>(undo_newest(state / "undo", {})))
      << "nothing was written, so there is nothing to undo";
}

TEST(WriteBack, ToAFolderThatIsNotThereChangesNothing) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a", "1");

  const Status written =
      write_back({{a, "1", "2"}, {tree / "gone" / "b", "1", "2"}}, state / "undo");

  ASSERT_FALSE(static_cast<bool>(written));
  EXPECT_EQ(content_of(a), "1");
}

TEST(WriteBack, ToAReadOnlyFolderChangesNothing) {
  if (::geteuid() == 0)
    GTEST_SKIP()
        << "root may write anywhere: a read-only folder is tried by tests/cli as another user";
  TemporaryFolder tree;
  TemporaryFolder state;
  std::filesystem::create_directory(tree / "locked");
  const auto a = tree.write("a", "1");
  const auto b = tree.write("locked/b", "1");
  ::chmod((tree / "locked").c_str(), 0500);

  const Status written = write_back({{a, "1", "2"}, {b, "1", "2"}}, state / "undo");
  ::chmod((tree / "locked").c_str(), 0700);

  ASSERT_FALSE(static_cast<bool>(written));
  EXPECT_EQ(content_of(a), "1");
}

}  // namespace
}  // namespace lockstep
