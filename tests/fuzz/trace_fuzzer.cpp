// Any bytes as a trace: read in blocks of any size, broken down both ways, analysed and judged,
// without a crash and with numbers that are some.
#include <cmath>
#include <cstdlib>
#include <string>

#include "detectors/diagnosis.hpp"
#include "signals/trace_job.hpp"
#include "sources/trace/rank_matching.hpp"
#include "sources/trace/trace_reader.hpp"
#include "traces/analyse.hpp"
#include "traces/breakdown.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const bool like_hta : {false, true}) {
    const auto bytes = lockstep::TraceBytes::over(text, 1 + data[0]);
    auto trace = lockstep::read_trace(*bytes, "fuzz.json", {.round_like_hta = like_hta});
    if (!trace) return 0;
    std::vector<lockstep::RankTrace> traces;
    traces.push_back(std::move(*trace));
    lockstep::match_ranks(traces);
    auto breakdown = lockstep::break_down(
        traces, like_hta ? lockstep::BreakdownRules::like_hta : lockstep::BreakdownRules::exact);
    if (like_hta) continue;
    bool works = false;
    for (const lockstep::DeviceRow& row : traces.front().device_rows)
      works = works || lockstep::is_device_work(row.category);
    if (!works) return 0;
    auto analysis = lockstep::analyse_traces(traces, std::move(breakdown));
    const auto signals = lockstep::signals_of_trace(analysis.timeline, std::move(analysis.signals));
    for (const lockstep::Finding& finding : lockstep::diagnose(signals).findings)
      if (!(finding.confidence >= 0 && finding.confidence <= 1) ||
          !(finding.lost_throughput >= 0 && finding.lost_throughput <= 1))
        std::abort();
  }
  return 0;
}
