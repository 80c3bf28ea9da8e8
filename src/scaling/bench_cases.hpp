// Which trainings a benchmark runs, as command lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/bench.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct BenchRequest {
  std::string lockstep;  // the programs
  std::string trainer;
  bool on_gpus = false;
  std::vector<int> devices;  // rising; the first is 1
  std::string model;         // of lockstep-train
  std::int64_t batch = 16;   // of one device alone; divided among them where scaling is strong
  std::int64_t accumulation = 4;
  std::vector<double> buckets_mb;
  std::vector<std::string> ways;    // of these alone; empty: all
  std::vector<std::string> script;  // the user's own and its arguments, instead of lockstep-train
};

// Samples of the synthetic data, so that an epoch has a length.
inline constexpr std::int64_t kBenchSamples = 16384;

inline constexpr const char* kBenchWays[] = {"single", "naive",        "data-parallel",
                                             "ddp",    "accumulation", "buckets"};

// One device first; then the ways to use more.
Result<std::vector<BenchCase>> scaling_cases(const BenchRequest& request);

// The published settings for two GPUs, each 16 samples an update: single 4/4/5, old DDP 2/4/1,
// standard 4/2/5, fast 8/1/10 (batch, passes, steps between log lines), which took 16, 15, 12 and
// 10 minutes.
std::vector<BenchCase> preset_cases(const BenchRequest& request);

}  // namespace lockstep
