// Weights & Biases' names for what a GPU reads: "gpu.0.powerWatts", "gpu.process.0.memory".
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Of one moment.
struct WandbMetrics {
  std::optional<double> time_s;
  std::map<std::string, double, std::less<>> values;
};

// `held`: the GPUs that the run itself holds, as far as its metrics say so.
void add_wandb_metrics(const WandbMetrics& metrics, LogBuilder& builder, std::set<int>& held);

}  // namespace lockstep
