// Logs of other tools: what they hold, what is repaired, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "sources/csv/csv_log.hpp"
#include "sources/csv/text_blocks.hpp"
#include "sources/dcgm/dcgmi_columns.hpp"
#include "sources/gpustat/gpustat_log.hpp"
#include "sources/gpustat/gpustat_table.hpp"
#include "sources/gpustat/gputil_table.hpp"
#include "sources/nvidia_smi/column_log.hpp"
#include "sources/nvidia_smi/query_log.hpp"
#include "sources/nvidia_smi/table_log.hpp"
#include "sources/parsed/cells.hpp"
#include "sources/rocm_smi/rocm_smi_table.hpp"
#include "sources/wandb/wandb_file.hpp"
#include "support/text_lines.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::lines_of;

std::vector<std::pair<double, GpuTick>> ticks_of(const std::optional<ParsedLog>& log) {
  std::vector<std::pair<double, GpuTick>> ticks;
  if (!log) return ticks;
  for (const Record& record : log->records)
    if (const auto* tick = std::get_if<GpuTick>(&record.content))
      ticks.emplace_back(record.t_ms, *tick);
  return ticks;
}

TEST(NvidiaSmiCsv, IsReadWithUnitsInAnyOrderOfColumns) {
  const auto log = parse_csv_log(lines_of(
      "utilization.gpu [%], timestamp, power.draw [W], index, memory.used [MiB], memory.total "
      "[MiB], name\n"
      "97 %, 2025/01/31 12:00:00.100, 650.12 W, 0, 70000 MiB, 81559 MiB, NVIDIA H100\n"
      "3 %, 2025/01/31 12:00:00.101, 90.00 W, 1, 70001 MiB, 81559 MiB, NVIDIA H100\n"
      "98 %, 2025/01/31 12:00:01.100, 651.00 W, 0, 70000 MiB, 81559 MiB, NVIDIA H100\n"
      "[N/A], 2025/01/31 12:00:01.101, [Not Supported], 1, 70001 MiB, 81559 MiB, NVIDIA H100\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_EQ(log->kind, SourceKind::nvidia_smi);
  EXPECT_NEAR(ticks[1].first, 1000, 0.5);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.97);
  EXPECT_DOUBLE_EQ(*ticks[0].second[1].power_mw.value(), 90'000);
  EXPECT_EQ(*ticks[0].second[0].memory_used_bytes.value(), 70000ULL << 20U);
  EXPECT_FALSE(ticks[1].second[1].busy.has_value()) << "not available is not 0";
  EXPECT_EQ(log->machine.gpus[0].memory_total_bytes, 81559ULL << 20U);
}

TEST(NvidiaSmiCsv, WithNeitherTimeNorNumberIsReadByWhatChangesSlowly) {
  for (const std::string header :
       {"", "utilization.gpu [%], memory.used [MiB], power.draw [W]\n"}) {
    const auto log = parse_csv_log(lines_of(header + "97 %, 61000 MiB, 640.10 W\n"
                                                     "12 %, 48000 MiB, 120.20 W\n"
                                                     "11 %, 61002 MiB, 121.10 W\n"
                                                     "98 %, 48010 MiB, 642.20 W\n"));
    const auto ticks = ticks_of(log);
    ASSERT_EQ(ticks.size(), 2U) << header;
    EXPECT_DOUBLE_EQ(*ticks[1].second[1].busy.value(), 0.98);
    ASSERT_FALSE(log->notes.empty());
    EXPECT_NE(log->notes.back().find("2 GPUs in turn"), std::string::npos) << log->notes.back();
  }
}

TEST(NvidiaSmiCsv, OfAFewRowsWithoutMemoryIsNotTakenForGpusInTurn) {
  std::string rows = "power.draw [W], utilization.gpu [%], temperature.gpu\n67.97 W, 0 %, 28\n";
  for (int i = 0; i < 7; ++i) rows += "87.1 W, 100 %, 3" + std::to_string(i % 3) + "\n";
  EXPECT_FALSE(parse_csv_log(lines_of(rows))) << "one look at eight GPUs, or eight at one";
}

TEST(NvidiaSmiCsv, WithNeitherTimeNorNumberHasAGpuForEachModel) {
  const auto log = parse_csv_log(lines_of(
      "$ time nvidia-smi --query-gpu=gpu_name,memory.used,utilization.gpu,power.draw --format=csv\n"
      "name, memory.used [MiB], utilization.gpu [%], power.draw [W]\n"
      "GeForce GTX 1080 Ti, 2856 MiB, 36 %, 106.56 W\n"
      "GeForce GTX 1060 6GB, 4 MiB, 0 %, 5.68 W\n\n"));
  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U) << "one look at two GPUs";
  ASSERT_EQ(log->machine.gpus.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.36);
  EXPECT_FALSE(
      parse_csv_log(lines_of("name, memory.used [MiB], utilization.gpu [%]\n"
                             "NVIDIA A100, 2856 MiB, 36 %\nNVIDIA A100, 4 MiB, 0 %\n")))
      << "of one model nothing tells two GPUs from two looks";
}

TEST(NvidiaSmiCsv, OfSeveralMachinesInOneFileIsToldApartByModels) {
  const auto log =
      parse_csv_log(lines_of("index, name, utilization.gpu [%], power.draw [W]\n"
                             "0, Tesla V100-PCIE-32GB, 96 %, 200.00 W\n"
                             "0, Tesla V100-SXM2-32GB, 12 %, 60.00 W\n"
                             "0, Tesla V100-PCIE-32GB, 97 %, 201.00 W\n"
                             "0, Tesla V100-SXM2-32GB, 13 %, 61.00 W\n"));
  ASSERT_TRUE(log);
  ASSERT_EQ(log->machine.gpus.size(), 2U);
  EXPECT_EQ(log->machine.gpus[1].index, 100);
  EXPECT_NE(log->notes.back().find("several machines"), std::string::npos);
}

TEST(RocmSmi, TablesAreReadInTheirOldAndNewForms) {
  const std::string rule(90, '=');
  const auto log = parse_rocm_smi_table(lines_of(
      "Device  Node  IDs              Temp        Power     Partitions          SCLK     MCLK     "
      "Fan  Perf  PwrCap  VRAM%  GPU%  \n"
      "              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)\n" +
      rule +
      "\n0       2     0x74a1,   28851  57.0\xC2\xB0"
      "C      347.0W    NPS1, SPX, 0        2019Mhz  1300Mhz  0%   auto  750.0W  32%    100%  \n"
      "1       3     0x74a1,   51499  53.0\xC2\xB0"
      "C      N/A       NPS1, SPX, 0        2008Mhz  1300Mhz  0%   auto  750.0W  29%    7%  \n" +
      rule + "\n"));
  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 1.0);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].power_mw.value(), 347e3);
  EXPECT_DOUBLE_EQ(*ticks[0].second[1].busy.value(), 0.07);
  EXPECT_FALSE(ticks[0].second[1].power_mw.has_value()) << "not available is not the limit";
  EXPECT_EQ(log->machine.gpus[0].power_limit_mw, 750e3);

  const auto older = ticks_of(parse_rocm_smi_table(
      lines_of("GPU  Temp (DieEdge)  AvgPwr  SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%\n"
               "0    31.0c           38.0W   300Mhz   1200Mhz  0%   auto  300.0W    0%   99%\n" +
               rule + "\n0    31.0c\n")));
  ASSERT_EQ(older.size(), 1U);
  EXPECT_DOUBLE_EQ(*older[0].second[0].busy.value(), 0.99);
  EXPECT_FALSE(parse_rocm_smi_table(lines_of("GPU  VRAM%  GPU%\nno rows\n")));
}

TEST(NvidiaSmiCsv, WhoseFewRowsMayBeOfOneGpuOrOfSeveralIsRefused) {
  for (const std::string header :
       {"", "utilization.gpu [%], memory.used [MiB], power.draw [W]\n"}) {
    const auto lines = lines_of(header + "97 %, 61000 MiB, 640.10 W\n12 %, 61000 MiB, 120.20 W\n");
    EXPECT_FALSE(parse_csv_log(lines)) << header;
    EXPECT_TRUE(names_no_gpu(lines)) << header;
  }
}

TEST(NvidiaSmiCsv, OfOneGpuNeedsNeitherTimeNorNumber) {
  std::string text = "utilization.gpu [%], memory.used [MiB], power.draw [W]\n";
  for (int i = 0; i < 20; ++i) text += "97 %, 61000 MiB, 640.10 W\n";
  const auto log = parse_csv_log(lines_of(text));
  ASSERT_TRUE(log);
  EXPECT_EQ(log->machine.gpus.size(), 1U);
  EXPECT_NE(log->notes.back().find("one GPU's"), std::string::npos);
}

TEST(NvidiaSmiCsv, WithoutHeaderUnitsAndTimeIsReadWhereGpusComeInTurn) {
  const std::string rows =
      "0, 97, 640.1, 61000\n1, 12, 120.2, 61000\n0, 96, 641.1, 61000\n1, 11, "
      "121.2, 61000\n";
  const auto ticks = ticks_of(parse_csv_log(lines_of(rows)));
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[1].second[0].power_mw.value(), 641'100);
  EXPECT_FALSE(
      parse_csv_log(lines_of("0, 97, 640.1, 61000\n3, 12, 120.2, 61000\n1, 9, 3.1, 999\n")))
      << "a table of anything";
}

TEST(NvidiaSmiCsv, WithoutHeaderAndUnitsIsReadByItsContent) {
  const auto log =
      parse_csv_log(lines_of("2025/01/31 12:00:00.100, 0, 97, 70000, 81559, 650.12, 61\n"
                             "2025/01/31 12:00:00.100, 1, 3, 70001, 81559, 90.50, 44\n"
                             "2025/01/31 12:00:01.100, 0, 98, 70000, 81559, 651.00, 61\n"
                             "2025/01/31 12:00:01.100, 1, 4, 70001, 81559, 91.25, 44\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.97);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].power_mw.value(), 650'120);
  EXPECT_EQ(*ticks[0].second[1].memory_used_bytes.value(), 70001ULL << 20U);
}

TEST(OwnCsv, IsReadInAnySpelling) {
  const auto log = parse_csv_log(
      lines_of("Time;GPU;GPU_Util_Pct;Power_W;Mem_Used_GB\n1700000000.0;0;50;200;10\n1700000000.0;"
               "1;60;210;10\n1700000000.5;0;51;201;10\n1700000000.5;1;61;211;10\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_NEAR(ticks[1].first, 500, 1);
  EXPECT_DOUBLE_EQ(*ticks[0].second[1].busy.value(), 0.6);
  EXPECT_EQ(*ticks[0].second[0].memory_used_bytes.value(), 10'000'000'000ULL);
}

TEST(OwnCsv, WithAColumnAGpuIsReadToo) {
  const auto log =
      parse_csv_log(lines_of("timestamp,gpu0_util,gpu0_power,gpu1_util,gpu1_power\n2025-01-31T12:"
                             "00:00Z,100,300,0,60\n2025-01-31T12:00:01Z,0,60,100,300\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  ASSERT_EQ(ticks[0].second.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[1].second[1].busy.value(), 1.0);
}

TEST(OwnCsv, CountsTimesFromTheStartInTheUnitOfTheirName) {
  const auto seconds =
      ticks_of(parse_csv_log(lines_of("Time (s),GPU,Util (%)\n0.0,0,50\n0.5,0,60\n1.5,0,70\n")));
  const auto milliseconds =
      ticks_of(parse_csv_log(lines_of("elapsed_ms,gpu0_util\n0,50\n250,60\n500,60\n")));

  ASSERT_EQ(seconds.size(), 3U);
  EXPECT_NEAR(seconds[2].first, 1500, 1);
  ASSERT_EQ(milliseconds.size(), 3U);
  EXPECT_NEAR(milliseconds[1].first, 250, 1);
}

TEST(OwnCsv, SpreadsReadingsThatShareASecond) {
  std::string text = "time,index,util\n";
  for (int second = 0; second < 2; ++second)
    for (int i = 0; i < 4; ++i)
      text += "2025-01-31 12:00:0" + std::to_string(second) + ",0," + std::to_string(10 * i) + "\n";

  const auto ticks = ticks_of(parse_csv_log(lines_of(text)));

  ASSERT_EQ(ticks.size(), 8U);
  EXPECT_NEAR(ticks[1].first, 250, 1);
  EXPECT_NEAR(ticks[5].first, 1250, 1);
}

TEST(OwnCsv, LeavesOutTheImpossibleAndSaysSo) {
  const auto log =
      parse_csv_log(lines_of("time,index,util,power\n10:00:00,0,400,100\n10:00:01,0,nan,100\n10:00:"
                             "00,0,50,100\n10:00:02,0,50,99999999\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 3U) << "the third goes back in time";
  EXPECT_FALSE(ticks[0].second[0].busy.has_value());
  EXPECT_FALSE(ticks[2].second[0].power_mw.has_value());
  EXPECT_EQ(log->notes.size(), 2U);
}

TEST(OwnCsv, IsNotSeenInOrdinaryTables) {
  EXPECT_FALSE(parse_csv_log(lines_of("name,age,city\nada,36,london\n")));
  EXPECT_FALSE(parse_csv_log(lines_of("epoch,loss,accuracy\n1,0.5,0.9\n2,0.4,0.91\n")));
  EXPECT_FALSE(parse_csv_log({}));
}

TEST(TextBlocks, AreReadWithTheirTimes) {
  const auto log = parse_text_blocks(lines_of(
      "[2025-05-15 12:47:39] GPU Process Utilization\nGPU 0 (NVIDIA GeForce RTX 4090 D): GPU "
      "Utilization: 71% | Memory Utilization: 5%\n"
      "GPU 1 (NVIDIA GeForce RTX 4090 D): GPU Utilization: 0% | Memory Utilization: "
      "0%\n\n[2025-05-15 12:47:40] GPU Process Utilization\n"
      "GPU 0 (NVIDIA GeForce RTX 4090 D): GPU Utilization: 72% | Memory Utilization: 5%\nGPU 1 "
      "(NVIDIA GeForce RTX 4090 D): GPU Utilization: 1% | Memory Utilization: 0%\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.71) << "not the memory's utilization";
  EXPECT_EQ(*log->machine.gpus[0].name, "NVIDIA GeForce RTX 4090 D");
  EXPECT_NEAR(ticks[1].first, 1000, 1);
}

TEST(NvidiaSmiTables, GiveUtilizationAndNotTheFan) {
  const std::string table =
      "Wed Apr  9 10:26:15 2025       \n+----+\n| NVIDIA-SMI 535.183.01             Driver "
      "Version: 535.183.01   CUDA Version: 12.2     |\n"
      "|   0  NVIDIA GeForce RTX 3090        Off | 00000000:04:00.0 Off |                  N/A |\n"
      "| 30%   22C    P8              13W / 350W |  17706MiB / 24576MiB |     48%      Default |\n"
      "| Processes:                                                                            |\n"
      "|    0   N/A  N/A   1234567      C   python                                    17700MiB |\n";
  std::string later = table;
  later.replace(later.find("10:26:15"), 8, "10:26:25");

  const auto log = parse_nvidia_smi_tables(lines_of(table + later));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_NEAR(ticks[1].first, 10'000, 1);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.48);
  EXPECT_DOUBLE_EQ(*log->machine.gpus[0].power_limit_mw, 350'000);
  const auto* processes = std::get_if<ProcessTick>(&log->records[1].content);
  ASSERT_NE(processes, nullptr);
  EXPECT_EQ(processes->at(0).pid, 1234567);
}

TEST(NvidiaSmiTables, AreReadWithoutTheirFirstLinesAndWithoutBlanksBeforeBars) {
  const auto log = parse_nvidia_smi_tables(lines_of(
      "|   0  Tesla T4                   Off  | 00000000:00:1B.0 Off |                    0 |\n"
      "| N/A   71C    P0    72W /  70W|   2980MiB / 15360MiB |     99%      Default |\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].power_mw.value(), 72'000);
  EXPECT_DOUBLE_EQ(*log->machine.gpus[0].power_limit_mw, 70'000);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.99);
  EXPECT_FALSE(parse_nvidia_smi_tables(lines_of("| a | b |\n| 1 W | 2 MiB |\n")));
}

TEST(Dmon, IsReadWithAndWithoutTimes) {
  const auto with_time = parse_nvidia_smi_columns(lines_of(
      "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk\n#YYYYMMDD   "
      "HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz\n"
      " 20250131   12:00:00      0    350     60      -     97     40   1593   1980\n 20250131   "
      "12:00:00      1     70     40      -      0      0   1593    345\n"
      " 20250131   12:00:01      0    351     60      -     98     40   1593   1980\n 20250131   "
      "12:00:01      1     71     40      -      1      0   1593    345\n"));
  const auto without =
      parse_nvidia_smi_columns(lines_of("# gpu    pwr  gtemp     sm\n# Idx      W      C      %\n  "
                                        "  0    350     60     97\n    0    351     60     98\n"));

  ASSERT_EQ(ticks_of(with_time).size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks_of(with_time)[1].second[0].busy.value(), 0.98);
  EXPECT_NEAR(ticks_of(with_time)[1].first, 1000, 1);
  ASSERT_EQ(ticks_of(without).size(), 2U);
  EXPECT_FALSE(without->notes.empty()) << "a second apart is a guess, and said";
}

TEST(Dmon, IsReadAsCsvToo) {
  const auto log = parse_nvidia_smi_columns(
      lines_of("#gpu, pwr, gtemp, sm, mem\n#Idx, W, C, %, %\n0, 350, 60, 97, 40\n1, 70, 40, 0, "
               "0\n0, 351, 60, 98, 40\n1, 70, 40, 0, 0\n"));

  ASSERT_EQ(ticks_of(log).size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks_of(log)[1].second[0].busy.value(), 0.98);
}

TEST(Pmon, GivesProcessesAndTheSumOfTheirShares) {
  const auto log = parse_nvidia_smi_columns(lines_of(
      "# gpu         pid   type     sm    mem    enc    dec    command\n# Idx           #    C/G   "
      "   %      %      %      %    name\n"
      "    0       4242     C     60     20      -      -    python\n    0       4243     C     30 "
      "    20      -      -    python\n    1          -     -      -      -      -      -    -\n"
      "    0       4242     C     62     20      -      -    python\n    0       4243     C     31 "
      "    20      -      -    python\n    1          -     -      -      -      -      -    -\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_NEAR(*ticks[0].second[0].busy.value(), 0.9, 1e-9);
  EXPECT_DOUBLE_EQ(*ticks[0].second[1].busy.value(), 0.0);
}

TEST(Pmon, OfOneProcessOnOneGpuHasARoundALine) {
  const auto log = parse_nvidia_smi_columns(
      lines_of("# gpu         pid   type     sm    mem    command\n    0       4168     C     49   "
               "  13    python3\n    0       4168     C     47     13    python3\n"));

  ASSERT_EQ(ticks_of(log).size(), 2U);
  EXPECT_NEAR(*ticks_of(log)[1].second[0].busy.value(), 0.47, 1e-9);
}

TEST(Gpustat, IsReadQueryByQueryAndCutAnywhere) {
  const std::string query =
      R"({"hostname": "h", "query_time": "2025-01-31T12:00:00.5", "gpus": [{"index": 0, "uuid": "GPU-1", "name": "NVIDIA A100", "utilization.gpu": 97, )"
      R"("power.draw": 300, "memory.used": 1000, "memory.total": 40000, "processes": [{"pid": 7, "username": "ada", "full_command": ["python", "--token", "hf_secret", "x.py"], "gpu_memory_usage": 900}]}]})";
  const auto whole = parse_gpustat_log(query + "\n" + query);

  ASSERT_EQ(ticks_of(whole).size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks_of(whole)[0].second[0].busy.value(), 0.97);
  const auto& processes = std::get<ProcessTick>(whole->records[1].content);
  EXPECT_EQ(processes[0].command->at(2).find("secret"), std::string::npos) << "no token gets in";
  for (std::size_t cut = 0; cut < query.size(); ++cut)
    parse_gpustat_log(query + query.substr(0, cut));
}

TEST(Wandb, FilesThatAreDamagedOrCutAreNoCrash) {
  std::string file(":W&B\0\0\0", 7);
  EXPECT_TRUE(looks_like_wandb(file));
  EXPECT_FALSE(parse_wandb_file(file)) << "no metrics in it";
  file += std::string("\x11\x22\x33\x44\xff\x7f\x01garbage", 14);
  EXPECT_FALSE(parse_wandb_file(file));
  EXPECT_FALSE(parse_wandb_file("something else"));
}

TEST(Csv, SoManyRowsOfOneMomentAreOneGpus) {
  std::string text = "Date,Time,Utilization [%],Power [W]\n";
  for (int i = 0; i < 45; ++i) text += fmt::format("04-03-2021,13:32:39,{} %,80 W\n", 40 + i % 7);

  const auto log = parse_csv_log(lines_of(text));

  ASSERT_TRUE(log);
  EXPECT_EQ(log->machine.gpus.size(), 1U) << "no node has 45 GPUs";
}

TEST(Csv, ADateBeforeOneLookMakesItNoLogOfOneGpu) {
  EXPECT_FALSE(
      parse_csv_log(lines_of("Wed Feb 26 01:50:18 PM EST 2025\n"
                             "100 %, 39042 MiB, 40536 MiB, 70, 380.53 W\n"
                             "0 %, 4 MiB, 40536 MiB, 24, 32.15 W\n"
                             "100 %, 38042 MiB, 40536 MiB, 71, 381.1 W\n")));
}

TEST(Dmon, TakesTheIntervalFromItsOwnCommandLine) {
  const auto log =
      parse_nvidia_smi_columns(lines_of("# nvidia-smi dmon -i 0 -d 15\n"
                                        "# gpu   pwr gtemp    sm   mem\n"
                                        "    0    29    64    96    50\n"
                                        "    0    26    66    88    46\n"));

  ASSERT_TRUE(log);
  EXPECT_EQ(log->records.back().t_ms, 15'000);
}

TEST(Csv, OfOneGpuManyTimesASecondIsOneGpus) {
  std::string text = "timestamp, utilization.gpu [%], power.draw [W]\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("2024/10/30 18:42:33.{:03}, {} %, 80.0 W\n", i * 20 + i % 3, 40 + i % 7);

  const auto log = parse_csv_log(lines_of(text));

  ASSERT_TRUE(log);
  EXPECT_EQ(log->machine.gpus.size(), 1U) << "20 ms apart, as -lms 20 writes them";
}

TEST(Csv, WithoutHeaderTakesNoNumberForMemoryThatMayBeAnother) {
  const auto log =
      parse_csv_log(lines_of("2025/02/03 11:58:03, 0, 97, 12288, 12043, 2, 640.5\n"
                             "2025/02/03 11:58:04, 0, 98, 12288, 12043, 2, 641.5\n"));
  const auto ticks = ticks_of(log);

  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_FALSE(ticks[0].second[0].memory_used_bytes.has_value())
      << "total, free and used: 12043 is free";
  EXPECT_EQ(log->machine.gpus[0].memory_total_bytes, 12288ULL << 20U);
  EXPECT_EQ(log->notes.back(), "there is no header line: columns are told by what they hold");

  const auto clocks = ticks_of(parse_csv_log(
      lines_of("2025/02/03 11:58:03, 0, 99, 55, 97887, 90538, 6712, 81, 299.35, 1927, 13365\n"
               "2025/02/03 11:58:04, 0, 98, 52, 97887, 90536, 6714, 66, 287.14, 1995, 13365\n")));
  ASSERT_EQ(clocks.size(), 2U);
  EXPECT_FALSE(clocks[0].second[0].memory_used_bytes.has_value()) << "clocks are no memory";
  EXPECT_FALSE(clocks[0].second[0].temperature_c.has_value())
      << "55 or 81: which is degrees nobody knows";
  EXPECT_DOUBLE_EQ(*clocks[0].second[0].busy.value(), 0.99);
}

TEST(Csv, CutInTheMiddleOfARowLosesThatRowAndSaysSo) {
  const std::string rows =
      "timestamp, utilization.gpu [%], memory.used [MiB]\n"
      "2025/02/03 11:58:03, 97 %, 17920 MiB\n2025/02/03 11:58:04, 98 %, 17920 MiB\n";
  for (const char* const cut : {"2025/02/03 11:58:05, 98 %, 179", "2025/02/03 11:58:05, 9"}) {
    const auto log = parse_csv_log(lines_of(rows + cut));
    ASSERT_EQ(ticks_of(log).size(), 2U) << cut;
    EXPECT_EQ(log->notes.back(), "the last row is cut in the middle and was left out") << cut;
  }
  EXPECT_TRUE(parse_csv_log(lines_of(rows))->notes.empty());
}

TEST(Times, AreReadAsPeopleWriteThem) {
  const double noon = *parse_time("2025-01-31T12:00:00Z");
  EXPECT_DOUBLE_EQ(*parse_time("2025/01/31 12:00:00.000"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("31.01.2025 12:00:00"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("01/31/2025 12:00:00"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("01-31-2025 12:00:00"), noon);
  EXPECT_FALSE(parse_time("13.13.2025 12:00:00"));
  EXPECT_DOUBLE_EQ(*parse_time("2025-01-31T13:00:00+01:00"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("Fri Jan 31 12:00:00 2025"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("1738324800"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("1738324800000"), noon);
  EXPECT_DOUBLE_EQ(*parse_time("00:01:00"), 60);
  EXPECT_FALSE(parse_time("2025-13-41 12:00:00"));
  EXPECT_FALSE(parse_time("hello world"));
  EXPECT_FALSE(parse_time("42"));
}

TEST(NvidiaSmiCsv, TellsWhatHoldsTheClocksDown) {
  const auto log = parse_csv_log(
      lines_of("timestamp, index, utilization.gpu [%], clocks_event_reasons.sw_power_cap, "
               "clocks_event_reasons.hw_thermal_slowdown\n"
               "2025/01/31 12:00:00.100, 0, 97 %, Active, Not Active\n"
               "2025/01/31 12:00:00.100, 1, 97 %, Not Active, Not Active\n"));
  const auto masks = parse_csv_log(
      lines_of("timestamp, index, utilization.gpu [%], clocks_throttle_reasons.active\n"
               "2025/01/31 12:00:00.100, 0, 97 %, 0x0000000000000004\n"
               "2025/01/31 12:00:00.100, 1, 97 %, 0x0000000000000000\n"
               "2025/01/31 12:00:00.100, 2, 97 %, 0x0000000000000048\n"));

  for (const auto& read : {log, masks}) {
    const auto ticks = ticks_of(read);
    ASSERT_EQ(ticks.size(), 1U);
    EXPECT_TRUE(ticks[0].second[0].limits.value()->has(ClockLimit::sw_power_cap));
    EXPECT_FALSE(ticks[0].second[0].limits.value()->has(ClockLimit::hw_thermal_slowdown));
    EXPECT_EQ(*ticks[0].second[1].limits.value(), ClockLimits{}) << "read, and none";
  }
  const auto third = ticks_of(masks)[0].second[2];
  EXPECT_TRUE(third.limits.value()->has(ClockLimit::hw_thermal_slowdown));
  EXPECT_TRUE(third.limits.value()->has(ClockLimit::hw_slowdown));
}

TEST(NvidiaSmiCsv, CountsGpusByTheirBusWhereNoNumberIsThere) {
  const auto log =
      parse_csv_log(lines_of("timestamp, pci.bus_id, utilization.gpu [%]\n"
                             "2025/01/31 12:00:00.100, 00000000:07:00.0, 97 %\n"
                             "2025/01/31 12:00:00.100, 00000000:0B:00.0, 5 %\n"
                             "2025/01/31 12:00:01.100, 00000000:07:00.0, 96 %\n"
                             "2025/01/31 12:00:01.100, 00000000:0B:00.0, 4 %\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  ASSERT_EQ(ticks[1].second.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[1].second[1].busy.value(), 0.04);
}

TEST(AmdSmiCsv, IsReadByItsOwnNamesAndNothingIsInvented) {
  const auto log = parse_csv_log(
      lines_of("timestamp,gpu,gfx_activity,umc_activity,current_socket_power,edge_temperature,"
               "mem_temperature,used_vram,total_vram\n"
               "1738324800,0,97,40,350,60,71,50000,196592\n"
               "1738324800,1,12,4,120,48,55,50000,196592\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U);
  const GpuSample& first = ticks[0].second[0];
  EXPECT_DOUBLE_EQ(*first.busy.value(), 0.97);
  EXPECT_EQ(*first.memory_used_bytes.value(), 50000ULL << 20U) << "not a temperature";
  EXPECT_DOUBLE_EQ(*first.temperature_c.value(), 60);

  const auto power_alone = ticks_of(parse_csv_log(
      lines_of("timestamp,gpu,current_socket_power\n1738324800,0,350\n1738324801,0,351\n")));
  ASSERT_EQ(power_alone.size(), 2U);
  EXPECT_FALSE(power_alone[0].second[0].busy.has_value()) << "power is no utilization";
}

TEST(NvidiaSmiDmon, TellsViolations) {
  const auto log =
      parse_nvidia_smi_columns(lines_of("# gpu    pwr     sm  pviol  tviol\n"
                                        "# Idx      W      %      %   bool\n"
                                        "    0    690     99     35      0\n"
                                        "    1    300     99      0      1\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U);
  EXPECT_TRUE(ticks[0].second[0].limits.value()->has(ClockLimit::sw_power_cap));
  EXPECT_TRUE(ticks[0].second[1].limits.value()->has(ClockLimit::sw_thermal_slowdown));
}

TEST(Csv, AFirstLineWhoseDateLostItsBeginIsLeftOut) {
  const auto log = parse_csv_log(
      lines_of("timestamp, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
               "025/03/21 02:06:50.642, NVIDIA GeForce RTX 3090, 3 %, 1945 MiB, 24576 MiB\n"
               "2025/03/21 02:06:51.651, NVIDIA GeForce RTX 3090, 19 %, 1948 MiB, 24576 MiB\n"
               "2025/03/21 02:06:52.661, NVIDIA GeForce RTX 3090, 2 %, 1950 MiB, 24576 MiB\n"
               "2025/03/21 02:06:53.661, NVIDIA GeForce RTX 3090, 36 %, 1950 MiB, 24576 MiB\n"));

  ASSERT_TRUE(log);
  ASSERT_EQ(log->records.size(), 3U);
  EXPECT_EQ(log->records[0].t_ms, 0);
  EXPECT_NEAR(log->records[2].t_ms, 2010, 1);
}

TEST(GpustatTable, IsReadAsAMarkdownTableToo) {
  const auto log = parse_gpustat_table(
      lines_of("| Gpu name | Utilization | memory | Process |\n"
               "| --- | --- | --- | --- |\n"
               "| [0]GeForce GTX 1080 Ti  | 27'C,   100 % | 11007 / 11178 MB | xx(11003M) |\n"
               "| [1] GeForce GTX 1080 Ti | 64'C, 3 %   | 25 / 11178 MB | |\n"));

  ASSERT_TRUE(log);
  ASSERT_EQ(log->machine.gpus.size(), 2U);
  const auto& tick = std::get<GpuTick>(log->records.front().content);
  EXPECT_EQ(tick[0].busy.value(), 1.0);
  EXPECT_EQ(tick[1].busy.value(), 0.03);
}

TEST(GputilTable, IsReadBetweenTheLinesOfARun) {
  const auto log = parse_gputil_table(
      lines_of("fold 1\n[0]\tvalidation_0-rmse:16.4\n| ID | GPU | MEM |\n------------------\n"
               "|  0 | 11% |  4% |\n|  1 |  0% |  0% |\n\nfold 2\n"
               "| ID | GPU | MEM |\n------------------\n|  0 | 45% |  5% |\n|  1 |  0% |  0% |\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[1].second[0].busy.value(), 0.45);
  EXPECT_FALSE(parse_gputil_table(lines_of("| 0 | 11% | 4% |\n")));  // some table's row
}

TEST(GpustatTable, IsReadAsPeoplePasteIt) {
  const auto log = parse_gpustat_table(
      lines_of("node7                Wed Apr  9 10:26:15 2025  535.104.05\n"
               "[0] NVIDIA A100-SXM4-80GB | 45'C,  97 %,  350 / 400 W | 61234 / 81920 MB | "
               "ada:python/4242(61000M)\n"
               "[1] NVIDIA A100-SXM4-80GB | 33'C,   0 % |     7 / 81920 MB |\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U);
  ASSERT_EQ(ticks[0].second.size(), 2U);
  EXPECT_EQ(log->kind, SourceKind::gpustat);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].busy.value(), 0.97);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].power_mw.value(), 350'000);
  EXPECT_EQ(*ticks[0].second[0].memory_used_bytes.value(), 61234ULL << 20U);
  EXPECT_EQ(log->machine.gpus[0].name, "NVIDIA A100-SXM4-80GB");
  EXPECT_FALSE(ticks[0].second[1].power_mw.has_value());
  EXPECT_FALSE(parse_gpustat_table(lines_of("[info] loaded | 3 | 4\n")));
}

TEST(NvidiaSmiQuery, IsReadBlockByBlock) {
  const auto log = parse_nvidia_smi_query(
      lines_of("==============NVSMI LOG==============\n"
               "\n"
               "Timestamp                                 : Wed Apr  9 10:26:15 2025\n"
               "Driver Version                            : 535.104.05\n"
               "Attached GPUs                             : 2\n"
               "GPU 00000000:07:00.0\n"
               "    Product Name                          : NVIDIA A100-SXM4-80GB\n"
               "    FB Memory Usage\n"
               "        Total                             : 81920 MiB\n"
               "        Used                              : 61234 MiB\n"
               "    BAR1 Memory Usage\n"
               "        Total                             : 131072 MiB\n"
               "        Used                              : 9 MiB\n"
               "    Utilization\n"
               "        Gpu                               : 97 %\n"
               "        Memory                            : 40 %\n"
               "    Temperature\n"
               "        GPU Current Temp                  : 61 C\n"
               "    GPU Power Readings\n"
               "        Average Power Draw                : 350.12 W\n"
               "        Current Power Limit               : 400.00 W\n"
               "        Default Power Limit               : 400.00 W\n"
               "    Clocks\n"
               "        SM                                : 1410 MHz\n"
               "    Max Clocks\n"
               "        SM                                : 1410 MHz\n"
               "    Clocks Event Reasons\n"
               "        SW Power Cap                      : Active\n"
               "        HW Slowdown                       : Not Active\n"
               "    Processes\n"
               "        GPU instance ID                   : N/A\n"
               "        Process ID                        : 4242\n"
               "            Type                          : C\n"
               "            Name                          : python\n"
               "            Used GPU Memory               : 61000 MiB\n"
               "GPU 00000000:0B:00.0\n"
               "    Product Name                          : NVIDIA A100-SXM4-80GB\n"
               "    Utilization\n"
               "        Gpu                               : 3 %\n"
               "    Processes                             : None\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 1U);
  ASSERT_EQ(ticks[0].second.size(), 2U);
  const GpuSample& first = ticks[0].second[0];
  EXPECT_DOUBLE_EQ(*first.busy.value(), 0.97);
  EXPECT_EQ(*first.memory_used_bytes.value(), 61234ULL << 20U) << "not BAR1's";
  EXPECT_TRUE(first.limits.value()->has(ClockLimit::sw_power_cap));
  EXPECT_EQ(log->machine.gpus[0].power_limit_default_mw, 400'000);
  bool listed = false;
  for (const Record& record : log->records)
    if (const auto* processes = std::get_if<ProcessTick>(&record.content))
      listed = listed || (!processes->empty() && processes->front().pid == 4242);
  EXPECT_TRUE(listed);
}

TEST(DcgmiDmon, IsReadByItsShortNames) {
  const auto log =
      parse_dcgmi_columns(lines_of("#Entity   GPUTL   POWER     SMACT   TENSO   FBUSD\n"
                                   "ID                W                          \n"
                                   "GPU 0     97      650.1     0.81    0.42    61234\n"
                                   "GPU 1     12      98.5      0.04    N/A     61234\n"
                                   "GPU 0     98      651.1     0.80    0.41    61234\n"
                                   "GPU 1     13      98.5      0.04    N/A     61234\n"));

  const auto ticks = ticks_of(log);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_DOUBLE_EQ(*ticks[0].second[0].sm.value(), 0.81);
  EXPECT_DOUBLE_EQ(*ticks[1].second[0].busy.value(), 0.98);
  EXPECT_FALSE(ticks[0].second[1].tensor.has_value());
}

}  // namespace
}  // namespace lockstep
