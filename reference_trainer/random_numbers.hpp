// Where a device's chance comes from: the CPU's generator, and a GPU's own.
#pragma once

#include <cstdint>
#include <vector>

#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

// Seeds, reads and sets the generators that a device draws from. Within its life numbers may be
// drawn; afterwards the generators stand where they stood.
class RandomNumbers {
 public:
  explicit RandomNumbers(at::Device device) : device_(device), before_(state(device)) {}
  ~RandomNumbers() { set_state(device_, before_); }
  RandomNumbers(const RandomNumbers&) = delete;
  RandomNumbers& operator=(const RandomNumbers&) = delete;

  static void seed(at::Device device, std::uint64_t seed) {
    for (at::Generator& generator : generators_of(device)) generator.set_current_seed(seed);
  }
  // All generators' bytes in a row.
  static Tensor state(at::Device device) {
    std::vector<Tensor> states;
    for (at::Generator& generator : generators_of(device)) states.push_back(generator.get_state());
    return at::cat(states);
  }
  // Left as it is where the bytes are of another kind of device.
  static void set_state(at::Device device, const Tensor& state) {
    std::int64_t place = 0;
    if (state.numel() != RandomNumbers::state(device).numel()) return;
    for (at::Generator& generator : generators_of(device)) {
      const std::int64_t length = generator.get_state().numel();
      generator.set_state(state.narrow(0, place, length).clone());
      place += length;
    }
  }

 private:
  static std::vector<at::Generator> generators_of(at::Device device) {
    std::vector<at::Generator> generators = {at::globalContext().defaultGenerator(at::kCPU)};
    if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
    return generators;
  }

  const at::Device device_;
  const Tensor before_;
};

}  // namespace lockstep
