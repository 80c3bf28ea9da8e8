#include "sources/prometheus/series.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace lockstep {
namespace {

using namespace simdjson;

Error not_prometheus(const std::string& json) {
  return {fmt::format("the answer is not that of a Prometheus server (it starts with '{}')",
                      printable(std::string_view(json).substr(0, 40))),
          "give the base address of a Prometheus server: http://HOST:9090"};
}

// Times are kept in nanoseconds since 1970, which end in the year 2262.
constexpr double kLatestTime_s = 9e9;

// [1435781430.781,"1"]
void take_sample(ondemand::array pair, MetricSeries& series) {
  double seconds = 0;
  std::string_view text;
  std::size_t place = 0;
  for (auto item : pair) {
    if (place == 0)
      seconds = item.get_double();
    else if (place == 1)
      text = item.get_string();
    ++place;
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  // "NaN", "+Inf"
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return;
  if (!(seconds >= 0 && seconds <= kLatestTime_s)) return;
  const double t_ms = std::round(seconds * 1000);
  if (!series.t_ms.empty() && t_ms <= series.t_ms.back()) return;
  series.t_ms.push_back(t_ms);
  series.values.push_back(value);
}

MetricSeries one_series(ondemand::object entry) {
  MetricSeries series;
  for (auto field : entry) {
    const std::string_view key = field.unescaped_key();
    if (key == "metric") {
      for (auto label : field.value().get_object()) {
        const std::string name(std::string_view(label.unescaped_key()));
        series.labels[name] = std::string(std::string_view(label.value().get_string()));
      }
    } else if (key == "values") {
      for (auto pair : field.value().get_array()) take_sample(pair.get_array(), series);
    } else if (key == "value") {
      take_sample(field.value().get_array(), series);
    }
  }
  return series;
}

}  // namespace

Result<SeriesAnswer> parse_series(const std::string& json) {
  SeriesAnswer answer;
  std::string status;
  std::string told;
  std::string kind;
  try {
    ondemand::parser parser;
    const padded_string padded(json);
    ondemand::document document = parser.iterate(padded);
    for (auto field : document.get_object()) {
      const std::string_view key = field.unescaped_key();
      if (key == "status")
        status = std::string(std::string_view(field.value().get_string()));
      else if (key == "errorType")
        kind = std::string(std::string_view(field.value().get_string()));
      else if (key == "error")
        told = std::string(std::string_view(field.value().get_string()));
      else if (key == "warnings")
        for (auto warning : field.value().get_array())
          answer.warnings.emplace_back(std::string_view(warning.get_string()));
      else if (key == "data")
        for (auto part : field.value().get_object()) {
          if (std::string_view(part.unescaped_key()) != "result") continue;
          for (auto entry : part.value().get_array())
            answer.series.push_back(one_series(entry.get_object()));
        }
    }
  } catch (const simdjson_error&) {
    return not_prometheus(json);
  }
  if (status == "error" && kind != "bad_data")
    return Error{
        fmt::format("Prometheus says: {}", printable(told)),
        "ask for less (a shorter --window, a narrower --selector), or wait longer (--timeout 2m)"};
  if (status == "error")
    return usage_error(
        fmt::format("Prometheus says: {}", printable(told)),
        "--selector takes label matchers such as cluster=\"a\",Hostname=~\"node.*\"");
  if (status != "success") return not_prometheus(json);
  return answer;
}

}  // namespace lockstep
