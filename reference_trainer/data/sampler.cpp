#include "reference_trainer/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep {

void Sampler::set_epoch(std::int64_t epoch) {
  order_.resize(static_cast<std::size_t>(options_.samples));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (options_.shuffle) {
    // By hand: std::shuffle differs between standard libraries, and ranks may stand on several
    // machines.
    std::mt19937_64 random(static_cast<std::uint64_t>(options_.seed) +
                           0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(epoch + 1));
    for (std::size_t left = order_.size(); left > 1; --left)
      std::swap(order_[left - 1], order_[random() % left]);
  }
  const std::int64_t world = options_.world;
  // With drop_last whole batches only; else each rank gets as many samples as any other, some
  // twice.
  const std::int64_t unit = options_.drop_last ? world * options_.batch_size : world;
  const std::int64_t whole = options_.samples / unit * unit;
  if (options_.drop_last) {
    order_.resize(static_cast<std::size_t>(whole));
  } else if (whole < options_.samples) {
    const auto wanted = static_cast<std::size_t>(whole + unit);
    for (std::size_t i = 0; order_.size() < wanted; ++i) order_.push_back(order_[i]);
  }
}

std::int64_t Sampler::batches() const {
  const std::int64_t own = static_cast<std::int64_t>(order_.size()) / options_.world;
  return (own + options_.batch_size - 1) / options_.batch_size;
}

std::vector<std::int64_t> Sampler::batch(std::int64_t place) const {
  const std::int64_t own = static_cast<std::int64_t>(order_.size()) / options_.world;
  std::vector<std::int64_t> samples;
  for (std::int64_t i = place * options_.batch_size;
       i < std::min(own, (place + 1) * options_.batch_size); ++i)
    samples.push_back(order_[static_cast<std::size_t>(i * options_.world + options_.rank)]);
  return samples;
}

}  // namespace lockstep
