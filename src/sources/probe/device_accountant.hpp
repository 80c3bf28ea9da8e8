// What one process's GPUs did during each of its steps, from the rows that its CUDA probe wrote.
//
// Every moment of a GPU is a computing kernel's, a collective's, a copy's, or nobody's; what is
// nobody's is given to what the host did meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/device_time.hpp"
#include "lockstep/record.hpp"
#include "probes/wire/lockstep_wire.h"

namespace lockstep {

// A part of a step on the training thread, in order and without holes.
struct HostStretch {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  StepPart part = StepPart::other;
};

// One kernel of a collective.
struct CollectiveKernel {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  int stream = 0;
  std::shared_ptr<const std::string> name;
};

class DeviceAccountant {
 public:
  enum class Work : std::uint8_t { counted, kept };  // kept: each row, for drawing
  explicit DeviceAccountant(Work work = Work::counted) : work_(work) {}

  void add(const lockstep_name& name);
  void add(const lockstep_device_row& row);  // damaged ones are left out
  // The host waited for the GPU: by CUPTI within the windows, whatever the thread, or by the host
  // probe, which sees it in all steps. Who hears the latter forgets what CUPTI says.
  enum class WaitOf : std::uint8_t { training_thread, autograd, unknown_thread };
  struct Wait {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    WaitOf of = WaitOf::training_thread;
  };
  void add(const Wait& wait);
  // Everything before then is accounted for.
  void forget_waits(std::uint64_t until_ns);

  // The probe has told all that it ever will.
  void end();

  // The probe is on for a few steps at a time: when a window opened, when it closed and everything
  // launched in it was told, and until when nothing was on since.
  void opened(std::uint64_t at_ns);
  void closed(std::uint64_t at_ns);
  void rested(std::uint64_t until_ns);
  // CUPTI came into the process, which makes launches dearer even where it records nothing; it
  // left.
  void attached(std::uint64_t at_ns);
  void left(std::uint64_t at_ns);
  bool is_there(std::uint64_t begin_ns, std::uint64_t end_ns) const;

  bool speaks() const { return in_windows_ || newest_ns_ > 0; }
  // Whether more may still come of what began before then. Buffers are handed over late, and one
  // whose kernel still runs (a collective that waits for a rank) after those behind it.
  bool may_learn_of(std::uint64_t end_ns) const {
    if (ended_) return false;
    return in_windows_ ? end_ns > settled_until_ns_ : newest_ns_ < end_ns + kBehindNs;
  }
  // Whether everything of that stretch is known.
  bool covers(std::uint64_t begin_ns, std::uint64_t end_ns) const;
  std::uint64_t damaged() const { return damaged_; }

  // Stretches in which the GPU that works most had nothing to do, of which the step's host parts
  // are given; and its whole account.
  struct Account {
    StepOnDevices time;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> idle;  // of that GPU
  };
  Account take(std::uint64_t begin_ns, std::uint64_t end_ns, const std::vector<HostStretch>& host);

  // Kernels of collectives that came since the last call, by begin.
  std::vector<CollectiveKernel> take_collectives();

  // The host's waits in the driver within a stretch of time.
  std::vector<Wait> waits(std::uint64_t begin_ns, std::uint64_t end_ns) const;

 private:
  enum class Use : std::uint8_t { computes, communicates, copies };
  struct Row {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint32_t subject = 0;
    std::uint32_t bytes = 0;
    std::uint16_t stream = 0;
    std::uint8_t device = 0;
    std::uint8_t kind = 0;
    Use use = Use::computes;
  };
  struct Kernel {
    std::shared_ptr<const std::string> name;
    bool is_collective = false;
    bool plain_matmul = false;
    bool tensor_cores = false;
  };
  static constexpr std::uint64_t kBehindNs = 1'000'000'000;

  const Kernel* kernel(std::uint32_t number) const;
  void keep(const Wait& wait);
  // Nothing was let in since it closed, until then.
  void settle_last_window(std::uint64_t before_ns);
  std::shared_ptr<const std::string> name_of(const Row& row) const;

  Work work_;
  std::map<std::uint32_t, Kernel> kernels_;
  std::vector<Row> rows_;  // by begin once sorted_
  bool sorted_ = true;
  std::deque<CollectiveKernel> collectives_;
  std::deque<Wait> waits_;  // as they ended
  bool host_tells_waits_ = false;
  std::uint64_t newest_ns_ = 0;      // of the GPUs' own rows
  std::uint64_t lost_until_ns_ = 0;  // there were too many to keep
  struct Window {
    std::uint64_t from_ns = 0;
    std::uint64_t to_ns = 0;
  };
  std::deque<Window> windows_;  // of the GPU's time: all that ran within is known
  std::deque<Window> stays_;    // of CUPTI in the process
  bool in_windows_ = false;
  std::optional<std::uint64_t> open_since_ns_ = 0;
  std::uint64_t settled_until_ns_ = 0;
  bool ended_ = false;
  std::uint64_t damaged_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace lockstep
