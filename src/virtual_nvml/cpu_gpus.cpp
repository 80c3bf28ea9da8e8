#include "virtual_nvml/cpu_gpus.hpp"

#include <pthread.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBufferedSamples = 120;  // an H200's
// A client asks for utilization, power, clocks and memory in one breath: one look serves them all.
constexpr Nanoseconds kOneBreath = milliseconds(2);

// The power model: idle, full load and a spinning collective, as shares of the limit.
constexpr double kIdleShare = 0.10;
constexpr double kFullShare = 0.90;
constexpr double kWaitingShare = 0.20;

// Temperature follows power with the lag of a heat sink.
constexpr double kCoolestC = 30;
constexpr double kHottestC = 75;
constexpr double kSlowdownC = 87;  // where a GPU lowers its clock
constexpr double kHeatLagS = 10;

constexpr double kBaseClockMhz = 210;

std::uint64_t unix_now_us() { return static_cast<std::uint64_t>(unix_now().count() / 1000); }

// How far a running thread's schedstat may lag: it is brought up to date at each scheduler tick.
Nanoseconds scheduler_tick() {
  timespec resolution{};
  if (::clock_getres(CLOCK_MONOTONIC_COARSE, &resolution) != 0) return milliseconds(10);
  return std::chrono::seconds(resolution.tv_sec) + Nanoseconds(resolution.tv_nsec);
}

void keep(std::deque<TimedSample>& buffer, TimedSample sample) {
  buffer.push_back(sample);
  if (buffer.size() > kBufferedSamples) buffer.pop_front();
}

std::optional<std::string> own_scope() {
  const char* const scope = std::getenv("LOCKSTEP_VIRTUAL_SCOPE");
  return scope != nullptr ? std::optional<std::string>(scope) : std::nullopt;
}

}  // namespace

CpuGpus::CpuGpus(std::size_t count, const GpuModel& model)
    : model_(model), threads_(count, "/proc", runtime_folder(), own_scope()), gpus_(count) {
  struct sysinfo memory{};
  ::sysinfo(&memory);
  const std::uint64_t total = static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit;
  machine_.driver = "lockstep virtual";
  for (std::size_t i = 0; i < count; ++i) {
    GpuInfo info;
    info.index = static_cast<int>(i);
    std::array<char, 48> uuid;
    std::snprintf(uuid.data(), uuid.size(), "GPU-00000000-0000-0000-0000-%012zx", i);
    info.uuid = uuid.data();
    info.name = "lockstep virtual GPU" + std::string(model.as_what);
    info.memory_total_bytes = total;
    info.power_limit_mw = info.power_limit_default_mw = model.power_limit_mw;
    info.sm_clock_max_mhz = model.boost_clock_mhz;
    info.busy_window_ms = to_ms(model.busy_window);
    machine_.gpus.push_back(info);
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    // A driver's window reaches back before its client started; so does the first one here.
    const Moment now = look(i);
    const Nanoseconds before = threads_.past_run_time(i, model_.busy_window);
    gpus_[i].moments.push_front({now.at - model_.busy_window, now.run_time - before, 0, false});
  }
}

CpuGpus::~CpuGpus() {
  stop_ = true;
  if (sampler_.joinable()) sampler_.join();  // it sleeps 20 ms at the most
}

// Reads a GPU's threads now and remembers the reading.
CpuGpus::Moment CpuGpus::look(std::size_t gpu) {
  const Nanoseconds now = monotonic_now();
  threads_.refresh(now);
  const GpuWork work = threads_.work(gpu);
  const Moment moment{now, work.run_time, work.slices, work.waiting, work.hot_clock};
  auto& moments = gpus_[gpu].moments;
  moments.push_back(moment);
  // One moment older than the window stays: the window starts there.
  while (moments.size() > 2 && now - moments[1].at >= model_.busy_window) moments.pop_front();
  return moment;
}

CpuGpus::Load CpuGpus::load_between(const Moment& from, const Moment& to) {
  static const Nanoseconds tick = scheduler_tick();
  if (to.waiting) return {1.0, true};
  const Nanoseconds window = to.at - from.at;
  const Nanoseconds ran = to.run_time - from.run_time;
  if (window <= Nanoseconds{}) return {};
  // What is missing is less than the counter may lag behind, and the thread was not taken off its
  // CPU.
  if (ran > Nanoseconds{} && window - ran <= tick && from.slices == to.slices) return {1.0, false};
  return {std::min(1.0, static_cast<double>(ran.count()) / static_cast<double>(window.count())),
          false};
}

CpuGpus::Load CpuGpus::window_load(std::size_t gpu) {
  const Moment now = look(gpu);
  Load load = load_between(gpus_[gpu].moments.front(), now);
  load.hot_clock = now.hot_clock;
  return load;
}

double CpuGpus::power_mw(double busy, bool waiting) const {
  if (waiting) return model_.power_limit_mw * kWaitingShare;
  return model_.power_limit_mw * (kIdleShare + (kFullShare - kIdleShare) * busy);
}

// What nvmlDeviceGetPowerUsage says: a mean over the model's window, as far as it was looked at.
// The H200's own is kept at its window of utilization, which is what tests and pictures show.
double CpuGpus::shown_power_mw(std::size_t gpu, const Load& now) {
  if (&model_ == &gpu_models().front() || now.waiting) return power_mw(now.busy, now.waiting);
  const auto& moments = gpus_[gpu].moments;
  const Nanoseconds window = std::max<Nanoseconds>(model_.power_window, milliseconds(25));
  std::size_t from = 0;
  while (from + 2 < moments.size() && moments.back().at - moments[from + 1].at >= window) ++from;
  return moments.size() < 2 ? power_mw(now.busy, now.waiting)
                            : power_mw(load_between(moments[from], moments.back()).busy, false);
}

GpuSample CpuGpus::sample(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  if (gpus_[gpu].last && monotonic_now() - gpus_[gpu].last_at < kOneBreath) return *gpus_[gpu].last;
  threads_.refresh(monotonic_now());
  const Load load = threads_.in_use(gpu) ? window_load(gpu) : Load{};

  GpuSample sample;
  sample.index = static_cast<int>(gpu);
  sample.busy = load.busy;
  sample.power_mw = shown_power_mw(gpu, load);
  sample.sm_clock_mhz = load.busy > 0.01 ? model_.boost_clock_mhz : kBaseClockMhz;
  ClockLimits limits;
  if (load.busy <= 0.01) limits.add(ClockLimit::gpu_idle);
  const bool is_hot = load.hot_clock && load.busy > 0.01;
  if (is_hot) {
    limits.add(ClockLimit::sw_thermal_slowdown);
    sample.sm_clock_mhz = model_.boost_clock_mhz * *load.hot_clock;
  }
  sample.limits = limits;

  Gpu& state = gpus_[gpu];
  const double target = is_hot ? kSlowdownC
                               : kCoolestC + (kHottestC - kCoolestC) * *sample.power_mw.value() /
                                                 model_.power_limit_mw;
  const double elapsed_s =
      std::chrono::duration<double>(monotonic_now() - state.temperature_at).count();
  const double kept = state.temperature_c > 0 ? std::exp(-elapsed_s / kHeatLagS) : 0.0;
  state.temperature_c = target + (state.temperature_c - target) * kept;
  state.temperature_at = monotonic_now();
  sample.temperature_c = std::round(state.temperature_c);

  state.last = sample;
  state.last_at = monotonic_now();
  return sample;
}

Reading<std::uint64_t> CpuGpus::memory_used_bytes(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  threads_.refresh(monotonic_now());
  std::uint64_t used = 0;
  for (const auto& [pid, memory] : threads_.processes(gpu)) used += memory;
  return std::min(used, *machine_.gpus[gpu].memory_total_bytes);
}

std::vector<PidOnGpu> CpuGpus::processes(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  threads_.refresh(monotonic_now());
  std::vector<PidOnGpu> result;
  for (const auto& [pid, memory] : threads_.processes(gpu)) result.push_back({pid, memory});
  return result;
}

std::optional<std::vector<TimedSample>> CpuGpus::power_samples(std::size_t gpu,
                                                               std::uint64_t since_us) {
  const std::lock_guard lock(mutex_);
  if (model_.power_sample == milliseconds(0)) return std::nullopt;
  if (!sampler_.joinable()) {
    sampler_ = std::thread([this] { run_sampler(); });
    ::pthread_setname_np(sampler_.native_handle(), "vnvml-sampler");
  }
  std::vector<TimedSample> result;
  for (const TimedSample& sample : gpus_[gpu].power)
    if (sample.unix_us > since_us) result.push_back(sample);
  return result;
}

void CpuGpus::run_sampler() {
  std::vector<Moment> last(gpus_.size());
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < gpus_.size(); ++i) last[i] = look(i);
  }
  const Nanoseconds every = model_.power_sample;
  const auto every_us = static_cast<std::uint64_t>(every.count() / 1000);
  auto due = std::chrono::steady_clock::now();
  std::uint64_t stamp_us = unix_now_us();
  while (true) {
    due += every;
    stamp_us += every_us;
    std::this_thread::sleep_until(due);  // one system call; a condition variable takes three
    if (stop_) return;
    // A machine that slept or was overloaded leaves a gap in the buffer, as a driver would.
    const auto late = std::chrono::steady_clock::now() - due;
    if (late > every) {
      const auto missed = late / every;
      due += missed * every;
      stamp_us += static_cast<std::uint64_t>(missed) * every_us;
    }
    take_power_samples(last, stamp_us);
  }
}

void CpuGpus::take_power_samples(std::vector<Moment>& last, std::uint64_t stamp_us) {
  const std::lock_guard lock(mutex_);
  const Nanoseconds tick = monotonic_now();
  threads_.refresh(tick);
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Load load;
    if (threads_.in_use(i)) {
      const Moment now = look(i);
      load = load_between(last[i], now);
      last[i] = now;
    } else {
      last[i].at = tick;
    }
    keep(gpus_[i].power, {stamp_us, static_cast<std::uint32_t>(power_mw(load.busy, load.waiting))});
  }
}

}  // namespace lockstep
