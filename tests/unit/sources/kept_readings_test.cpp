// Readings as people keep them: loops around a command, exporters' pages, old releases' files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/csv/csv_log.hpp"
#include "sources/log_text.hpp"
#include "sources/nvidia_smi/table_log.hpp"
#include "sources/prometheus/metrics_page.hpp"
#include "sources/wandb/wandb_events.hpp"
#include "support/text_lines.hpp"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::lines_of;
using ::testing::SizeIs;

const GpuTick& first_tick(const std::optional<ParsedLog>& log) {
  for (const Record& record : log->records)
    if (const auto* tick = std::get_if<GpuTick>(&record.content)) return *tick;
  throw std::runtime_error("no readings");
}

constexpr const char* kHeader = "utilization.gpu [%], memory.used [MiB]\n";

TEST(KeptReadings, RowsUnderEachHeaderAreTheGpusInOrder) {
  std::string text;
  for (int look = 0; look < 5; ++look)
    text += fmt::format(
        "Tue Jun  9 09:{:02}:00 UTC 2020\n{}0 %, 10 MiB\n{} %, 900 MiB\n97 %, 900 "
        "MiB\n",
        look, kHeader, 20 + look);
  const auto log = parse_csv_log(lines_of(text));
  ASSERT_TRUE(log);
  ASSERT_THAT(log->machine.gpus, SizeIs(3));
  EXPECT_NEAR(first_tick(log)[2].busy.value().value(), 0.97, 1e-6);
  EXPECT_NEAR(log->records.back().t_ms, 4 * 60'000, 1) << "by the dates above the headers";
  EXPECT_THAT(log->notes, Contains(HasSubstr("GPU 0 to 2")));
}

TEST(KeptReadings, AHeaderThatCameTwiceByARestartIsNoLoop) {
  std::string text = kHeader;
  for (int row = 0; row < 30; ++row) text += "50 %, 900 MiB\n";
  text += kHeader;
  for (int row = 0; row < 21; ++row) text += "50 %, 900 MiB\n";
  const auto log = parse_csv_log(lines_of(text));
  ASSERT_TRUE(log);
  EXPECT_THAT(log->machine.gpus, SizeIs(1));
}

TEST(KeptReadings, ATimeOfOnesOwnBeforeNvidiaSmisIsPassedOver) {
  const std::string header = "time,gpu_index,gpu_util_percent,mem_used_mb,power_w\n";
  const auto log = parse_csv_log(
      lines_of(header + "2026-05-06 10:06:45,2026/05/06 10:06:45.521, 0, 36, 410, 2.01\n"
                        "2026-05-06 10:06:46,2026/05/06 10:06:46.593, 0, 30, 410, 2.18\n"));
  ASSERT_TRUE(log);
  EXPECT_NEAR(first_tick(log)[0].busy.value().value(), 0.36, 1e-6);
  EXPECT_NEAR(first_tick(log)[0].power_mw.value().value(), 2010, 1e-6);

  EXPECT_FALSE(parse_csv_log(lines_of(header + "2026-05-06 10:06:45,7,0,36,410,2\n"
                                               "2026-05-06 10:06:46,7,0,36,410,2\n")))
      << "which cell has no name is not known";
}

TEST(KeptReadings, ATableOfResultsIsNoLog) {
  std::string text = "trial,gpu,runtime_s,gpu_util_avg_pct\n";
  for (int row = 0; row < 40; ++row) text += fmt::format("{},0,{}.5,{}\n", row, 9 - row % 7, row);
  EXPECT_FALSE(parse_csv_log(lines_of(text)));
}

TEST(KeptReadings, ErrorsInTheirPlaceAreTold) {
  const auto csv = parse_csv_log(lines_of(
      "index, utilization.gpu [%], power.draw [W]\n0, 50 %, 100 W\n1, [Unknown Error], 90 W\n"));
  ASSERT_TRUE(csv);
  EXPECT_THAT(csv->notes, Contains(HasSubstr("1 of 2 rows hold errors")));

  const auto table = parse_nvidia_smi_tables(lines_of(
      "| NVIDIA-SMI 460.39       Driver Version: 460.39       CUDA Version: 11.2     |\n"
      "|   0  GeForce GTX 1080    On   | 00000000:01:00.0 Off |                  N/A |\n"
      "| 25%   44C    P8    18W / 250W |      1MiB / 11178MiB |      0%      Default |\n"
      "|   1  GeForce GTX 1080    On   | 00000000:06:00.0 Off |                  N/A |\n"
      "|ERR!   54C    P0   ERR! / 250W |      1MiB / 11178MiB |     75%      Default |\n"));
  ASSERT_TRUE(table);
  EXPECT_THAT(table->notes, Contains(HasSubstr("GPU 1: ERR!")));
  EXPECT_FALSE(first_tick(table)[1].power_mw.has_value()) << "250 W is its limit";
  EXPECT_NEAR(*table->machine.gpus[1].power_limit_mw, 250e3, 1);
}

TEST(KeptReadings, MemoryWhoseUnitNobodyNamesIsNotGuessed) {
  const auto memory = [](const std::string& values) {
    const auto log = parse_csv_log(
        lines_of("Timestamp,GPU Utilization,Memory Usage\n2024-07-20T14:28:41.05,90,0.5\n"
                 "2024-07-20T14:28:42.05,95," +
                 values + "\n"));
    return first_tick(log)[0].memory_used_bytes.has_value();
  };
  EXPECT_FALSE(memory("1.2587890625")) << "GiB, by the look of it";
  EXPECT_TRUE(memory("9216")) << "nvidia-smi's MiB";
}

TEST(KeptReadings, AnExportersPageIsOneLook) {
  const auto log = parse_metrics_page(
      lines_of("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
               "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\"} 98\n"
               "\tDCGM_FI_DEV_GPU_UTIL{gpu=\"1\", UUID=\"GPU-b\",modelName=\"NVIDIA H100\"} 0\n"
               "DCGM_FI_DEV_MEMORY_TEMP{gpu=\"1\",UUID=\"GPU-b\"} 9223372036854775794\n"
               "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\"} 60000\n"));
  ASSERT_TRUE(log);
  ASSERT_THAT(log->machine.gpus, SizeIs(2));
  EXPECT_FALSE(log->machine.gpus[0].host) << "there is one machine";
  EXPECT_NEAR(first_tick(log)[0].busy.value().value(), 0.98, 1e-6);

  EXPECT_FALSE(
      parse_metrics_page(lines_of("node_cpu_seconds_total{cpu=\"0\"} 12\nloss{a=\"b\"} 1\n")));
}

TEST(KeptReadings, OldFilesOfWeightsAndBiasesAreRead) {
  const auto line = [](int second, int busy) {
    return fmt::format(
        "{{\"system.gpu.0.gpu\": {}, \"system.gpu.0.memory\": 0.0, "
        "\"system.gpu.0.memoryAllocated\": "
        "1.91, \"system.gpu.0.powerWatts\": 28.0, \"system.gpu.0.powerPercent\": 40.0, "
        "\"system.cpu\": 65.2, \"_wandb\": true, \"_timestamp\": {}}}\n",
        busy, 1'582'070'941 + second);
  };
  const auto log =
      parse_wandb_events(lines_of(line(0, 4) + line(30, 6) + "{\"system.gpu.0.gpu\": 7.1, \"sys"));
  ASSERT_TRUE(log);
  EXPECT_THAT(log->records, SizeIs(2)) << "the last line is cut";
  EXPECT_NEAR(first_tick(log)[0].busy.value().value(), 0.04, 1e-6);
  EXPECT_NEAR(*log->machine.gpus[0].power_limit_mw, 70e3, 1);

  EXPECT_FALSE(parse_wandb_events(lines_of("{\"loss\": 0.5, \"_timestamp\": 1}\n")));
}

}  // namespace
}  // namespace lockstep
