// What makes data parallelism out of ranks: while backward still runs, gradients that are ready are
// averaged over all ranks, a bucket at a time (c10d::Reducer, the engine of
// DistributedDataParallel).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "reference_trainer/distributed.hpp"
#include "reference_trainer/model/model.hpp"
#include "reference_trainer/step_marks.hpp"
#include "reference_trainer/virtual_gpus.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

class GradientReducer {
 public:
  // Parameters that are trained, and no others: a frozen one would sit in a bucket for ever. Rank
  // 0's values go to all ranks.
  GradientReducer(const Distributed& ranks, const std::vector<Parameter>& parameters,
                  const TrainSettings& settings, VirtualGpus& virtual_gpus);

  // Before the forward pass that ends in an exchange.
  void before_forward();
  // Between forward and backward. A pass that only accumulates leaves it out, and nothing is sent.
  void before_backward(const Tensor& loss);
  // Marks on the last stretch of backward, that of `root`, where the wait for the slowest bucket
  // begins.
  void watch_wait(const Tensor& root);
  // After backward: how long it waited at the end, and how long buckets travelled beside it.
  void after_backward(StepMarks& marks);

  std::size_t buckets() const { return buckets_; }

 private:
  // Time in which at least one bucket travels.
  struct Travel {
    std::mutex mutex;
    int under_way = 0;  // guarded by mutex, as is all here
    std::chrono::nanoseconds since{};
    std::chrono::nanoseconds total{};
  };
  class AverageAndTime;

  VirtualGpus& virtual_gpus_;
  std::shared_ptr<Travel> travel_ = std::make_shared<Travel>();
  // 0: no wait yet
  std::shared_ptr<std::atomic<std::int64_t>> wait_began_ns_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::unique_ptr<c10d::Reducer> reducer_;
  std::size_t buckets_ = 0;
  bool learns_graph_ = false;  // until the first exchange of a static graph
};

}  // namespace lockstep
