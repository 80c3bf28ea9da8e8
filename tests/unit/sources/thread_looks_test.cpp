// What threads of other processes do, by the kernel's own files: parsed, and seen of real ones.
#include "sources/host/thread_looks.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(SystemCallOfAThread, IsReadWithItsArguments) {
  const auto call = parse_system_call("63 0x5 0xffff 0x1000 0x0 0x0 0x0 0x7fff 0x7ff0\n");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->number, 63);
  EXPECT_EQ(call->arguments[0], 5U);
  EXPECT_FALSE(call->running);
  EXPECT_TRUE(parse_system_call("running\n")->running);
  EXPECT_EQ(parse_system_call("-1 0x7fff 0x7ff0\n")->number, -1) << "asleep in a page fault";
}

TEST(SystemCallOfAThread, ThatIsCutOrNoNumberIsNone) {
  for (const char* const text : {"", "words", "63 5 6", "0x3f", "63 0xzz", "99999999999999999999"})
    EXPECT_FALSE(parse_system_call(text)) << text;
}

TEST(OpenFile, IsKnownByItsLink) {
  EXPECT_EQ(file_kind_of("socket:[123]"), OpenFileKind::socket);
  EXPECT_EQ(file_kind_of("pipe:[123]"), OpenFileKind::pipe);
  EXPECT_EQ(file_kind_of("/dev/nvidia0"), OpenFileKind::gpu);
  EXPECT_EQ(file_kind_of("/data/train.bin"), OpenFileKind::regular);
  EXPECT_EQ(file_kind_of("/dev/shm/torch_1"), OpenFileKind::other) << "memory, no disk";
  EXPECT_EQ(file_kind_of("anon_inode:[eventfd]"), OpenFileKind::other);
}

TEST(WaitChannel, TellsWhatItCanAndNothingForZero) {
  EXPECT_EQ(doing_by_wait_channel("hrtimer_nanosleep"), ThreadDoing::sleep);
  EXPECT_EQ(doing_by_wait_channel("futex_do_wait"), ThreadDoing::lock);
  EXPECT_EQ(doing_by_wait_channel("anon_pipe_read"), ThreadDoing::pipe);
  EXPECT_EQ(doing_by_wait_channel("jbd2_log_wait_commit"), ThreadDoing::write_file);
  EXPECT_EQ(doing_by_wait_channel("folio_wait_bit_common"), ThreadDoing::read_file);
  EXPECT_FALSE(doing_by_wait_channel("poll_schedule_timeout.constprop.0"))
      << "a worker that waits for orders polls, and so does one that waits for a server";
  EXPECT_FALSE(doing_by_wait_channel("0")) << "not shown to this user";
  EXPECT_FALSE(doing_by_wait_channel(""));
}

// A process that does one thing until it is killed.
class Child {
 public:
  explicit Child(const std::function<void()>& does) : pid_(::fork()) {
    if (pid_ != 0) return;
    while (true) does();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Once it has got there.
  std::optional<ThreadDoing> settles_at(ThreadDoing wanted) {
    ThreadLooks looks("/proc");
    std::optional<ThreadDoing> seen;
    for (int i = 0; i < 200 && seen != wanted; ++i) {
      std::this_thread::sleep_for(10ms);
      seen = looks.look(pid_, pid_);
    }
    refused_ = looks.refused();
    return seen;
  }
  bool refused() const { return refused_; }

 private:
  int pid_;
  bool refused_ = false;
};

void expect_seen(const std::function<void()>& does, ThreadDoing wanted) {
  Child child(does);
  const auto seen = child.settles_at(wanted);
  if (child.refused()) GTEST_SKIP() << "this kernel does not let its system calls be seen";
  ASSERT_TRUE(seen);
  EXPECT_EQ(kDoingNames[index_of(*seen)], kDoingNames[index_of(wanted)]);
}

TEST(ThreadLook, SeesAProcessThatRuns) {
  volatile unsigned counts = 0;
  expect_seen([&] { counts = counts + 1; }, ThreadDoing::run);
}

TEST(ThreadLook, SeesAProcessThatSleeps) {
  expect_seen([] { std::this_thread::sleep_for(10s); }, ThreadDoing::sleep);
}

TEST(ThreadLook, SeesOneThatSleepsAsOlderPythonsDo) {
  expect_seen(
      [] {
        timeval wait{10, 0};
        ::select(0, nullptr, nullptr, nullptr, &wait);
      },
      ThreadDoing::sleep);
}

TEST(ThreadLook, TellsAQueueBetweenProcessesFromASocket) {
  std::array<int, 2> pipe{};
  std::array<int, 2> sockets{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
  const auto polls = [](int file) {
    pollfd entry{file, POLLIN, 0};
    ::poll(&entry, 1, 10'000);
  };
  const auto selects = [](int file) {
    fd_set files;
    FD_ZERO(&files);
    FD_SET(file, &files);
    timeval wait{10, 0};
    ::select(file + 1, &files, nullptr, nullptr, &wait);
  };
  const auto reads = [](int file) {
    char byte = 0;
    if (::read(file, &byte, 1) < 0) ::pause();
  };
  expect_seen([&] { polls(pipe[0]); }, ThreadDoing::pipe);
  expect_seen([&] { selects(pipe[0]); }, ThreadDoing::pipe);
  expect_seen([&] { reads(pipe[0]); }, ThreadDoing::pipe);
  expect_seen([&] { polls(sockets[0]); }, ThreadDoing::socket);
  expect_seen([&] { reads(sockets[0]); }, ThreadDoing::socket);
  for (const int file : {pipe[0], pipe[1], sockets[0], sockets[1]}) ::close(file);
}

// As a user sees the processes of another: their state, and a wait channel of "0".
TEST(ThreadLook, WithoutLeaveTellsWhatStateAndWaitChannelTell) {
  const testing::TemporaryFolder proc;
  const auto folder = proc.path() / "7/task/7";
  std::filesystem::create_directories(folder);
  const auto put = [&](const char* state, const char* channel) {
    std::ofstream(folder / "stat")
        << "7 (python) " << state << " 1 7 7 0 -1 4194304 1 0 0 0 5 5 0 0 20 0 1 0 100 1 1\n";
    std::ofstream(folder / "wchan") << channel;
  };
  ThreadLooks looks(proc.path());
  put("R", "0");
  EXPECT_EQ(looks.look(7, 7), ThreadDoing::run);
  put("S", "hrtimer_nanosleep");
  EXPECT_EQ(looks.look(7, 7), ThreadDoing::sleep);
  put("D", "0");
  EXPECT_EQ(looks.look(7, 7), ThreadDoing::read_file);
  put("S", "0");
  EXPECT_FALSE(looks.look(7, 7)) << "it sleeps, nobody says where";
  EXPECT_FALSE(looks.look(8, 8)) << "it is gone";
}

}  // namespace
}  // namespace lockstep
