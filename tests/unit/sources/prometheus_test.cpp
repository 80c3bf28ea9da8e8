// Series of other people's exporters, and which GPU of which machine and job they are of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/prometheus/fleet_log.hpp"
#include "sources/prometheus/known_metrics.hpp"
#include "sources/prometheus/series.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const KnownMetric& metric(std::string_view name) {
  for (const KnownMetric& row : known_metrics())
    if (name == row.name) return row;
  ADD_FAILURE() << "no metric " << name;
  return known_metrics().front();
}

MetricSeries series(SeriesLabels labels, std::vector<double> values, double from_ms = 1'000'000,
                    double step_ms = 15'000) {
  MetricSeries result{std::move(labels), {}, std::move(values)};
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.t_ms.push_back(from_ms + step_ms * static_cast<double>(i));
  return result;
}

SeriesLabels dcgm(const std::string& host, int gpu) {
  return {{"Hostname", host},
          {"gpu", std::to_string(gpu)},
          {"UUID", "GPU-" + host + std::to_string(gpu)},
          {"modelName", "NVIDIA H100"},
          {"instance", host + ":9400"}};
}

TEST(Series, AreReadFromAnAnswer) {
  const auto answer = parse_series(
      R"({"status":"success","data":{"resultType":"matrix","result":[{"metric":{"gpu":"0","x":"a\"b"},"values":[[1.5,"7"],[2.5,"NaN"],[3.5,"8e1"]]}]},"warnings":["slow"]})");

  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->series.size(), 1U);
  EXPECT_EQ(answer->series[0].labels.at("x"), "a\"b");
  EXPECT_THAT(answer->series[0].t_ms, ElementsAre(1500, 3500))
      << "NaN ends a series and is no value";
  EXPECT_THAT(answer->series[0].values, ElementsAre(7, 80));
  EXPECT_THAT(answer->warnings, ElementsAre("slow"));
}

TEST(Series, HaveTimesThatACalendarHas) {
  const auto answer = parse_series(
      R"({"status":"success","data":{"result":[{"metric":{},"values":[[-1,"1"],[0,"2"],[1435781430.781,"3"],[1.76e11,"4"],[1e308,"5"]]}]}})");

  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->series.at(0).t_ms, ElementsAre(0, 1435781430781))
      << "before 1970 and after 2262 there are no nanoseconds to count";
}

TEST(Series, OfAnErrorTellWhatPrometheusSays) {
  const auto answer =
      parse_series(R"({"status":"error","errorType":"bad_data","error":"unclosed brace"})");
  const auto overload = parse_series(
      R"({"status":"error","errorType":"execution","error":"query processing would load too many samples"})");

  ASSERT_FALSE(overload);
  EXPECT_THAT(overload.error().next, HasSubstr("shorter --window"));
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().what, HasSubstr("unclosed brace"));
  for (const char* const other :
       {"", "<html>", "[]", "{}", R"({"status":"success","data":{"result":[{"values":[[1]]}]}})",
        R"({"data":)"})
    if (const auto odd = parse_series(other)) {
      EXPECT_TRUE(odd->series.empty() || odd->series[0].values.empty()) << other;
    }
}

TEST(Labels, NameTheMachine) {
  EXPECT_EQ(host_of({{"Hostname", "node1"}, {"instance", "10.0.0.1:9400"}}), "node1");
  EXPECT_EQ(host_of({{"hostname", "me"}, {"exported_hostname", "node2"}}), "node2")
      << "what Prometheus renamed is the exporter's own word";
  EXPECT_EQ(host_of({{"instance", "node3:9417"}}), "node3");
  EXPECT_EQ(host_of({{"instance", "[::1]:9417"}}), "[::1]");
  EXPECT_EQ(host_of({}), "");
}

TEST(Labels, NameTheJob) {
  EXPECT_EQ(job_of({{"hpc_job", "815"}, {"pod", "x"}}, "", Exporter::dcgm), "815");
  EXPECT_EQ(job_of({{"pod", "llama-worker-3"}, {"namespace", "ml"}}, "", Exporter::dcgm),
            "ml/llama");
  EXPECT_EQ(job_of({{"pod", "dcgm-exporter-x7z9k"},
                    {"namespace", "gpu-operator"},
                    {"exported_pod", "llama-master-0"},
                    {"exported_namespace", "ml"}},
                   "", Exporter::dcgm),
            "ml/llama");
  EXPECT_EQ(job_of({{"pod", "nvidia-dcgm-exporter-x7z9k"}, {"namespace", "gpu-operator"}}, "",
                   Exporter::dcgm),
            "")
      << "the exporter is nobody's job";
  EXPECT_EQ(job_of({{"pod", "a"}, {"team", "vision"}}, "team", Exporter::dcgm), "vision");
  EXPECT_EQ(job_of({{"training_kubeflow_org_job_name", "llama"}, {"pod", "llama-0-x7z9k"}}, "",
                   Exporter::dcgm),
            "llama");
  EXPECT_EQ(
      job_of({{"pod", "my-exporter-x7z9k"}, {"namespace", "monitoring"}}, "", Exporter::nvitop), "")
      << "the pod of the scrape";
  EXPECT_EQ(job_of({{"job", "dcgm"}}, "", Exporter::dcgm), "")
      << "Prometheus's own label for the scrape";
}

TEST(Labels, PodsOfOneJobShareIt) {
  for (const char* const pod : {"llama-worker-0", "llama-worker-12", "llama-master-0",
                                "llama-worker-3-x7z9k", "llama-node-0-1-abcde"})
    EXPECT_EQ(job_of_pod(pod), "llama") << pod;
  for (const char* const alone : {"notebook", "vllm-0", "sweep-3-x7z9k", "eval-28391823-abcde"})
    EXPECT_EQ(job_of_pod(alone), alone)
        << "replicas of a server and trials of a sweep have numbers too";
  EXPECT_EQ(job_of_pod("llama-70b"), "llama-70b") << "a size is no number of a pod";
  EXPECT_EQ(job_of_pod(std::string(100'000, 'a')), std::string(100'000, 'a'))
      << "no name that Kubernetes would allow";
}

TEST(FleetLog, NumbersGpusByMachineAndPlace) {
  FleetLog fleet("");
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"),
            {series(dcgm("node10", 0), {50}), series(dcgm("node2", 1), {60}),
             series(dcgm("node2", 0), {70})});

  const Machine machine = fleet.machine();

  ASSERT_EQ(machine.gpus.size(), 3U);
  EXPECT_EQ(*machine.gpus[0].host, "node2");
  EXPECT_EQ(*machine.gpus[1].host_index, 1);
  EXPECT_EQ(*machine.gpus[2].host, "node10") << "ten comes after two";
}

TEST(FleetLog, PutsReadingsOfOneScrapeTogether) {
  FleetLog fleet("");
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"), {series(dcgm("a", 0), {50, 100})});
  fleet.add(metric("DCGM_FI_DEV_POWER_USAGE"), {series(dcgm("a", 0), {300, 301.5})});
  fleet.add(metric("DCGM_FI_DEV_FB_USED"), {series(dcgm("a", 0), {1024, 1024})});
  fleet.add(metric("DCGM_FI_DEV_FB_FREE"), {series(dcgm("a", 0), {1024, 1024})});
  const Machine machine = fleet.machine();

  const auto records = fleet.take_records();

  ASSERT_EQ(records.size(), 2U);
  const auto& tick = std::get<GpuTick>(records[1].content);
  EXPECT_DOUBLE_EQ(records[1].t_ms, 15'000);
  EXPECT_DOUBLE_EQ(*tick[0].busy.value(), 1.0);
  EXPECT_DOUBLE_EQ(*tick[0].power_mw.value(), 301'500);
  EXPECT_EQ(*tick[0].memory_used_bytes.value(), 1024ULL << 20U);
  EXPECT_EQ(*machine.gpus[0].memory_total_bytes, 2048ULL << 20U);
  EXPECT_TRUE(fleet.take_records().empty()) << "once";
}

TEST(FleetLog, BelievesOneExporterOfTwoForOneGpu) {
  FleetLog fleet("");
  SeriesLabels own = {{"instance", "10.0.0.7:9417"}, {"gpu", "0"}, {"uuid", "GPU-a0"}};
  fleet.add(metric("lockstep_gpu_busy_ratio"), {series(own, {0.5, 0.6})});
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"), {series(dcgm("a", 0), {90, 90}, 1'007'000)});

  const Machine machine = fleet.machine();

  EXPECT_EQ(machine.gpus.size(), 1U) << "a uuid is one GPU, by whatever name its machine goes";
  EXPECT_EQ(fleet.take_records().size(), 2U) << "two clocks in one lane would look like turns";
}

TEST(FleetLog, KeepsMachinesApartThatNumberTheirGpusAlike) {
  FleetLog fleet("");
  fleet.add(metric("lockstep_gpu_busy_ratio"),
            {series({{"instance", "a:1"}, {"gpu", "0"}, {"uuid", "GPU-0"}}, {0.5}),
             series({{"instance", "b:1"}, {"gpu", "0"}, {"uuid", "GPU-0"}}, {0.5})});

  EXPECT_EQ(fleet.machine().gpus.size(), 2U) << "virtual GPUs of two machines have the same uuids";
}

TEST(FleetLog, ForgetsAJobThatTheLabelsNameNoMore) {
  FleetLog fleet("");
  SeriesLabels ended = dcgm("a", 0);
  ended["hpc_job"] = "1";
  SeriesLabels goes_on = dcgm("a", 1);
  goes_on["hpc_job"] = "2";
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"),
            {series(ended, {90, 90}), series(dcgm("a", 0), std::vector<double>(40, 0), 1'030'000),
             series(goes_on, std::vector<double>(42, 90))});

  const Machine machine = fleet.machine();

  EXPECT_FALSE(machine.gpus[0].job.has_value());
  EXPECT_EQ(*machine.gpus[1].job, "2");
}

TEST(FleetLog, TellsAnXidOnceThoughItIsReadAgain) {
  FleetLog fleet("");
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"), {series(dcgm("a", 0), {90, 90, 90})});
  fleet.add(metric("DCGM_FI_DEV_XID_ERRORS"), {series(dcgm("a", 0), {31, 31, 79})});
  fleet.machine();
  const auto events_of = [](const std::vector<Record>& records) {
    std::vector<std::string> details;
    for (const Record& record : records)
      if (const auto* event = std::get_if<Event>(&record.content))
        details.push_back(std::string(event->kind.text()) + " " + event->detail);
    return details;
  };

  EXPECT_THAT(events_of(fleet.take_records()), ElementsAre("xid 79")) << "31 stood there before";
  fleet.add(metric("DCGM_FI_DEV_XID_ERRORS"), {series(dcgm("a", 0), {31, 31, 79})});
  EXPECT_THAT(events_of(fleet.take_records()), ElementsAre());
}

TEST(FleetLog, CountsAnXidWhoseCounterIsBornMeanwhile) {
  FleetLog fleet("");
  const SeriesLabels gpu = {{"instance", "a:1"}, {"gpu", "0"}, {"uuid", "GPU-a0"}};
  SeriesLabels fresh = gpu;
  fresh["xid"] = "79";
  SeriesLabels old = gpu;
  old["xid"] = "31";
  fleet.add(metric("lockstep_gpu_busy_ratio"), {series(gpu, std::vector<double>(20, 0.5))});
  fleet.add(metric("lockstep_gpu_xid_errors_total"),
            {series(fresh, {1, 1}, 1'150'000), series(old, std::vector<double>(20, 1))});
  fleet.machine();

  std::vector<std::string> xids;
  for (const Record& record : fleet.take_records())
    if (const auto* event = std::get_if<Event>(&record.content)) xids.push_back(event->detail);

  EXPECT_THAT(xids, ElementsAre("79")) << "31 was there when the window began";
}

TEST(FleetLog, CountsAnXidAfterTheExporterWasStartedAgain) {
  FleetLog fleet("");
  const SeriesLabels gpu = {{"instance", "a:1"}, {"gpu", "0"}, {"uuid", "GPU-a0"}};
  SeriesLabels xid = gpu;
  xid["xid"] = "79";
  fleet.add(metric("lockstep_gpu_busy_ratio"), {series(gpu, std::vector<double>(20, 0.5))});
  MetricSeries counter = series(xid, {1, 1, 1, 1});
  counter.t_ms[2] = 1'150'000;  // started again in between, it counts nothing until the next one
  counter.t_ms[3] = 1'165'000;
  fleet.add(metric("lockstep_gpu_xid_errors_total"), {counter});
  fleet.machine();

  std::vector<double> told;
  for (const Record& record : fleet.take_records())
    if (std::holds_alternative<Event>(record.content)) told.push_back(record.t_ms);

  EXPECT_THAT(told, ElementsAre(150'000));
}

TEST(FleetLog, DoesNotTakeAScrapeThatFailedForARestart) {
  FleetLog fleet("");
  const SeriesLabels gpu = {{"instance", "a:1"}, {"gpu", "0"}, {"uuid", "GPU-a0"}};
  SeriesLabels xid = gpu;
  xid["xid"] = "79";
  MetricSeries busy = series(gpu, {0.5, 0.5, 0.5});
  MetricSeries counter = series(xid, {1, 1, 1});
  busy.t_ms[2] = counter.t_ms[2] = 1'150'000;  // nothing at all was read meanwhile
  fleet.add(metric("lockstep_gpu_busy_ratio"), {busy});
  fleet.add(metric("lockstep_gpu_xid_errors_total"), {counter});
  fleet.machine();

  for (const Record& record : fleet.take_records())
    EXPECT_FALSE(std::holds_alternative<Event>(record.content));
}

TEST(FleetLog, JudgesAJobByItsOwnTimeAlone) {
  FleetLog fleet("");
  SeriesLabels later = dcgm("a", 0);
  later["hpc_job"] = "2";
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"),
            {series(dcgm("a", 0), std::vector<double>(20, 90)),
             series(later, std::vector<double>(20, 10), 1'300'000)});
  fleet.machine();

  EXPECT_EQ(fleet.take_records().size(), 20U)
      << "what the GPU did for others before is no part of it";
}

TEST(FleetLog, LeavesOutWhatCannotBe) {
  FleetLog fleet("");
  SeriesLabels slice = dcgm("a", 1);
  slice["GPU_I_ID"] = "3";
  fleet.add(metric("DCGM_FI_DEV_GPU_UTIL"),
            {series(dcgm("a", 0), {400, 50}), series(slice, {50}), series({{"gpu", "0"}}, {1})});
  fleet.add(metric("lockstep_gpu_busy_ratio"),
            {series({{"instance", "b:1"}, {"gpu", "4"}, {"uuid", "MIG-1234"}}, {0.5})});
  EXPECT_EQ(fleet.machine().gpus.size(), 1U) << "slices are no GPUs";

  EXPECT_EQ(fleet.take_records().size(), 1U);
  EXPECT_THAT(fleet.notes(),
              ElementsAre(HasSubstr("MIG"), HasSubstr("no machine"), HasSubstr("impossible")));
}

TEST(FleetLog, HandsOnWhatAMachineFoundByItself) {
  FleetLog fleet("");
  const SeriesLabels gpu = {{"instance", "b:1"}, {"gpu", "3"}, {"uuid", "GPU-b3"}};
  fleet.add(
      metric("lockstep_gpu_busy_ratio"),
      {series({{"instance", "a:1"}, {"gpu", "0"}, {"uuid", "GPU-a0"}}, {0.5}), series(gpu, {0.5})});
  const SeriesLabels finding = {{"instance", "b:1"}, {"code", "D201"}, {"name", "input-starved"},
                                {"gpus", "3"},       {"ranks", ""},    {"severity", "info"}};
  fleet.add(metric("lockstep_finding_lost_throughput_ratio"), {series(finding, {0.25})});
  fleet.add(metric("lockstep_finding_confidence_ratio"), {series(finding, {0.9})});
  fleet.machine();

  const auto records = fleet.take_records();

  const auto& event = std::get<Event>(records.back().content);
  EXPECT_EQ(event.kind.text(), "finding");
  EXPECT_EQ(event.detail, "D201 0.25 0.9 1 info") << "by the number that counts over all machines";
}

}  // namespace
}  // namespace lockstep
