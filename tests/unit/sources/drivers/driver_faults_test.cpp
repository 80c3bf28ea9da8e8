// The NVML source against a driver that misbehaves. The driver is the virtual one, loaded as the
// real one is; a recording scripts its faults. One process a test: the environment and stuck
// threads are its own.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/nvml/poller.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"
#include "support/watch_virtual.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::last_sample;
using testing::listen;
using testing::listen_until;
using testing::only;
using testing::plateau;
using testing::recording_text;
using testing::rest_of;
using testing::TemporaryFolder;
using testing::two_gpu_machine;

class DriverFaults : public ::testing::Test {
 protected:
  // Plays the records and opens them as virtual GPUs.
  std::unique_ptr<Source> play(const Machine& machine, std::vector<Record> records,
                               SourceOptions options = {}) {
    std::ranges::stable_sort(records,
                             [](const Record& a, const Record& b) { return a.t_ms < b.t_ms; });
    const auto file = folder_.write("played.jsonl", recording_text(machine, records));
    auto source = open_source("virtual:" + file.string(), options);
    EXPECT_TRUE(source) << source.error().what;
    return source ? std::move(*source) : nullptr;
  }
  std::unique_ptr<Source> play_with(const Event& fault, double at_ms) {
    std::vector<Record> records = plateau({0.5, 0.25}, 10);
    records.push_back({at_ms, fault});
    return play(two_gpu_machine(), std::move(records));
  }

  TemporaryFolder folder_;
};

TEST_F(DriverFaults, WithoutAnyTheValuesAreThoseOfTheRecording) {
  const auto source = play(two_gpu_machine(), plateau({0.5, 0.25}, 10));

  const auto records = listen(*source, 400ms);

  EXPECT_EQ(source->machine().gpus, two_gpu_machine().gpus);
  EXPECT_EQ(source->machine().driver, "580.1");
  EXPECT_EQ(source->machine().peer_to_peer, two_gpu_machine().peer_to_peer);
  EXPECT_EQ(last_sample(records, 0).busy.value(), 0.5);
  EXPECT_EQ(last_sample(records, 1).busy.value(), 0.25);
  EXPECT_EQ(last_sample(records, 1).power_mw.value(), 225'000);
}

TEST_F(DriverFaults, ALostGpuKeepsItsRowAndIsSaidToBeLostOnce) {
  const auto source = play_with({"lost", 1, ""}, 300);

  const auto records = listen(*source, 900ms);

  EXPECT_EQ(last_sample(records, 0).busy.value(), 0.5) << "the other one is read on";
  EXPECT_EQ(last_sample(records, 1).busy.state(), ReadingState::error);
  EXPECT_EQ(only<GpuTick>(records).back().size(), 2U);
  EXPECT_THAT(only<Event>(records), ElementsAre(Field(&Event::kind, EventKind("lost"))));
}

TEST_F(DriverFaults, ALostGpuThatComesBackIsReadAgain) {
  std::vector<Record> records = plateau({0.5, 0.25}, 10);
  records.push_back({300, Event{"lost", 1, ""}});
  records.push_back({800, Event{"recovered", 1, ""}});
  const auto source = play(two_gpu_machine(), std::move(records));

  // it is looked for every 5 s
  const auto heard = listen_until(*source, 20s, [](const std::vector<Record>& heard_yet) {
    return only<Event>(heard_yet).size() == 2 && last_sample(heard_yet, 1).busy.has_value();
  });

  EXPECT_THAT(only<Event>(heard), ElementsAre(Field(&Event::kind, EventKind("lost")),
                                              Field(&Event::kind, EventKind("recovered"))));
  EXPECT_EQ(last_sample(heard, 1).busy.value(), 0.25);
}

TEST_F(DriverFaults, ACallThatNeverReturnsIsSaidAndLeftBehind) {
  auto source = play_with({"hang", 0, "busy"}, 200);

  const auto records = listen(*source, 1600ms);
  const auto silence = source->silence();
  const auto before = std::chrono::steady_clock::now();
  source.reset();
  const auto took = std::chrono::steady_clock::now() - before;

  EXPECT_FALSE(only<GpuTick>(records).empty()) << "what came before it hung is there";
  ASSERT_TRUE(silence);
  EXPECT_GE(silence->since, 1s);
  EXPECT_EQ(silence->call, "busy");
  EXPECT_LT(took, 1s) << "nobody waits for the driver";
  EXPECT_TRUE(Poller::any_left_behind());
}

TEST_F(DriverFaults, ADriverThatHangsAtTheStartIsAnErrorWithinTheLimit) {
  std::vector<Record> records = plateau({0.5, 0.25}, 1);
  records.insert(records.begin(), {0, Event{"hang", std::nullopt, "nvmlDeviceGetName"}});
  const auto file = folder_.write("hang.jsonl", recording_text(two_gpu_machine(), records));
  ::setenv("LOCKSTEP_VIRTUAL", file.c_str(), 1);
  PollerOptions options;
  options.session.library = virtual_library_path().string();
  options.start_limit = 200ms;

  const auto poller = Poller::start(options);

  ASSERT_FALSE(poller);
  EXPECT_THAT(poller.error().what, HasSubstr("did not answer within 200 ms"));
}

TEST_F(DriverFaults, WhatOneGpuDoesNotHaveIsSaidOfThatGpu) {
  const auto source = play_with({"not_supported", 1, "busy"}, 0);

  const auto records = listen(*source, 1300ms);

  EXPECT_EQ(last_sample(records, 0).busy.value(), 0.5);
  EXPECT_EQ(last_sample(records, 1).busy.state(), ReadingState::not_supported);
  EXPECT_THAT(source->not_measured(),
              Contains(::testing::AllOf(Field(&NotMeasured::signal, "busy"),
                                        Field(&NotMeasured::reason, HasSubstr("(GPU 1)")))));
}

TEST_F(DriverFaults, ASlowCallIsSlowedDownAndTheRestGoesOn) {
  std::vector<Record> records = plateau({0.5, 0.25}, 10);
  for (Record& record : records)
    for (GpuSample& gpu : std::get<GpuTick>(record.content)) gpu.sm = 0.4;
  records.insert(records.begin(), {0, Event{"slow_call", std::nullopt, "sm 30"}});
  const auto file = folder_.write("slow.jsonl", recording_text(two_gpu_machine(), records));
  ::setenv("LOCKSTEP_VIRTUAL", file.c_str(), 1);
  PollerOptions options;
  options.session.library = virtual_library_path().string();
  auto poller = Poller::start(options);
  ASSERT_TRUE(poller);

  int ticks = 0;
  const auto until = std::chrono::steady_clock::now() + 2500ms;
  while (std::chrono::steady_clock::now() < until) {
    const NextRecord next = (*poller)->next(20ms);
    if (const auto* record = std::get_if<Record>(&next))
      ticks += std::holds_alternative<GpuTick>(record->content) ? 1 : 0;
  }

  const SamplingCost cost = (*poller)->cost();
  const CallCost gpm = cost.calls.at(static_cast<std::size_t>(CallKind::gpm));
  EXPECT_GE(gpm.cost, 25ms);
  EXPECT_TRUE(gpm.slowed_down);
  EXPECT_GT(ticks, 15) << "the cheap calls keep their rate";
}

TEST_F(DriverFaults, AnXidIsReportedOnceWithItsGpu) {
  const auto source = play_with({"xid", 1, "79"}, 100);

  const auto records = listen(*source, 2500ms);

  EXPECT_THAT(only<Event>(records), ElementsAre(Event{"xid", 1, "79"}));
}

TEST_F(DriverFaults, MigSlicesAreRowsOfTheirOwn) {
  Machine machine = two_gpu_machine();
  machine.gpus.resize(1);
  machine.gpus.push_back({.index = 1,
                          .uuid = "MIG-a",
                          .name = "NVIDIA H200 MIG 1g.18gb",
                          .memory_total_bytes = 18'000'000'000,
                          .mig = MigSlice{0, 7}});
  machine.gpus.push_back({.index = 2,
                          .uuid = "MIG-b",
                          .name = "NVIDIA H200 MIG 2g.35gb",
                          .memory_total_bytes = 35'000'000'000,
                          .mig = MigSlice{0, 3}});
  std::vector<Record> records = plateau({0.5, 0.1, 0.2}, 10);
  for (Record& record : records)
    for (GpuSample& gpu : std::get<GpuTick>(record.content)) gpu.sm = 0.1 * (gpu.index + 1);
  ProcessSample process;  // as a driver lists it: on the slice and on its parent
  process.pid = 77;
  process.gpus = {{0, 1000}, {2, 1000}};
  records.insert(records.begin(), {0, ProcessTick{process}});
  const auto source = play(machine, std::move(records));

  const auto heard = listen(*source, 1400ms);

  ASSERT_EQ(source->machine().gpus.size(), 3U);
  EXPECT_THAT(only<ProcessTick>(heard).at(0).at(0).gpus, ElementsAre(ProcessOnGpu{2, 1000}))
      << "told by the slice alone";
  EXPECT_EQ(source->machine().gpus[2].mig, (MigSlice{0, 3}));
  EXPECT_EQ(last_sample(heard, 1).busy.state(), ReadingState::not_supported)
      << "NVML gives no utilization of a slice";
  double sm = 0;
  for (const GpuTick& tick : only<GpuTick>(heard))
    for (const GpuSample& gpu : tick)
      if (gpu.index == 2 && gpu.sm.has_value()) sm = *gpu.sm.value();
  EXPECT_NEAR(sm, 0.3, 1e-6) << "GPM does";
}

TEST_F(DriverFaults, NoPowerSampleIsLostOrCountedTwice) {
  std::vector<Record> records;
  std::uint32_t number = 0;
  for (int tick = 0; tick < 60; ++tick) {  // 100 ms ticks, five samples each, numbered
    GpuSample gpu = testing::steady_sample(0, 0.5);
    PowerSamples power{{}, 20, tick * 100.0 - 80};
    for (int k = 0; k < 5; ++k) power.milliwatts.push_back(number++);
    gpu.power_samples = power;
    records.push_back({tick * 100.0, GpuTick{gpu}});
  }
  Machine machine = two_gpu_machine();
  machine.gpus.resize(1);
  const auto source = play(machine, std::move(records));

  auto heard = listen(*source, 4500ms);
  for (Record& record : rest_of(*source)) heard.push_back(std::move(record));

  std::vector<std::uint32_t> numbers;
  for (const GpuTick& tick : only<GpuTick>(heard))
    if (const auto power = tick.at(0).power_samples.value())
      numbers.insert(numbers.end(), power->milliwatts.begin(), power->milliwatts.end());
  ASSERT_GT(numbers.size(), 180U);
  for (std::size_t i = 1; i < numbers.size(); ++i)
    ASSERT_EQ(numbers[i], numbers[i - 1] + 1) << "at sample " << i;
}

TEST_F(DriverFaults, OnlyTheGpusThatWereAskedForAreRead) {
  SourceOptions options;
  options.gpus = {1};
  const auto source = play(two_gpu_machine(), plateau({0.5, 0.25}, 10), options);

  const auto records = listen(*source, 300ms);

  ASSERT_EQ(source->machine().gpus.size(), 1U);
  EXPECT_EQ(only<GpuTick>(records).back().at(0).index, 1);
}

TEST_F(DriverFaults, ProcessesOfAPlayedRecordingAreTheRecordings) {
  std::vector<Record> records = plateau({0.5, 0.25}, 10);
  ProcessSample process;
  process.pid = 1;  // a pid that exists on every machine, and is not meant
  process.gpus = {{0, 4096}};
  process.command = {"python", "recorded.py"};
  process.rank = 3;
  records.insert(records.begin(), {0, ProcessTick{process}});
  const auto source = play(two_gpu_machine(), std::move(records));

  const auto heard = only<ProcessTick>(listen(*source, 300ms));

  ASSERT_FALSE(heard.empty());
  ASSERT_EQ(heard[0].size(), 1U);
  EXPECT_THAT(*heard[0][0].command, ElementsAre("python", "recorded.py"));
  EXPECT_EQ(heard[0][0].rank, 3);
}

// The soname finds the virtual library when it is loaded already, so the poller takes it for the
// machine's own driver and looks into sysfs.
class SleepingGpu : public DriverFaults {
 protected:
  std::unique_ptr<Poller> start(const std::vector<Record>& records) {
    const auto file = folder_.write("played.jsonl", recording_text(two_gpu_machine(), records));
    ::setenv("LOCKSTEP_VIRTUAL", file.c_str(), 1);
    EXPECT_NE(::dlopen(virtual_library_path().c_str(), RTLD_NOW), nullptr);
    for (const char* address : {"0000:01:00.0", "0000:02:00.0"}) {
      const std::string device = std::string("sys/bus/pci/devices/") + address + "/";
      folder_.write(device + "vendor", "0x10de\n");
      folder_.write(device + "class", "0x030200\n");
      folder_.write(device + "power/control", "auto\n");
      folder_.write(device + "power/runtime_status", "active\n");
      std::filesystem::create_symlink("/sys/bus/pci/drivers/nvidia", folder_ / (device + "driver"));
    }
    set_second("suspended\n");
    PollerOptions options;
    options.session.sysfs = folder_ / "sys";
    options.start_limit = 1s;
    auto poller = Poller::start(options);
    EXPECT_TRUE(poller) << poller.error().what;
    return poller ? std::move(*poller) : nullptr;
  }
  void set_second(const std::string& status) {
    folder_.write("sys/bus/pci/devices/0000:02:00.0/power/runtime_status", status);
  }

  static std::vector<Record> listen_to(Poller& poller, std::chrono::milliseconds length) {
    std::vector<Record> records;
    const auto until = std::chrono::steady_clock::now() + length;
    while (std::chrono::steady_clock::now() < until) {
      NextRecord next = poller.next(20ms);
      if (auto* record = std::get_if<Record>(&next)) records.push_back(std::move(*record));
    }
    return records;
  }
};

TEST_F(SleepingGpu, IsNotWoken) {
  std::vector<Record> records = plateau({0.5, 0.25}, 10);
  records.insert(records.begin(), {0, Event{"hang", 1, ""}});  // any call on it would be noticed
  const auto poller = start(records);
  ASSERT_TRUE(poller);

  const auto heard = listen_to(*poller, 1300ms);

  EXPECT_EQ(poller->silence(), std::nullopt);
  EXPECT_EQ(last_sample(heard, 0).busy.value(), 0.5);
  EXPECT_EQ(only<GpuTick>(heard).back().size(), 2U) << "it keeps its row";
  EXPECT_THAT(poller->not_measured(),
              Contains(Field(&NotMeasured::reason, HasSubstr("does not wake it"))));
}

TEST_F(SleepingGpu, IsReadOnceItWokeByItself) {
  const auto poller = start(plateau({0.5, 0.25}, 10));
  ASSERT_TRUE(poller);
  listen_to(*poller, 300ms);

  set_second("active\n");
  const auto heard = listen_to(*poller, 500ms);

  EXPECT_THAT(only<Event>(heard), Contains(Field(&Event::kind, EventKind("resumed"))));
  EXPECT_EQ(last_sample(heard, 1).busy.value(), 0.25);
}

}  // namespace
}  // namespace lockstep
