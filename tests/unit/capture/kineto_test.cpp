// What PyTorch's profiler and its daemon say to each other, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "capture/kineto_messages.hpp"
#include "capture/kineto_socket.hpp"
#include "capture/resting_daemon.hpp"
#include "capture/traced_processes.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace testing;
namespace fs = std::filesystem;

std::string request(std::int32_t kinds, const std::vector<std::int32_t>& pids) {
  std::string payload(16 + 4 * pids.size(), '\0');
  const auto count = static_cast<std::int32_t>(pids.size());
  std::memcpy(payload.data(), &kinds, 4);
  std::memcpy(payload.data() + 4, &count, 4);
  if (!pids.empty()) std::memcpy(payload.data() + 16, pids.data(), 4 * pids.size());
  std::string datagram(40, '\0');
  const std::uint64_t size = payload.size();
  std::memcpy(datagram.data(), &size, 8);
  std::memcpy(datagram.data() + 8, "req", 3);
  return datagram + payload;
}

// A profiler's end: bound beside the daemon's, as torch binds it.
class Client {
 public:
  explicit Client(const fs::path& folder)
      : folder_(folder), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un own = address(folder / "dynoconfigclient1");
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    const timeval patience{2, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool ask() {
    const sockaddr_un daemon = address(folder_ / "dynolog");
    const std::string text = request(3, {::getpid(), 1});
    return ::sendto(socket_, text.data(), text.size(), 0,
                    reinterpret_cast<const sockaddr*>(&daemon), sizeof(daemon)) >= 0;
  }
  // The configuration; nothing: no answer.
  std::optional<std::string> answer() {
    std::array<char, 4096> bytes{};
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 40) return std::nullopt;
    return std::string(bytes.data() + 40, static_cast<std::size_t>(got) - 40);
  }

 private:
  static sockaddr_un address(const fs::path& path) {
    sockaddr_un result{};
    result.sun_family = AF_UNIX;
    std::strncpy(result.sun_path, path.c_str(), sizeof(result.sun_path) - 1);
    return result;
  }
  fs::path folder_;
  int socket_;
};

TEST(KinetoMessages, AreReadAndRefused) {
  const auto read = parse_request(request(2, {42, 7, 1}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kinds, 2);
  EXPECT_EQ(read->pids, (std::vector<int>{42, 7, 1}));
  EXPECT_FALSE(parse_request(""));
  EXPECT_FALSE(parse_request(request(2, {42}).substr(0, 50)));
  EXPECT_FALSE(parse_request(request(2, {})));
  std::string lies = request(2, {42});
  lies[44] = 100;  // more pids than bytes
  EXPECT_FALSE(parse_request(lies));
}

TEST(KinetoMessages, OrderATraceForAllAtOneMoment) {
  const std::string text =
      configuration_of({"/tmp/x.json", std::chrono::milliseconds(1'700'000'000'123),
                        std::chrono::milliseconds(2000), true});

  EXPECT_NE(text.find("ACTIVITIES_LOG_FILE=/tmp/x.json\n"), std::string::npos);
  EXPECT_NE(text.find("PROFILE_START_TIME=1700000000123\n"), std::string::npos);
  EXPECT_NE(text.find("ACTIVITIES_DURATION_MSECS=2000\n"), std::string::npos);
  EXPECT_NE(text.find("PROFILE_WITH_STACK=true\n"), std::string::npos);
  EXPECT_EQ(file_of_process("/tmp/x.json", 42), "/tmp/x_42.json");
}

TEST(KinetoSocket, HearsWhoAsksAndAnswers) {
  TemporaryFolder folder;
  auto socket = KinetoSocket::in_folder(folder.path());
  ASSERT_TRUE(socket) << socket.error().what;
  Client client(folder.path());

  ASSERT_TRUE(client.ask());
  const auto heard = socket->receive();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->pid, ::getpid()) << "as the kernel says, whatever the process calls itself";
  EXPECT_TRUE(socket->answer(*heard, "A=1\n"));
  EXPECT_EQ(client.answer(), "A=1\n");
}

TEST(KinetoSocket, StepsAsideWhereAnotherDaemonAnswers) {
  TemporaryFolder folder;
  const auto first = KinetoSocket::in_folder(folder.path());
  ASSERT_TRUE(first);

  const auto second = KinetoSocket::in_folder(folder.path());

  ASSERT_FALSE(second);
  EXPECT_NE(second.error().what.find("another daemon answers"), std::string::npos);
}

TEST(KinetoSocket, TakesTheDeadOnesPlace) {
  TemporaryFolder folder;
  {
    const auto killed = KinetoSocket::in_folder(folder.path());
    ASSERT_TRUE(killed);
    fs::create_hard_link(folder / "dynolog", folder / "kept");
  }
  fs::rename(folder / "kept", folder / "dynolog");

  EXPECT_TRUE(KinetoSocket::in_folder(folder.path()));
}

TEST(RestingDaemon, SaysThatThereIsNothingToDoAndHandsOver) {
  TemporaryFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  fs::path place;
  {
    const RestingDaemon resting = RestingDaemon::start();
    const auto variables = resting.variables();
    ASSERT_TRUE(variables.contains("KINETO_USE_DAEMON"));
    place = variables.at("KINETO_IPC_SOCKET_DIR");
    Client client(place);
    ASSERT_TRUE(client.ask());
    EXPECT_EQ(client.answer(), "") << "nothing to do";
    {
      auto taken = KinetoSocket::in_folder(place);
      ASSERT_TRUE(taken) << taken.error().what;
      ASSERT_TRUE(client.ask());
      const auto heard = taken->receive();
      ASSERT_TRUE(heard) << "it asks the one that took the place";
      EXPECT_TRUE(taken->answer(*heard, "X=1\n"));
      EXPECT_EQ(client.answer(), "X=1\n");
    }
    ASSERT_TRUE(client.ask());
    EXPECT_EQ(client.answer(), "") << "the place was given back";
  }
  EXPECT_FALSE(fs::exists(place)) << "nothing is left behind";
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST(RestingDaemon, LeavesTheUsersOwnDaemonAlone) {
  ::setenv("KINETO_USE_DAEMON", "1", 1);
  EXPECT_TRUE(RestingDaemon::start().variables().empty());
  ::unsetenv("KINETO_USE_DAEMON");
}

// A /proc of files.
class Proc {
 public:
  void process(int pid, int parent, const std::string& command, const std::string& environment,
               bool torch = true) {
    const fs::path own = folder_ / std::to_string(pid);
    fs::create_directories(own);
    const auto write = [&](const std::string& name, const std::string& text) {
      folder_.write(std::to_string(pid) + "/" + name, text);
    };
    write("environ", environment);
    write("maps", torch ? "7f00-7f01 r-xp /venv/lib/libtorch_cpu.so\n" : "");
    write("cmdline", command);
    write("stat", std::to_string(pid) + " (python) S " + std::to_string(parent) + " 0 0");
  }
  std::vector<int> found(const std::vector<int>& wanted = {}) const {
    std::vector<int> pids;
    for (const TracedProcess& process : find_traced_processes(folder_.path(), wanted))
      pids.push_back(process.pid);
    return pids;
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

const std::string kAsks("KINETO_USE_DAEMON=1\0", 20);

TEST(TracedProcesses, AreTheRanksWithoutLauncherAndWorkers) {
  Proc proc;
  proc.process(10, 1, "torchrun", kAsks);
  proc.process(11, 10, "train.py", kAsks + std::string("RANK=0\0WORLD_SIZE=2\0", 20));
  proc.process(12, 10, "train.py", kAsks + std::string("RANK=1\0WORLD_SIZE=2\0", 20));
  proc.process(13, 11, "train.py", kAsks);        // a loader's worker: a fork
  proc.process(14, 1, "other.py", "HOME=/root");  // does not ask
  proc.process(15, 1, "bash", kAsks, false);      // has no torch

  EXPECT_EQ(proc.found(), (std::vector<int>{11, 12}));
  EXPECT_EQ(proc.found({12}), (std::vector<int>{12}));
  EXPECT_EQ(proc.found({10}), (std::vector<int>{11, 12})) << "what the launcher started";
  EXPECT_TRUE(proc.found({14}).empty());
  EXPECT_EQ(find_traced_processes(proc.folder().path(), {12}).front().rank, 1);
}

TEST(TracedProcesses, BelongToTheTrainingThatStartedThem) {
  Proc proc;
  const auto rank = [](const std::string& place) {
    return kAsks + "MASTER_ADDR=localhost" + '\0' + "MASTER_PORT=" + place + '\0';
  };
  proc.process(11, 10, "train.py", rank("29500"));
  proc.process(12, 10, "train.py", rank("29500"));
  proc.process(21, 20, "train.py", rank("29501"));
  proc.process(30, 1, "spawns.py", kAsks);
  proc.process(31, 30, "spawn_main", kAsks);
  proc.process(32, 30, "spawn_main", kAsks);
  proc.process(40, 1, "alone.py", kAsks);
  std::map<std::string, std::vector<int>> jobs;
  for (const TracedProcess& process : find_traced_processes(proc.folder().path(), {}))
    jobs[process.job].push_back(process.pid);
  std::vector<std::vector<int>> groups;
  for (const auto& [job, pids] : jobs) groups.push_back(pids);
  EXPECT_THAT(groups,
              ::testing::UnorderedElementsAre(std::vector<int>{11, 12}, std::vector<int>{21},
                                              std::vector<int>{31, 32}, std::vector<int>{40}));
}

TEST(TracedProcesses, AreNoneBeforeTheRanksAreThere) {
  Proc proc;
  proc.process(10, 1, "/venv/bin/torchrun", kAsks);
  EXPECT_TRUE(proc.found().empty());
  proc.process(20, 1, "train.py", kAsks);
  EXPECT_EQ(proc.found(), (std::vector<int>{20})) << "a script of its own has no rank";
}

}  // namespace
}  // namespace lockstep
