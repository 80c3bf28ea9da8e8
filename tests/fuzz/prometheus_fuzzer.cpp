// What answers at an address may be anybody: series, their labels, and what a fleet is made of
// them.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sources/prometheus/fleet_log.hpp"
#include "sources/prometheus/series.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto answer = lockstep::parse_series(text);
  if (!answer) return 0;
  lockstep::FleetLog fleet(data[0] % 2 == 0 ? "" : "gpu");
  for (const lockstep::KnownMetric& metric : lockstep::known_metrics())
    fleet.add(metric, answer->series);
  fleet.machine();
  fleet.take_records();
  fleet.add(lockstep::known_metrics().front(), answer->series);
  fleet.take_records();
  fleet.notes();
  return 0;
}
