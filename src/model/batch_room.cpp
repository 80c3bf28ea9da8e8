#include "model/batch_room.hpp"

#include "model/memory_model.hpp"

namespace lockstep {

std::optional<double> batch_room(double states_bytes, double peak_bytes, double total_bytes) {
  const double of_batch = peak_bytes - states_bytes;
  // A peak that hardly stands out tells nothing of a sample; 1 % of the GPU is noise.
  if (states_bytes < 0 || of_batch < 0.01 * total_bytes || peak_bytes > total_bytes)
    return std::nullopt;
  return room_for_batches(states_bytes, total_bytes) / of_batch;
}

}  // namespace lockstep
