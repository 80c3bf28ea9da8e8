#include "timeline/history.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "timeline/timeline_builder.hpp"

namespace lockstep {
namespace {

// A quantity holds for so many of its own spacings, and at least so long: temperature comes once a
// second, a dear one may have been slowed down.
constexpr double kHoldSpacings = 3;
constexpr double kHoldAtLeastMs = 2500;
// A bucket without a tick takes the one before it when ticks are simply farther apart than buckets.
constexpr double kReachSpacings = 2;
constexpr double kNewSpacingWeight = 0.2;
constexpr std::size_t kMostVerdicts = 4096;  // changes kept: more than an hour of one a second

std::int64_t number_of(double t_ms, double bucket_ms) {
  return static_cast<std::int64_t>(std::floor(t_ms / bucket_ms));
}

}  // namespace

template <class Held>
Held* History::Ring<Held>::place(std::int64_t number, const Held& fresh) {
  const auto limit = static_cast<std::int64_t>(capacity);
  // a pause longer than the ring: nothing in it is of use any more
  if (held.empty() || number >= end + limit) {
    held.clear();
    base = end = number;
  }
  if (number < begin()) return nullptr;
  for (; end <= number; ++end) {
    if (held.size() == held.capacity() && held.size() < capacity)
      held.reserve(std::min(capacity, std::max<std::size_t>(256, 2 * held.size())));
    if (held.size() < capacity)
      held.push_back(fresh);
    else
      held[static_cast<std::size_t>((end - base) % limit)] = fresh;
  }
  return &held[static_cast<std::size_t>((number - base) % limit)];
}

template <class Held>
const Held* History::Ring<Held>::find(std::int64_t number) const {
  if (number < begin() || number >= end) return nullptr;
  return &held[static_cast<std::size_t>((number - base) % static_cast<std::int64_t>(capacity))];
}

History::History(std::vector<int> gpus, HistoryOptions options) : options_(std::move(options)) {
  for (const int gpu : gpus) row(gpu);
}

History::Gpu& History::row(int gpu) {
  for (std::size_t i = 0; i < gpus_.size(); ++i)
    if (gpus_[i] == gpu) return rows_[i];
  Gpu fresh;
  for (const HistoryOptions::Level& level : options_.levels) {
    Ring<Bucket> ring;
    ring.bucket_ms = level.bucket_ms;
    ring.capacity = level.buckets;
    fresh.levels.push_back(std::move(ring));
  }
  fresh.power.bucket_ms = options_.power_bucket_ms;
  fresh.power.capacity = options_.power_buckets;
  gpus_.push_back(gpu);
  rows_.push_back(std::move(fresh));
  return rows_.back();
}

const History::Gpu* History::find(int gpu) const {
  for (std::size_t i = 0; i < gpus_.size(); ++i)
    if (gpus_[i] == gpu) return &rows_[i];
  return nullptr;
}

void History::add(double t_ms, const GpuTick& tick) {
  if (newest_ms_ && t_ms < *newest_ms_) return;
  if (newest_ms_ && t_ms > *newest_ms_) {
    const double spacing = t_ms - *newest_ms_;
    if (spacing_ms_ == 0)
      spacing_ms_ = spacing;
    else if (spacing < kGapSpacings * spacing_ms_)
      spacing_ms_ += kNewSpacingWeight * (spacing - spacing_ms_);
    else
      spacing_ms_ *=
          1 + kNewSpacingWeight;  // the interval may have been made longer: learn that, slowly
  }
  if (!first_ms_) first_ms_ = t_ms;
  newest_ms_ = t_ms;
  for (const GpuSample& sample : tick) put(row(sample.index), t_ms, sample);
}

void History::carry(Gpu& gpu, Quantity quantity, double t_ms, double value) {
  Carried& carried = gpu.carried[static_cast<std::size_t>(quantity)];
  if (!std::isnan(carried.value)) carried.spacing_ms = t_ms - carried.since_ms;
  carried.value = static_cast<float>(value);
  carried.since_ms = t_ms;
}

void History::carry_link(Gpu& gpu, Quantity quantity, std::size_t link, double t_ms,
                         const Reading<std::uint64_t>& rx, const Reading<std::uint64_t>& tx) {
  if (!rx.has_value() && !tx.has_value()) return;
  const double bytes =
      static_cast<double>(rx.value().value_or(0)) + static_cast<double>(tx.value().value_or(0));
  Counter& counter = gpu.links[link];
  // A counter that went back was reset: the next reading starts anew.
  if (counter.known && t_ms > counter.t_ms && bytes >= counter.bytes)
    carry(gpu, quantity, t_ms, (bytes - counter.bytes) / (t_ms - counter.t_ms) * 1e3);
  counter = {t_ms, bytes, true};
}

void History::add_power(Gpu& gpu, double t_ms, const PowerSamples& samples) {
  const auto count = static_cast<double>(samples.milliwatts.size());
  const double first = samples.first_ms.value_or(t_ms - (count - 1) * samples.sample_ms);
  for (std::size_t i = 0; i < samples.milliwatts.size(); ++i) {
    const double at = first + static_cast<double>(i) * samples.sample_ms;
    if (!std::isfinite(at) || at > t_ms + options_.power_bucket_ms || at < t_ms - 1e6) continue;
    // A sample stands for the time since the one before it: where those are longer than a bucket,
    // for several.
    const std::int64_t last = number_of(at, options_.power_bucket_ms);
    const auto stands_for =
        std::clamp<std::int64_t>(std::llround(samples.sample_ms / options_.power_bucket_ms), 1, 64);
    for (std::int64_t number = last - stands_for + 1; number <= last; ++number)
      if (float* const place = gpu.power.place(number, kUnknown))
        *place = static_cast<float>(samples.milliwatts[i]);
  }
}

void History::put(Gpu& gpu, double t_ms, const GpuSample& sample) {
  const auto take = [&](Quantity quantity, const auto& reading) {
    if (!reading.asked()) return;
    if (const auto value = reading.value())
      carry(gpu, quantity, t_ms, static_cast<double>(*value));
    else
      gpu.carried[static_cast<std::size_t>(quantity)].value = kUnknown;
  };
  take(Quantity::busy, sample.busy);
  take(Quantity::sm, sample.sm);
  take(Quantity::tensor, sample.tensor);
  take(Quantity::dram, sample.dram);
  take(Quantity::power, sample.power_mw);
  take(Quantity::memory, sample.memory_used_bytes);
  take(Quantity::temperature, sample.temperature_c);
  take(Quantity::clock, sample.sm_clock_mhz);
  carry_link(gpu, Quantity::pcie, 0, t_ms, sample.pcie_rx_bytes, sample.pcie_tx_bytes);
  carry_link(gpu, Quantity::nvlink, 1, t_ms, sample.nvlink_rx_bytes, sample.nvlink_tx_bytes);
  if (const auto samples = sample.power_samples.value()) add_power(gpu, t_ms, *samples);

  Bucket fresh;
  fresh.values.fill(kUnknown);
  for (Ring<Bucket>& level : gpu.levels) {
    Bucket* const bucket = level.place(number_of(t_ms, level.bucket_ms), fresh);
    if (bucket == nullptr) continue;
    if (bucket->ticks < std::numeric_limits<std::uint16_t>::max()) ++bucket->ticks;
    for (std::size_t i = 0; i < kQuantities; ++i) {
      const Carried& carried = gpu.carried[i];
      const double holds = std::max(kHoldAtLeastMs, kHoldSpacings * carried.spacing_ms);
      if (std::isnan(carried.value) || t_ms - carried.since_ms > holds) continue;
      float& mean = bucket->values[i];
      mean = std::isnan(mean) ? carried.value
                              : mean + (carried.value - mean) / static_cast<float>(bucket->ticks);
    }
    bucket->state = gpu.state;
    if (const auto limits = sample.limits.value()) bucket->limits.add(*limits);
  }
}

void History::set_state(double t_ms, int gpu, GpuState state) {
  Gpu& of = row(gpu);
  of.state = state;
  for (Ring<Bucket>& level : of.levels)
    if (Bucket* const now = level.find(number_of(t_ms, level.bucket_ms))) now->state = state;
}

void History::set_verdict(double t_ms, const Verdict& verdict) {
  if (!verdicts_.empty() && verdicts_.back().verdict.sentence == verdict.sentence) return;
  if (verdicts_.size() >= kMostVerdicts)
    verdicts_.erase(verdicts_.begin(), verdicts_.begin() + kMostVerdicts / 4);
  verdicts_.push_back({t_ms, verdict});
}

std::optional<Verdict> History::verdict_at(double t_ms) const {
  const auto after = std::ranges::upper_bound(verdicts_, t_ms, {}, &VerdictAt::t_ms);
  if (after == verdicts_.begin()) return std::nullopt;
  return std::prev(after)->verdict;
}

template <class Take>
void History::each_bucket(const Gpu& gpu, double from_ms, double to_ms, Take take) const {
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < gpu.levels.size(); ++i)
    if (gpu.levels[i].bucket_ms <= (to_ms - from_ms) * 1.0001) chosen = i;
  while (chosen + 1 < gpu.levels.size() &&
         gpu.levels[chosen].begin() > number_of(from_ms, gpu.levels[chosen].bucket_ms))
    ++chosen;
  const Ring<Bucket>& level = gpu.levels[chosen];
  std::int64_t first = number_of(from_ms, level.bucket_ms);
  std::int64_t last = static_cast<std::int64_t>(std::ceil(to_ms / level.bucket_ms)) - 1;
  if (to_ms - from_ms < level.bucket_ms)
    first = last = number_of((from_ms + to_ms) / 2, level.bucket_ms);
  bool any = false;
  for (std::int64_t number = std::max(first, level.begin());
       number <= std::min(last, level.end - 1); ++number)
    if (const Bucket* const bucket = level.find(number); bucket != nullptr && bucket->ticks > 0) {
      take(*bucket);
      any = true;
    }
  if (any || from_ms > newest_ms()) return;
  const auto reach =
      static_cast<std::int64_t>(std::ceil(kReachSpacings * spacing_ms_ / level.bucket_ms));
  for (std::int64_t number = first - 1; number >= first - reach; --number)
    if (const Bucket* const bucket = level.find(number); bucket != nullptr && bucket->ticks > 0)
      return take(*bucket);
}

std::optional<HistoryMoment> History::look(int gpu, double from_ms, double to_ms) const {
  const Gpu* const row = find(gpu);
  if (row == nullptr) return std::nullopt;
  std::array<double, kQuantities> sums{};
  std::array<int, kQuantities> counts{};
  HistoryMoment moment;
  int buckets = 0;
  each_bucket(*row, from_ms, to_ms, [&](const Bucket& bucket) {
    ++buckets;
    for (std::size_t i = 0; i < kQuantities; ++i) {
      if (std::isnan(bucket.values[i])) continue;
      sums[i] += static_cast<double>(bucket.values[i]);
      ++counts[i];
    }
    if (bucket.state != GpuState::unknown) moment.state = bucket.state;
    moment.limits.add(bucket.limits);
  });
  if (buckets == 0) return std::nullopt;
  for (std::size_t i = 0; i < kQuantities; ++i)
    if (counts[i] > 0) moment.values[i] = sums[i] / counts[i];
  return moment;
}

std::optional<double> History::fine_power(const Gpu& gpu, double from_ms, double to_ms) const {
  double sum = 0;
  int count = 0;
  const std::int64_t first = number_of(from_ms, gpu.power.bucket_ms);
  const std::int64_t last =
      std::max(first, static_cast<std::int64_t>(std::ceil(to_ms / gpu.power.bucket_ms)) - 1);
  for (std::int64_t number = first; number <= last; ++number)
    if (const float* const value = gpu.power.find(number);
        value != nullptr && !std::isnan(*value)) {
      sum += static_cast<double>(*value);
      ++count;
    }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

HistoryCell History::cell(int gpu, Quantity quantity, double from_ms, double to_ms) const {
  HistoryCell cell;
  const Gpu* const row = find(gpu);
  if (row == nullptr) return cell;
  double sum = 0;
  int count = 0;
  each_bucket(*row, from_ms, to_ms, [&](const Bucket& bucket) {
    if (bucket.state != GpuState::unknown) cell.state = bucket.state;
    const float value = bucket.values[static_cast<std::size_t>(quantity)];
    if (std::isnan(value)) return;
    sum += static_cast<double>(value);
    ++count;
  });
  if (count > 0) cell.value = sum / count;
  if (quantity == Quantity::power && !row->levels.empty() &&
      to_ms - from_ms < 2 * row->levels.front().bucket_ms)
    if (const auto power = fine_power(*row, from_ms, to_ms)) cell.value = power;
  return cell;
}

std::optional<double> History::power_samples_end_ms() const {
  std::optional<double> end;
  for (const Gpu& gpu : rows_)
    if (!gpu.power.held.empty())
      end = std::max(end.value_or(0), static_cast<double>(gpu.power.end) * gpu.power.bucket_ms);
  return end;
}

double History::oldest_ms() const {
  if (options_.levels.empty()) return first_ms();
  const HistoryOptions::Level& coarsest = options_.levels.back();
  return std::max(first_ms(),
                  newest_ms() - coarsest.bucket_ms * static_cast<double>(coarsest.buckets));
}

std::size_t History::bytes() const {
  std::size_t sum = 0;
  for (const Gpu& gpu : rows_) {
    for (const Ring<Bucket>& level : gpu.levels) sum += level.held.capacity() * sizeof(Bucket);
    sum += gpu.power.held.capacity() * sizeof(float);
  }
  return sum;
}

}  // namespace lockstep
