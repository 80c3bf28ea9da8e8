// Hours of readings in fixed memory: the finer a time is kept, the sooner it is forgotten.
//
// Three levels of buckets (by default 100 ms for five minutes, 1 s for an hour, 10 s for half a
// day), each a mean. A question about a stretch of time is answered from the finest level that
// still holds it. One thread, or one lock.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/gpu_state.hpp"
#include "lockstep/report.hpp"
#include "lockstep/sample.hpp"

namespace lockstep {

enum class Quantity : std::uint8_t {
  busy,
  sm,
  tensor,
  dram,
  power,
  memory,
  pcie,
  nvlink,
  temperature,
  clock
};
inline constexpr std::size_t kQuantities = 10;
inline constexpr std::array<std::string_view, kQuantities> kQuantityNames = {
    "busy", "SM", "tensor", "DRAM", "power", "memory", "PCIe", "NVLink", "temperature", "clock"};

// What was known of one GPU in one stretch of time. Units as in a sample; the links in bytes a
// second, both ways.
struct HistoryMoment {
  std::array<std::optional<double>, kQuantities> values;
  GpuState state = GpuState::unknown;
  ClockLimits limits;  // all that were set within it

  std::optional<double> operator[](Quantity quantity) const {
    return values[static_cast<std::size_t>(quantity)];
  }
};

// One quantity in one stretch of time, and what the GPU was doing.
struct HistoryCell {
  std::optional<double> value;
  GpuState state = GpuState::unknown;
};

struct HistoryOptions {
  struct Level {
    double bucket_ms;
    std::size_t buckets;
  };
  std::vector<Level> levels = {{100, 3000}, {1000, 3600}, {10'000, 4320}};
  // the driver's own power samples, for turns that are over before `busy` notices
  double power_bucket_ms = 20;
  std::size_t power_buckets = 3000;  // a minute
};

class History {
 public:
  explicit History(std::vector<int> gpus, HistoryOptions options = {});

  void add(double t_ms, const GpuTick& tick);
  // From here on the GPU is in this state, until told otherwise.
  void set_state(double t_ms, int gpu, GpuState state);
  void set_verdict(double t_ms, const Verdict& verdict);

  const std::vector<int>& gpus() const { return gpus_; }
  bool empty() const { return !newest_ms_; }
  double first_ms() const { return first_ms_.value_or(0); }  // of the watch: where its clock starts
  double oldest_ms() const;                                  // that is still known
  double newest_ms() const { return newest_ms_.value_or(0); }
  // The end of the driver's power samples so far: they come a buffer at a time, up to two seconds
  // late.
  std::optional<double> power_samples_end_ms() const;
  double spacing_ms() const { return spacing_ms_; }  // of ticks, as they come lately

  // What is known of [from, to). Nothing where no reading lies: gaps are not filled.
  std::optional<HistoryMoment> look(int gpu, double from_ms, double to_ms) const;
  // One quantity of the same; power from the driver's samples where the stretch is about as short
  // as a bucket.
  HistoryCell cell(int gpu, Quantity quantity, double from_ms, double to_ms) const;
  // The verdict that stood at that time.
  std::optional<Verdict> verdict_at(double t_ms) const;

  std::size_t bytes() const;  // held now, for the promise of fixed memory

 private:
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

  struct Bucket {
    std::array<float, kQuantities> values;
    std::uint16_t ticks = 0;
    GpuState state = GpuState::unknown;
    ClockLimits limits;
  };
  // The newest buckets of one width. Number n stands for the time [n, n + 1) * bucket_ms; memory
  // grows as they come.
  template <class Held>
  struct Ring {
    double bucket_ms = 0;
    std::size_t capacity = 0;
    std::int64_t base = 0;  // the number that lies at held[0], or did before the ring went round
    std::int64_t end = 0;   // one past the newest number
    std::vector<Held> held;

    // The place of a number, made fresh when it is new; nothing when it was forgotten already.
    Held* place(std::int64_t number, const Held& fresh);
    const Held* find(std::int64_t number) const;
    Held* find(std::int64_t number) { return const_cast<Held*>(std::as_const(*this).find(number)); }
    std::int64_t begin() const { return end - static_cast<std::int64_t>(held.size()); }
  };
  // What is carried from tick to tick: dear quantities are read rarely, and hold until they grow
  // old.
  struct Carried {
    float value = kUnknown;
    double since_ms = 0;
    double spacing_ms = 0;
  };
  struct Counter {
    double t_ms = 0;
    double bytes = 0;
    bool known = false;
  };
  struct Gpu {
    std::vector<Ring<Bucket>> levels;
    Ring<float> power;
    std::array<Carried, kQuantities> carried;
    std::array<Counter, 2> links;  // PCIe, NVLink
    GpuState state = GpuState::unknown;
  };

  void carry(Gpu& gpu, Quantity quantity, double t_ms, double value);
  void carry_link(Gpu& gpu, Quantity quantity, std::size_t link, double t_ms,
                  const Reading<std::uint64_t>& rx, const Reading<std::uint64_t>& tx);
  void add_power(Gpu& gpu, double t_ms, const PowerSamples& samples);
  void put(Gpu& gpu, double t_ms, const GpuSample& sample);
  std::optional<double> fine_power(const Gpu& gpu, double from_ms, double to_ms) const;
  // The buckets of the level that answers for the stretch best, handed over one by one.
  template <class Take>
  void each_bucket(const Gpu& gpu, double from_ms, double to_ms, Take take) const;
  Gpu& row(int gpu);
  const Gpu* find(int gpu) const;

  HistoryOptions options_;
  std::vector<int> gpus_;
  std::vector<Gpu> rows_;  // one for each of gpus_
  std::optional<double> first_ms_;
  std::optional<double> newest_ms_;
  double spacing_ms_ = 0;  // of ticks, smoothed: a bucket between two ticks is no gap
  struct VerdictAt {
    double t_ms;
    Verdict verdict;
  };
  std::vector<VerdictAt> verdicts_;  // one a change
};

}  // namespace lockstep
