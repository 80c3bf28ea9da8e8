#include "sources/prometheus/fleet_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/median.hpp"
#include "base/text.hpp"
#include "lockstep/reported_finding.hpp"

namespace lockstep {
namespace {

constexpr int kMostGpusOfHost = 65'536;

// "node2" before "node10".
std::tuple<std::string, std::uint64_t, std::string> natural(const std::string& name) {
  const auto last = name.find_last_of("0123456789");
  if (last == std::string::npos) return {name, 0, ""};
  auto first = last;
  while (first > 0 && name[first - 1] >= '0' && name[first - 1] <= '9') --first;
  return {name.substr(0, first),
          parse_unsigned(std::string_view(name).substr(first, last - first + 1)).value_or(0), name};
}

std::optional<double> within(double value, double least, double most) {
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

Reading<double>* quantity(MetricUse use, GpuSample& sample) {
  switch (use) {
    case MetricUse::busy: return &sample.busy;
    case MetricUse::sm: return &sample.sm;
    case MetricUse::tensor: return &sample.tensor;
    case MetricUse::dram: return &sample.dram;
    case MetricUse::power: return &sample.power_mw;
    case MetricUse::clock: return &sample.sm_clock_mhz;
    case MetricUse::temperature: return &sample.temperature_c;
    default: return nullptr;
  }
}

Reading<std::uint64_t>* counter(MetricUse use, GpuSample& sample) {
  switch (use) {
    case MetricUse::memory_used: return &sample.memory_used_bytes;
    case MetricUse::pcie_rx: return &sample.pcie_rx_bytes;
    case MetricUse::pcie_tx: return &sample.pcie_tx_bytes;
    case MetricUse::nvlink_rx: return &sample.nvlink_rx_bytes;
    case MetricUse::nvlink_tx: return &sample.nvlink_tx_bytes;
    default: return nullptr;
  }
}

// What a reading of this kind can be at all: DCGM writes 9.2e18 for "not supported".
std::optional<double> possible(MetricUse use, double value) {
  switch (use) {
    case MetricUse::busy:
    case MetricUse::sm:
    case MetricUse::tensor:
    case MetricUse::dram: return within(value, 0, 1.0001);
    case MetricUse::power:
    case MetricUse::power_limit: return within(value, 0, 5e6);
    case MetricUse::clock: return within(value, 0, 20'000);
    case MetricUse::temperature: return within(value, -50, 200);
    case MetricUse::memory_used:
    case MetricUse::memory_free:
    case MetricUse::memory_reserved:
    case MetricUse::memory_total: return within(value, 0, 1e14);
    default: return within(value, 0, 9e18);
  }
}

ClockLimits limits_of_bits(std::uint64_t bits) {
  ClockLimits limits;
  for (std::size_t i = 0; i < kClockLimitNames.size(); ++i)
    if ((bits >> i & 1U) != 0) limits.add(static_cast<ClockLimit>(i));
  return limits;
}

std::string label(const MetricSeries& series, const char* name) {
  const auto entry = series.labels.find(name);
  return entry == series.labels.end() ? std::string() : entry->second;
}

std::vector<int> number_list(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string_view part : split(text, ','))
    if (const auto number = parse_integer(part)) numbers.push_back(static_cast<int>(*number));
  return numbers;
}

}  // namespace

FleetLog::Gpu* FleetLog::gpu(const SeriesLabels& labels, Exporter exporter) {
  if (is_slice(labels)) {
    ++slices_;
    return nullptr;
  }
  const std::string host = host_of(labels);
  const std::string uuid = uuid_of(labels);
  const auto number = gpu_of(labels);
  if (host.empty() || (!number && uuid.empty())) {
    ++unplaced_;
    return nullptr;
  }
  Key key{host, uuid.empty() ? std::to_string(*number) : uuid};
  // Two exporters may call one machine by name and by address; a uuid is one GPU everywhere.
  // (Virtual GPUs of several machines share theirs.)
  if (!uuid.empty() && !gpus_.contains(key))
    if (const auto known = by_uuid_.find(uuid);
        known != by_uuid_.end() && gpus_.at(known->second).told_by != exporter)
      key = known->second;
  auto place = gpus_.find(key);
  if (place == gpus_.end()) {
    if (numbered_) late_comers_ = true;  // came after the machine was described
    if (numbered_ || gpus_.size() >= kMostGpusOfHost) return nullptr;
    place = gpus_.emplace(key, Gpu{}).first;
    if (!uuid.empty()) by_uuid_.emplace(uuid, key);
    place->second.info.host = host;
    if (!uuid.empty()) place->second.info.uuid = uuid;
    if (number) place->second.info.host_index = *number;
  }
  Gpu& found = place->second;
  if (const std::string model = model_of(labels); !model.empty() && !found.info.name)
    found.info.name = model;
  return &found;
}

void FleetLog::add(const KnownMetric& metric, const std::vector<MetricSeries>& list) {
  for (const MetricSeries& series : list) {
    if (series.t_ms.empty()) continue;
    if (metric.use == MetricUse::finding_lost || metric.use == MetricUse::finding_confidence) {
      add_finding(metric, series);
      continue;
    }
    Gpu* const gpu = this->gpu(series.labels, metric.exporter);
    if (gpu == nullptr) continue;
    exporters_.insert(metric.exporter);
    const std::string job = job_of(series.labels, job_label_, metric.exporter);
    if (metric.use == MetricUse::busy) {
      if (!job.empty()) take_job(job, series, *gpu);
      gpu->told_until_ms = std::max(gpu->told_until_ms, series.t_ms.back());
      gpu->told_since_ms = gpu->told_since_ms == 0
                               ? series.t_ms.front()
                               : std::min(gpu->told_since_ms, series.t_ms.front());
      if (series.t_ms.size() > 2)
        gpu->spacing_ms = (series.t_ms.back() - series.t_ms.front()) /
                          static_cast<double>(series.t_ms.size() - 1);
    }
    if (!gpu->told_by) gpu->told_by = metric.exporter;
    if (metric.use == MetricUse::process) add_process(series, *gpu);
    // One exporter a GPU, and one metric a quantity: two clocks in one lane would look like turns.
    if (*gpu->told_by != metric.exporter) continue;
    const bool many_series =
        metric.use == MetricUse::limit_named || metric.use == MetricUse::xid_count;
    const auto [chosen, fresh] = gpu->by.try_emplace(metric.use, &metric);
    if (!many_series && !fresh && chosen->second->name != std::string_view(metric.name)) continue;
    add_values(metric, series, *gpu);
  }
}

void FleetLog::take_job(const std::string& job, const MetricSeries& series, Gpu& gpu) {
  if (series.t_ms.back() < gpu.newest_job_ms) return;
  gpu.job_since_ms = job == gpu.newest_job && gpu.job_since_ms > 0
                         ? std::min(gpu.job_since_ms, series.t_ms.front())
                         : series.t_ms.front();
  gpu.newest_job = job;
  gpu.newest_job_ms = series.t_ms.back();
}

void FleetLog::add_values(const KnownMetric& metric, const MetricSeries& series, Gpu& gpu) {
  if (metric.use == MetricUse::last_xid || metric.use == MetricUse::xid_count ||
      metric.use == MetricUse::lost)
    return add_event(metric, series, gpu);
  const auto reason = std::ranges::find(kClockLimitNames, label(series, "reason"));
  auto hint = gpu.readings.begin();
  for (std::size_t i = 0; i < series.t_ms.size(); ++i) {
    const auto value = possible(metric.use, series.values[i] * metric.scale);
    if (!value) {
      ++absurd_;
      continue;
    }
    switch (metric.use) {
      case MetricUse::memory_free: gpu.memory_free = *value; continue;
      case MetricUse::memory_reserved: gpu.memory_reserved = *value; continue;
      case MetricUse::memory_total:
        gpu.info.memory_total_bytes = static_cast<std::uint64_t>(*value);
        continue;
      case MetricUse::power_limit: gpu.info.power_limit_mw = *value; continue;
      case MetricUse::name:
      case MetricUse::process: continue;
      default: break;
    }
    if (metric.use == MetricUse::memory_used) gpu.memory_used = *value;
    // Series of one scrape have the same times: the next place is nearly always the next entry.
    const std::size_t before = gpu.readings.size();
    hint = gpu.readings.try_emplace(hint, series.t_ms[i]);
    readings_ += gpu.readings.size() - before;
    GpuSample& sample = hint->second;
    ++hint;
    if (Reading<double>* const plain = quantity(metric.use, sample))
      *plain = metric.use == MetricUse::busy ? std::min(1.0, *value) : *value;
    else if (Reading<std::uint64_t>* const whole = counter(metric.use, sample))
      *whole = static_cast<std::uint64_t>(*value);
    else if (metric.use == MetricUse::limit_bits)
      sample.limits = limits_of_bits(static_cast<std::uint64_t>(*value));
    else if (metric.use == MetricUse::limit_named && reason != kClockLimitNames.end()) {
      ClockLimits limits = sample.limits.value().value_or(ClockLimits{});
      if (*value > 0) limits.add(static_cast<ClockLimit>(reason - kClockLimitNames.begin()));
      sample.limits = limits;
    }
  }
}

void FleetLog::add_event(const KnownMetric& metric, const MetricSeries& series, Gpu& gpu) {
  const std::string xid = label(series, "xid");
  const std::string key = metric.use == MetricUse::lost       ? "lost"
                          : metric.use == MetricUse::last_xid ? "last xid"
                                                              : "xid " + xid;
  for (std::size_t i = 0; i < series.t_ms.size(); ++i) {
    const double value = series.values[i];
    // A counter is born with its first Xid: one that comes later than the GPU's other readings
    // counts from 0. What is there from the begin may be weeks old.
    const bool born_meanwhile =
        metric.use == MetricUse::xid_count && i == 0 &&
        (numbered_ || series.t_ms.front() > gpu.told_since_ms + 1.5 * gpu.spacing_ms);
    const auto [before, fresh] = gpu.looked.try_emplace(
        key, Gpu::Looked{metric.use == MetricUse::lost || born_meanwhile ? 0 : value, 0});
    if (series.t_ms[i] <= before->second.until_ms) continue;
    // An exporter that was started again counts from 0, and shows no count before the next Xid:
    // then there are readings of the GPU without one.
    const auto reading = gpu.readings.upper_bound(before->second.until_ms);
    const bool was_gone = before->second.until_ms > 0 &&
                          series.t_ms[i] - before->second.until_ms > 1.5 * gpu.spacing_ms &&
                          reading != gpu.readings.end() && reading->first < series.t_ms[i];
    const double old =
        metric.use == MetricUse::xid_count && (was_gone || value < before->second.value)
            ? 0
            : before->second.value;
    before->second = {value, series.t_ms[i]};
    // A count that grew, or a last value that changed.
    Event event;
    if (metric.use == MetricUse::lost && (value > 0) != (old > 0))
      event = {value > 0 ? EventKind("lost") : EventKind("recovered"), std::nullopt, ""};
    else if (metric.use == MetricUse::last_xid && value != old && value > 0)
      event = {"xid", std::nullopt, fmt::format("{:.0f}", value)};
    else if (metric.use == MetricUse::xid_count && value > old)
      event = {"xid", std::nullopt, xid};
    else
      continue;
    events_.push_back({series.t_ms[i], &gpu, std::move(event)});
  }
}

void FleetLog::add_finding(const KnownMetric& metric, const MetricSeries& series) {
  const std::string code = label(series, "code");
  const std::string host = host_of(series.labels);
  const std::string gpus = label(series, "gpus");
  if (code.empty() || host.empty()) return;
  NodeFinding& finding = findings_[code + "\x1f" + host + "\x1f" + gpus];
  finding.host = host;
  finding.gpus = number_list(gpus);
  finding.t_ms = std::max(finding.t_ms, series.t_ms.back());
  finding.severity = label(series, "severity");
  (metric.use == MetricUse::finding_lost ? finding.lost : finding.confidence) =
      series.values.back();
}

// Ranks that meet at one address are one job, wherever they run.
void FleetLog::add_process(const MetricSeries& series, Gpu& gpu) {
  std::string job = label(series, "slurm_job_id");
  if (job.empty()) {
    job = label(series, "rendezvous");
    const bool local =
        job.starts_with("127.") || job.starts_with("localhost") || job.starts_with("::1");
    if (local) job = *gpu.info.host + " " + job;  // every machine has such an address
  }
  if (!job.empty() && job_label_.empty()) take_job(job, series, gpu);
}

Machine FleetLog::machine() {
  std::vector<Gpu*> order;
  spacing_ms_ = measured_spacing_ms();
  start_ms_ = 0;
  for (auto& [key, gpu] : gpus_) {
    order.push_back(&gpu);
    if (!gpu.readings.empty())
      start_ms_ = start_ms_ == 0 ? gpu.readings.begin()->first
                                 : std::min(start_ms_, gpu.readings.begin()->first);
  }
  std::ranges::sort(order, [](const Gpu* a, const Gpu* b) {
    return std::tuple(natural(*a->info.host), a->info.host_index.value_or(1 << 20)) <
           std::tuple(natural(*b->info.host), b->info.host_index.value_or(1 << 20));
  });
  Machine machine;
  machine.started_unix_ns = static_cast<std::int64_t>(start_ms_ * 1e6);
  machine.process_coverage = ProcessCoverage::none;
  int index = 0;
  for (Gpu* const gpu : order) {
    gpu->info.index = index++;
    if (!gpu->info.memory_total_bytes && gpu->memory_used && gpu->memory_free)
      gpu->info.memory_total_bytes =
          static_cast<std::uint64_t>(*gpu->memory_used + *gpu->memory_free + gpu->memory_reserved);
    // A job that the labels named once and do not name any more has ended.
    const double grace_ms = 3 * spacing_ms().value_or(60'000);
    if (!gpu->newest_job.empty() && gpu->newest_job_ms + grace_ms >= gpu->told_until_ms) {
      gpu->info.job = gpu->newest_job;
      // What the GPU did for others before is no part of it.
      if (gpu->job_since_ms > gpu->told_since_ms + gpu->spacing_ms)
        gpu->readings.erase(gpu->readings.begin(), gpu->readings.lower_bound(gpu->job_since_ms));
    }
    machine.gpus.push_back(gpu->info);
  }
  numbered_ = true;
  return machine;
}

std::vector<int> FleetLog::numbers_of(const std::string& host,
                                      const std::vector<int>& on_host) const {
  std::vector<int> numbers;
  for (const auto& [key, gpu] : gpus_)
    if (gpu.info.host == host && gpu.info.host_index &&
        std::ranges::find(on_host, *gpu.info.host_index) != on_host.end())
      numbers.push_back(gpu.info.index);
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<Record> FleetLog::take_records() {
  std::map<double, GpuTick> ticks;
  std::vector<Record> records;
  double newest = start_ms_;
  for (auto& [key, gpu] : gpus_) {
    for (auto& [t_ms, sample] : gpu.readings) {
      sample.index = gpu.info.index;
      ticks[t_ms].push_back(std::move(sample));
      newest = std::max(newest, t_ms);
    }
    gpu.readings.clear();
  }
  for (auto& [t_ms, tick] : ticks) records.push_back({t_ms - start_ms_, std::move(tick)});
  for (EventOf& entry : events_) {
    entry.event.gpu = entry.gpu->info.index;
    records.push_back({entry.t_ms - start_ms_, std::move(entry.event)});
  }
  events_.clear();
  // What a machine's own lockstep found, with readings twenty milliseconds apart, and stands behind
  // still.
  const double grace_ms = 3 * spacing_ms().value_or(60'000);
  for (auto& [key, finding] : findings_) {
    if (finding.t_ms + grace_ms < newest || finding.t_ms <= finding.told_ms) continue;
    finding.told_ms = finding.t_ms;
    const std::vector<int> numbers = numbers_of(finding.host, finding.gpus);
    if (numbers.empty()) {
      nameless_findings_ = nameless_findings_ || finding.gpus.empty();
      continue;
    }
    records.push_back({std::max(0.0, finding.t_ms - start_ms_),
                       event_of(ReportedFinding{
                           key.substr(0, key.find('\x1f')), finding.lost, finding.confidence,
                           numbers, finding.severity.empty() ? "warning" : finding.severity})});
  }
  std::ranges::stable_sort(records,
                           [](const Record& a, const Record& b) { return a.t_ms < b.t_ms; });
  return records;
}

std::optional<double> FleetLog::measured_spacing_ms() const {
  std::vector<double> gaps;
  for (const auto& [key, gpu] : gpus_) {
    std::optional<double> before;
    for (const auto& [t_ms, sample] : gpu.readings) {
      if (before) gaps.push_back(t_ms - *before);
      before = t_ms;
    }
    if (gaps.size() > 2000) break;
  }
  if (gaps.empty()) return std::nullopt;
  return middle_value(std::move(gaps));
}

std::vector<std::string> FleetLog::notes() const {
  std::vector<std::string> notes;
  if (slices_ > 0) notes.push_back(fmt::format("{} series of MIG slices were left out", slices_));
  if (late_comers_) notes.push_back("GPUs that came since are not shown: start again to see them");
  if (nameless_findings_)
    notes.emplace_back(
        "findings that name no GPU were left out: `lockstep diagnose` on their machine tells them");
  if (unplaced_ > 0)
    notes.push_back(
        fmt::format("{} series name no machine or no GPU and were left out", unplaced_));
  if (absurd_ > 0)
    notes.push_back(
        fmt::format("{} values were impossible (such as 400 % busy) and were left out", absurd_));
  return notes;
}

}  // namespace lockstep
