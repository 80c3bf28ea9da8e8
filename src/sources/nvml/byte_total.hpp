// A byte count that only grows, whatever the driver's counter does.
//
// An H200's PCIe counters are 32 bits wide and wrap every 4 GiB (nvml.h: "value can be wrapped").
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

namespace lockstep {

class ByteTotal {
 public:
  enum class Width : std::uint8_t { bits_32, bits_64 };

  // A new reading of the driver's counter; `unit` bytes a count.
  std::uint64_t read(std::uint64_t counter, Width width, std::uint64_t unit) {
    if (last_) {
      const std::uint64_t grown = counter - *last_;
      total_ += (width == Width::bits_32 ? grown & 0xFFFFFFFFU : grown) * unit;
    } else {
      total_ = counter * unit;
    }
    last_ = counter;
    return total_;
  }

  // Bytes that moved at a rate for a while.
  std::uint64_t add(double bytes) {
    if (std::isfinite(bytes) && bytes > 0) total_ += static_cast<std::uint64_t>(bytes);
    return total_;
  }

 private:
  std::uint64_t total_ = 0;
  std::optional<std::uint64_t> last_;
};

}  // namespace lockstep
