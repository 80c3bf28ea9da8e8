#include "sources/wandb/wandb_metrics.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace lockstep {
namespace {

// "gpu.0.gpu", "gpu.process.0.gpu": which GPU, and what of it.
struct MetricName {
  int gpu = 0;
  bool of_process = false;
  std::string_view quantity;
};
std::optional<MetricName> metric_name(std::string_view key) {
  MetricName name;
  if (!key.starts_with("gpu.")) return std::nullopt;
  key.remove_prefix(4);
  if (key.starts_with("process.")) {
    name.of_process = true;
    key.remove_prefix(8);
  }
  const auto dot = key.find('.');
  const auto number = parse_integer(key.substr(0, dot));
  if (dot == std::string_view::npos || !number || *number < 0 || *number > 1023)
    return std::nullopt;
  name.gpu = static_cast<int>(*number);
  name.quantity = key.substr(dot + 1);
  return name;
}

void put(const MetricName& name, double value, LogRow& row) {
  if (name.quantity == "gpu")
    row.busy = value / 100;
  else if (name.quantity == "memoryAllocatedBytes")
    row.memory_used_bytes = value;
  else if (name.quantity == "memoryAllocated")
    row.memory_fraction = value / 100;
  else if (name.quantity == "temp")
    row.temperature_c = value;
  else if (name.quantity == "powerWatts")
    row.power_mw = value * 1e3;
  else if (name.quantity == "enforcedPowerLimitWatts")
    row.power_limit_mw = value * 1e3;
  else if (name.quantity == "smClock")
    row.sm_clock_mhz = value;
}

// Used bytes over the used share is the whole; old files have no other word of it.
void complete(const WandbMetrics& metrics, LogRow& row) {
  if (row.memory_used_bytes && row.memory_fraction && *row.memory_fraction > 0.01)
    row.memory_total_bytes = *row.memory_used_bytes / *row.memory_fraction;
  const auto share = metrics.values.find(fmt::format("gpu.{}.powerPercent", row.gpu));
  if (!row.power_limit_mw && row.power_mw && share != metrics.values.end() && share->second > 5)
    row.power_limit_mw = *row.power_mw / (share->second / 100);
}

}  // namespace

void add_wandb_metrics(const WandbMetrics& metrics, LogBuilder& builder, std::set<int>& held) {
  std::map<int, LogRow> rows;
  for (const auto& [key, value] : metrics.values) {
    const auto name = metric_name(key);
    if (!name) continue;
    if (name->of_process) {
      held.insert(name->gpu);
      continue;
    }
    LogRow& row = rows[name->gpu];
    row.gpu = name->gpu;
    row.time_s = metrics.time_s;
    put(*name, value, row);
  }
  for (auto& [gpu, row] : rows) {
    complete(metrics, row);
    builder.add(std::move(row));
  }
  builder.end_tick();
}

}  // namespace lockstep
