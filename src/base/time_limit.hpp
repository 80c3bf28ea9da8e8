// Runs a piece of work that may never come back, and stops waiting for it.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep {

// The work's value, or nothing when it took longer than `limit`. The work then goes on alone on its
// own thread (a call stuck in a driver cannot be taken back), so it must own everything it touches.
template <class Work>
auto run_with_time_limit(std::chrono::milliseconds limit, Work work)
    -> std::optional<decltype(work())> {
  using Value = decltype(work());
  std::packaged_task<Value()> task(std::move(work));
  std::future<Value> value = task.get_future();
  std::thread(std::move(task)).detach();
  if (value.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return value.get();
}

}  // namespace lockstep
