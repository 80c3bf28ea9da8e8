// lockstep diagnose and lockstep explain, as a user runs them.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/finding.hpp"
#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace testing;

// Two GPUs of one process, each busy for half a second while the other is not.
std::string turns_recording(const std::string& command = "train.py") {
  std::vector<Record> records;
  for (int tick = 0; tick <= 120; ++tick) {
    const bool first = (tick / 5) % 2 == 0;
    records.push_back(
        {tick * 100.0, GpuTick{steady_sample(0, first ? 1 : 0), steady_sample(1, first ? 0 : 1)}});
    if (tick % 20 != 0) continue;
    ProcessSample process;
    process.pid = 4242;
    process.gpus = {{0, 10ULL << 30U}, {1, 10ULL << 30U}};
    process.command = {"python", command};
    process.environment.emplace();
    records.push_back({tick * 100.0, ProcessTick{process}});
  }
  return recording_text(two_gpu_machine(), records);
}

json report_of(const ProgramEnd& end) { return json::parse(end.out); }

TEST(Diagnose, SaysWhoTakesTurnsWhatItCostsAndWhatToType) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.jsonl", turns_recording());

  const ProgramEnd end = run_lockstep({"diagnose", file.string()});

  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_NE(end.out.find("taking-turns: GPU 0 and 1 take turns"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("P101 taking-turns"), std::string::npos);
  EXPECT_NE(end.out.find("torchrun --standalone --nproc_per_node=2 train.py"), std::string::npos);
  EXPECT_NE(end.out.find("GPU-hours"), std::string::npos);
  EXPECT_NE(end.out.find("GPU 0"), std::string::npos);
}

TEST(Diagnose, GivesTheSameAsJson) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.jsonl", turns_recording());

  const json report = report_of(run_lockstep({"diagnose", file.string(), "--json"}));

  EXPECT_EQ(report["verdict"]["pattern"], "taking-turns");
  EXPECT_EQ(report["findings"][0]["code"], "P101");
  EXPECT_NEAR(report["findings"][0]["lost_throughput"].get<double>(), 0.5, 0.05);
  EXPECT_EQ(report["findings"][0]["fixes"][0]["command"][0], "torchrun");
  EXPECT_EQ(report["jobs"][0]["pids"][0], 4242);
  EXPECT_LT(report["throughput"]["now"].get<double>(), 0.6);
}

TEST(Diagnose, IsHealthyAndQuietAboutRanksThatWorkTogether) {
  const TemporaryFolder folder;
  std::vector<Record> records;
  for (int tick = 0; tick <= 120; ++tick) {
    GpuTick tick_of_both = {steady_sample(0, 0.97), steady_sample(1, 0.97)};
    for (GpuSample& gpu : tick_of_both) gpu.memory_used_bytes = 80ULL << 30U;
    records.push_back({tick * 100.0, tick_of_both});
    if (tick % 20 != 0) continue;
    ProcessTick ranks(2);
    for (int rank = 0; rank < 2; ++rank) {
      auto& process = ranks[static_cast<std::size_t>(rank)];
      process.pid = 100 + rank;
      process.gpus = {{rank, 80ULL << 30U}};
      process.command = {"python", "train.py"};
      process.rank = process.local_rank = rank;
      process.world_size = 2;
      process.launcher = "torchrun";
      process.environment = std::map<std::string, std::string>{{"MASTER_PORT", "29500"}};
    }
    records.push_back({tick * 100.0, ranks});
  }
  const auto file = folder.write("run.jsonl", recording_text(two_gpu_machine(), records));

  const ProgramEnd end = run_lockstep({"diagnose", file.string()});

  EXPECT_EQ(end.code, 0) << end.out;
  EXPECT_NE(end.out.find("in-step"), std::string::npos);
  EXPECT_NE(end.out.find("yes  GPUs busy together"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("RANK 1, LOCAL_RANK 1, WORLD_SIZE 2"), std::string::npos);
}

TEST(Diagnose, LeavesOutWhatIsNotAskedFor) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.jsonl", turns_recording());

  const ProgramEnd ignored = run_lockstep({"diagnose", file.string(), "--ignore", "P101,X701"});
  EXPECT_EQ(ignored.code, 0);
  EXPECT_NE(ignored.out.find("left out by --only, --ignore or --min-severity: 2 findings"),
            std::string::npos)
      << ignored.out;
  EXPECT_EQ(
      report_of(run_lockstep({"diagnose", file.string(), "--json", "--only", "X701"}))["findings"]
          .size(),
      1U);
  EXPECT_EQ(run_lockstep({"diagnose", file.string(), "--only", "X705"}).code, 0);
  const ProgramEnd wrong = run_lockstep({"diagnose", file.string(), "--only", "P1O1"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("P101"), std::string::npos) << wrong.err;
  EXPECT_EQ(run_lockstep({"diagnose", file.string(), "--min-severity", "loud"}).code, 2);
}

TEST(Diagnose, OfOneSnapshotIsUnclear) {
  const TemporaryFolder folder;
  const std::string whole = turns_recording();
  std::string cut;
  for (std::size_t line = 0, at = 0; line < 3; ++line)
    at = whole.find('\n', at) + 1, cut = whole.substr(0, at);

  const json report =
      report_of(run_lockstep({"diagnose", folder.write("one.jsonl", cut).string(), "--json"}));

  EXPECT_EQ(report["verdict"]["pattern"], "unclear");
  EXPECT_TRUE(report["findings"].empty());
}

TEST(Diagnose, EscapesWhatCameFromOutside) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("run.jsonl", turns_recording("<script>alert(1)</script>`x`\x1b[31m"));

  const std::string html = run_lockstep({"diagnose", file.string(), "--format", "html"}).out;
  const std::string markdown =
      run_lockstep({"diagnose", file.string(), "--format", "markdown"}).out;
  const std::string text = run_lockstep({"diagnose", file.string()}).out;

  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "one file, no network";
  EXPECT_NE(markdown.find("## Findings"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Diagnose, ComparesTwoRuns) {
  const TemporaryFolder folder;
  const auto naive = folder.write("naive.jsonl", turns_recording());

  const ProgramEnd end = run_lockstep({"diagnose", naive.string(), "--against", naive.string()});
  const ProgramEnd timed = run_lockstep({"diagnose", naive.string(), "--baseline", "24s"});

  EXPECT_NE(end.out.find("speedup: 1.00x"), std::string::npos) << end.out;
  EXPECT_NE(timed.out.find("no speedup: 12.0 s of a run"), std::string::npos) << timed.out;
  EXPECT_EQ(timed.out.find("speedup: 2"), std::string::npos) << timed.out;
  EXPECT_EQ(run_lockstep({"diagnose", naive.string(), "--baseline", "24"}).code, 2)
      << "durations carry a unit";
}

TEST(Diagnose, ReadsTrainingLogsAndRefusesTheRest) {
  const TemporaryFolder folder;
  const auto log = folder.write(
      "train.log", "step 1\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n");

  const ProgramEnd end = run_lockstep({"diagnose", log.string(), "--json"});
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(report_of(end)["source"]["kind"], "log");
  EXPECT_TRUE(report_of(end)["verdict"].is_null());
  EXPECT_EQ(report_of(end)["findings"][0]["code"], "B506");

  const ProgramEnd unknown =
      run_lockstep({"diagnose", folder.write("notes.txt", "hello\n").string()});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_NE(unknown.err.find("next:"), std::string::npos);
  EXPECT_EQ(run_lockstep({"diagnose", folder.write("empty.txt", "").string()}).code, 3);
}

TEST(Diagnose, RunsACommandAndTellsOfItsEnd) {
  const ProgramEnd failed = run_lockstep({"diagnose", "virtual:1", "--json", "--quiet", "--", "sh",
                                          "-c", "echo from the command; exit 7"});

  EXPECT_EQ(failed.code, 4) << "that it failed is the answer, not that it held no GPU";
  EXPECT_NE(failed.err.find("from the command"), std::string::npos) << "its output joins the words";
  EXPECT_NE(failed.err.find("ended with code 7"), std::string::npos) << failed.err;
  EXPECT_EQ(report_of(failed)["command"]["exit_code"], 7);
  EXPECT_TRUE(report_of(failed)["verdict"].is_null());
}

TEST(Diagnose, ReadsSeveralRecordingsAndNothingElseTogether) {
  const TemporaryFolder folder;
  const std::string recording =
      folder.write("a.jsonl", recording_text(two_gpu_machine(), plateau({0.9, 0.9}, 5))).string();
  const std::string log =
      folder.write("smi.csv", "index, utilization.gpu [%]\n0, 97 %\n1, 96 %\n").string();

  const ProgramEnd mixed = run_lockstep({"diagnose", recording, log});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.err.find("--against"), std::string::npos) << mixed.err;
  const ProgramEnd missing =
      run_lockstep({"diagnose", recording, (folder / "none.jsonl").string()});
  EXPECT_EQ(missing.code, 3);
  const ProgramEnd twice = run_lockstep({"diagnose", recording, recording});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("given twice"), std::string::npos) << twice.err;
}

TEST(Diagnose, ReadsLogsThatPowerShellWrote) {
  const TemporaryFolder folder;
  std::string wide = "\xFF\xFE";
  for (const char c : std::string("index, utilization.gpu [%], power.draw [W]\r\n0, 97 %, 300.00 "
                                  "W\r\n1, 96 %, 301.00 W\r\n")) {
    wide += c;
    wide += '\0';
  }

  const ProgramEnd end =
      run_lockstep({"diagnose", folder.write("smi.csv", wide).string(), "--json", "--quiet"});

  EXPECT_EQ(report_of(end)["source"]["kind"], "nvidia-smi") << end.err;
  EXPECT_EQ(report_of(end)["gpus"].size(), 2U);
}

TEST(Explain, HasAPageForEveryFinding) {
  for (const FindingName& name : kFindingNames) {
    const ProgramEnd end = run_lockstep({"explain", std::string(name.id)});
    ASSERT_EQ(end.code, 0) << name.id << " " << end.err;
    EXPECT_TRUE(end.out.starts_with("# " + std::string(name.id) + " " + std::string(name.name)))
        << name.id;
    for (const char* part :
         {"## Cause", "## How lockstep knows", "## Confused with", "## Fix", "## Example"})
      EXPECT_NE(end.out.find(part), std::string::npos) << name.id << " has no " << part;
  }
}

TEST(Explain, FindsTheFindingOfAnErrorMessage) {
  const ProgramEnd end =
      run_lockstep({"explain", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB"});

  EXPECT_EQ(end.code, 0);
  EXPECT_NE(end.out.find("B506 out-of-memory"), std::string::npos);
}

TEST(Explain, NamesTheNearestForAnUnknownCode) {
  const ProgramEnd end = run_lockstep({"explain", "taking-turn"});

  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("taking-turns"), std::string::npos) << end.err;
  EXPECT_EQ(run_lockstep({"explain", "Q999"}).code, 2);
  EXPECT_NE(run_lockstep({"explain"}).out.find("L808  nccl-timeout"), std::string::npos);
}

TEST(Diagnose, AnswersWhatOneTableOfNvidiaSmiCan) {
  const TemporaryFolder folder;
  const auto table = folder.write(
      "smi.txt",
      "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |\n"
      "|   0  NVIDIA A100-SXM...  Off  | 00000000:07:00.0 Off |                    0 |\n"
      "| N/A   60C    P0   350W / 400W |  61234MiB / 81920MiB |    100%      Default |\n"
      "|   1  NVIDIA A100-SXM...  Off  | 00000000:0B:00.0 Off |                    0 |\n"
      "| N/A   33C    P0    70W / 400W |  58234MiB / 81920MiB |      0%      Default |\n");

  const ProgramEnd end = run_lockstep({"diagnose", table.string()});

  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("GPU 0   100 % busy  350 of 400 W  59.8 GiB"), std::string::npos)
      << end.out;
  EXPECT_NE(end.out.find("no       GPUs busy together"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("yes      similar memory"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("unknown  no turns"), std::string::npos) << end.out;
}

TEST(Diagnose, ReadsTheLogThatBeginsBehindOneTable) {
  const TemporaryFolder folder;
  std::string text =
      "Fri Jan  7 10:21:49 2022\n+----+\n"
      "| NVIDIA-SMI 495.44       Driver Version: 495.44       CUDA Version: 11.5     |\n"
      "|   0  Tesla V100-SXM2-32GB  Off  | 00000000:07:00.0 Off |                    0 |\n"
      "| N/A   40C    P0    40W / 300W |      0MiB / 32510MiB |      0%      Default |\n+----+\n"
      "timestamp, index, memory.used [MiB], utilization.gpu [%]\n";
  for (int second = 10; second < 40; ++second)
    text += "2022/01/07 10:22:" + std::to_string(second) + ".000, 0, 22634 MiB, 98 %\n";
  const auto log = folder.write("smi.txt", text);

  const ProgramEnd end = run_lockstep({"diagnose", log.string()});

  EXPECT_NE(end.out.find("98 % busy"), std::string::npos) << end.out;
  EXPECT_NE(end.err.find("a table of nvidia-smi stands before these rows"), std::string::npos)
      << end.err;
}

// What torch 2.11 wrote when NCCL 2.31.2 timed out on an H200 (tests/probes/two_ranks_of_nccl.py).
TEST(DiagnoseCommand, NamesTheRankThatStayedAwayByTheFlightRecordersDumps) {
  const auto folder = std::filesystem::path(source_tree()) / "tests/recordings/h200";

  const auto end = run_lockstep({"diagnose", (folder / "flight-hang-rank0").string(),
                                 (folder / "flight-hang-rank1").string()});

  EXPECT_EQ(end.code, 1) << end.err;
  for (const char* const words :
       {"C406 stuck-collective", "number 241", "rank 1 has not called it"})
    EXPECT_NE(end.out.find(words), std::string::npos) << words << " is not in\n" << end.out;
}

}  // namespace
}  // namespace lockstep
