// Several machines that all run lockstep launch: here they are several launchers on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include "launch/arguments/machine_facts.hpp"
#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace testing;
using ::testing::HasSubstr;

class Nodes : public ::testing::Test {
 protected:
  std::vector<std::string> line(int node, const std::vector<std::string>& flags,
                                const std::string& lines) const {
    const fs::path file = folder.write("rank" + std::to_string(node) + ".sh", lines);
    std::vector<std::string> words = {"launch",
                                      "--nnodes=2",
                                      "--node-rank=" + std::to_string(node),
                                      "--master-addr=127.0.0.1",
                                      "--master-port=" + std::to_string(port),
                                      "--grace=1s",
                                      "--no-python"};
    words.insert(words.begin() + 1, flags.begin(), flags.end());
    // Not executed itself: while one test thread writes it, another's fork may hold it open for
    // writing (ETXTBSY).
    words.insert(words.end(), {"bash", file.string()});
    return words;
  }
  std::future<ProgramEnd> node(int number, const std::vector<std::string>& flags,
                               const std::string& lines) const {
    return std::async(std::launch::async,
                      [words = line(number, flags, lines)] { return run_lockstep(words); });
  }
  TemporaryFolder folder;
  // The launchers' own port is the one after it.
  static int two_free_ports() {
    while (true)
      if (const int first = free_port().value(); first < 65000 && cannot_listen_on(first + 1) == 0)
        return first;
  }
  const int port = two_free_ports();
};

TEST_F(Nodes, NumberTheirRanksInOrderWhateverEachHas) {
  const std::string says =
      "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $GROUP_RANK of "
      "$GROUP_WORLD_SIZE, $MASTER_PORT\n";
  auto second = node(1, {"--nproc-per-node=1"}, says);
  auto first = node(0, {"--nproc-per-node=2"}, says);

  const ProgramEnd ended_first = first.get();
  const ProgramEnd ended_second = second.get();

  EXPECT_EQ(ended_first.code, 0) << ended_first.err;
  EXPECT_EQ(ended_second.code, 0) << ended_second.err;
  EXPECT_THAT(ended_first.out, HasSubstr("1 of 3, 1 of 2, node 0 of 2, " + std::to_string(port)));
  EXPECT_THAT(ended_second.out, HasSubstr("2 of 3, 0 of 1, node 1 of 2, " + std::to_string(port)));
}

TEST_F(Nodes, StopTogetherAndEndWithTheCodeOfTheRankThatFailed) {
  auto first = node(0, {}, "sleep 60\n");
  auto second = node(1, {}, "sleep 0.3; exit 9\n");

  const ProgramEnd ended_first = first.get();

  EXPECT_EQ(ended_first.code, 9);
  EXPECT_THAT(ended_first.err, HasSubstr("rank 1 failed first, on node 1"));
  EXPECT_EQ(second.get().code, 9);
}

TEST_F(Nodes, StartAgainTogetherOnAFreshPort) {
  const std::string fails_once =
      "echo attempt $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT\n[ "
      "$TORCHELASTIC_RESTART_COUNT$RANK = 01 ] && exit 3\nsleep 0.5\n";
  auto first = node(0, {"--max-restarts=1"}, fails_once);
  auto second = node(1, {"--max-restarts=1"}, fails_once);

  const ProgramEnd ended_first = first.get();
  const ProgramEnd ended_second = second.get();

  EXPECT_EQ(ended_first.code, 0) << ended_first.err;
  EXPECT_EQ(ended_second.code, 0) << ended_second.err;
  const auto port_of = [](const std::string& out) {
    return out.substr(out.find("attempt 1 port "));
  };
  EXPECT_EQ(port_of(ended_first.out), port_of(ended_second.out));
  EXPECT_NE(port_of(ended_first.out), "attempt 1 port " + std::to_string(port) + "\n");
}

TEST_F(Nodes, NoticeOneThatIsLost) {
  auto first = node(0, {}, "touch " + (folder / "up").string() + "; sleep 60\n");
  std::vector<std::string> command = line(1, {"--quiet"}, "sleep 60\n");
  command.insert(command.begin(), lockstep_program());
  BackgroundProgram second(command);
  for (int tries = 0; tries < 500 && !fs::exists(folder / "up"); ++tries)
    std::this_thread::sleep_for(10ms);

  second.send(SIGKILL);
  const ProgramEnd ended = first.get();
  second.wait();

  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("node 1"));
  EXPECT_THAT(ended.err, HasSubstr("is lost"));
  EXPECT_THAT(ended.err, HasSubstr("next:"));
}

TEST_F(Nodes, MayBeStartedAgainBeforeAllAreThere) {
  const auto words = [&](int number) {
    auto command = line(number, {"--quiet"}, "echo $RANK of $WORLD_SIZE\n");
    std::ranges::replace(command, std::string("--nnodes=2"), std::string("--nnodes=3"));
    return command;
  };
  auto first =
      std::async(std::launch::async, [command = words(0)] { return run_lockstep(command); });
  {
    auto command = words(1);
    command.insert(command.begin(), lockstep_program());
    BackgroundProgram too_early(command);
    std::this_thread::sleep_for(500ms);
    too_early.send(SIGKILL);
    too_early.wait();
  }
  auto second =
      std::async(std::launch::async, [command = words(1)] { return run_lockstep(command); });
  const ProgramEnd third = run_lockstep(words(2));

  EXPECT_EQ(first.get().out, "0 of 3\n");
  EXPECT_EQ(second.get().out, "1 of 3\n");
  EXPECT_EQ(third.out, "2 of 3\n");
  EXPECT_EQ(third.code, 0);
}

TEST_F(Nodes, ThatAreThroughMayGo) {
  auto first = node(0, {}, "sleep 1\n");
  auto command = line(1, {"--quiet"}, "touch " + (folder / "through").string() + "\n");
  command.insert(command.begin(), lockstep_program());
  BackgroundProgram second(command);
  for (int tries = 0; tries < 500 && !fs::exists(folder / "through"); ++tries)
    std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(200ms);

  second.send(SIGKILL);
  second.wait();

  EXPECT_EQ(first.get().code, 0) << "its rank had done its work";
}

TEST_F(Nodes, AreRefusedInWordsWhereTheyDoNotFit) {
  auto first = node(0, {"--rdzv-conf=join_timeout=2"}, "true\n");
  std::vector<std::string> words = line(1, {"--rdzv-conf=join_timeout=5"}, "true\n");
  std::ranges::replace(words, std::string("--nnodes=2"), std::string("--nnodes=3"));

  const ProgramEnd misfit = run_lockstep(words);
  const ProgramEnd ended = first.get();

  EXPECT_EQ(misfit.code, 2);
  EXPECT_THAT(misfit.err, HasSubstr("--nnodes=2"));
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("L806"));
}

TEST_F(Nodes, SayWhichNameMeansNothing) {
  std::vector<std::string> words = line(1, {"--rdzv-conf=join_timeout=1"}, "true\n");
  std::ranges::replace(words, std::string("--master-addr=127.0.0.1"),
                       std::string("--master-addr=no.such.host.invalid"));

  const ProgramEnd end = run_lockstep(words);

  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.err, HasSubstr("L804"));
}

}  // namespace
}  // namespace lockstep
