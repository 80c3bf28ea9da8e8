// The one thread that talks to the driver.
//
// More threads only queue on the driver's lock, and any call may block for seconds or for ever; so
// nobody else calls NVML, and nobody ever waits for this thread. What it shares is behind one
// mutex. When it does not come back it is left behind: it owns what it touches.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"
#include "lockstep/source.hpp"
#include "sources/nvml/call_schedule.hpp"
#include "sources/nvml/nvml_session.hpp"

namespace lockstep {

struct PollerOptions {
  SessionOptions session;
  ScheduleOptions schedule;
  // for nvmlInit and the first look
  std::chrono::milliseconds start_limit = std::chrono::seconds(10);
};

// What one kind of call costs here, for people and for the doctor.
struct CallCost {
  CallKind kind;
  std::chrono::nanoseconds cost;    // one GPU
  std::chrono::nanoseconds period;  // after the budget
  bool slowed_down = false;
};

struct SamplingCost {
  double share_of_wall_time = 0;
  std::vector<CallCost> calls;
};

class Poller {
 public:
  // Loads the library, finds the GPUs, and starts reading.
  static Result<std::unique_ptr<Poller>> start(PollerOptions options);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  const Machine& machine() const { return machine_; }
  // The next record, or nothing within `wait`. Process records hold pids and memory only.
  NextRecord next(std::chrono::milliseconds wait);
  // From the next tick on.
  void set_interval(std::chrono::nanoseconds interval);
  // One last look, then the end of input.
  void finish();

  std::vector<NotMeasured> not_measured() const;
  std::optional<Source::Silence> silence() const;
  SamplingCost cost() const;

  // Whether some poller of this process was left behind in the driver: then only _exit ends the
  // process.
  static bool any_left_behind();

 private:
  class Work;
  struct Shared;
  Poller(std::shared_ptr<Shared> shared, std::thread thread, Machine machine);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  Machine machine_;
};

}  // namespace lockstep
