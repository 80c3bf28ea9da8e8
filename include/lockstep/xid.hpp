// What the driver's error numbers mean, by NVIDIA's catalogue.
#pragma once

namespace lockstep {

// Usually of the program (a bad address, a killed process), not of the hardware or the driver.
constexpr bool is_of_a_program(int xid) {
  return xid == 13 || xid == 31 || xid == 43 || xid == 45 || xid == 68;
}

}  // namespace lockstep
