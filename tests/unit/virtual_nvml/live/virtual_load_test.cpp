// Virtual GPUs under a real CPU load. Serial: other load on the machine would be measured too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"
#include "support/watch_virtual.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::BackgroundProgram;
using testing::listen;
using testing::only;
using testing::rest_of;

class VirtualLoad : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("LOCKSTEP_VIRTUAL_SCOPE", scope_.c_str(), 1); }

  static std::vector<std::string> load(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), testing::test_tool("vgpu_load"));
    return arguments;
  }
  static std::unique_ptr<Source> open() {
    auto source = open_source("virtual:2", {});
    EXPECT_TRUE(source) << source.error().what;
    return source ? std::move(*source) : nullptr;
  }
  static double mean_busy(const std::vector<Record>& records, int gpu) {
    double sum = 0;
    int count = 0;
    for (const GpuTick& tick : only<GpuTick>(records))
      for (const GpuSample& sample : tick)
        if (sample.index == gpu && sample.busy.has_value()) sum += *sample.busy.value(), ++count;
    return count > 0 ? sum / count : -1;
  }
  // The processor time of a thread, by its name.
  static double cpu_seconds(int pid, const std::string& name) {
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
      std::string comm;
      std::getline(std::ifstream(task.path() / "comm") >> std::ws, comm);
      double nanoseconds = 0;
      std::ifstream(task.path() / "schedstat") >> nanoseconds;
      if (comm == name) return nanoseconds / 1e9;
    }
    return 0;
  }
  static std::vector<std::uint32_t> power_of(const std::vector<Record>& records, int gpu) {
    std::vector<std::uint32_t> power;
    for (const GpuTick& tick : only<GpuTick>(records))
      for (const GpuSample& sample : tick)
        if (sample.index == gpu)
          if (const auto samples = sample.power_samples.value())
            power.insert(power.end(), samples->milliwatts.begin(), samples->milliwatts.end());
    return power;
  }

  const std::string scope_ = "virtual-load-" + std::to_string(::getpid());
};

TEST_F(VirtualLoad, IsSeenAsBusyAsItIs) {
  const BackgroundProgram work(load({"20", "0:0.4", "1:0.2"}));
  std::this_thread::sleep_for(300ms);
  const auto source = open();

  // Against the processor time that the threads really had: a busy machine gives them less than
  // they want (seen: 0.18 for 0.4).
  const auto begin = std::chrono::steady_clock::now();
  const double before[] = {cpu_seconds(work.pid(), "vgpu0"), cpu_seconds(work.pid(), "vgpu1")};
  const std::vector<Record> records = listen(*source, 2s);
  const double lasted =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double truth[] = {(cpu_seconds(work.pid(), "vgpu0") - before[0]) / lasted,
                          (cpu_seconds(work.pid(), "vgpu1") - before[1]) / lasted};
  ASSERT_GT(truth[0], 0.02);

  EXPECT_NEAR(mean_busy(records, 0), truth[0], 0.1);
  EXPECT_NEAR(mean_busy(records, 1), truth[1], 0.1);
  const auto processes = only<ProcessTick>(records);
  ASSERT_FALSE(processes.empty());
  ASSERT_EQ(processes[0].size(), 1U) << "one process on both GPUs";
  EXPECT_EQ(processes[0][0].pid, work.pid());
  EXPECT_EQ(processes[0][0].gpus.size(), 2U);
}

TEST_F(VirtualLoad, ThatTakesTurnsShowsInThePowerSamples) {
  // Turns of 200 ms: plain utilization (a 200 ms window) blurs them, 20 ms power samples do not.
  const BackgroundProgram work(load({"20", "0:0.5:400:0", "1:0.5:400:200"}));
  std::this_thread::sleep_for(300ms);
  const auto source = open();

  auto records = listen(*source, 2500ms);
  for (Record& record : rest_of(*source)) records.push_back(std::move(record));

  const auto first = power_of(records, 0);
  const auto second = power_of(records, 1);
  ASSERT_GT(first.size(), 50U);  // of 125: a busy machine lets the sampler miss some
  ASSERT_EQ(first.size(), second.size());
  std::size_t exactly_one = 0;
  std::size_t both = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    constexpr std::uint32_t kHalfLoad = 150'000;
    exactly_one += (first[i] > kHalfLoad) != (second[i] > kHalfLoad) ? 1U : 0U;
    both += first[i] > kHalfLoad && second[i] > kHalfLoad ? 1U : 0U;
  }
  // a quiet machine: nine of ten; another tenant takes some away from both
  EXPECT_GT(exactly_one, first.size() / 2);
  EXPECT_LT(both, first.size() / 8);
}

TEST_F(VirtualLoad, ThatSpinsInACollectiveReadsBusyAtLowPower) {
  const testing::TemporaryFolder runtime;
  ::setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
  const BackgroundProgram work(load({"20", "0:0.05", "--register", "123456789", "--waiting"}));
  std::this_thread::sleep_for(300ms);
  const auto source = open();

  const auto records = listen(*source, 700ms);

  // Not every tick has every value: power and memory are read now and then.
  GpuSample newest;
  for (const GpuTick& tick : only<GpuTick>(records)) {
    const GpuSample& gpu = tick.at(0);
    if (gpu.busy.has_value()) newest.busy = gpu.busy;
    if (gpu.power_mw.has_value()) newest.power_mw = gpu.power_mw;
    if (gpu.memory_used_bytes.has_value()) newest.memory_used_bytes = gpu.memory_used_bytes;
  }
  EXPECT_EQ(newest.busy.value(), 1.0);
  EXPECT_EQ(newest.power_mw.value(), 60'000) << "0.2 of the limit of 300 W";
  EXPECT_EQ(newest.memory_used_bytes.value(), 123'456'789U);
}

TEST_F(VirtualLoad, OfAnotherScopeIsNotSeen) {
  const BackgroundProgram work(load({"20", "0:0.5"}),
                               {{"LOCKSTEP_VIRTUAL_SCOPE", "somebody else"}});
  std::this_thread::sleep_for(300ms);
  const auto source = open();

  const auto records = listen(*source, 500ms);

  EXPECT_EQ(mean_busy(records, 0), 0);
  EXPECT_EQ(testing::last_sample(records, 0).power_mw.value(), 30'000)
      << "idle: a tenth of the limit";
}

}  // namespace
}  // namespace lockstep
