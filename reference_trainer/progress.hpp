// What the run says: a line every so many updates, for people or for programs, and a bar on a
// terminal. Rank 0 alone speaks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference_trainer/compute_device.hpp"

namespace lockstep {

// The state of the run at one update. All numbers are of all ranks together.
struct ProgressLine {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  std::optional<double> gradient_norm;
  double tokens_per_s = 0;
  double samples_per_s = 0;
  double step_ms = 0;
  std::optional<double> model_flops_utilization;  // 0..1; nothing: the device's peak is not known
  std::vector<DeviceMemory> memory;               // by rank: its fullest device's
  std::chrono::nanoseconds epoch_time{};          // of a whole epoch, at this speed
  std::chrono::nanoseconds left{};
};

class Progress {
 public:
  enum class Format { text, json };
  Progress(Format format, bool speaks) : format_(format), speaks_(speaks) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& words);  // to stderr, in text only
  void line(const ProgressLine& line);
  void bar(std::int64_t step, std::int64_t steps);
  // The whole run, after its last update.
  void summary(const ProgressLine& line, std::int64_t updates, std::chrono::nanoseconds time);

 private:
  void clear_bar();

  const Format format_;
  const bool speaks_;
  bool bar_shown_ = false;
  std::chrono::nanoseconds bar_at_{};
};

}  // namespace lockstep
