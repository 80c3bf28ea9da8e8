// What the launcher needs to know of the machine, each in a few microseconds: no NVML, no name
// lookup.
#pragma once

#include <optional>
#include <string>

#include "launch/ranks/rank_environment.hpp"

namespace lockstep {

// Physical cores that this process may use: its affinity, and its container's share of time.
int usable_cores();

// Cores' worth of time that the container may use: "400000 100000" of cgroup v2, or v1's two files.
// Nothing: as much as there is.
std::optional<double> cores_by_quota();

// Whether this process may use only some of the machine's processors.
bool is_bound_by_others();

// GPUs that ranks would see: virtual ones, else those of the driver, less what CUDA_VISIBLE_DEVICES
// leaves out. Nothing: no driver is loaded.
std::optional<int> visible_gpus(const Variables& around);

// A port of this machine that nobody listens on.
std::optional<int> free_port();
// Why a port cannot be listened on: errno; 0: it can.
int cannot_listen_on(int port);

// A socket that listens on the port on all addresses, or a negative errno. For the caller to close.
int listening_socket(int port);

std::string host_name();

}  // namespace lockstep
