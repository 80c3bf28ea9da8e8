// Asks running PyTorch processes for a trace, all of them at the same moment, and brings the files
// home.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "capture/traced_processes.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct CaptureOptions {
  std::chrono::milliseconds duration{1000};
  bool stacks = false;
  std::filesystem::path folder;                      // where the files go; must be there
  std::function<void(const std::string&)> progress;  // words for a line that changes
  std::function<bool()> interrupted;
};

struct CapturedTrace {
  std::filesystem::path file;
  int pid = 0;
  std::optional<int> rank;
  std::optional<int> world_size;
};

struct Capture {
  std::vector<CapturedTrace> traces;
  std::vector<std::string> notes;  // who did not answer, and why that may be
};

// An error where nobody answered, or another daemon holds the place.
Result<Capture> capture_traces(const std::vector<TracedProcess>& processes,
                               const CaptureOptions& options);

}  // namespace lockstep
