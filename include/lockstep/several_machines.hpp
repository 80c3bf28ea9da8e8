// How processes of several machines are told apart where recordings are put together.
#pragma once

namespace lockstep {

// Processes of the second machine have pids from here, of the third from twice as much: the same
// number on two machines is two processes.
inline constexpr int kPidsOfAMachine = 10'000'000;

inline constexpr int machine_of(int pid) { return pid / kPidsOfAMachine; }

}  // namespace lockstep
