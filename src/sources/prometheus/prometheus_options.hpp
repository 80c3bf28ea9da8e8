// How a Prometheus server is asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

enum class AfterWindow : std::uint8_t {
  end,     // the window is all that is wanted
  follow,  // new readings are asked for as they come
};

struct PrometheusOptions {
  std::string selector;  // label matchers: cluster="a",Hostname=~"node.*"; with or without braces
  // which label names the job; empty: those that exporters are known to use
  std::string job_label;
  std::chrono::nanoseconds window = std::chrono::minutes(10);
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);  // for each answer
  std::string token_file;  // its first line is sent as bearer token
  std::string ca_file;     // certificates to trust beside the system's
  AfterWindow after = AfterWindow::end;
};

}  // namespace lockstep
