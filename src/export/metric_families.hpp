// Everything the exporter tells, as families of metrics: names and units by Prometheus's
// conventions, one set of labels a family.
//
// A value that is not known has no series: 0 would be a lie, and alerts would believe it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitor/monitored.hpp"

namespace prometheus {
struct MetricFamily;
}

namespace lockstep {

// What is known of the exporter itself.
struct ExporterFacts {
  std::string version;
  std::uint64_t scrapes = 0;
  double reading_age_s = -1;  // of the newest readings; below 0: there are none
};

// Readings that are old for the interval they are made at are none of now.
bool is_fresh(const Monitored& seen, double reading_age_s);

std::vector<prometheus::MetricFamily> metric_families(const Monitored& seen,
                                                      const ExporterFacts& facts);

// In the text format that Prometheus scrapes.
std::string metrics_text(const Monitored& seen, const ExporterFacts& facts);

}  // namespace lockstep
