#include "render/text/monitor_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "render/text/table.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Report one_gpu() {
  Report report;
  report.source_kind = SourceKind::virtual_gpus;
  report.source_detail = "virtual:1";
  report.duration_s = 0.3;
  GpuReport gpu;
  gpu.info = {0, "GPU-0", "lockstep virtual GPU", 16ULL << 30U, 300'000, 200, std::nullopt};
  gpu.busy = 0.5;
  gpu.power_mw = 150'000;
  gpu.latest.busy = 0.6;
  gpu.latest.power_mw = 150'000.0;
  gpu.latest.memory_used_bytes = 4ULL << 30U;
  gpu.latest.temperature_c = 50.0;
  gpu.latest.sm_clock_mhz = 1980.0;
  gpu.latest.limits = ClockLimits{};
  report.gpus.push_back(gpu);
  return report;
}

TEST(MonitorTable, IsThisScreen) {
  Report report = one_gpu();
  ProcessSample process;
  process.pid = 4242;
  process.gpus = {{0, 4ULL << 30U}};
  process.command = {"python", "train.py", "two words"};
  process.rank = 0;
  process.world_size = 2;
  process.launcher = "torchrun";
  process.user = "ada";
  process.cpu = 1.05;
  process.loader_workers = 4;
  report.processes.push_back(process);
  report.events.push_back({"xid", 0, "79"});
  report.not_measured.push_back({"sm, tensor, dram", "no GPM"});

  EXPECT_EQ(
      MonitorTable().render(report),
      "1 virtual GPU (virtual:1), over 300 ms\n"
      "\n"
      "       busy  SM        power               memory  temp     clock  name                  "
      "limits\n"
      "GPU 0  50 %   -  150 / 300 W  4.00 GiB / 16.0 GiB  50 C  1980 MHz  lockstep virtual GPU  "
      "none\n"
      "\n"
      " pid  GPU  rank    launcher  user    CPU  GPU memory  loaders  command\n"
      "4242  0    0 of 2  torchrun  ada   105 %    4.00 GiB        4  python train.py 'two words'\n"
      "\n"
      "event: xid on GPU 0: 79\n"
      "\n"
      "not measured: sm, tensor, dram: no GPM\n");
}

TEST(MonitorTable, TellsErrorStaleAndUnsupportedApart) {
  Report report = one_gpu();
  report.gpus[0].latest.temperature_c = Reading<double>::error();
  report.gpus[0].latest.sm_clock_mhz = Reading<double>(1500).as_stale();
  report.gpus[0].latest.sm = Reading<double>::not_supported();

  const std::string text = MonitorTable().render(report);

  EXPECT_THAT(text, HasSubstr("error"));
  EXPECT_THAT(text, HasSubstr("1500 MHz?"));
  EXPECT_THAT(text, Not(HasSubstr(" 0 C"))) << "a failed read is never shown as 0";
}

TEST(MonitorTable, ALostGpuKeepsItsRow) {
  Report report = one_gpu();
  report.gpus[0].lost = true;
  report.gpus[0].latest.busy = Reading<double>::error();

  EXPECT_THAT(MonitorTable().render(report), HasSubstr("(LOST)"));
}

TEST(MonitorTable, CannotBeTakenOverByACommandLine) {
  Report report = one_gpu();
  ProcessSample process;
  process.pid = 1;
  process.command = {"evil\x1b[2J\nGPU 9"};
  report.processes.push_back(process);

  EXPECT_THAT(MonitorTable().render(report), Not(HasSubstr("\x1b")));
}

TEST(MonitorTable, FitsANarrowTerminal) {
  const std::string text = MonitorTable(Colors::off, 40).render(one_gpu());

  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("GPU")) longest = std::max(longest, display_width(line));
    at = end + 1;
  }
  EXPECT_EQ(longest, 40U);
}

}  // namespace
}  // namespace lockstep
