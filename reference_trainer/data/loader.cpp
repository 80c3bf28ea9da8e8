#include "reference_trainer/data/loader.hpp"

#include <pthread.h>

#include <string>

#include "base/clock.hpp"

namespace lockstep {

Loader::Loader(const Dataset& dataset, const SamplerOptions& sampler, const LoaderOptions& options)
    : dataset_(dataset), options_(options), sampler_(sampler), delay_ns_(options.delay.count()) {}

Loader::~Loader() { stop_workers(); }

void Loader::stop_workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  stopping_ = false;
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  stop_workers();
  sampler_.set_epoch(epoch);
  ready_.clear();
  to_make_ = to_hand_over_ = first_batch;
  end_ = sampler_.batches();
  if (options_.preload)
    for (; to_make_ < end_; ++to_make_) ready_[to_make_] = make(to_make_);
  for (std::int64_t i = 0; i < options_.workers && to_make_ < end_; ++i)
    workers_.emplace_back([this, i] {
      ::pthread_setname_np(::pthread_self(), ("loader" + std::to_string(i)).c_str());
      work();
    });
}

Batch Loader::make(std::int64_t place) const {
  Batch batch = dataset_.batch_of(sampler_.batch(place));
  if (const std::chrono::nanoseconds delay(delay_ns_.load()); delay.count() > 0) {
    if (delay_kind_ == Delay::asleep)
      std::this_thread::sleep_for(delay);
    else
      for (const auto until = monotonic_now() + delay; monotonic_now() < until;) {
      }
  }
  if (options_.pin_memory) batch = {batch.inputs.pin_memory(), batch.targets.pin_memory()};
  return batch;
}

void Loader::work() {
  const std::int64_t most_ready = options_.workers * options_.prefetch;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] {
      return stopping_ || problem_ || (to_make_ < end_ && to_make_ < to_hand_over_ + most_ready) ||
             to_make_ >= end_;
    });
    if (stopping_ || problem_ || to_make_ >= end_) return;
    const std::int64_t place = to_make_++;
    lock.unlock();
    std::optional<Batch> batch;
    std::exception_ptr problem;
    try {
      batch = make(place);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    if (batch)
      ready_[place] = std::move(*batch);
    else
      problem_ = problem;
    changed_.notify_all();
  }
}

std::optional<Batch> Loader::next() {
  std::unique_lock lock(mutex_);
  if (to_hand_over_ >= end_) return std::nullopt;
  if (options_.workers == 0 && !ready_.contains(to_hand_over_)) {
    lock.unlock();
    return make(to_hand_over_++);
  }
  changed_.wait(lock, [&] { return problem_ || ready_.contains(to_hand_over_); });
  if (!ready_.contains(to_hand_over_)) std::rethrow_exception(problem_);
  Batch batch = std::move(ready_.extract(to_hand_over_++).mapped());
  changed_.notify_all();
  return batch;
}

}  // namespace lockstep
