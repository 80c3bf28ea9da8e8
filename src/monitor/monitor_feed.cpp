#include "monitor/monitor_feed.hpp"

#include <pthread.h>

#include <exception>

namespace lockstep {
namespace {

void run_feed(const FeedOptions& options, const std::shared_ptr<FeedState>& shared) {
  ::pthread_setname_np(::pthread_self(), "lockstep-feed");
  const auto fail = [&](Error error) {
    const std::lock_guard lock(shared->mutex);
    shared->failure = std::move(error);
  };
  try {
    auto source = options.open();
    if (!source) {
      fail(std::move(source).error());
    } else {
      const auto feed = (*source)->facts().live
                            ? make_live_feed(options, shared, std::move(*source))
                            : make_file_feed(options, shared, std::move(*source));
      feed->run();
    }
  } catch (const std::exception& problem) {
    fail({problem.what(), "this is a fault of lockstep; please report it with the command line"});
  }
  {
    const std::lock_guard lock(shared->mutex);
    shared->ended = true;
  }
  shared->changed.notify_all();
  if (options.changed) options.changed();
}

}  // namespace

MonitorFeed::MonitorFeed(FeedOptions options)
    : shared_(std::make_shared<FeedState>()),
      thread_([options = std::move(options), shared = shared_] { run_feed(options, shared); }) {}

MonitorFeed::~MonitorFeed() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  thread_.join();
}

void MonitorFeed::request(FeedRequest request) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->requests.push_back(std::move(request));
  }
  shared_->changed.notify_all();
}

bool MonitorFeed::wait_until_open(std::chrono::milliseconds limit) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(
      lock, limit, [&] { return shared_->seen->open || shared_->failure || shared_->ended; });
}

std::optional<Error> MonitorFeed::failure() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failure;
}

bool MonitorFeed::stop(std::chrono::milliseconds limit) {
  if (!thread_.joinable()) return true;
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, limit, [&] { return shared_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
  return ended;
}

}  // namespace lockstep
