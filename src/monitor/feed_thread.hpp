// What the two kinds of feed share: requests, the scene they fill, and the verdicts.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/monitor_request.hpp"
#include "lockstep/result.hpp"
#include "monitor/monitor_scene.hpp"
#include "monitor/monitored.hpp"

namespace lockstep {

struct FeedOptions {
  // called on the feed's thread; again to go back in a file
  std::function<Result<std::unique_ptr<Source>>()> open;
  bool can_reopen = false;  // a file, not a pipe
  std::chrono::nanoseconds interval{};
  SceneOptions scene;
  // something is new to see; called on the feed's thread
  std::function<void()> changed;
};

// Between the feed's thread and the screen's. Lives as long as either.
struct FeedState {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Monitored> seen = std::make_shared<Monitored>();  // guarded, like all below
  std::deque<FeedRequest> requests;
  std::optional<Error> failure;
  bool stop = false;
  bool ended = false;
};

// The value so many places further along an ascending list, from the one nearest to `now`.
template <class T, std::size_t N>
T moved_along(const std::array<T, N>& list, T now, int steps) {
  const auto above = std::ranges::lower_bound(list, now);
  auto place = above - list.begin();
  if (above == list.end() || (above != list.begin() && now - *std::prev(above) < *above - now))
    --place;
  return list[static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(place + steps, 0, static_cast<std::ptrdiff_t>(N) - 1))];
}

class FeedThread {
 public:
  FeedThread(FeedOptions options, std::shared_ptr<FeedState> shared,
             std::unique_ptr<Source> source);
  virtual ~FeedThread() = default;
  FeedThread(const FeedThread&) = delete;
  FeedThread& operator=(const FeedThread&) = delete;

  virtual void run() = 0;

 protected:
  bool stopped() const;
  // The oldest request, waited for at most so long.
  std::optional<FeedRequest> next_request(std::chrono::nanoseconds wait = {}) const;
  // Changes what is seen, under the lock where the screen can see it already.
  template <class Change>
  void update(Change change) {
    if (!scene_is_shown_) return change(scene_->seen());
    const std::lock_guard lock(shared_->mutex);
    change(scene_->seen());
  }
  void add(Record record);
  void judge_if_due();
  void judge();
  void show_scene();  // from now on the screen sees this one
  void announce() const {
    if (options_.changed) options_.changed();
  }
  void tell(std::string sentence);
  void tell(const Error& error) { tell(error.what + "; " + error.next); }
  void fail(Error error);

  const FeedOptions options_;
  const std::shared_ptr<FeedState> shared_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<MonitorScene> scene_;
  bool scene_is_shown_ = false;
};

// Watches a driver until told to stop.
std::unique_ptr<FeedThread> make_live_feed(FeedOptions options, std::shared_ptr<FeedState> shared,
                                           std::unique_ptr<Source> source);
// Plays a file at a speed, from any place of it.
std::unique_ptr<FeedThread> make_file_feed(FeedOptions options, std::shared_ptr<FeedState> shared,
                                           std::unique_ptr<Source> source);

}  // namespace lockstep
