// Tables and listings as strangers paste them: of several machines, days apart, of two commands in
// one text, of desktops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sources/csv/csv_log.hpp"
#include "sources/dcgm/dcgmi_columns.hpp"
#include "sources/nvidia_smi/column_log.hpp"
#include "sources/nvidia_smi/query_log.hpp"
#include "sources/nvidia_smi/table_log.hpp"
#include "sources/open_input.hpp"
#include "sources/rocm_smi/rocm_smi_list.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_lines.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::lines_of;
using ::testing::Not;

std::vector<GpuTick> looks_in(const std::optional<ParsedLog>& log) {
  std::vector<GpuTick> ticks;
  if (!log) return ticks;
  for (const Record& record : log->records)
    if (const auto* const tick = std::get_if<GpuTick>(&record.content)) ticks.push_back(*tick);
  return ticks;
}

std::vector<int> pids_of(const std::optional<ParsedLog>& log) {
  std::vector<int> pids;
  if (!log) return pids;
  for (const Record& record : log->records)
    if (const auto* const tick = std::get_if<ProcessTick>(&record.content))
      for (const ProcessSample& process : *tick) pids.push_back(process.pid);
  return pids;
}

std::string table(const std::string& time, const std::string& bus, int busy,
                  const std::string& processes = "") {
  return time +
         "\n| NVIDIA-SMI 570.86        Driver Version: 570.86     CUDA Version: 12.8 |\n"
         "|   0  NVIDIA A100-SXM4-80GB          Off | 00000000:" +
         bus +
         ":00.0 Off |                    0 |\n"
         "| N/A   29C    P0              71W / 400W |   5729MiB / 81920MiB |      " +
         std::to_string(busy) +
         "%      Default |\n"
         "| Processes: |\n" +
         processes;
}

TEST(PastedTables, OfSeveralMachinesAreReadAsTheFirst) {
  const auto log = parse_nvidia_smi_tables(lines_of(table("Fri Oct 21 10:42:36 2022", "3B", 94) +
                                                    table("Fri Oct 21 10:42:39 2022", "1A", 10)));

  const auto ticks = looks_in(log);
  ASSERT_EQ(ticks.size(), 1U);
  EXPECT_DOUBLE_EQ(*ticks[0][0].busy.value(), 0.94) << "no mean of two machines";
  EXPECT_THAT(log->notes, ElementsAre(HasSubstr("several machines")));
}

TEST(PastedTables, DaysApartStandForThemselvesAndTheLastCounts) {
  const auto log = parse_nvidia_smi_tables(lines_of(table("Thu Jan 10 01:00:02 2019", "3B", 94) +
                                                    table("Fri Jan 11 01:00:02 2019", "3B", 10) +
                                                    table("Sat Jan 12 01:00:03 2019", "3B", 20)));

  ASSERT_EQ(looks_in(log).size(), 1U);
  EXPECT_DOUBLE_EQ(*looks_in(log)[0][0].busy.value(), 0.2);
  EXPECT_THAT(log->notes, ElementsAre(HasSubstr("only the last is read")));
  EXPECT_EQ(looks_in(parse_nvidia_smi_tables(lines_of(table("Thu Jan 10 01:00:02 2019", "3B", 94) +
                                                      table("Thu Jan 10 01:01:02 2019", "3B", 10))))
                .size(),
            2U)
      << "a minute apart they are a watch";
}

TEST(PastedTables, ADesktopsWindowsAreNoJobs) {
  const std::string processes =
      "|    0   N/A  N/A    604    C+G   ...XboxGameBarSpotify.exe      N/A |\n"
      "|    0   N/A  N/A    700      C   ...Ollama\\ollama.exe          N/A |\n"
      "|    0   N/A  N/A    800    C+G   C:\\Python\\python.exe          N/A |\n";

  EXPECT_THAT(pids_of(parse_nvidia_smi_tables(
                  lines_of(table("Thu Jan 10 01:00:02 2019", "3B", 9, processes)))),
              ElementsAre(700, 800));
}

TEST(PastedTables, OfNvitopHaveGibibytes) {
  const auto log = parse_nvidia_smi_tables(lines_of(
      "|   1  RTX PRO 6000         Off | 00000000:4B:00.0 Off |   N/A |\n"
      "| 30%   33C   P1     66W / 600W |  86.54GiB / 95.59GiB |      0%      Default |\n"));

  ASSERT_EQ(looks_in(log).size(), 1U);
  EXPECT_EQ(looks_in(log)[0][0].memory_used_bytes.value(),
            static_cast<std::uint64_t>(86.54 * (1ULL << 30U)));
}

TEST(PastedTables, OfGpusInSlicesHaveNeitherMemoryNorUtilization) {
  const auto log = parse_nvidia_smi_tables(
      lines_of("|   0  NVIDIA H100 80GB HBM3   On  | 00000000:1B:00.0 Off |        On |\n"
               "| N/A   25C    P0     71W / 700W |           N/A |     N/A      Default |\n"
               "|   7  NVIDIA H100 80GB HBM3   On  | 00000000:DF:00.0 Off |        On |\n"
               "| N/A   31C    P0     72W / 700W |           N/A |     N/A      Default |\n"
               "|  7   13   0   0  |     16MiB /  9984MiB  | 14      0 |  1   0   0 |\n"));

  ASSERT_EQ(looks_in(log).size(), 1U);
  ASSERT_EQ(looks_in(log)[0].size(), 2U);
  EXPECT_FALSE(looks_in(log)[0][1].memory_used_bytes.has_value()) << "a slice's is not the GPU's";
}

TEST(PastedColumns, OfDmonAndPmonAreNotOneReading) {
  const auto log =
      parse_nvidia_smi_columns(lines_of("    # gpu   pwr  gtemp    sm   mem\n"
                                        "        0    19     41     0     0\n"
                                        "        0    19     41     0     0\n"
                                        "# gpu        pid  type    sm   mem   command\n"
                                        "    0      22010     C    98    56   python3\n"));

  ASSERT_EQ(looks_in(log).size(), 2U) << "indented as they are";
  EXPECT_DOUBLE_EQ(*looks_in(log)[1][0].busy.value(), 0);
  EXPECT_THAT(pids_of(log), IsEmpty());
  EXPECT_THAT(log->notes, Contains(HasSubstr("one after the other")));
}

TEST(PastedColumns, OfADesktopNameNoJob) {
  EXPECT_THAT(pids_of(parse_nvidia_smi_columns(
                  lines_of("# gpu        pid  type    sm   mem   command\n"
                           "    0       2165   C+G     -     -   kwin_wayland\n"
                           "    0       2496     G     -     -   plasmashell\n"
                           "    0       5021     C     5     1   python\n"
                           "    0       5022   C+G     5     1   python\n"))),
              ElementsAre(5021, 5022));
}

TEST(NvidiaSmiQuery, ReadsUtilizationUnderItsNewerName) {
  const auto log = parse_nvidia_smi_query(
      lines_of("==============NVSMI LOG==============\n"
               "GPU 00000000:01:00.0\n"
               "    Utilization\n"
               "        GPU                                            : 37 %\n"));

  ASSERT_EQ(looks_in(log).size(), 1U);
  EXPECT_DOUBLE_EQ(*looks_in(log)[0][0].busy.value(), 0.37);
}

TEST(NvidiaSmiQuery, OfLimitsAloneIsRead) {
  const auto log =
      parse_nvidia_smi_query(lines_of("==============NVSMI LOG==============\n"
                                      "GPU 00000000:0B:00.0\n"
                                      "    Clocks Event Reasons\n"
                                      "        SW Power Cap                      : Active\n"
                                      "    Temperature\n"
                                      "        GPU Current Temp                  : 77 C\n"));

  ASSERT_EQ(looks_in(log).size(), 1U);
  EXPECT_TRUE(looks_in(log)[0][0].limits.value()->has(ClockLimit::sw_power_cap));
}

TEST(DcgmiDmon, TakesTheEnginesOwnShareWhereThereIsNoUtilization) {
  const auto log =
      parse_dcgmi_columns(lines_of("#Entity   GRACT        SMACT\nID\n"
                                   "GPU 2     0.984        0.930\n"));

  ASSERT_EQ(looks_in(log).size(), 1U);
  EXPECT_DOUBLE_EQ(*looks_in(log)[0][0].busy.value(), 0.984);
}

TEST(RocmSmi, ListsAreReadASectionPerQuantity) {
  const auto log =
      parse_rocm_smi_list(lines_of("GPU[0]\t\t: GPU use (%): 98\n"
                                   "GPU[1]\t\t: GPU use (%): 0\n"
                                   "GPU[0]\t\t: Max Graphics Package Power (W): 750.0\n"
                                   "GPU[0]\t\t: Current Socket Graphics Package Power (W): 133.0\n"
                                   "GPU[0]\t\t: sclk clock level: S: (137Mhz)\n"));

  ASSERT_EQ(looks_in(log).size(), 1U);
  const GpuTick tick = looks_in(log)[0];
  ASSERT_EQ(tick.size(), 2U);
  EXPECT_DOUBLE_EQ(*tick[0].busy.value(), 0.98);
  EXPECT_DOUBLE_EQ(*tick[0].power_mw.value(), 133'000) << "no mean of draw and limit";
  EXPECT_EQ(log->machine.gpus[0].power_limit_mw, 750'000);
  EXPECT_FALSE(parse_rocm_smi_list(lines_of("GPU[0]\t\t: Device ID: 0x74a1\n")));
}

TEST(Csv, RowsMillisecondsApartAreGpusOfOneLook) {
  const auto log =
      parse_csv_log(lines_of("timestamp, utilization.gpu [%], memory.used [MiB]\n"
                             "2024/01/16 14:44:16.977, 0 %, 21 MiB\n"
                             "2024/01/16 14:44:16.981, 1 %, 7 MiB\n"
                             "2024/01/16 14:44:16.986, 2 %, 7 MiB\n"
                             "2024/01/16 14:44:17.095, 3 %, 21 MiB\n"));

  ASSERT_EQ(looks_in(log).size(), 2U);
  EXPECT_EQ(looks_in(log)[0].size(), 3U);
}

TEST(Csv, OfTwoWritersLosesTheRowsThatTheyTore) {
  std::string text = "index, name, utilization.gpu [%], memory.used [MiB]\n";
  for (int i = 0; i < 30; ++i) text += "0, Tesla V100-SXM2, 95 %, 31000 MiB\n";
  text += "0, Te V100-SXM2, 95 %, 31000 MiB\n";

  const auto log = parse_csv_log(lines_of(text));

  ASSERT_TRUE(log);
  EXPECT_EQ(log->machine.gpus.size(), 1U);
  EXPECT_THAT(log->notes, Contains(HasSubstr("torn by another writer")));
}

TEST(Csv, WhoseModelsAllDifferIsNotTorn) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "Tesla V100 " + std::to_string(i) + ", 95 %, 31000 MiB\n";

  const auto log = parse_csv_log(lines_of(text));

  ASSERT_TRUE(log);
  EXPECT_THAT(log->notes, Not(Contains(HasSubstr("torn"))));
}

TEST(Csv, OfUtilizationAloneMayRepeatItsHeader) {
  EXPECT_EQ(looks_in(parse_csv_log(lines_of("utilization.gpu [%]\n85 %\nutilization.gpu [%]\n100 "
                                            "%\nutilization.gpu [%]\n90 %\n")))
                .size(),
            3U);
}

Result<std::unique_ptr<Source>> opened(const std::string& text) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "paste.txt";
  std::ofstream(file) << text;
  return open_source(file.string(), SourceOptions{});
}
bool is_read(const std::string& text) { return static_cast<bool>(opened(text)); }
// The GPUs that a text is about; none where it is refused.
std::size_t gpus_in(const std::string& text) {
  const auto source = opened(text);
  return source ? (*source)->machine().gpus.size() : 0;
}

TEST(PastedTexts, LoseTheMarksThatStandAroundThem) {
  EXPECT_EQ(gpus_in("### while it trained ###\n"
                    "# [0] NVIDIA H100 80GB HBM3 | 52'C,  55 % | 54984 / 81559 MB | ada(54908M)\n"
                    "# [1] NVIDIA H100 80GB HBM3 | 57'C,  98 % | 54984 / 81559 MB | ada(54908M)\n"),
            2U);
  EXPECT_EQ(gpus_in("It stays at 100%:\n"
                    "`[6] NVIDIA A100 80GB PCIe | 52'C, 100 % | 10151 / 81920 MB | (null)`\n"),
            1U);
  EXPECT_EQ(gpus_in("\x1b[1m[0] Tesla P100\x1b[m | 58'C,  99 % | 12099 / 12198 MB | gsx(4111M)\n"),
            1U);
  EXPECT_EQ(
      gpus_in("\xE2\x94\x82   0  RTX 2080 Ti  Off \xE2\x94\x82 00000000:21:00.0 Off \xE2\x94\x82\n"
              "\xE2\x94\x82 27%   42C   P8     17W / 250W \xE2\x94\x82  107.2MiB / 11264MiB "
              "\xE2\x94\x82      0%      Default \xE2\x94\x82\n"),
      1U)
      << "nvitop's frames";
  EXPECT_EQ(gpus_in("[0] Tesla P100 | 27'C,   0 % |   103 / 16384 MB |\n"
                    "[1] Tesla P100 | 27'C,   0 % |   103 / 16384 MB |\n" +
                    table("Mon Aug 22 15:24:23 2022", "04", 0)),
            2U)
      << "gpustat's list, and a table that was cut";
}

TEST(PastedTexts, OfAFinishedTrainingAreATrainingLog) {
  EXPECT_TRUE(
      is_read("Epoch 99:   0%|   | 0/1 [00:00<?, ?it/s]Epoch 99: 100%|###| 1/1 [00:40<00:00, "
              "40.25s/it]Epoch 99: 100%|###| 1/1 [00:40<00:00, 40.25s/it]\n4058.4\n"));
  EXPECT_FALSE(is_read("Building wheel 100%|###| done\nInstalled.\n"));
}

}  // namespace
}  // namespace lockstep
