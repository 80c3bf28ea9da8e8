// What GPUs did during a training step, by their own records.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/step_part.hpp"

namespace lockstep {

// Where one GPU's time of a step went: computes + exposed + copies + idle is all of it.
struct DeviceTime {
  int device = 0;            // as the process numbers them
  double computes_ms = 0;    // a computing kernel ran
  double collective_ms = 0;  // a collective's kernel ran, computing or not
  double exposed_ms = 0;     // a collective's ran, and nothing computed
  double copies_ms = 0;      // only copies and fills ran
  double idle_ms = 0;
  std::int64_t kernels = 0;

  double busy_ms() const { return computes_ms + exposed_ms + copies_ms; }
  bool operator==(const DeviceTime&) const = default;
};

// One thing that a GPU did, for drawing.
struct DeviceWork {
  double from_ms = 0;  // since the step began
  double length_ms = 0;
  int device = 0;
  int stream = 0;
  std::shared_ptr<const std::string> name;

  bool operator==(const DeviceWork&) const = default;
};

struct StepOnDevices {
  std::vector<DeviceTime> devices;  // by number
  double any_ms = 0;                // one of them at least computes
  double exclusive_ms = 0;          // exactly one does
  std::int64_t hand_overs = 0;      // times the one that computes changed
  // of the GPU that works most, by what the host did meanwhile
  std::array<double, kStepSpanNames.size()> idle_ms{};
  // of those, in gaps shorter than a millisecond while the host was launching
  double launch_gaps_ms = 0;
  std::int64_t launch_gaps = 0;
  // of the host for the GPU, by the driver's records
  std::int64_t waits = 0;
  double waits_ms = 0;
  // copied to the GPU from memory that is not pinned
  double pageable_bytes = 0;
  double pageable_ms = 0;
  double plain_matmul_ms = 0;  // products that use no tensor core
  double tensor_core_ms = 0;
  double overhead_ms = 0;        // of the probe, on the host
  std::vector<DeviceWork> work;  // only where it was asked for

  bool operator==(const StepOnDevices&) const = default;
};

}  // namespace lockstep
