// Nothing is left behind, whoever is killed. Each rank has a worker with two children, and a child
// in a session of its own; all of them ignore SIGTERM. A mark in the environment finds every one,
// wherever it ends up.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/paths.hpp"
#include "support/process_table.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace testing;

constexpr int kTimes = 10;  // scripts/bench reliability does a hundred
constexpr std::size_t kOfEachRank = 6;

const char* const kFamily =
    "#!/bin/sh\n"
    "trap '' TERM\n"
    "sh -c 'trap \"\" TERM; sleep 600 & sleep 600 & wait' &\n"
    "setsid sh -c 'trap \"\" TERM; sleep 600 & wait' &\n"
    "sleep 600 & wait\n";

class LaunchedFamily {
 public:
  explicit LaunchedFamily(int number)
      : mark_("LOCKSTEP_TEST_MARK=" + std::to_string(::getpid()) + "_" + std::to_string(number)) {
    const fs::path script = folder_.write("family.sh", kFamily);
    fs::permissions(script, fs::perms::owner_all);
    fs::create_directory(folder_ / "tmp");
    const auto equals = mark_.find('=');
    program_ = std::make_unique<BackgroundProgram>(
        std::vector<std::string>{lockstep_program(), "launch", "--standalone", "--nproc-per-node=2",
                                 "--grace=100ms", "--quiet", "--no-python", script.string()},
        Variables{{mark_.substr(0, equals), mark_.substr(equals + 1)},
                  {"TMPDIR", (folder_ / "tmp").string()}});
    // The launcher, the guard, and of each of two ranks the whole family; a shell that is about to
    // become a sleep may stand beside it for a moment.
    for (int tries = 0, whole = 0; tries < 1000 && whole < 3; ++tries) {
      whole = is_whole() ? whole + 1 : 0;
      std::this_thread::sleep_for(10ms);
    }
  }
  ~LaunchedFamily() {
    for (const int pid : processes_with(mark_)) ::kill(pid, SIGKILL);
  }

  int launcher() const { return program_->pid(); }
  int guard() const { return living_children_of(launcher()).at(0); }
  int rank() const { return living_children_of(guard()).at(0); }
  int worker() const {
    for (const int child : living_children_of(rank()))
      if (living_children_of(child).size() == 2) return child;
    throw std::runtime_error("no worker");
  }
  bool is_whole() const { return processes_with(mark_).size() == 2 + 2 * (1 + kOfEachRank); }
  std::size_t left_after(std::chrono::seconds time) const {
    const auto until = std::chrono::steady_clock::now() + time;
    while (!processes_with(mark_).empty() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(10ms);
    return processes_with(mark_).size();
  }
  int wait() { return program_->wait(); }
  bool left_files() const { return !fs::is_empty(folder_ / "tmp"); }

 private:
  TemporaryFolder folder_;
  std::string mark_;
  std::unique_ptr<BackgroundProgram> program_;
};

// Kills one of the family, ten times, and counts who is left.
void nothing_is_left_after(const std::function<int(const LaunchedFamily&)>& victim) {
  for (int number = 0; number < kTimes; ++number) {
    LaunchedFamily family(number);
    ASSERT_TRUE(family.is_whole());
    ::kill(victim(family), SIGKILL);
    family.wait();
    ASSERT_EQ(family.left_after(20s), 0U) << "in round " << number;
    ASSERT_FALSE(family.left_files());
  }
}

TEST(NothingIsLeft, WhenTheLauncherIsKilled) {
  nothing_is_left_after([](const LaunchedFamily& family) { return family.launcher(); });
}
TEST(NothingIsLeft, WhenTheGuardIsKilled) {
  nothing_is_left_after([](const LaunchedFamily& family) { return family.guard(); });
}
TEST(NothingIsLeft, WhenARankIsKilled) {
  nothing_is_left_after([](const LaunchedFamily& family) { return family.rank(); });
}

TEST(NothingIsLeft, WhenALoaderWorkersParentIsKilledAndThenTheJobEnds) {
  for (int number = 0; number < kTimes; ++number) {
    LaunchedFamily family(number);
    ASSERT_TRUE(family.is_whole());
    ::kill(family.worker(), SIGKILL);
    std::this_thread::sleep_for(20ms);
    ::kill(family.launcher(), SIGTERM);
    EXPECT_EQ(family.wait(), 128 + SIGTERM);
    ASSERT_EQ(family.left_after(20s), 0U) << "in round " << number;
  }
}

}  // namespace
}  // namespace lockstep
