// Any recording through the whole diagnosis: no crash, and every number of the report is one.
#include <cmath>
#include <cstdlib>
#include <string>

#include "detectors/diagnosis.hpp"
#include "recording/reader.hpp"
#include "signals/derive_signals.hpp"
#include "timeline/timeline_builder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto reader = lockstep::RecordingReader::over(
      std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!reader) return 0;
  lockstep::TimelineBuilder builder(reader->machine(), lockstep::SourceKind::recording, "fuzz");
  while (auto record = reader->next()) builder.add(*record);
  const lockstep::Signals signals = lockstep::derive_signals(builder.build());
  const lockstep::Diagnosis diagnosis = lockstep::diagnose(signals);
  for (const auto* list : {&diagnosis.findings, &diagnosis.suspicions})
    for (const lockstep::Finding& finding : *list)
      if (!(finding.confidence >= 0 && finding.confidence <= 1) ||
          !(finding.lost_throughput >= 0 && finding.lost_throughput <= 1))
        std::abort();
  lockstep::is_sure(diagnosis, signals);
  return 0;
}
