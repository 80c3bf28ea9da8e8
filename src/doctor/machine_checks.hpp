// What the machine around the GPUs gives a training job: memory to share, limits, names, clocks,
// containers, variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "doctor/check.hpp"

namespace lockstep {

struct MachineState {
  std::string system;                          // "Linux 6.1 on x86_64"
  std::vector<std::string> platform_notes;     // what lockstep does not serve here
  std::optional<std::uint64_t> shared_memory;  // of /dev/shm
  std::uint64_t shared_memory_free = 0;
  std::optional<std::uint64_t> open_files;  // soft limit; nothing: no limit
  std::optional<std::uint64_t> open_files_hard;
  std::optional<std::uint64_t> locked_memory;  // nothing: no limit
  std::optional<std::uint64_t> processes;
  int cores = 1;       // that this process may use
  int processors = 1;  // of the whole machine
  std::string host;
  std::string host_address;               // that its own name means; empty: none
  int port_problem = 0;                   // errno of listening on the usual port
  std::string clock;                      // "synchronised", "not synchronised", "unknown"
  double clock_error_ms = 0;              // that the kernel reckons with
  std::vector<std::string> container;     // "docker", "kubernetes": what says so
  std::optional<double> container_cores;  // its share of the processors
  std::optional<std::uint64_t> container_memory;
  std::map<std::string, std::string> environment;
  int gpus = 0;
  bool peer_to_peer = false;  // between some of them
  bool has_infiniband = false;
};

MachineState read_machine_state(int port);

inline constexpr int kUsualPort = 29500;

// A port that the user names should be free; the usual one may well belong to a job that runs.
enum class PortAsked : std::uint8_t { by_habit, by_the_user };

Checks machine_checks(const MachineState& state, int port, PortAsked asked = PortAsked::by_habit);

}  // namespace lockstep
