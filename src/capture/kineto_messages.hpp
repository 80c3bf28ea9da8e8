// What PyTorch's profiler and its daemon say to each other: docs/formats/kineto.md.
//
// A process that was started with KINETO_USE_DAEMON asks every few seconds, over a datagram socket,
// whether anything is to be traced. The answer is a configuration as text, or nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct KinetoRequest {
  std::int32_t kinds = 0;  // 1 events, 2 activities: what it could take a configuration for
  std::int64_t job = 0;
  std::vector<int> pids;  // its own, as it sees itself, then its ancestors'
};

// Nothing: the datagram is no request.
std::optional<KinetoRequest> parse_request(std::string_view datagram);

// An answer; without text it means "nothing to do".
std::string answer_of(std::string_view configuration);

struct TraceOrder {
  std::string file;                                // the process puts its number before the ending
  std::optional<std::chrono::milliseconds> start;  // since 1970; nothing: at once
  std::chrono::milliseconds duration{500};
  bool stacks = false;
};
std::string configuration_of(const TraceOrder& order);

// "/tmp/x.json" of process 42 is "/tmp/x_42.json".
std::string file_of_process(const std::string& file, int pid);

}  // namespace lockstep
