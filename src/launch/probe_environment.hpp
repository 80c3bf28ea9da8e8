// The variables that switch probes on in a process and in everything it starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/rank_environment.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct ProbeChoice {
  bool python = true;
  bool host = true;
  bool by_name = false;  // asked for by name: one that is not installed is an error, else it is left out

  bool any() const { return python || host; }
};

// auto, none, or names with commas: host,python.
Result<ProbeChoice> parse_probes(const std::string& text);

// Adds to what is set already: the user's PYTHONPATH and LD_PRELOAD stay behind ours. An empty folder: rings go to the runtime
// folder, where `lockstep monitor` looks. 
Result<Variables> with_probes(Variables around, const ProbeChoice& probes, const std::filesystem::path& folder);

}  // namespace lockstep
