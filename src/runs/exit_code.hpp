// Exit codes, the same for every command, and the one way to say an error.
#pragma once

#include "lockstep/result.hpp"

namespace lockstep {
namespace exit_code {

inline constexpr int kDone = 0;
inline constexpr int kFindings = 1;
inline constexpr int kUsage = 2;
inline constexpr int kCannotMeasure = 3;
inline constexpr int kCommandFailed = 4;
inline constexpr int kInterrupted = 130;

}  // namespace exit_code

// Says an error and its next step on standard error; the exit code that goes with it.
int report_error(const Error& error);

}  // namespace lockstep
