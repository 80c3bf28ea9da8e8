// Small traces, as the profiler would write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rows/rank_trace.hpp"

namespace lockstep::testing {

// Times in microseconds. Every row goes to thread 1 unless told otherwise; kernels go to stream 7
// of GPU 0.
class TraceMaker {
 public:
  TraceMaker& rank(int rank, int world_size);
  TraceMaker& device(int major, const std::string& name = "NVIDIA H100");

  TraceMaker& op(const std::string& name, double start, double duration, int thread = 1);
  TraceMaker& annotation(const std::string& name, double start, double duration);
  TraceMaker& python(const std::string& name, double start, double duration);
  // into the driver, launching nothing
  TraceMaker& call(const std::string& name, double start, double duration, int thread = 1);
  // Launched at `launched` by a call of 5 us.
  TraceMaker& kernel(const std::string& name, double launched, double start, double duration,
                     int stream = 7, int device = 0, int thread = 1);
  TraceMaker& copy(const std::string& name, double launched, double start, double duration,
                   std::uint64_t bytes, double call_lasts = 5);
  TraceMaker& event(const std::string& json);

  std::string text() const;
  RankTrace trace() const;  // read again

 private:
  void add(const std::string& category, const std::string& name, const std::string& place,
           double start, double duration, const std::string& arguments);

  std::vector<std::string> events_;
  std::string facts_;
  int correlation_ = 0;
};

std::string gzipped(const std::string& text);

}  // namespace lockstep::testing
