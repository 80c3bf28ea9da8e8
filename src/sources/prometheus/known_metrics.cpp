#include "sources/prometheus/known_metrics.hpp"

#include <algorithm>
#include <array>
#include <regex>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kToMilliwatts = 1000;
constexpr double kPercent = 0.01;
constexpr double kHertzToMHz = 1e-6;

// dcgm-exporter: the fields of its default-counters.csv and dcp-metrics-included.csv, with DCGM's
// units. nvitop-exporter 1.7.2: as it serves them, with the units that its client library puts
// behind the names.
constexpr KnownMetric kMetrics[] = {
    {"lockstep_gpu_busy_ratio", Exporter::lockstep, MetricUse::busy},
    {"lockstep_gpu_sm_active_ratio", Exporter::lockstep, MetricUse::sm},
    {"lockstep_gpu_tensor_active_ratio", Exporter::lockstep, MetricUse::tensor},
    {"lockstep_gpu_dram_active_ratio", Exporter::lockstep, MetricUse::dram},
    {"lockstep_gpu_memory_used_bytes", Exporter::lockstep, MetricUse::memory_used},
    {"lockstep_gpu_memory_total_bytes", Exporter::lockstep, MetricUse::memory_total},
    {"lockstep_gpu_power_watts", Exporter::lockstep, MetricUse::power, kToMilliwatts},
    {"lockstep_gpu_power_limit_watts", Exporter::lockstep, MetricUse::power_limit, kToMilliwatts},
    {"lockstep_gpu_sm_clock_hertz", Exporter::lockstep, MetricUse::clock, kHertzToMHz},
    {"lockstep_gpu_temperature_celsius", Exporter::lockstep, MetricUse::temperature},
    {"lockstep_gpu_pcie_receive_bytes_total", Exporter::lockstep, MetricUse::pcie_rx},
    {"lockstep_gpu_pcie_transmit_bytes_total", Exporter::lockstep, MetricUse::pcie_tx},
    {"lockstep_gpu_nvlink_receive_bytes_total", Exporter::lockstep, MetricUse::nvlink_rx},
    {"lockstep_gpu_nvlink_transmit_bytes_total", Exporter::lockstep, MetricUse::nvlink_tx},
    {"lockstep_gpu_clock_limited", Exporter::lockstep, MetricUse::limit_named},
    {"lockstep_gpu_xid_errors_total", Exporter::lockstep, MetricUse::xid_count},
    {"lockstep_gpu_lost", Exporter::lockstep, MetricUse::lost},
    {"lockstep_gpu_info", Exporter::lockstep, MetricUse::name},
    {"lockstep_process_info", Exporter::lockstep, MetricUse::process},
    {"lockstep_finding_lost_throughput_ratio", Exporter::lockstep, MetricUse::finding_lost},
    {"lockstep_finding_confidence_ratio", Exporter::lockstep, MetricUse::finding_confidence},
    {"DCGM_FI_DEV_GPU_UTIL", Exporter::dcgm, MetricUse::busy, kPercent},
    // a mean over the collection interval, for those who left the field above out
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", Exporter::dcgm, MetricUse::busy},
    {"DCGM_FI_PROF_SM_ACTIVE", Exporter::dcgm, MetricUse::sm},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Exporter::dcgm, MetricUse::tensor},
    {"DCGM_FI_PROF_DRAM_ACTIVE", Exporter::dcgm, MetricUse::dram},
    {"DCGM_FI_DEV_FB_USED", Exporter::dcgm, MetricUse::memory_used, kMiB},
    {"DCGM_FI_DEV_FB_FREE", Exporter::dcgm, MetricUse::memory_free, kMiB},
    {"DCGM_FI_DEV_FB_RESERVED", Exporter::dcgm, MetricUse::memory_reserved, kMiB},
    {"DCGM_FI_DEV_POWER_USAGE", Exporter::dcgm, MetricUse::power, kToMilliwatts},
    {"DCGM_FI_DEV_ENFORCED_POWER_LIMIT", Exporter::dcgm, MetricUse::power_limit, kToMilliwatts},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT", Exporter::dcgm, MetricUse::power_limit, kToMilliwatts},
    {"DCGM_FI_DEV_SM_CLOCK", Exporter::dcgm, MetricUse::clock},
    {"DCGM_FI_DEV_GPU_TEMP", Exporter::dcgm, MetricUse::temperature},
    {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Exporter::dcgm, MetricUse::limit_bits},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", Exporter::dcgm, MetricUse::limit_bits},
    {"DCGM_FI_DEV_XID_ERRORS", Exporter::dcgm, MetricUse::last_xid},
    {"gpu_utilization_Percentage", Exporter::nvitop, MetricUse::busy, kPercent},
    {"gpu_memory_used_MiB", Exporter::nvitop, MetricUse::memory_used, kMiB},
    {"gpu_memory_total_MiB", Exporter::nvitop, MetricUse::memory_total, kMiB},
    {"gpu_power_usage_W", Exporter::nvitop, MetricUse::power, kToMilliwatts},
    {"gpu_power_limit_W", Exporter::nvitop, MetricUse::power_limit, kToMilliwatts},
    {"gpu_clock_sm_MHz", Exporter::nvitop, MetricUse::clock},
    {"gpu_temperature_C", Exporter::nvitop, MetricUse::temperature},
};

// Prometheus renames a label that the scrape's own would hide to exported_X: then that is the
// exporter's word.
std::string first_label_of(const SeriesLabels& labels, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (const auto renamed = labels.find("exported_" + std::string(name));
        renamed != labels.end() && !renamed->second.empty())
      return renamed->second;
    if (const auto label = labels.find(name); label != labels.end() && !label->second.empty())
      return label->second;
  }
  return {};
}

std::string without_port(const std::string& instance) {
  const auto colon = instance.rfind(':');
  if (colon == std::string::npos || instance.find(']', colon) != std::string::npos) return instance;
  return parse_integer(std::string_view(instance).substr(colon + 1)) ? instance.substr(0, colon)
                                                                     : instance;
}

}  // namespace

std::span<const KnownMetric> known_metrics() { return kMetrics; }

std::string host_of(const SeriesLabels& labels) {
  const std::string host =
      first_label_of(labels, {"Hostname", "hostname", "node", "kubernetes_node"});
  return host.empty() ? without_port(first_label_of(labels, {"instance"})) : host;
}

std::optional<int> gpu_of(const SeriesLabels& labels) {
  const auto number = parse_integer(first_label_of(labels, {"gpu", "index", "minor_number"}));
  return number && *number >= 0 && *number < 1024 ? std::optional(static_cast<int>(*number))
                                                  : std::nullopt;
}

std::string uuid_of(const SeriesLabels& labels) { return first_label_of(labels, {"UUID", "uuid"}); }
std::string model_of(const SeriesLabels& labels) {
  return first_label_of(labels, {"modelName", "devicename", "name"});
}
// dcgm-exporter gives a slice its GPU's uuid, NVML and with it lockstep one of its own.
bool is_slice(const SeriesLabels& labels) {
  return !first_label_of(labels, {"GPU_I_ID", "GPU_I_PROFILE"}).empty() ||
         uuid_of(labels).starts_with("MIG-");
}

std::string job_of_pod(std::string_view pod) {
  // Pods of the training operators end in a role and a number, perhaps with five random letters
  // behind. A number alone joins nothing: replicas of a server and trials of a sweep are called so
  // too.
  static const std::regex kRole(
      "^(.+)-(worker|master|launcher|chief|ps|node|trainer|head)(-[0-9]+){1,3}(-[a-z0-9]{5})?$");
  // Kubernetes's own limit; std::regex recurses with the length
  constexpr std::size_t kLongestName = 253;
  if (pod.size() > kLongestName) return std::string(pod);
  std::cmatch found;
  if (std::regex_match(pod.data(), pod.data() + pod.size(), found, kRole)) return found[1];
  return std::string(pod);
}

std::string job_of(const SeriesLabels& labels, const std::string& label, Exporter exporter) {
  if (!label.empty()) return first_label_of(labels, {label.c_str()});
  const std::string batch =
      first_label_of(labels, {"hpc_job", "slurm_job_id", "slurm_job", "job_id"});
  if (!batch.empty()) return batch;
  const std::string owner = first_label_of(
      labels,
      {"training_kubeflow_org_job_name", "label_training_kubeflow_org_job_name",
       "jobset_sigs_k8s_io_jobset_name", "label_jobset_sigs_k8s_io_jobset_name",
       "batch_kubernetes_io_job_name", "label_batch_kubernetes_io_job_name", "volcano_sh_job_name",
       "label_volcano_sh_job_name", "ray_io_cluster", "label_ray_io_cluster"});
  if (!owner.empty()) return owner;
  // Only dcgm-exporter tells whose pod holds a GPU; with the others the label is that of the
  // scrape: the exporter's own.
  if (exporter != Exporter::dcgm) return {};
  const std::string pod = first_label_of(labels, {"pod", "pod_name"});
  // Where pods are not mapped the label names the exporter's own.
  if (pod.empty() || pod.find("dcgm-exporter") != std::string::npos ||
      pod.find("nvitop-exporter") != std::string::npos ||
      pod.find("lockstep-export") != std::string::npos)
    return {};
  const std::string space = first_label_of(labels, {"namespace", "pod_namespace"});
  return (space.empty() ? "" : space + "/") + job_of_pod(pod);
}

}  // namespace lockstep
