// Which driver calls are due when, so that reading costs the job next to nothing.
//
// All NVML calls queue on one driver lock, so time spent in them is time taken from the job. Each
// kind of call has a wished period; kinds that cost too much are slowed down, dearest first, until
// the sum fits the budget. Pure: time and costs are passed in. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace lockstep {

enum class CallKind : std::uint8_t {
  busy,
  clocks,
  power,  // the fast cadence
  memory,
  temperature,
  limits,
  power_samples,
  gpm,
  byte_counters,
  events,    // the slow one
  processes  // the third
};
inline constexpr std::size_t kCallKinds = 11;
inline constexpr std::array<std::string_view, kCallKinds> kCallKindNames = {
    "busy",          "clocks", "power",         "memory", "temperature", "limits",
    "power samples", "GPM",    "byte counters", "events", "processes"};

struct ScheduleOptions {
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  std::chrono::nanoseconds process_period = std::chrono::seconds(2);
  std::chrono::nanoseconds gpm_period = std::chrono::seconds(1);
  // at most: the buffer is 2.4 s long
  std::chrono::nanoseconds power_samples_period = std::chrono::seconds(2);
  std::chrono::nanoseconds byte_counters_period = std::chrono::seconds(1);
  double budget = 0.01;  // share of wall time in the driver; design: under 1 %
  std::uint32_t seed = 1;
};

class CallSchedule {
 public:
  using Time = std::chrono::nanoseconds;  // on any one clock

  CallSchedule(const ScheduleOptions& options, std::size_t gpu_count, Time start);

  // The kinds to call now; each is taken as called.
  std::vector<CallKind> take_due(Time now);
  // When to come back.
  Time next_wake();

  // Another fast cadence from now on; what the calls cost is remembered.
  void set_interval(Time interval, Time now);

  // One call of this kind on one GPU took so long.
  void measured(CallKind kind, std::chrono::nanoseconds cost);
  // Fits the periods to the costs seen so far.
  void replan();
  // The buffer of power samples must be read before the driver overwrites it.
  void limit_period(CallKind kind, std::chrono::nanoseconds longest);

  std::chrono::nanoseconds period(CallKind kind) const { return plan(kind).period; }
  std::chrono::nanoseconds cost(CallKind kind) const;
  double load() const;  // share of wall time in the driver, by the costs seen
  bool slowed_down(CallKind kind) const { return plan(kind).period > plan(kind).wished; }

 private:
  struct Plan {
    Time wished{};
    Time longest{};
    Time period{};
    Time due{};
    double cost_ns = 0;  // smoothed
    int measurements = 0;
  };
  Plan& plan(CallKind kind) { return plans_[static_cast<std::size_t>(kind)]; }
  const Plan& plan(CallKind kind) const { return plans_[static_cast<std::size_t>(kind)]; }
  double load_of(const Plan& plan) const;
  void wish_all(Time start);

  std::array<Plan, kCallKinds> plans_;
  ScheduleOptions options_;
  Time interval_;
  double budget_;
  double gpu_count_;
  std::minstd_rand random_;
};

}  // namespace lockstep
