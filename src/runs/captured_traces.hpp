// Traces that running processes are asked for: captured, read and judged, once more where too few
// steps were in them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "runs/run_options.hpp"
#include "runs/trace_input.hpp"

namespace lockstep {

struct TraceWish {
  std::optional<std::int64_t> steps;  // whole ones at least; nothing: a length of time is wanted
  std::chrono::milliseconds duration{1000};  // with `steps` of the first try
  std::vector<int> pids;                     // and what they started; empty: all
  bool stacks = false;
  std::filesystem::path folder;  // for the files; must be there
};

inline constexpr std::chrono::seconds kLongestTrace{120};

struct JudgedCapture {
  JudgedTraces judged;
  std::vector<std::string> notes;  // who did not answer; whether steps are missing
};

// The folder that was typed, made where it is not there; else a new one among the temporary files.
Result<std::filesystem::path> folder_for_traces(const std::string& typed);

// Nothing: it was interrupted. `options`: whether progress is told.
Result<std::optional<JudgedCapture>> capture_and_judge(const RunOptions& options, TraceWish wish);

}  // namespace lockstep
