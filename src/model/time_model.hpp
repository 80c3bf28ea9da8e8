// How long an update takes, and of that how long GPUs wait for each other.
#pragma once

#include "model/setting.hpp"

namespace lockstep {

struct StepTime {
  double compute_ms = 0;  // forward and backward of all passes
  double optimizer_ms = 0;
  double communication_ms = 0;  // all of it, hidden or not
  double exposed_ms = 0;        // what nothing hides
  // ranks that wait for the slowest of them, as it happens to healthy ones
  double uneven_ms = 0;
  bool host_bound = false;  // the host starts kernels slower than the GPU does them
  double step_ms() const { return compute_ms + optimizer_ms + exposed_ms + uneven_ms; }
};

StepTime time_of(const Footprint& footprint, const TrainingSetting& setting,
                 std::int64_t sequence_length, NumberFormat format, const PlannedMachine& machine,
                 const Calibration& calibration = {});

// What travels for one update: within nodes, by each GPU; between nodes, by each node.
struct Traffic {
  double near_bytes = 0;
  double far_bytes = 0;
};
Traffic traffic_of(const Footprint& footprint, const TrainingSetting& setting, int gpus_a_node);

// Of `communication_ms`, what backward's `backward_ms` cannot hide: all that is longer, and the
// last bucket.
double exposed_by_ddp(double communication_ms, double backward_ms, double bucket_share);

}  // namespace lockstep
