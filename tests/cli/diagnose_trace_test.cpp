// Traces through the whole program: what people type, what they read, what the exit code says.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/real_data.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"
#include "support/trace_maker.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace testing;
namespace fs = std::filesystem;

fs::path traces_folder() { return real_data() / "traces"; }

std::string trace(const std::string& name) {
  return (traces_folder() / (name + ".json.gz")).string();
}

std::vector<std::string> codes(const json& findings) {
  std::vector<std::string> result;
  for (const json& finding : findings) result.push_back(finding["code"]);
  return result;
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

TraceMaker starved(double loading) {
  TraceMaker maker;
  double host = 0;
  for (int step = 1; step < 6; ++step) {
    maker.annotation("ProfilerStep#" + std::to_string(step), host, loading + 1010)
        .annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", host, loading);
    host += loading;
    maker.op("aten::mm", host, 9)
        .kernel("gemm", host + 1, host + 9, 1000)
        .call("cudaStreamSynchronize", host + 10, 1000);
    host += 1010;
  }
  return maker;
}

TEST(DiagnoseTrace, FindsAStarvedTraceAndItsFixedTwin) {
  TemporaryFolder folder;
  const std::string before = folder.write("before.json", starved(600).text()).string();
  const std::string after = folder.write("after.json.gz", gzipped(starved(3).text())).string();

  const ProgramEnd end = run_lockstep({"diagnose", before, "--against", after});

  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_NE(end.out.find("D201 input-starved: in before.json, fixed in after.json.gz"),
            std::string::npos)
      << end.out;
  EXPECT_NE(end.out.find("after.json.gz is 1.5"), std::string::npos) << end.out;
  const json report =
      json::parse(run_lockstep({"diagnose", before, "--against", after, "--json"}).out);
  EXPECT_EQ(report["comparison"]["only_here"][0], "D201 input-starved");
  EXPECT_EQ(report["source"]["kind"], "trace");
  EXPECT_EQ(run_lockstep({"diagnose", after}).code, 0);
}

TEST(DiagnoseTrace, RefusesWhatHasNoGpuRowsWithASentence) {
  TemporaryFolder folder;
  TraceMaker maker;
  maker.op("aten::mm", 0, 10);

  const ProgramEnd end =
      run_lockstep({"diagnose", folder.write("cpu.json", maker.text()).string()});

  EXPECT_EQ(end.code, 3);
  EXPECT_NE(end.err.find("cpu.json holds 1 row of the host and none of a GPU"), std::string::npos)
      << end.err;
  EXPECT_NE(end.err.find("  next: "), std::string::npos);
}

TEST(DiagnoseTrace, SaysWhatWasWrongWithTheFileAndGoesOn) {
  TemporaryFolder folder;
  const std::string text = starved(600).text();

  const ProgramEnd cut = run_lockstep(
      {"diagnose", folder.write("cut.json", text.substr(0, text.size() * 3 / 4)).string()});
  const ProgramEnd broken = run_lockstep(
      {"diagnose",
       folder.write("broken.json", text.substr(0, 40) + "\x01\x02" + text.substr(40)).string()});

  EXPECT_TRUE(cut.code == 0 || cut.code == 1) << cut.err;
  EXPECT_NE(cut.err.find("cut.json ends in the middle"), std::string::npos) << cut.err;
  EXPECT_LE(broken.code, 3);
  EXPECT_FALSE(broken.err.empty());
}

TEST(DiagnoseTrace, RefusesMixturesAndUnknownOptions) {
  TemporaryFolder folder;
  const std::string one = folder.write("one.json", starved(6).text()).string();
  const std::string log = folder.write("log.csv", "time,gpu,util\n1,0,50\n").string();

  EXPECT_EQ(run_lockstep({"diagnose", one, log}).code, 2);
  EXPECT_EQ(run_lockstep({"diagnose", log, one}).code, 2);
  EXPECT_EQ(run_lockstep({"diagnose", one, (folder / "missing.json").string()}).code, 3);
  EXPECT_EQ(run_lockstep({"diagnose", one, "--compat", "tb"}).code, 2);
  EXPECT_EQ(run_lockstep({"diagnose", log, "--compat", "hta"}).code, 2);
  EXPECT_EQ(run_lockstep({"diagnose", one, "--against", log}).code, 2);
  EXPECT_EQ(run_lockstep({"diagnose", one, "--against", (folder / "missing.json").string()}).code,
            3);
  EXPECT_EQ(run_lockstep({"diagnose", one, one}).code, 2) << "one file a rank";
  EXPECT_EQ(run_lockstep({"diagnose", one, "-o", one}).code, 2) << "the trace stays";
  EXPECT_EQ(run_lockstep({"diagnose", one, "--trace", one}).code, 2);
  const ProgramEnd monitored = run_lockstep({"monitor", "--once", one});
  EXPECT_EQ(monitored.code, 3);
  EXPECT_NE(monitored.err.find("lockstep diagnose"), std::string::npos) << monitored.err;
}

TEST(DiagnoseTrace, WritesAllRanksAsOneTraceWithTheFindingsMarked) {
  TemporaryFolder folder;
  const std::string input = folder.write("rank0.json", starved(600).text()).string();
  const std::string output = (folder / "merged.json").string();

  ASSERT_EQ(run_lockstep({"diagnose", input, "--trace", output}).code, 1);

  const json merged = json::parse(content_of(output));
  int marks = 0;
  int kernels = 0;
  for (const json& event : merged["traceEvents"]) {
    if (event.value("cat", "") == "finding") ++marks;
    if (event.value("cat", "") == "kernel") ++kernels;
  }
  EXPECT_EQ(kernels, 5);
  EXPECT_GE(marks, 4);
  EXPECT_EQ(run_lockstep({"diagnose", output}).code, 1) << "what it wrote it reads again";
}

TEST(RealTraces, AreJudgedAsPeopleKnowThem) {
  SKIP_WITHOUT_DATA(trace("resnet50_workers0"));
  const json before =
      json::parse(run_lockstep({"diagnose", trace("resnet50_workers0"), "--json"}).out);
  const json after =
      json::parse(run_lockstep({"diagnose", trace("resnet50_workers4"), "--json"}).out);

  EXPECT_TRUE(contains(codes(before["findings"]), "D201"));
  EXPECT_TRUE(contains(codes(before["findings"]), "D202"));
  EXPECT_FALSE(contains(codes(after["findings"]), "D201"));
  // What the fix really gave: 175 ms per step became 125 ms.
  double promised = 0;
  for (const json& finding : before["findings"])
    if (finding["code"] == "D201") promised = finding["lost_throughput"];
  const double given =
      1 - after["trace"]["step_ms"].get<double>() / before["trace"]["step_ms"].get<double>();
  EXPECT_NEAR(promised, given, 0.05);
  EXPECT_EQ(before["findings"][0]["where"][0]["file"], "resnet50_profiler_api.py");
}

TEST(RealTraces, NameTheLateRankWhateverItsKernelsAreCalled) {
  SKIP_WITHOUT_DATA(trace("trace_filter_rank0"));
  const json report = json::parse(
      run_lockstep({"diagnose", trace("trace_filter_rank0"), trace("trace_filter_rank1"), "--json"})
          .out);

  ASSERT_TRUE(contains(codes(report["findings"]), "C401"));
  const auto late = std::find_if(report["findings"].begin(), report["findings"].end(),
                                 [](const json& finding) { return finding["code"] == "C401"; });
  EXPECT_EQ((*late)["ranks"], json::array({1}));
  EXPECT_EQ(report["verdict"]["pattern"], "in-step");
}

TEST(RealTraces, WithoutGpuRowsAreRefusedAndOfOtherVendorsRead) {
  SKIP_WITHOUT_DATA(trace("cpu_only_rank34"));
  EXPECT_EQ(run_lockstep({"diagnose", trace("cpu_only_rank34")}).code, 3);
  EXPECT_EQ(run_lockstep({"diagnose", trace("no_gpu_events")}).code, 3);
  const ProgramEnd amd = run_lockstep({"diagnose", trace("amd_mi250"), "--json"});
  EXPECT_TRUE(amd.code == 0 || amd.code == 1) << amd.err;
  EXPECT_EQ(json::parse(amd.out)["trace"]["ranks"][0]["rank"], 0);
}

}  // namespace
}  // namespace lockstep
