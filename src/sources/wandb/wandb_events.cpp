#include "sources/wandb/wandb_events.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "sources/wandb/wandb_metrics.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kSystemMetrics = "system.";

// {"system.gpu.0.gpu": 4.07, ..., "_timestamp": 1582070941}
std::optional<WandbMetrics> metrics_in_line(const std::string& line) {
  if (line.find("\"system.gpu.") == std::string::npos) return std::nullopt;
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;  // cut
  WandbMetrics metrics;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_number()) continue;
    if (key == "_timestamp")
      metrics.time_s = value.get<double>();
    else if (key.starts_with(kSystemMetrics))
      metrics.values[key.substr(kSystemMetrics.size())] = value.get<double>();
  }
  return metrics;
}

}  // namespace

std::optional<ParsedLog> parse_wandb_events(const std::vector<std::string>& lines) {
  LogBuilder builder(SourceKind::wandb, ProcessCoverage::none);
  std::set<int> held;
  bool any = false;
  for (const std::string& line : lines)
    if (const auto metrics = metrics_in_line(line)) {
      add_wandb_metrics(*metrics, builder, held);
      any = true;
    }
  return any ? builder.build() : std::nullopt;
}

}  // namespace lockstep
