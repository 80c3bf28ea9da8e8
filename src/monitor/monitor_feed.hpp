// Feeds the live screen: pulls records on a thread of its own, live or from a file at a speed, and
// never lets the screen wait.
//
// The screen looks at what is known under a lock that is held for microseconds; nothing behind that
// lock calls a driver, reads /proc or judges. Requests are left in a queue and answered by what is
// known changing.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/result.hpp"
#include "monitor/feed_thread.hpp"
#include "monitor/monitored.hpp"

namespace lockstep {

class MonitorFeed {
 public:
  explicit MonitorFeed(FeedOptions options);
  // Waits for the thread: stop() first where the driver may be stuck.
  ~MonitorFeed();
  MonitorFeed(const MonitorFeed&) = delete;
  MonitorFeed& operator=(const MonitorFeed&) = delete;

  // Shows what is known, under the lock.
  template <class Look>
  auto look(Look look) const {
    const std::lock_guard lock(shared_->mutex);
    return look(std::as_const(*shared_->seen));
  }
  void request(FeedRequest request);

  // Waits until the source is open or has failed, at most so long; true when it is one of the two.
  bool wait_until_open(std::chrono::milliseconds limit) const;
  // Why nothing comes any more, if so.
  std::optional<Error> failure() const;
  // Ends the feed and closes its recording. False: it did not end within the limit, and was left
  // behind; then only _exit ends the process.
  bool stop(std::chrono::milliseconds limit);

 private:
  std::shared_ptr<FeedState> shared_;
  std::thread thread_;
};

}  // namespace lockstep
