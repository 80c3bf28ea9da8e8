// Which metrics of which exporters are understood, and what their labels say: one table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// the surer first: where two tell of one GPU, the first is believed
enum class Exporter : std::uint8_t { lockstep, dcgm, nvitop };
inline constexpr std::string_view kExporterNames[] = {"lockstep export", "dcgm-exporter",
                                                      "nvitop-exporter"};

enum class MetricUse : std::uint8_t {
  busy,
  sm,
  tensor,
  dram,
  memory_used,
  memory_free,
  memory_reserved,
  memory_total,
  power,
  power_limit,
  clock,
  temperature,
  pcie_rx,
  pcie_tx,
  nvlink_rx,
  nvlink_tx,
  limit_bits,   // NVML's clock event reasons as a number
  limit_named,  // one series a reason
  last_xid,     // the last Xid: only a change is news
  xid_count,    // one series an Xid
  lost,
  name,     // the label `name` says it
  process,  // labels of a process: rank, rendezvous
  finding_lost,
  finding_confidence,
};

struct KnownMetric {
  const char* name;
  Exporter exporter;
  MetricUse use;
  double scale = 1;  // to lockstep's units
};

std::span<const KnownMetric> known_metrics();

using SeriesLabels = std::map<std::string, std::string>;

// The machine: exporters name it in their own labels, and Prometheus in `instance` if all else
// fails.
std::string host_of(const SeriesLabels& labels);
// The GPU's number on its machine; nothing: a slice, or no number.
std::optional<int> gpu_of(const SeriesLabels& labels);
std::string uuid_of(const SeriesLabels& labels);
std::string model_of(const SeriesLabels& labels);
bool is_slice(const SeriesLabels& labels);
// Who the cluster gave the GPU to; empty: nobody, or the labels do not say. `label`: the one that
// the user named, if any.
std::string job_of(const SeriesLabels& labels, const std::string& label, Exporter exporter);

// The job that a pod belongs to: llama-worker-3 and llama-master-0 are llama's.
std::string job_of_pod(std::string_view pod);

}  // namespace lockstep
