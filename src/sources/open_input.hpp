// The one map from what the user typed to what is read, by content and never by name.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/source.hpp"
#include "sources/prometheus/prometheus_options.hpp"

namespace lockstep {

// How closely a driver is watched.
enum class Attention : std::uint8_t {
  usual,    // under 1 % of wall time in the driver, for as long as it takes
  sparing,  // for months on end: GPM every five seconds
  close,  // GPM and power samples as often as they help, within 3 %, for the seconds of a diagnosis
  closest,  // and Python stacks within a tenth of a core, for those of a profile
};

struct SourceOptions {
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  std::chrono::nanoseconds process_period = std::chrono::seconds(2);
  std::vector<int> gpus;  // empty: all
  Attention attention = Attention::usual;
  PrometheusOptions prometheus;
};

// Traces of the profiler, one per rank; not read yet.
struct TraceFiles {
  std::vector<std::string> paths;
};
// Dumps of NCCL's flight recorder, one per rank; not read yet.
struct FlightDumpFiles {
  std::vector<std::string> paths;
};
using OpenedInput = std::variant<std::unique_ptr<Source>, TraceFiles, FlightDumpFiles>;

// What the user named, one input or several files that belong together: traces or dumps of several
// ranks, recordings of several machines. Nothing, or one empty name: this machine's GPUs.
Result<OpenedInput> open_input(const std::vector<std::string>& names, const SourceOptions& options);

// Readings alone. `input` empty: the machine's own GPUs through NVML. "virtual:2", "virtual:FILE",
// a Prometheus server's address, or a file; traces and dumps are an error.
Result<std::unique_ptr<Source>> open_source(const std::string& input, const SourceOptions& options);

// Whether the file is a trace, by its content.
bool is_trace_file(const std::string& path);

// Where the virtual NVML library lies: beside the executable, as built and as installed.
std::filesystem::path virtual_library_path();

}  // namespace lockstep
