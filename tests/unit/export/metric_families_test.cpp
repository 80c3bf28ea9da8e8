// What the exporter tells, from what a monitor knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <map>
#include <set>

#include "export/metric_families.hpp"
#include "export/metrics_server.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Monitored two_gpus() {
  Monitored seen;
  seen.open = true;
  seen.machine.host = "node1";
  for (int index = 0; index < 2; ++index) {
    GpuNow gpu;
    gpu.info.index = index;
    gpu.info.uuid = "GPU-" + std::to_string(index);
    gpu.info.name = "NVIDIA H200";
    gpu.info.power_limit_mw = 700'000;
    gpu.latest.busy = 0.75;
    gpu.latest.power_mw = 512'500;
    gpu.latest.sm_clock_mhz = 1980;
    gpu.latest.pcie_rx_bytes = std::uint64_t{12'345'678'901};
    seen.gpus.push_back(gpu);
  }
  return seen;
}

std::shared_ptr<const Report> taking_turns() {
  Report report;
  report.jobs.push_back(
      {{0, 1}, {4242}, {}, Verdict{Pattern::taking_turns, 0.98, "GPU 0 and 1 take turns."}});
  report.throughput = Throughput{0.51, 1};
  Finding finding;
  finding.code = FindingCode::taking_turns;
  finding.severity = Severity::critical;
  finding.confidence = 0.98;
  finding.lost_throughput = 0.49;
  finding.gpus = {0, 1};
  report.findings.push_back(finding);
  return std::make_shared<const Report>(report);
}

TEST(MetricFamilies, AreInBaseUnits) {
  const std::string text = metrics_text(two_gpus(), {"1.0", 1, 0.1});

  EXPECT_THAT(text, HasSubstr("lockstep_gpu_busy_ratio{gpu=\"0\",uuid=\"GPU-0\"} 0.75\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_gpu_power_watts{gpu=\"1\",uuid=\"GPU-1\"} 512.5\n"));
  EXPECT_THAT(text,
              HasSubstr("lockstep_gpu_sm_clock_hertz{gpu=\"0\",uuid=\"GPU-0\"} 1980000000\n"));
  EXPECT_THAT(
      text,
      HasSubstr("lockstep_gpu_pcie_receive_bytes_total{gpu=\"0\",uuid=\"GPU-0\"} 12345678901\n"));
}

TEST(MetricFamilies, HaveNoSeriesForWhatIsNotKnown) {
  Monitored seen = two_gpus();
  seen.gpus[0].latest.busy = Reading<double>::not_supported();
  seen.gpus[1].latest.busy = Reading<double>(0.5).as_stale();

  const std::string text = metrics_text(seen, {"1.0", 1, -1});

  EXPECT_THAT(text, Not(HasSubstr("lockstep_gpu_busy_ratio")))
      << "neither 0 nor an old value, and no HELP of nothing";
  EXPECT_THAT(text, Not(HasSubstr("lockstep_gpu_temperature_celsius")));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_readings_age_seconds")));
}

TEST(MetricFamilies, TellVerdictAndFindingsWithCodes) {
  Monitored seen = two_gpus();
  seen.report = taking_turns();

  const std::string text = metrics_text(seen, {"1.0", 1, 0.1});

  EXPECT_THAT(
      text,
      HasSubstr("lockstep_job_pattern{gpus=\"0,1\",ranks=\"\",pattern=\"taking-turns\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("lockstep_job_pattern{gpus=\"0,1\",ranks=\"\",pattern=\"in-step\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_finding_active{code=\"P101\",name=\"taking-turns\",gpus="
                              "\"0,1\",ranks=\"\",severity=\"critical\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_finding_lost_throughput_ratio{code=\"P101\",name=\"taking-"
                              "turns\",gpus=\"0,1\",ranks=\"\",severity=\"critical\"} 0.49\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_throughput_ratio 0.51\n"));
}

TEST(MetricFamilies, LabelProcessesByRankAndMeeting) {
  Monitored seen = two_gpus();
  ProcessSample process;
  process.pid = 7;
  process.gpus = {{1, std::uint64_t{1000}}};
  process.rank = 9;
  process.world_size = 16;
  process.environment = std::map<std::string, std::string>{
      {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}, {"SLURM_JOB_ID", "88"}};
  seen.processes = {process};

  const std::string text = metrics_text(seen, {"1.0", 1, 0.1});

  EXPECT_THAT(text, HasSubstr("rank=\"9\",local_rank=\"\",world_size=\"16\",launcher=\"\",user="
                              "\"\",rendezvous=\"node1:29500\",slurm_job_id=\"88\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_process_gpu_memory_bytes{gpu=\"1\",uuid=\"GPU-1\",pid="
                              "\"7\",rank=\"9\"} 1000\n"));
}

TEST(MetricFamilies, CountXidsInsteadOfKeepingTheLast) {
  Monitored seen = two_gpus();
  seen.gpus[1].xids = {{"31", 2}, {"79", 1}};

  const std::string text = metrics_text(seen, {"1.0", 1, 0.1});

  EXPECT_THAT(text,
              HasSubstr("lockstep_gpu_xid_errors_total{gpu=\"1\",uuid=\"GPU-1\",xid=\"31\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("lockstep_gpu_xid_errors_total{gpu=\"1\",uuid=\"GPU-1\",xid=\"79\"} 1\n"));
}

TEST(MetricFamilies, HaveHelpAndOneSetOfLabelsEach) {
  Monitored seen = two_gpus();
  seen.report = taking_turns();

  for (const prometheus::MetricFamily& family : metric_families(seen, {"1.0", 1, 0.1})) {
    EXPECT_TRUE(family.name.starts_with("lockstep_")) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total"))
        << family.name;
    std::set<std::vector<std::string>> sets;
    std::set<std::vector<std::string>> values;
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::vector<std::string> names;
      std::vector<std::string> pairs;
      for (const auto& label : metric.label) {
        names.push_back(label.name);
        pairs.push_back(label.name + "=" + label.value);
      }
      sets.insert(names);
      EXPECT_TRUE(values.insert(pairs).second) << family.name << " has one series twice";
    }
    EXPECT_EQ(sets.size(), 1U) << family.name;
  }
}

TEST(MetricFamilies, NeverHoldOneSeriesTwice) {
  Monitored seen = two_gpus();
  Report report = *taking_turns();
  report.findings.push_back(report.findings.front());
  seen.report = std::make_shared<const Report>(report);

  const std::string text = metrics_text(seen, {"1.0", 1, 0.1});

  const std::string series = "lockstep_finding_active{";
  EXPECT_EQ(text.find(series), text.rfind(series)) << "Prometheus refuses the whole scrape";
}

TEST(MetricFamilies, SayThatTheDriverDoesNotAnswer) {
  Monitored seen = two_gpus();
  seen.silence = Source::Silence{std::chrono::seconds(9), "nvmlDeviceGetMemoryInfo"};

  EXPECT_THAT(metrics_text(seen, {"1.0", 1, 9}), HasSubstr("\nlockstep_driver_up 0\n"));
  EXPECT_THAT(metrics_text(seen, {"1.0", 1, 9}), Not(HasSubstr("lockstep_gpu_busy_ratio")))
      << "what it said last is no reading of now";
  EXPECT_THAT(metrics_text(two_gpus(), {"1.0", 1, 600}), Not(HasSubstr("lockstep_gpu_busy_ratio")));
  EXPECT_THAT(metrics_text(Monitored{}, {"1.0", 1, -1}), HasSubstr("\nlockstep_driver_up 0\n"));
}

TEST(MetricFamilies, OfReadingsThatComeSeldomAreFreshForLonger) {
  Monitored seen = two_gpus();
  EXPECT_FALSE(is_fresh(seen, 60));
  seen.interval = std::chrono::seconds(30);
  EXPECT_TRUE(is_fresh(seen, 60));
  EXPECT_FALSE(is_fresh(seen, 100));
}

TEST(ListenAddress, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_listen_address("127.0.0.1:9417")->port, 9417);
  EXPECT_EQ(parse_listen_address("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_listen_address("node3:0")->host, "node3");
  EXPECT_EQ(parse_listen_address(":9417")->host, "0.0.0.0");
  for (const char* const wrong : {"", "9417", "host", "::1:80", "h:65536", "h:-1", "h:x"})
    EXPECT_FALSE(parse_listen_address(wrong)) << wrong;
}

TEST(MetricsServer, TakesAPortThatNobodyElseGets) {
  auto first = MetricsServer::start(
      {"127.0.0.1", 0}, {[] { return std::string("x 1\n"); }, [] { return std::string(); }});
  ASSERT_TRUE(first);
  ASSERT_GT(first->port(), 0);

  const auto second = MetricsServer::start(
      {"127.0.0.1", first->port()}, {[] { return std::string(); }, [] { return std::string(); }});

  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().what, HasSubstr("in use"));
}

}  // namespace
}  // namespace lockstep
