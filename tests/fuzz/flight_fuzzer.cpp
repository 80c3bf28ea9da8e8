// Any bytes as a flight recorder's dump, of two ranks at once: no crash, and no code is ever run.
#include <cstdlib>
#include <string>

#include "detectors/told/flight_findings.hpp"
#include "signals/stuck_collectives.hpp"
#include "sources/flight_recorder/flight_dump.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto first = lockstep::parse_flight_dump(bytes, "rank_0");
  if (!first) return 0;
  lockstep::FlightDump second = *first;
  second.rank = 1;
  if (!second.entries.empty()) second.entries.pop_back();
  for (const lockstep::Finding& finding :
       lockstep::find_in_flight_dumps(lockstep::stuck_collectives({*first, second})))
    if (finding.evidence.empty()) std::abort();
  return 0;
}
