// Which samples a rank takes in an epoch, and in what order. Ranks share one order and take every
// world-th of it, so each sample is seen once, and no rank has more batches than another: nobody
// waits for a batch that never comes.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

struct SamplerOptions {
  std::int64_t samples = 0;
  int rank = 0;
  int world = 1;
  std::int64_t batch_size = 1;
  std::int64_t seed = 0;  // the same on all ranks
  bool shuffle = true;
  bool drop_last = true;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options) { set_epoch(0); }

  // A new order each epoch; the same one for the same epoch.
  void set_epoch(std::int64_t epoch);
  std::int64_t batches() const;
  std::vector<std::int64_t> batch(std::int64_t place) const;

 private:
  SamplerOptions options_;
  // of all ranks; with drop_last cut, else padded from its start, to fill all ranks alike
  std::vector<std::int64_t> order_;
};

}  // namespace lockstep
