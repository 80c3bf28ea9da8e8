#include "virtual_nvml/compute_threads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TemporaryFolder;

// A /proc with threads, written by hand.
class ThreadsInProc : public ::testing::Test {
 protected:
  void put(int pid, int tid, const std::string& name, std::uint64_t run_ns,
           const std::string& environment = "") const {
    const std::string folder = "proc/" + std::to_string(pid) + "/";
    const std::string task = folder + "task/" + std::to_string(tid) + "/";
    root_.write(folder + "cmdline", std::string("python\0train.py\0", 16));
    root_.write(folder + "environ", environment);
    root_.write(folder + "statm", "100 25 0 0 0 0 0\n");
    root_.write(task + "comm", name + "\n");
    root_.write(task + "schedstat", std::to_string(run_ns) + " 0 0\n");
  }
  void register_process(int pid, const std::string& gpus) const {
    const std::string name = "run/vgpu-" + std::to_string(pid) + ".json";
    root_.write(name + ".new", "{\"pid\":" + std::to_string(pid) + ",\"gpus\":" + gpus + "}");
    std::filesystem::rename(root_ / (name + ".new"), root_ / name);
  }
  ComputeThreads threads(std::optional<std::string> scope = std::nullopt) const {
    return {2, root_ / "proc", root_ / "run", std::move(scope)};
  }

  TemporaryFolder root_;
};

TEST_F(ThreadsInProc, NamedVgpuAreTheGpusWork) {
  put(10, 11, "vgpu1", 1'000'000);
  put(10, 12, "python", 5'000'000);
  put(10, 13, "vgpu9", 5'000'000);  // there are only two GPUs
  ComputeThreads found = threads();
  found.refresh(0s);
  found.work(1);

  put(10, 11, "vgpu1", 4'000'000);

  EXPECT_EQ(found.work(1).run_time, 3ms);
  EXPECT_EQ(found.work(0).run_time, 0ns);
  EXPECT_THAT(found.processes(1), ElementsAre(Pair(10, ::testing::Gt(0U))))
      << "its memory is its resident set";
  EXPECT_THAT(found.processes(0), IsEmpty());
}

TEST_F(ThreadsInProc, OfAnotherScopeDoNotCount) {
  put(10, 10, "vgpu0", 0, std::string("LOCKSTEP_VIRTUAL_SCOPE=other\0", 29));
  put(20, 20, "vgpu0", 0);
  ComputeThreads unscoped = threads();
  ComputeThreads other = threads("other");
  unscoped.refresh(0s);
  other.refresh(0s);

  EXPECT_THAT(unscoped.processes(0), ElementsAre(Pair(20, ::testing::_)));
  EXPECT_THAT(other.processes(0), ElementsAre(Pair(10, ::testing::_)));
}

TEST_F(ThreadsInProc, RegisteredOnesBringTheirMemoryAndMayWait) {
  put(10, 11, "worker", 0);
  register_process(10, R"([{"index":0,"memory_bytes":4096,"tid":11,"waiting":false}])");
  ComputeThreads found = threads();
  found.refresh(0s);
  const bool before = found.work(0).waiting;

  register_process(10, R"([{"index":0,"memory_bytes":8192,"tid":11,"waiting":true}])");
  found.refresh(10ms);  // without a new scan

  EXPECT_FALSE(before);
  EXPECT_TRUE(found.work(0).waiting);
  EXPECT_THAT(found.processes(0), ElementsAre(Pair(10, 8192U)));
}

TEST_F(ThreadsInProc, ARegistrationOfADeadProcessIsIgnored) {
  std::filesystem::create_directories(root_ / "proc");
  register_process(99, R"([{"index":0,"memory_bytes":4096,"waiting":true}])");
  ComputeThreads found = threads();
  found.refresh(0s);

  EXPECT_FALSE(found.work(0).waiting);
  EXPECT_THAT(found.processes(0), IsEmpty());
}

TEST_F(ThreadsInProc, ARegistrationFromBeforeTheProcessStartedIsAnotherOnes) {
  put(10, 11, "worker", 0);
  register_process(10, R"([{"index":0,"memory_bytes":4096,"waiting":true}])");
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const auto stat = [](long seconds_up) {
    std::string fields = "10 (python) S";
    for (int i = 0; i < 18; ++i) fields += " 0";
    return fields + " " + std::to_string(seconds_up * ::sysconf(_SC_CLK_TCK)) + " 0\n";
  };
  root_.write("proc/10/stat", stat(up.tv_sec - 1));
  std::filesystem::last_write_time(root_ / "run/vgpu-10.json",
                                   std::filesystem::file_time_type::clock::now() - 1h);
  ComputeThreads left_behind = threads();
  left_behind.refresh(0s);
  EXPECT_THAT(left_behind.processes(0), IsEmpty());

  root_.write("proc/10/stat", stat(up.tv_sec > 7200 ? up.tv_sec - 7200 : 0));
  ComputeThreads its_own = threads();
  its_own.refresh(0s);
  if (up.tv_sec <= 7200) GTEST_SKIP() << "this machine started less than two hours ago";
  EXPECT_THAT(its_own.processes(0), ElementsAre(Pair(10, 4096U)));
}

TEST_F(ThreadsInProc, ThatEndAreForgottenAtTheNextScan) {
  put(10, 10, "vgpu0", 0);
  ComputeThreads found = threads();
  found.refresh(0s);
  ASSERT_EQ(found.processes(0).size(), 1U);

  std::filesystem::remove_all(root_ / "proc/10");
  found.refresh(2s);

  EXPECT_THAT(found.processes(0), IsEmpty());
}

TEST(Registrations, ThatAreNoneAreRefused) {
  for (const char* text :
       {"", "[]", "{}", "{\"pid\":\"x\"}", "{\"pid\":1}", "{\"pid\":1,\"gpus\":7}"})
    EXPECT_FALSE(parse_registration(text)) << text;
  EXPECT_THAT(parse_registration("{\"pid\":1,\"gpus\":[{\"index\":-1},7,{\"index\":1}]}")->gpus,
              ::testing::SizeIs(1));
}

}  // namespace
}  // namespace lockstep
