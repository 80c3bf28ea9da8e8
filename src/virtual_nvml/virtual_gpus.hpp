// What the NVML interface needs to know of virtual GPUs, whichever way they come about.
//
// Calls come from any thread of the host program; implementations lock for themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"
#include "lockstep/sample.hpp"

namespace lockstep {

// One entry of the driver's power buffer.
struct TimedSample {
  std::uint64_t unix_us = 0;
  std::uint32_t milliwatts = 0;
};

// What a call on a GPU should suffer at this moment (played recordings script faults).
struct Fault {
  enum class Kind : std::uint8_t { none, lost, hang, not_supported, slow, restart };
  Kind kind = Kind::none;
  int delay_ms = 0;
};

// An Xid that happened; `serial` counts up so that each reader sees each one once.
struct XidEvent {
  std::uint64_t serial = 0;
  int gpu = 0;
  std::uint64_t code = 0;
};

struct PidOnGpu {
  int pid = 0;
  std::optional<std::uint64_t> memory_bytes;
};

class VirtualGpus {
 public:
  virtual ~VirtualGpus() = default;

  virtual const Machine& machine() const = 0;
  virtual GpuSample sample(std::size_t gpu) = 0;  // everything the GPU shows now but its memory
  virtual Reading<std::uint64_t> memory_used_bytes(std::size_t gpu) = 0;
  virtual std::vector<PidOnGpu> processes(std::size_t gpu) = 0;
  // Power samples (mW) younger than `since_us`; nothing when the GPU has no such buffer. Starts the
  // sampling.
  virtual std::optional<std::vector<TimedSample>> power_samples(std::size_t gpu,
                                                                std::uint64_t since_us) = 0;
  virtual bool has_gpm(std::size_t gpu) = 0;
  virtual Fault fault(std::size_t gpu, const char* function) = 0;
  virtual std::vector<XidEvent> xid_events(std::uint64_t after_serial) = 0;
  // When a played recording began, on the monotonic clock.
  virtual std::optional<std::int64_t> started_ns() const { return std::nullopt; }
};

// `description` is LOCKSTEP_VIRTUAL's value: a number of GPUs, or a recording to play. A driver
// that was restarted does not turn back time: it goes on from where it began.
Result<std::unique_ptr<VirtualGpus>> make_virtual_gpus(
    const std::string& description, std::optional<std::int64_t> goes_on_from_ns = std::nullopt);

}  // namespace lockstep
