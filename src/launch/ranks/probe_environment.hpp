// The variables that switch probes on in a process and in everything it starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/ranks/rank_environment.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct ProbeChoice {
  bool python = true;
  bool host = true;
  bool cuda = true;
  bool nccl = true;
  bool ras = true;  // asked from outside: needs no variable
  // asked for by name: one that is not installed is an error, else it is left out
  bool by_name = false;
  bool cuda_always = false;  // not in windows of a few steps

  bool any_inside() const { return python || host || cuda || nccl; }
  bool any() const { return any_inside() || ras; }
};

// What `auto` is where a command is watched and not measured: nothing that is felt.
inline constexpr ProbeChoice kLightProbes{true, true, false, false, true, false};

// auto (then `automatic`), none, or names with commas: host,python,cuda,nccl,ras; cuda=always for
// records of every step.
Result<ProbeChoice> parse_probes(const std::string& text, const ProbeChoice& automatic);

struct ProbedVariables {
  Variables variables;
  ProbeChoice probes;  // those that are switched on
  // why others are not: "cuda: CUDA_INJECTION64_PATH is another tool's"
  std::vector<std::string> left_out;
};

// Adds to what is set already: the user's PYTHONPATH and LD_PRELOAD stay behind ours, a profiler
// plugin of NCCL is handed to ours, and another tool's CUDA_INJECTION64_PATH is left alone. An
// empty folder: rings go to the runtime folder, where `lockstep monitor` looks.
Result<ProbedVariables> with_probes(Variables around, const ProbeChoice& probes,
                                    const std::filesystem::path& folder);

}  // namespace lockstep
