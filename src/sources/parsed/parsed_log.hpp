// A log of another tool, read whole and turned into records.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/source.hpp"

namespace lockstep {

struct ParsedLog {
  SourceKind kind = SourceKind::csv;
  Machine machine;
  std::vector<Record> records;
  std::vector<NotMeasured> not_measured;
  std::vector<std::string> notes;  // what was repaired or left out
};

// One GPU at one moment, as a line of a log gives it.
struct LogRow {
  std::optional<double> time_s;  // since 1970, or since midnight
  int gpu = 0;
  std::optional<double> busy;  // fraction
  std::optional<double> memory_used_bytes;
  std::optional<double> memory_total_bytes;
  std::optional<double> memory_fraction;  // where only a share is logged
  std::optional<double> power_mw;
  std::optional<double> power_limit_mw;
  std::optional<double> temperature_c;
  std::optional<double> sm_clock_mhz;
  std::optional<double> power_limit_default_mw;
  std::optional<double> sm;  // fractions, by GPM or DCGM
  std::optional<double> tensor;
  std::optional<double> dram;
  std::optional<ClockLimits> limits;
  std::string name;
  std::string uuid;
};

// Collects rows into ticks. A GPU that comes again begins the next tick.
class LogBuilder {
 public:
  LogBuilder(SourceKind kind, ProcessCoverage coverage);

  void add(LogRow row);
  // belong to the tick at hand
  void add_processes(std::optional<double> time_s, ProcessTick processes);
  void end_tick();
  // What the log says of itself, for readings without a time.
  void taken_every(double seconds) { taken_every_s_ = seconds; }
  // Nothing where not one reading was found.
  std::optional<ParsedLog> build();

 private:
  struct Round {
    std::optional<double> time_s;
    std::vector<LogRow> rows;
    std::optional<ProcessTick> processes;
  };
  void check(LogRow& row);
  void assign_times(ParsedLog& log);

  SourceKind kind_;
  ProcessCoverage coverage_;
  std::vector<Round> rounds_;
  Round current_;
  std::map<int, GpuInfo> gpus_;
  std::size_t absurd_ = 0;
  std::optional<double> taken_every_s_;
};

class ParsedSource : public Source {
 public:
  ParsedSource(ParsedLog log, std::string name, std::vector<int> gpus);

  SourceKind kind() const override { return log_.kind; }
  std::string detail() const override { return name_; }
  SourceFacts facts() const override { return {}; }
  const Machine& machine() const override { return log_.machine; }
  Result<NextRecord> next(std::chrono::milliseconds wait) override;
  std::vector<NotMeasured> not_measured() const override { return log_.not_measured; }
  std::optional<std::string> repair_note() const override;

 private:
  ParsedLog log_;
  std::string name_;
  std::size_t at_ = 0;
};

}  // namespace lockstep
