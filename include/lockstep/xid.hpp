// What the driver's error numbers mean, by NVIDIA's catalogue.
#pragma once

#include <string_view>

namespace lockstep {

// Usually of the program (a bad address, a killed process), not of the hardware or the driver.
constexpr bool is_of_a_program(int xid) {
  return xid == 13 || xid == 31 || xid == 43 || xid == 45 || xid == 68;
}

// Empty: one that is rare, look it up.
constexpr std::string_view meaning_of_xid(int xid) {
  switch (xid) {
    case 13:
    case 31: return "a kernel of the program used an address that is not its own (rarely the card)";
    case 43: return "the program's work on the GPU was stopped after an error of its own";
    case 45: return "work was taken away after another error or because the program ended";
    case 48: return "a memory error of two bits, not correctable: reset the GPU";
    case 61:
    case 62: return "the GPU's own controller stopped: reset the GPU, then the card";
    case 63: return "a bad memory row is to be replaced by a spare one: reset the GPU to do it";
    case 64: return "a bad memory row could not be replaced: reset the GPU, then the card";
    case 74: return "NVLink fault: reset; look at nvidia-smi nvlink -e, cables and switches";
    case 79: return "the GPU has fallen off the bus: power, heat or seating; reboot";
    case 92: return "many correctable memory errors: watch it, plan to replace the card";
    case 94:
      return "an uncorrectable memory error hit one program alone: restart it, reset the GPU soon";
    case 95: return "an uncorrectable memory error hit more than one program: reset the GPU";
    case 109: return "the GPU did not change its work in time: mostly follows from another error";
    case 119:
    case 120: return "the GPU's system processor (GSP) does not answer: reset or reboot";
    case 144:
    case 145:
    case 146:
    case 147:
    case 148:
    case 149:
    case 150: return "NVLink fault (5th generation): fabric manager's log, cables, switches; reset";
    default: return "";
  }
}

}  // namespace lockstep
