// What a Prometheus server answers to a question about a stretch of time: series of labels, times
// and values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

struct MetricSeries {
  std::map<std::string, std::string> labels;
  std::vector<double> t_ms;    // since 1970, ascending
  std::vector<double> values;  // never NaN: Prometheus marks the end of a series so
};

struct SeriesAnswer {
  std::vector<MetricSeries> series;
  std::vector<std::string> warnings;
};

// The JSON of /api/v1/query for a range selector. An error that Prometheus tells is told on.
Result<SeriesAnswer> parse_series(const std::string& json);

}  // namespace lockstep
