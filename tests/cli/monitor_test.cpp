#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::content_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::plateau;
using testing::recording_text;
using testing::run_lockstep;
using testing::TemporaryFolder;
using testing::two_gpu_machine;

TEST(MonitorOnce, ShowsVirtualGpusAndCallsThemVirtual) {
  const auto end =
      run_lockstep({"monitor", "--once", "virtual:3"}, {{"LOCKSTEP_VIRTUAL_SCOPE", "nobody"}});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, HasSubstr("3 virtual GPUs"));
  EXPECT_THAT(end.out, HasSubstr("GPU 2"));
  EXPECT_THAT(end.out, HasSubstr("no process on a GPU"));
  EXPECT_THAT(end.err, IsEmpty());
}

TEST(MonitorOnce, PrintsTheReportAsJson) {
  const auto end = run_lockstep({"monitor", "--once", "virtual:2", "--json"},
                                {{"LOCKSTEP_VIRTUAL_SCOPE", "nobody"}});

  const auto report = nlohmann::json::parse(end.out);

  EXPECT_EQ(end.code, 0);
  EXPECT_EQ(report.at("source").at("kind"), "virtual");
  EXPECT_EQ(report.at("gpus").size(), 2U);
  EXPECT_EQ(report.at("gpus")[1].at("busy"), 0.0);
  EXPECT_TRUE(report.at("verdict").is_null());
  EXPECT_FALSE(report.at("not_measured").empty());
}

TEST(MonitorOnce, SummarisesARecording) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("run", recording_text(two_gpu_machine(), plateau({0.5, 0.25}, 20)));

  const auto report =
      nlohmann::json::parse(run_lockstep({"monitor", "--once", file.string(), "--json"}).out);

  EXPECT_EQ(report.at("source").at("kind"), "recording");
  EXPECT_EQ(report.at("duration_s"), 20.0);
  EXPECT_EQ(report.at("gpus")[0].at("busy"), 0.5);
  EXPECT_EQ(report.at("gpus")[1].at("power_mw"), 225'000);
}

TEST(MonitorOnce, ReadsARecordingFromAPipe) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("run", recording_text(two_gpu_machine(), plateau({0.5, 0.25}, 20)));

  const auto end = testing::run_program(
      {"bash", "-c", testing::lockstep_program() + " monitor --once <(cat " + file.string() + ")"});

  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("GPU 1  25 %"));
}

TEST(MonitorOnce, SaysWhatACutRecordingLost) {
  const TemporaryFolder folder;
  const std::string text = recording_text(two_gpu_machine(), plateau({0.5, 0.25}, 1));
  const auto file = folder.write("run", text.substr(0, text.size() - 10));

  const auto end = run_lockstep({"monitor", "--once", file.string()});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.err, HasSubstr("the last line was cut"));
}

TEST(MonitorOnce, WritesItsReportToAFile) {
  const TemporaryFolder folder;

  const auto end = run_lockstep(
      {"monitor", "--once", "virtual:1", "--json", "-o", (folder / "report.json").string()});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, IsEmpty());
  EXPECT_FALSE(nlohmann::json::parse(content_of(folder / "report.json")).empty());
}

TEST(MonitorOnce, ShowsALostGpuOfAPlayedRecording) {
  const TemporaryFolder folder;
  std::vector<Record> records = plateau({0.5, 0.25}, 5);
  records.insert(records.begin() + 2, {150, Event{"lost", 1, ""}});
  const auto file = folder.write("run", recording_text(two_gpu_machine(), records));

  const auto end =
      run_lockstep({"monitor", "--once", "--duration", "600ms", "virtual:" + file.string()});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, HasSubstr("(LOST)"));
}

TEST(MonitorOnce, EndsThoughTheDriverHangs) {
  const TemporaryFolder folder;
  std::vector<Record> records = plateau({0.5, 0.25}, 5);
  records.insert(records.begin() + 3, {250, Event{"hang", 0, ""}});
  const auto file = folder.write("run", recording_text(two_gpu_machine(), records));

  const auto end =
      run_lockstep({"monitor", "--once", "--duration", "2500ms", "virtual:" + file.string()});

  EXPECT_EQ(end.code, 0) << "GPUs were read before it hung";
  EXPECT_THAT(end.out, HasSubstr("stopped answering"));
  EXPECT_THAT(end.out, HasSubstr("50 %?")) << "what it said last is shown as old";
}

TEST(MonitorOnce, OfOneProcessShowsItsChildrenAndTheirGpus) {
  const TemporaryFolder folder;
  std::vector<Record> records = plateau({0.5, 0.25}, 1);
  ProcessSample rank;
  rank.pid = 2'000'000'001;  // no process of this machine
  rank.parent_pid = 2'000'000'000;
  rank.gpus = {{1, 1000}};
  ProcessSample other = rank;
  other.pid = 2'000'000'002;
  other.parent_pid = 1;
  other.gpus = {{0, 1000}};
  records.push_back({900, ProcessTick{rank, other}});
  const auto file = folder.write("run", recording_text(two_gpu_machine(), records));

  const auto report = nlohmann::json::parse(
      run_lockstep({"monitor", "--once", file.string(), "--json", "--pid", "2000000000"}).out);

  ASSERT_EQ(report.at("processes").size(), 1U);
  EXPECT_EQ(report.at("processes")[0].at("pid"), 2'000'000'001);
  ASSERT_EQ(report.at("gpus").size(), 1U);
  EXPECT_EQ(report.at("gpus")[0].at("index"), 1);
}

TEST(Monitor, WithoutOncePrintsOnceAndSaysSo) {
  const auto end = run_lockstep({"monitor", "virtual:1"});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.err, HasSubstr("printing once"));
}

}  // namespace
}  // namespace lockstep
