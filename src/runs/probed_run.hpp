// A command run with the probe in its Python, watched from start to end, and what its speed was.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/report.hpp"
#include "lockstep/result.hpp"
#include "report/verification.hpp"

namespace lockstep {

struct ProbedRunOptions {
  std::string input;  // which GPUs to watch; empty: this machine's
  // end it after so long; nothing: it runs to its end
  std::optional<std::chrono::nanoseconds> duration;
  // end it when every rank that was heard has made so many
  std::optional<std::int64_t> steps;
  std::map<std::string, std::string> variables;  // more for its environment
};

struct ProbedRun {
  RunSpeed speed;
  Report report;
  // "the command ended with code 1; its last words: ..."; empty: it did not fail
  std::string failure;
  bool interrupted = false;
};

Result<ProbedRun> run_probed(const std::vector<std::string>& command,
                             const ProbedRunOptions& options);

}  // namespace lockstep
