// Versions, modes and links of GPUs, judged.
#pragma once

#include <optional>
#include <string>

#include "doctor/check.hpp"
#include "sources/nvml/driver_facts.hpp"

namespace lockstep {

// `kernel_log`: lines of the kernel's log; nothing: not ours to read.
Checks hardware_checks(const DriverFacts& facts, const std::optional<std::string>& kernel_log);

// The kernel's log as far as it is kept; nothing: not ours to read.
std::optional<std::string> read_kernel_log();

}  // namespace lockstep
