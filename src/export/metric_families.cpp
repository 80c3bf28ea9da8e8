#include "export/metric_families.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace lockstep {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Family {
 public:
  Family(const char* name, const char* help, MetricType type = MetricType::Gauge) {
    family_.name = name;
    family_.help = help;
    family_.type = type;
  }

  void add(Labels labels, double value) {
    if (!known_.insert(labels).second) return;  // one series twice would spoil the whole scrape
    ClientMetric metric;
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }
  void add(Labels labels, const std::optional<double>& value) {
    if (value) add(std::move(labels), *value);
  }
  // A family without a series is left out: Prometheus takes HELP and TYPE from where there is one.
  void put_into(std::vector<MetricFamily>& families) && {
    if (!family_.metric.empty()) families.push_back(std::move(family_));
  }

 private:
  MetricFamily family_;
  std::set<Labels> known_;
};

std::string numbers(const std::vector<int>& list) {
  std::string text;
  for (const int number : list) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string text_of(const std::optional<int>& number) {
  return number ? std::to_string(*number) : std::string();
}

Labels labels_of(const GpuInfo& gpu) {
  return {{"gpu", std::to_string(gpu.index)}, {"uuid", gpu.uuid.value_or("")}};
}

// One number of each GPU.
struct GpuMetric {
  const char* name;
  const char* help;
  MetricType type;
  std::optional<double> (*value)(const GpuNow& gpu);
};

template <class T>
std::optional<double> number(const Reading<T>& reading, double scale = 1) {
  const auto value = reading.value();
  return value ? std::optional(static_cast<double>(*value) * scale) : std::nullopt;
}

template <class T>
std::optional<double> number(const std::optional<T>& value, double scale = 1) {
  return value ? std::optional(static_cast<double>(*value) * scale) : std::nullopt;
}

constexpr GpuMetric kGpuMetrics[] = {
    {"lockstep_gpu_busy_ratio",
     "Share of the driver's window in which a kernel ran. A GPU that waits in NCCL reads 1: see "
     "lockstep_gpu_sm_active_ratio.",
     MetricType::Gauge, [](const GpuNow& gpu) { return number(gpu.latest.busy); }},
    {"lockstep_gpu_sm_active_ratio", "Share of the SMs that worked (GPM).", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.latest.sm); }},
    {"lockstep_gpu_tensor_active_ratio", "Share of the time in which tensor cores worked (GPM).",
     MetricType::Gauge, [](const GpuNow& gpu) { return number(gpu.latest.tensor); }},
    {"lockstep_gpu_dram_active_ratio", "Share of the memory's bandwidth in use (GPM).",
     MetricType::Gauge, [](const GpuNow& gpu) { return number(gpu.latest.dram); }},
    {"lockstep_gpu_memory_used_bytes", "Memory in use.", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.latest.memory_used_bytes); }},
    {"lockstep_gpu_memory_total_bytes", "Memory that the GPU has.", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.info.memory_total_bytes); }},
    {"lockstep_gpu_power_watts", "Power drawn.", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.latest.power_mw, 1e-3); }},
    {"lockstep_gpu_power_limit_watts", "Power that it may draw.", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.info.power_limit_mw, 1e-3); }},
    {"lockstep_gpu_temperature_celsius", "Temperature.", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.latest.temperature_c); }},
    {"lockstep_gpu_sm_clock_hertz", "Clock of the SMs.", MetricType::Gauge,
     [](const GpuNow& gpu) { return number(gpu.latest.sm_clock_mhz, 1e6); }},
    {"lockstep_gpu_pcie_receive_bytes_total", "Bytes that came over PCIe.", MetricType::Counter,
     [](const GpuNow& gpu) { return number(gpu.latest.pcie_rx_bytes); }},
    {"lockstep_gpu_pcie_transmit_bytes_total", "Bytes that went over PCIe.", MetricType::Counter,
     [](const GpuNow& gpu) { return number(gpu.latest.pcie_tx_bytes); }},
    {"lockstep_gpu_nvlink_receive_bytes_total", "Bytes that came over NVLink.", MetricType::Counter,
     [](const GpuNow& gpu) { return number(gpu.latest.nvlink_rx_bytes); }},
    {"lockstep_gpu_nvlink_transmit_bytes_total", "Bytes that went over NVLink.",
     MetricType::Counter, [](const GpuNow& gpu) { return number(gpu.latest.nvlink_tx_bytes); }},
    {"lockstep_gpu_lost", "1 when the driver lost the GPU.", MetricType::Gauge,
     [](const GpuNow& gpu) { return std::optional(gpu.lost ? 1.0 : 0.0); }},
};

void add_gpus(const Monitored& seen, std::vector<MetricFamily>& families) {
  Family info("lockstep_gpu_info", "What the GPU is.");
  for (const GpuNow& gpu : seen.gpus) {
    Labels labels = labels_of(gpu.info);
    labels.push_back({"name", gpu.info.name.value_or("")});
    labels.push_back({"virtual", is_virtual(gpu.info) ? "true" : "false"});
    labels.push_back({"mig_parent", gpu.info.mig ? std::to_string(gpu.info.mig->parent) : ""});
    info.add(std::move(labels), 1.0);
  }
  std::move(info).put_into(families);
  for (const GpuMetric& row : kGpuMetrics) {
    Family family(row.name, row.help, row.type);
    for (const GpuNow& gpu : seen.gpus) family.add(labels_of(gpu.info), row.value(gpu));
    std::move(family).put_into(families);
  }
  Family limited("lockstep_gpu_clock_limited", "1 while the reason holds the clock down.");
  Family state("lockstep_gpu_state",
               "1 for the state that the GPU is in, as the live screen names it.");
  for (const GpuNow& gpu : seen.gpus) {
    if (const auto limits = gpu.latest.limits.value())
      for (std::size_t i = 0; i < kClockLimitNames.size(); ++i) {
        Labels labels = labels_of(gpu.info);
        labels.push_back({"reason", std::string(kClockLimitNames[i])});
        limited.add(std::move(labels), limits->has(static_cast<ClockLimit>(i)) ? 1.0 : 0.0);
      }
    if (gpu.state == GpuState::unknown) continue;
    Labels labels = labels_of(gpu.info);
    labels.push_back({"state", std::string(name_of(gpu.state).word)});
    state.add(std::move(labels), 1.0);
  }
  std::move(limited).put_into(families);
  std::move(state).put_into(families);
}

void add_xids(const Monitored& seen, std::vector<MetricFamily>& families) {
  // A count and not a last value: the same Xid twice is seen, and an old one does not stick.
  Family xids("lockstep_gpu_xid_errors_total", "Xid errors since the exporter started.",
              MetricType::Counter);
  for (const GpuNow& gpu : seen.gpus)
    for (const auto& [xid, count] : gpu.xids) {
      Labels labels = labels_of(gpu.info);
      labels.push_back({"xid", xid});
      xids.add(std::move(labels), static_cast<double>(count));
    }
  std::move(xids).put_into(families);
}

// What joins the processes of one job over machines: the address that its ranks meet at, or the
// batch system's number.
std::string meeting_of(const ProcessSample& process) {
  if (!process.environment) return {};
  const auto value = [&](const char* name) {
    const auto entry = process.environment->find(name);
    return entry == process.environment->end() ? std::string() : entry->second;
  };
  const std::string address = value("MASTER_ADDR");
  return address.empty() ? std::string() : address + ":" + value("MASTER_PORT");
}

std::string slurm_job_of(const ProcessSample& process) {
  if (!process.environment) return {};
  const auto entry = process.environment->find("SLURM_JOB_ID");
  return entry == process.environment->end() ? std::string() : entry->second;
}

void add_processes(const Monitored& seen, std::vector<MetricFamily>& families) {
  Family info("lockstep_process_info",
              "A process on a GPU: its rank, and what joins it with those of other machines.");
  Family memory("lockstep_process_gpu_memory_bytes", "GPU memory that the process holds.");
  Family cpu("lockstep_process_cpu_ratio", "Processor cores that the process uses.");
  for (const ProcessSample& process : seen.processes)
    for (const ProcessOnGpu& use : process.gpus) {
      const auto gpu = std::ranges::find_if(
          seen.gpus, [&](const GpuNow& now) { return now.info.index == use.index; });
      if (gpu == seen.gpus.end()) continue;
      Labels labels = labels_of(gpu->info);
      labels.push_back({"pid", std::to_string(process.pid)});
      labels.push_back({"rank", text_of(process.rank)});
      memory.add(labels, number(use.memory_bytes));
      cpu.add(labels, process.cpu);
      labels.push_back({"local_rank", text_of(process.local_rank)});
      labels.push_back({"world_size", text_of(process.world_size)});
      labels.push_back({"launcher", process.launcher.value_or("")});
      labels.push_back({"user", process.user.value_or("")});
      labels.push_back({"rendezvous", meeting_of(process)});
      labels.push_back({"slurm_job_id", slurm_job_of(process)});
      info.add(std::move(labels), 1.0);
    }
  std::move(info).put_into(families);
  std::move(memory).put_into(families);
  std::move(cpu).put_into(families);
}

const char* word_of(Severity severity) {
  return severity == Severity::critical  ? "critical"
         : severity == Severity::warning ? "warning"
                                         : "info";
}

void add_judgement(const Report& report, std::vector<MetricFamily>& families) {
  Family pattern("lockstep_job_pattern",
                 "1 for the pattern that the GPUs of a job work in, 0 for the others.");
  Family confidence("lockstep_job_pattern_confidence_ratio", "How sure the pattern is.");
  for (const Job& job : report.jobs) {
    if (!job.verdict) continue;
    const Labels labels = {{"gpus", numbers(job.gpus)}, {"ranks", numbers(job.ranks)}};
    for (std::size_t i = 0; i < kPatternNames.size(); ++i) {
      Labels one = labels;
      one.push_back({"pattern", std::string(kPatternNames[i])});
      pattern.add(std::move(one), static_cast<std::size_t>(job.verdict->pattern) == i ? 1.0 : 0.0);
    }
    confidence.add(labels, job.verdict->confidence);
  }
  std::move(pattern).put_into(families);
  std::move(confidence).put_into(families);
  Family time("lockstep_job_time_ratio",
              "Share of a job's GPU time that went to a part; the parts sum to 1.");
  for (const Job& job : report.jobs)
    for (std::size_t i = 0; i < kLedgerPartNames.size() && job.ledger.gpu_seconds > 0; ++i)
      time.add({{"gpus", numbers(job.gpus)}, {"part", std::string(kLedgerPartNames[i])}},
               job.ledger.share[i]);
  std::move(time).put_into(families);
  Family throughput(
      "lockstep_throughput_ratio",
      "What all jobs get done of what they could without the findings, weighted by their GPUs.");
  if (report.throughput)
    throughput.add({}, report.throughput->now / std::max(1e-9, report.throughput->possible));
  std::move(throughput).put_into(families);
  Family active(
      "lockstep_finding_active",
      "1 while lockstep stands behind the finding. `lockstep explain CODE` says what it means.");
  Family lost("lockstep_finding_lost_throughput_ratio",
              "Share of the possible throughput that this finding alone would give back.");
  Family hours("lockstep_finding_lost_gpu_hours_a_day",
               "GPU-hours a day that all GPUs lose by this finding.");
  Family sure("lockstep_finding_confidence_ratio", "How sure the finding is.");
  for (const Finding& finding : report.findings) {
    const FindingName& name = name_of(finding.code);
    const Labels labels = {{"code", std::string(name.id)},
                           {"name", std::string(name.name)},
                           {"gpus", numbers(finding.gpus)},
                           {"ranks", numbers(finding.ranks)},
                           {"severity", word_of(finding.severity)}};
    lost.add(labels, finding.lost_throughput);
    hours.add(labels, finding.lost_gpu_hours_a_day);
    sure.add(labels, finding.confidence);
    active.add(labels, 1.0);
  }
  std::move(active).put_into(families);
  std::move(lost).put_into(families);
  std::move(hours).put_into(families);
  std::move(sure).put_into(families);
}

void add_steps(const Report& report, std::vector<MetricFamily>& families) {
  if (!report.steps) return;
  Family duration("lockstep_rank_step_seconds",
                  "Median time of a training step of the rank, of the last half minute.");
  Family share("lockstep_rank_step_part_ratio",
               "Share of the rank's time that a part of the step takes.");
  for (const RankSteps& rank : report.steps->ranks) {
    const Labels labels = {{"rank", std::to_string(rank.rank)}};
    duration.add(labels, rank.duration_ms / 1e3);
    for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
      Labels one = labels;
      one.push_back({"part", std::string(kStepSpanNames[i])});
      share.add(std::move(one), rank.share[i]);
    }
  }
  std::move(duration).put_into(families);
  std::move(share).put_into(families);
}

void add_exporter(const Monitored& seen, const ExporterFacts& facts,
                  std::vector<MetricFamily>& families) {
  Family build("lockstep_build_info", "The exporter.");
  build.add({{"version", facts.version}}, 1.0);
  std::move(build).put_into(families);
  Family machine("lockstep_machine_info", "The machine that is watched.");
  if (seen.open)
    machine.add({{"hostname", seen.machine.host.value_or("")},
                 {"driver", seen.machine.driver.value_or("")},
                 {"source", seen.detail}},
                1.0);
  std::move(machine).put_into(families);
  Family up("lockstep_driver_up", "1 while the driver answers.");
  up.add({}, seen.open && !seen.silence && !seen.driver_gone ? 1.0 : 0.0);
  std::move(up).put_into(families);
  Family age("lockstep_readings_age_seconds",
             "How old the newest readings are. A scrape never waits for the driver.");
  if (facts.reading_age_s >= 0) age.add({}, facts.reading_age_s);
  std::move(age).put_into(families);
  Family cost("lockstep_driver_time_ratio",
              "Share of the time that watching spends in the driver.");
  cost.add({}, seen.cost);
  std::move(cost).put_into(families);
  Family scrapes("lockstep_scrapes_total", "Times that this was asked for.", MetricType::Counter);
  scrapes.add({}, static_cast<double>(facts.scrapes));
  std::move(scrapes).put_into(families);
}

}  // namespace

bool is_fresh(const Monitored& seen, double reading_age_s) {
  constexpr double kOldS = 15;
  const double spacing_s = std::chrono::duration<double>(seen.interval).count();
  return reading_age_s <= std::max(kOldS, 3 * spacing_s);
}

std::vector<MetricFamily> metric_families(const Monitored& seen, const ExporterFacts& facts) {
  std::vector<MetricFamily> families;
  add_exporter(seen, facts, families);
  if (!seen.open) return families;
  add_xids(seen, families);
  // What a driver that hangs said last is no reading of now: no series, so that nobody takes a dead
  // machine for a busy one.
  if (seen.silence || seen.driver_gone || !is_fresh(seen, facts.reading_age_s)) return families;
  add_gpus(seen, families);
  add_processes(seen, families);
  if (seen.report) {
    add_judgement(*seen.report, families);
    add_steps(*seen.report, families);
  }
  return families;
}

std::string metrics_text(const Monitored& seen, const ExporterFacts& facts) {
  return prometheus::TextSerializer().Serialize(metric_families(seen, facts));
}

}  // namespace lockstep
