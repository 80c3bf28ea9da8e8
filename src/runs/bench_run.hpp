// One round of a benchmark: a training started, watched for a while, and ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/bench.hpp"
#include "lockstep/result.hpp"
#include "report/verification.hpp"

namespace lockstep {

struct BenchRunOptions {
  bool on_gpus = false;
  std::chrono::nanoseconds duration = std::chrono::seconds(6);  // of training
  std::int64_t steps = 50;                                      // of a script
  std::optional<std::chrono::nanoseconds> longest;              // a script's run
  bool quiet = false;
};

struct BenchRun {
  // its speed is that of the trainer in samples; a script's is told by `speed`
  BenchRound round;
  RunSpeed speed;
  std::string failure;  // how the command failed, with its last words; empty: it did not
  bool interrupted = false;
};

// lockstep-train, by its own marks.
Result<BenchRun> run_trainer(const BenchCase& what, const BenchRunOptions& options);

// Anybody's script, by the probe in its Python.
Result<BenchRun> run_script(const BenchCase& what, const BenchRunOptions& options);

}  // namespace lockstep
