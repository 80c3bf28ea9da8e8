// Makes batches ahead of the training loop on threads of its own, and hands them over in order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "reference_trainer/data/dataset.hpp"
#include "reference_trainer/data/sampler.hpp"

namespace lockstep {

struct LoaderOptions {
  std::int64_t workers = 2;   // 0: next() makes the batch itself
  std::int64_t prefetch = 2;  // batches a worker
  bool pin_memory = false;    // page-locked, so that the copy to a GPU runs beside the GPU's work
  bool preload = false;       // start_epoch() makes all batches
  std::chrono::nanoseconds delay{};  // on top of each batch, for experiments: asleep
};

class Loader {
 public:
  Loader(const Dataset& dataset, const SamplerOptions& sampler, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batches of an epoch, from `first_batch` on: a run that goes on where another ended starts
  // in the middle.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  std::int64_t batches() const { return sampler_.batches(); }
  // From now on each batch takes so much longer: as if it were read from afar, or computed.
  enum class Delay : std::uint8_t { asleep, computing };
  void set_delay(std::chrono::nanoseconds delay, Delay kind) {
    delay_kind_ = kind;
    delay_ns_ = delay.count();
  }
  // The next batch, or nothing at the epoch's end. What a worker could not read is thrown here.
  std::optional<Batch> next();

 private:
  Batch make(std::int64_t place) const;
  void work();
  void stop_workers();

  const Dataset& dataset_;
  const LoaderOptions options_;
  Sampler sampler_;  // changed while no worker runs

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t to_make_ = 0;             // guarded: the next batch that no worker has taken
  std::int64_t to_hand_over_ = 0;        // guarded
  std::int64_t end_ = 0;                 // guarded: batches of the epoch
  bool stopping_ = false;                // guarded
  std::map<std::int64_t, Batch> ready_;  // guarded
  std::exception_ptr problem_;           // guarded
  std::atomic<std::int64_t> delay_ns_;
  std::atomic<Delay> delay_kind_ = Delay::asleep;
  std::vector<std::thread> workers_;
};

}  // namespace lockstep
