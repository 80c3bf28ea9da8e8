#include "sources/prometheus/metrics_page.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "base/text.hpp"
#include "sources/prometheus/fleet_log.hpp"
#include "sources/prometheus/known_metrics.hpp"

namespace lockstep {
namespace {

struct NamedSeries {
  std::string name;
  MetricSeries series;
};

// `name{label="value",other="..."} 12.5`
std::optional<NamedSeries> series_in(std::string_view line) {
  line = trim(line);
  const auto open = line.find('{');
  const auto close = line.rfind('}');
  if (line.starts_with('#') || open == std::string_view::npos || close == std::string_view::npos ||
      close < open)
    return std::nullopt;
  NamedSeries found;
  found.name = std::string(trim(line.substr(0, open)));
  std::string_view labels = line.substr(open + 1, close - open - 1);
  while (true) {
    const auto equals = labels.find("=\"");
    if (equals == std::string_view::npos) break;
    const auto end = labels.find('"', equals + 2);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view name = trim(labels.substr(0, equals));
    while (name.starts_with(',')) name = trim(name.substr(1));
    found.series.labels[std::string(name)] =
        std::string(labels.substr(equals + 2, end - equals - 2));
    labels.remove_prefix(end + 1);
  }
  const std::string_view number = trim(line.substr(close + 1));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  found.series.t_ms = {0};
  found.series.values = {value};
  return found;
}

}  // namespace

std::optional<ParsedLog> parse_metrics_page(const std::vector<std::string>& lines) {
  std::map<std::string, std::vector<MetricSeries>> by_name;
  for (const std::string& line : lines)
    if (auto found = series_in(line)) by_name[found->name].push_back(std::move(found->series));
  constexpr const char* kNobodySaid = "this machine";
  for (auto& [name, series] : by_name)
    for (MetricSeries& one : series)
      if (host_of(one.labels).empty()) one.labels["instance"] = kNobodySaid;
  FleetLog fleet("");
  for (const KnownMetric& metric : known_metrics())
    if (const auto series = by_name.find(metric.name); series != by_name.end())
      fleet.add(metric, series->second);
  if (fleet.readings() == 0) return std::nullopt;
  ParsedLog log;
  log.kind = SourceKind::csv;
  log.machine = fleet.machine();
  // An exporter serves its own machine: there is no need to name it.
  const auto& gpus = log.machine.gpus;
  if (std::ranges::all_of(gpus, [&](const GpuInfo& gpu) { return gpu.host == gpus.front().host; }))
    for (GpuInfo& gpu : log.machine.gpus) gpu.host.reset();
  log.records = fleet.take_records();
  log.notes = fleet.notes();
  if (log.records.empty()) return std::nullopt;
  return log;
}

}  // namespace lockstep
