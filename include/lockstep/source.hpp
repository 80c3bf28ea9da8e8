// Where records come from: a driver, a file, a probe. Pulled, one at a time, by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

enum class SourceKind : std::uint8_t {
  nvml,
  virtual_gpus,
  recording,
  trace,
  nvidia_smi,
  csv,
  gpustat,
  wandb,
  prometheus,
  log,
  code,
  probe
};

// A signal that this source does not give, and why. Shown in every report.
struct NotMeasured {
  std::string signal;
  std::string reason;

  bool operator==(const NotMeasured&) const = default;
};

struct NothingYet {};  // a live source had nothing within the time given
struct EndOfInput {};  // a finite source is through
using NextRecord = std::variant<Record, NothingYet, EndOfInput>;

// What a source says of itself, so that nobody has to tell it from its kind or its name.
struct SourceFacts {
  bool live = false;        // readings come as time passes: a driver, a server that is followed
  bool local_pids = false;  // its process ids are of this machine
};

class Source {
 public:
  virtual ~Source() = default;

  virtual SourceKind kind() const = 0;
  // the file, the driver: what a reader of the report wants to know
  virtual std::string detail() const = 0;
  virtual SourceFacts facts() const = 0;
  virtual const Machine& machine() const = 0;

  // Waits at most `wait` for the next record. Files never wait.
  virtual Result<NextRecord> next(std::chrono::milliseconds wait) = 0;

  // No more is wanted. A live source reads what the driver still buffers; next() then runs to
  // EndOfInput.
  virtual void finish() {}

  // From now on a live source reads so often; files have their own times.
  virtual void set_interval(std::chrono::nanoseconds) {}

  // What cannot be had from this source, as far as is known by now.
  virtual std::vector<NotMeasured> not_measured() const = 0;

  // Set while a live source's driver does not answer: how long, and to which call.
  struct Silence {
    std::chrono::milliseconds since;
    std::string call;
  };
  virtual std::optional<Silence> silence() const { return std::nullopt; }

  // Share of wall time that watching takes from the driver; nothing for files.
  virtual std::optional<double> cost() const { return std::nullopt; }

  // Set when part of the input could not be used: a sentence for the user, who is told once.
  virtual std::optional<std::string> repair_note() const { return std::nullopt; }
};

}  // namespace lockstep
