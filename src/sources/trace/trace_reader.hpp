// Reads a profiler's trace file into rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/result.hpp"
#include "rows/rank_trace.hpp"
#include "sources/trace/trace_bytes.hpp"

namespace lockstep {

struct TraceReading {
  // HolisticTraceAnalysis counts in whole microseconds: begins are rounded up, ends down, in
  // doubles.
  bool round_like_hta = false;
  // some 1.6 GB; the rest of a longer trace is left out with a sentence
  std::uint64_t most_rows = 40'000'000;
};

// An error where the file cannot be read, or is no trace.
Result<RankTrace> read_trace(const std::filesystem::path& path, const TraceReading& how);

Result<RankTrace> read_trace(TraceBytes& bytes, const std::string& name, const TraceReading& how);

// Several files, each on a thread of its own as far as there are cores, in the order given; ranks
// are as the files say.
Result<std::vector<RankTrace>> read_traces(const std::vector<std::string>& paths,
                                           const TraceReading& how);

// Whether a file that begins so is a trace.
bool looks_like_trace(std::string_view start);

// "1690000000123456.789" microseconds as nanoseconds. Nothing: no number, or one that no clock
// shows.
std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds);

}  // namespace lockstep
