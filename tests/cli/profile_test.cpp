// lockstep profile as a program: what it leaves when it is killed.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "support/comes_true.hpp"
#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::BackgroundProgram;
using testing::comes_true_within;
using testing::TemporaryFolder;

int number_in(const std::filesystem::path& file) {
  int number = 0;
  std::ifstream(file) >> number;
  return number;
}

bool lives(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  std::string state;
  return (stat >> number >> name >> state) && state != "Z" && state != "X";
}

TEST(ProfileCommand, KilledLeavesNoFolderAndNoneOfTheCommandsProcesses) {
  const TemporaryFolder folder;
  const TemporaryFolder runtime;
  // A shell, a child of it, and one that left its parent and its session.
  const std::string script = "setsid sh -c 'echo $$ > " + (folder / "away").string() +
                             "; exec sleep 300' & sh -c 'echo $$ > " + (folder / "below").string() +
                             "; exec sleep 300'";
  BackgroundProgram profile(
      {testing::lockstep_program(), "profile", "--quiet", "virtual:1", "--", "sh", "-c", script},
      {{"XDG_RUNTIME_DIR", runtime.path().string()}});
  ASSERT_TRUE(comes_true_within(30s, [&] { return number_in(folder / "away") > 0; }));
  ASSERT_TRUE(comes_true_within(30s, [&] { return number_in(folder / "below") > 0; }));

  profile.send(SIGKILL);
  profile.wait();

  EXPECT_TRUE(comes_true_within(30s, [&] { return !lives(number_in(folder / "below")); }));
  EXPECT_TRUE(comes_true_within(30s, [&] { return !lives(number_in(folder / "away")); }));
  EXPECT_TRUE(comes_true_within(30s, [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(runtime.path()))
      if (entry.path().filename().string().starts_with("profile-")) return false;
    return true;
  }));
}

}  // namespace
}  // namespace lockstep
