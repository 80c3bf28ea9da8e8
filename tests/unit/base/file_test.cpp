#include "base/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::content_of;
using testing::TemporaryFolder;

TEST(AtomicWrite, ReplacesTheWholeFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("report.json", "an older and longer content");

  ASSERT_TRUE(write_file_atomically(file, "new"));

  EXPECT_EQ(content_of(file), "new");
}

TEST(AtomicWrite, LeavesTheOldFileAndNoLitterWhenItFails) {
  const TemporaryFolder folder;
  const auto blocked = folder.path() / "a folder";
  std::filesystem::create_directories(blocked / "inside");  // rename onto it must fail

  const Status status = write_file_atomically(blocked, "new");

  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, ::testing::HasSubstr("cannot write"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "a temporary file was left";
}

TEST(AtomicWrite, GivesTheFileTheUsersUsualRights) {
  const TemporaryFolder folder;
  const mode_t old = ::umask(022);

  ASSERT_TRUE(write_file_atomically(folder / "x", "new"));

  ::umask(old);
  struct stat facts{};
  ASSERT_EQ(::stat((folder / "x").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0644U) << "mkstemp's 0600 would hide a report from colleagues";
}

TEST(AtomicWrite, ReplacesTheFileBehindALinkAndKeepsTheLink) {
  const TemporaryFolder folder;
  folder.write("real", "old");
  std::filesystem::create_symlink("real", folder / "link");

  ASSERT_TRUE(write_file_atomically(folder / "link", "new"));

  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(content_of(folder / "real"), "new");
}

TEST(AtomicWrite, NeverPutsAFileInADevicesPlace) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/null", folder / "null");

  ASSERT_TRUE(write_file_atomically(folder / "null", "gone"));
  ASSERT_TRUE(write_file_atomically("/dev/null", "gone"));

  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(SmallFile, StopsAtItsLimit) {
  const TemporaryFolder folder;
  const auto file = folder.write("x", std::string(100'000, 'a'));

  EXPECT_EQ(read_small_file(file, 10)->size(), 10U);
  EXPECT_EQ(read_small_file(file)->size(), 100'000U);
  EXPECT_FALSE(read_small_file(folder / "absent"));
}

}  // namespace
}  // namespace lockstep
