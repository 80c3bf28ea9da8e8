#include "monitor/feed_thread.hpp"

#include <utility>

#include "base/clock.hpp"

namespace lockstep {

FeedThread::FeedThread(FeedOptions options, std::shared_ptr<FeedState> shared,
                       std::unique_ptr<Source> source)
    : options_(std::move(options)),
      shared_(std::move(shared)),
      source_(std::move(source)),
      scene_(std::make_unique<MonitorScene>(*source_, options_.scene)) {}

bool FeedThread::stopped() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->stop;
}

std::optional<FeedRequest> FeedThread::next_request(std::chrono::nanoseconds wait) const {
  std::unique_lock lock(shared_->mutex);
  if (wait.count() > 0)
    shared_->changed.wait_for(lock, wait,
                              [&] { return shared_->stop || !shared_->requests.empty(); });
  if (shared_->requests.empty()) return std::nullopt;
  FeedRequest request = std::move(shared_->requests.front());
  shared_->requests.pop_front();
  return request;
}

void FeedThread::add(Record record) {
  update([&](Monitored&) { scene_->add(std::move(record)); });
}

void FeedThread::judge_if_due() {
  if (scene_->is_judgement_due()) judge();
}

// The judging itself is done without the lock: it takes tens of milliseconds on many GPUs.
void FeedThread::judge() {
  Timeline timeline = scene_->to_be_judged(source_->not_measured());
  const auto begin = monotonic_now();
  Report report = options_.scene.judge(timeline);
  const auto took = monotonic_now() - begin;
  update([&](Monitored&) { scene_->take_verdict(std::move(report), took); });
}

void FeedThread::show_scene() {
  {
    const std::lock_guard lock(shared_->mutex);
    scene_->seen().note = shared_->seen->note;
    scene_->seen().notes = shared_->seen->notes;
    shared_->seen = scene_->shared();
  }
  scene_is_shown_ = true;
  shared_->changed.notify_all();
  announce();
}

void FeedThread::tell(std::string sentence) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->seen->note = std::move(sentence);
    ++shared_->seen->notes;
  }
  announce();
}

void FeedThread::fail(Error error) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->failure = std::move(error);
  }
  shared_->changed.notify_all();
  announce();
}

}  // namespace lockstep
