// What was watched: the host and its GPUs, fixed for the length of a recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// A slice of a GPU: shown as a row of its own, after the physical GPUs.
struct MigSlice {
  int parent = 0;
  int instance = 0;

  bool operator==(const MigSlice&) const = default;
};

struct GpuInfo {
  int index = 0;
  std::optional<std::string> uuid;
  std::optional<std::string> name;
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<double> power_limit_mw;
  std::optional<double> power_limit_default_mw;  // as its maker set it
  std::optional<double> sm_clock_max_mhz;        // what it may run at where nothing holds it back
  std::optional<double> busy_window_ms;          // how far back `busy` looks; 200 on an H200
  std::optional<MigSlice> mig;
  // Where several machines are watched at once: `index` then counts over all of them.
  std::optional<std::string> host;
  std::optional<int> host_index;  // its number there
  // that the cluster gave it to: a pod's group, a batch system's number
  std::optional<std::string> job;

  bool operator==(const GpuInfo&) const = default;
};

// A virtual GPU says so by its name, in a recording too.
inline bool is_virtual(const GpuInfo& gpu) {
  return gpu.name && gpu.name->starts_with("lockstep virtual GPU");
}

// How much the absence of a process proves.
enum class ProcessCoverage : std::uint8_t { all, partial, none };

// The clock of one of several machines, against the first one's.
struct HostClock {
  std::string host;
  std::string input;               // the file it was told by
  double ahead_ms = 0;             // at the start; 0: taken as it is
  double drift_ppm = 0;            // how much faster it goes
  std::optional<double> error_ms;  // how far single steps lie from that; nothing: not measured
  std::int64_t matched_steps = 0;

  bool operator==(const HostClock&) const = default;
};

struct Machine {
  std::int64_t started_unix_ns = 0;
  std::optional<std::string> host;
  std::optional<std::string> driver;
  ProcessCoverage process_coverage = ProcessCoverage::all;
  // about 1000 for the averaged reading, 0 for the instant one
  std::optional<double> power_window_ms;
  // pairs of GPUs that reach each other
  std::optional<std::vector<std::pair<int, int>>> peer_to_peer;
  std::vector<GpuInfo> gpus;
  std::vector<HostClock> clocks;  // where recordings of several machines were put together
  // false: the log has none, and its readings are taken as one second apart
  bool times_are_known = true;

  bool operator==(const Machine&) const = default;
};

}  // namespace lockstep
