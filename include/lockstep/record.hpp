// What happened at one moment: a tick of all GPUs, a list of processes, a training step, an event,
// a collective.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/collective.hpp"
#include "lockstep/device_time.hpp"
#include "lockstep/host_look.hpp"
#include "lockstep/known_word.hpp"
#include "lockstep/sample.hpp"
#include "lockstep/step_part.hpp"

namespace lockstep {

struct ProcessOnGpu {
  int index = 0;
  std::optional<std::uint64_t> memory_bytes;

  bool operator==(const ProcessOnGpu&) const = default;
};

// One process that holds a GPU, as the host shows it. nullopt: it could not be read.
struct ProcessSample {
  int pid = 0;
  std::vector<ProcessOnGpu> gpus;
  std::optional<std::vector<std::string>> command;  // secrets already replaced
  std::optional<int> rank;
  std::optional<int> local_rank;
  std::optional<int> world_size;
  std::optional<std::string> launcher;
  std::optional<double> cpu;       // cores in use: 1.0 is one core
  std::optional<double> cpu_wait;  // share of the time: its main thread could run, and had no core
  std::optional<char> state;
  std::optional<std::string> user;
  std::optional<int> parent_pid;
  std::optional<int> loader_workers;
  std::optional<std::uint64_t> read_bytes;                        // cumulative
  std::optional<std::uint64_t> write_bytes;                       // cumulative
  std::optional<std::map<std::string, std::string>> environment;  // the listed names and no others
  std::optional<std::vector<std::string>> libraries;
  std::vector<HostLook> looks;  // since the list before, in the order of their times
  std::vector<StackSample> stacks;

  bool operator==(const ProcessSample&) const = default;
};

// A line of the user's code, and what it does there: "Tensor.item", "print", "DataLoader".
struct CodePlace {
  std::string file;
  int line = 0;
  std::string what;
  // of the training loop in the same file, where the line lies in a function below it
  int loop_line = 0;

  auto operator<=>(const CodePlace&) const = default;
};

// How well it is known when within its step a piece was at work.
enum class PieceMoment : std::uint8_t {
  known,
  of_its_part,  // in a stretch of several lines, all of one part
  unknown       // in a stretch of several lines and parts, whose order is not known
};

// One piece of work within a step, as a probe saw it.
struct StepPiece {
  StepPart part = StepPart::other;
  std::shared_ptr<const CodePlace> place;  // never null; its file may be empty
  double from_ms = 0;                      // since the step began
  double length_ms = 0;
  double own_ms = 0;       // without the pieces within it
  double hidden_ms = 0;    // of own_ms: while the GPU still had work
  std::int64_t count = 1;  // more than one: short calls, summed up
  std::uint64_t bytes = 0;
  std::uint64_t subject = 0;  // tells one loader, module or file from another
  bool on_device = false;     // of a tensor on a GPU
  bool pageable = false;      // a copy from memory that is not pinned
  bool blocking = false;      // a copy without non_blocking
  PieceMoment moment = PieceMoment::known;
};

// What a call into the C library did meanwhile: `place` holds the call and the file that it wrote
// or read.
struct HostCall {
  StepPart part = StepPart::other;
  std::shared_ptr<const CodePlace> place;
  double length_ms = 0;
};

// A stretch that no piece covers, between two that do.
struct StepRest {
  double from_ms = 0;
  double length_ms = 0;
  std::shared_ptr<const CodePlace> after;   // the piece before it; null: the step's begin
  std::shared_ptr<const CodePlace> before;  // the piece behind it; null: the step's end
  std::vector<HostCall> calls;
};

// Where the training thread was at one moment: `what` holds the functions below the training loop,
// innermost first.
struct StackLook {
  double at_ms = 0;  // since the step began
  double weight_ms = 0;
  std::shared_ptr<const CodePlace> place;
};

struct StepDetail {
  std::vector<StepPiece> pieces;  // by begin
  std::vector<StepRest> rests;
  std::vector<StackLook> looks;
};

struct StepMark {
  int rank = 0;
  std::int64_t index = 0;
  double duration_ms = 0;
  std::array<std::optional<double>, kStepSpanNames.size()> spans_ms;
  std::optional<int> passes;          // backward passes in it: more than one is accumulation
  std::optional<int> synced_passes;   // of those, with gradients all-reduced
  std::optional<double> gpu_idle_ms;  // before its first pass, while the GPU had nothing to do
  // it had done all the work of the step before as soon as that was queued
  std::optional<bool> gpu_ran_dry;
  std::shared_ptr<const StepDetail> detail;  // null: not from a probe
  std::optional<StepOnDevices> on_devices;   // where the GPUs' own records were read
  bool beside_cupti = false;                 // it was in the process, and makes launches dearer

  bool operator==(const StepMark&) const = default;
};

// A setting or a count that a probe read in the training process: "loader" with workers=0, pin=1.
struct ProbeFact {
  int pid = 0;
  int rank = 0;
  std::string name;
  std::map<std::string, std::string> values;

  bool operator==(const ProbeFact&) const = default;
};

// What happened; the last four are scripted faults of played recordings.
struct EventKinds {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"xid", "lost", "recovered", "driver_gone", "driver_back", "command_ended", "message",
       "setting", "finding", "suspended", "resumed", "hang", "restart", "slow_call",
       "not_supported"});
};
using EventKind = KnownWord<EventKinds>;

struct Event {
  EventKind kind;
  std::optional<int> gpu;
  std::string detail;

  bool operator==(const Event&) const = default;
};

using GpuTick = std::vector<GpuSample>;
using ProcessTick = std::vector<ProcessSample>;

struct Record {
  double t_ms = 0;  // since the start of the recording
  std::variant<GpuTick, ProcessTick, StepMark, Event, ProbeFact, CollectiveCall, CommunicatorCensus>
      content;

  bool operator==(const Record&) const = default;
};

}  // namespace lockstep
