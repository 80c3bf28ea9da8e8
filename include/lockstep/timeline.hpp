// All readings, processes, steps and events of a run on one clock. Gaps are marked, never filled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/source.hpp"

namespace lockstep {

// Readings of one quantity in time order. Each has its own cadence, so each has its own times.
template <class T>
struct Series {
  std::vector<double> t_ms;
  std::vector<T> values;

  bool empty() const { return values.empty(); }
  std::size_t size() const { return values.size(); }
};

// What became of a quantity that was asked for and never had.
struct MissingSeries {
  std::string signal;  // the field's name in a recording
  ReadingState state = ReadingState::not_supported;
};

struct GpuTrack {
  GpuInfo info;
  Series<double> busy;
  Series<double> memory_used_bytes;
  Series<double> power_mw;
  Series<double> power_samples_mw;  // the driver's buffer, every sample at its own time
  Series<double> sm;
  Series<double> tensor;
  Series<double> dram;
  Series<double> sm_clock_mhz;
  Series<double> temperature_c;
  Series<ClockLimits> limits;
  Series<double> pcie_rx_bytes;
  Series<double> pcie_tx_bytes;
  Series<double> nvlink_rx_bytes;
  Series<double> nvlink_tx_bytes;
  // the newest reading of each field; stale once its age says so
  GpuSample latest;
  std::vector<MissingSeries> missing;  // asked for, and no value in the whole run
};

struct ProcessList {
  double t_ms = 0;
  ProcessTick processes;
};

struct StepAt {
  double t_ms = 0;
  StepMark step;
};

struct EventAt {
  double t_ms = 0;
  Event event;
};

struct FactAt {
  double t_ms = 0;
  ProbeFact fact;
};

struct CensusAt {
  double t_ms = 0;
  CommunicatorCensus census;
};

// No tick arrived in here although ticks were due.
struct Gap {
  double from_ms = 0;
  double to_ms = 0;
};

struct Timeline {
  Machine machine;
  SourceKind source_kind = SourceKind::nvml;
  std::string source_detail;
  double from_ms = 0;
  double to_ms = 0;
  std::vector<GpuTrack> gpus;
  std::vector<ProcessList> process_lists;
  std::vector<StepAt> steps;
  std::vector<EventAt> events;
  std::vector<FactAt> facts;
  std::vector<CollectiveCall> collectives;  // in the order in which they were told
  std::vector<CensusAt> censuses;
  std::vector<Gap> gaps;
  std::vector<NotMeasured> not_measured;
  std::size_t impossible_values = 0;  // such as 400 % busy: left out
  std::size_t backward_records = 0;   // went back in time: left out
};

}  // namespace lockstep
