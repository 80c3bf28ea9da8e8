#include "fix/write_back.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>

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

// user::rw-, user:1234:r--, group::---, mask::r--, other::---, as the kernel keeps it
constexpr std::array<unsigned char, 44> kAccessOfOne = {
    2,  0, 0, 0,                                                     // version
    1,  0, 6, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 4, 0, 0xd2, 4, 0, 0,  // owner, user 1234
    4,  0, 0, 0, 0xff, 0xff, 0xff, 0xff,                             // its group
    16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,                             // mask
    32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};                            // others
constexpr const char* kAccess = "system.posix_acl_access";

std::string attribute(const std::filesystem::path& path, const char* name) {
  std::array<char, 256> value{};
  const ssize_t size = ::getxattr(path.c_str(), name, value.data(), value.size());
  return size < 0 ? "none" : std::string(value.data(), static_cast<std::size_t>(size));
}

TEST(WriteBack, KeepsAccessListsAndAttributesAlsoWhenTakenBack) {
  TemporaryFolder tree;
  TemporaryFolder state;
  const auto a = tree.write("a.py", "old");
  const auto plain = tree.write("plain.py", "old");
  if (::setxattr(a.c_str(), "user.note", "mine", 4, 0) != 0 ||
      ::setxattr(a.c_str(), kAccess, kAccessOfOne.data(), kAccessOfOne.size(), 0) != 0)
    GTEST_SKIP() << "this file system keeps neither attributes nor access lists";
  // what is new in the folder gets a list of its own
  ::setxattr(tree.path().c_str(), "system.posix_acl_default", kAccessOfOne.data(),
             kAccessOfOne.size(), 0);
  const std::string before = attribute(a, kAccess);

  ASSERT_TRUE(
      static_cast<bool>(write_back({{a, "old", "new"}, {plain, "old", "new"}}, state / "undo")));
  EXPECT_EQ(attribute(a, kAccess), before);
  EXPECT_EQ(attribute(a, "user.note"), "mine");
  EXPECT_EQ(attribute(plain, kAccess), "none");

  ASSERT_TRUE(static_cast<bool>(undo_newest(state / "undo", {})));
  EXPECT_EQ(content_of(a), "old");
  EXPECT_EQ(attribute(a, kAccess), before);
  EXPECT_EQ(attribute(a, "user.note"), "mine");
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
