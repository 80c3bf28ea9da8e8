#include "base/subprocess.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "base/time_limit.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(Subprocess, KeepsTheExitCode) {
  auto process = Subprocess::start({"sh", "-c", "exit 7"}, ChildOutput::untouched);

  ASSERT_TRUE(process);
  EXPECT_EQ(process->wait().exit_code, 7);
}

TEST(Subprocess, TellsASignalFromAnExit) {
  auto process = Subprocess::start({"sleep", "60"}, ChildOutput::untouched);
  ASSERT_TRUE(process);

  process->send(SIGTERM);

  const ChildEnd end = process->wait();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_EQ(end.ended_by_signal, SIGTERM);
}

TEST(Subprocess, IsEndedThoughItDoesNotListen) {
  auto deaf = Subprocess::start({"/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"},
                                ChildOutput::untouched);
  ASSERT_TRUE(deaf);
  auto listens = Subprocess::start({"/bin/sleep", "60"}, ChildOutput::untouched);
  ASSERT_TRUE(listens);
  std::this_thread::sleep_for(200ms);  // until the trap is set

  EXPECT_EQ(deaf->end(200ms).ended_by_signal, SIGKILL);
  EXPECT_EQ(listens->end(10s).ended_by_signal, SIGTERM);
}

TEST(Subprocess, SaysWhenAProgramDoesNotExist) {
  const auto process = Subprocess::start({"no-such-program-anywhere"}, ChildOutput::untouched);

  ASSERT_FALSE(process);
  EXPECT_THAT(process.error().what, ::testing::HasSubstr("no-such-program-anywhere"));
  EXPECT_EQ(process.error().kind, ErrorKind::usage);
}

TEST(TimeLimit, GivesUpOnWorkThatDoesNotComeBack) {
  EXPECT_EQ(run_with_time_limit(20ms,
                                [] {
                                  std::this_thread::sleep_for(2s);
                                  return 1;
                                }),
            std::nullopt);
}

TEST(TimeLimit, HandsOverWhatComesInTime) {
  EXPECT_EQ(run_with_time_limit(10s, [] { return 42; }), 42);
}

}  // namespace
}  // namespace lockstep
