// GPUs of many machines, as a Prometheus server remembers them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "sources/prometheus/prometheus_options.hpp"

namespace lockstep {

inline bool looks_like_url(const std::string& input) {
  return input.starts_with("http://") || input.starts_with("https://");
}

// Reads the whole window before it returns. `gpus`: only these, by the numbers that count over all
// machines; empty: all.
Result<std::unique_ptr<Source>> open_prometheus(const std::string& url,
                                                const PrometheusOptions& options,
                                                const std::vector<int>& gpus);

}  // namespace lockstep
