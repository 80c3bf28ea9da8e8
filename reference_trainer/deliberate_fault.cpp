#include "reference_trainer/deliberate_fault.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/clock.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kGoodUpdates = 12;
constexpr auto kStall = 1500ms;  // what a checkpoint or an evaluation takes
constexpr auto kStallEvery = 6s;
constexpr std::int64_t kPauseEvery = 10;  // updates, of the collector's pauses

// A core that computes, as a GPU would: for a while.
void compute_for(std::chrono::nanoseconds time) {
  const auto until = monotonic_now() + time;
  volatile double sum = 0;
  while (monotonic_now() < until)
    for (int i = 0; i < 1000; ++i) sum = sum + i;
}

// A file that nobody else sees and that is gone at its end.
class ScratchFile {
 public:
  ScratchFile()
      : path_((std::filesystem::temp_directory_path() / "lockstep-fault-XXXXXX").string()),
        file_(::mkstemp(path_.data())) {
    ::unlink(path_.c_str());
  }
  ~ScratchFile() { ::close(file_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  // To the disk, `block` after `block`, until the time is over.
  void write_for(std::chrono::nanoseconds time, const std::string& block) const {
    const auto until = monotonic_now() + time;
    do {
      if (::write(file_, block.data(), block.size()) < 0 || ::fdatasync(file_) != 0) return;
      if (::lseek(file_, 0, SEEK_CUR) > kMostBytes) ::lseek(file_, 0, SEEK_SET);
    } while (monotonic_now() < until);
  }

 private:
  static constexpr off_t kMostBytes = 256 << 20;
  std::string path_;
  int file_;
};

}  // namespace

DeliberateFault::DeliberateFault(const TrainSettings& settings, const Distributed& ranks)
    : row_(fault_named(settings.fault)), share_(settings.fault_share), ranks_(ranks) {}

std::string DeliberateFault::description() const {
  return row_ == nullptr ? "" : fmt::format("wrong on purpose: {}", row_->what);
}

void DeliberateFault::begin_update(Loader& loader) {
  ++updates_;
  if (row_ == nullptr || amount_ > Clock{}) return;
  const auto now = monotonic_now();
  if (last_begin_ > Clock{}) good_.push_back(now - last_begin_);
  last_begin_ = now;
  if (good_.size() < kGoodUpdates) return;
  std::ranges::sort(good_);
  // The same on all ranks: loaders of different speeds would make one rank late, which is another
  // fault.
  const Clock good(
      static_cast<std::int64_t>(ranks_.mean(static_cast<double>(good_[good_.size() / 2].count()))));
  amount_ = std::max<Clock>(1ms, std::chrono::duration_cast<Clock>(good * share_));
  last_stall_ = now;
  // A loader that others wait for is as slow as the step and the share; one that nobody runs beside
  // adds the share alone.
  if (is(TrainFault::slow_loader)) loader.set_delay(good + amount_, Loader::Delay::asleep);
  if (is(TrainFault::no_workers)) loader.set_delay(amount_, Loader::Delay::computing);
}

void DeliberateFault::slow_down(ComputeDevice& device, VirtualGpus& gpus, StepMarks& marks) {
  if (!is_on() || !is_last_rank() || !(is(TrainFault::slow_rank) || is(TrainFault::throttled_rank)))
    return;
  if (is(TrainFault::throttled_rank)) gpus.set_hot(1 / (1 + share_));
  marks.time(LOCKSTEP_SPAN_FORWARD, [&] { device.run([&] { compute_for(amount_); }); });
}

bool DeliberateFault::is_due() {
  if (!is_on() || monotonic_now() - last_stall_ < kStallEvery) return false;
  last_stall_ = monotonic_now();
  return true;
}

void DeliberateFault::after_update(const Surroundings& around) {
  if (!is_on()) return;
  static const std::string block(std::size_t{4} << 20U, 'x');
  switch (row_->fault) {
    case TrainFault::log_each_step:
      if (ranks_.is_main())
        around.marks.time(LOCKSTEP_SPAN_LOGGING, [&] {
          ScratchFile().write_for(amount_, "step, loss, rate, and all the rest of it\n");
        });
      return;
    case TrainFault::sync_each_step:
      around.marks.time(LOCKSTEP_SPAN_SYNC, [&] {
        const at::NoGradGuard no_grad;
        const auto until = monotonic_now() + amount_;
        for (std::size_t i = 0; monotonic_now() < until; ++i)
          around.parameters[i % around.parameters.size()].norm().item<double>();
      });
      return;
    case TrainFault::reduce_each_step:
      around.marks.time(LOCKSTEP_SPAN_SYNC, [&] {
        ranks_.mean(around.losses.back().item<double>());
        ranks_.barrier();
      });
      around.marks.count_collectives(2);
      return;
    case TrainFault::collector_pauses:
      if (updates_ % kPauseEvery == ranks_.rank() * 3 % kPauseEvery)
        around.marks.time(LOCKSTEP_SPAN_GC,
                          [&] { compute_for(amount_ * kPauseEvery / ranks_.world()); });
      return;
    case TrainFault::checkpoint_often:
      if (ranks_.is_main() && is_due())
        around.marks.time(LOCKSTEP_SPAN_CHECKPOINT,
                          [&] { ScratchFile().write_for(kStall, block); });
      return;
    case TrainFault::every_rank_saves:
      if (updates_ % kPauseEvery == 0)
        around.marks.time(LOCKSTEP_SPAN_CHECKPOINT,
                          [&] { ScratchFile().write_for(amount_ * kPauseEvery, block); });
      return;
    case TrainFault::rank0_evaluates:
      if (ranks_.is_main() && is_due())
        around.marks.time(LOCKSTEP_SPAN_EVALUATION, [&] {
          for (const auto until = monotonic_now() + kStall; monotonic_now() < until;)
            around.evaluate();
        });
      return;
    case TrainFault::hang:
      if (ranks_.is_main()) {
        around.gpus.set_waiting(true);
        ranks_.wait_for_nobody();
      }
      return;
    default: return;
  }
}

}  // namespace lockstep
