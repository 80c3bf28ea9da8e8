// Everything a reader is told: the machine, the verdict, the findings, and what could not be measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/finding.hpp"
#include "lockstep/record.hpp"
#include "lockstep/source.hpp"

namespace lockstep {

enum class Pattern : std::uint8_t {
  in_step, taking_turns, one_leads, pipeline, single_gpu, independent, idle, unclear
};
inline constexpr std::array<std::string_view, 8> kPatternNames = {
    "in-step", "taking-turns", "one-leads", "pipeline", "single-gpu", "independent", "idle", "unclear"};

struct Verdict {
  Pattern pattern = Pattern::unclear;
  double confidence = 0;
  std::string sentence;
};

// A job: processes that work together, and the GPUs they hold.
struct Job {
  std::vector<int> gpus;
  std::vector<int> pids;
  std::vector<int> ranks;
  std::optional<Verdict> verdict;
};

struct Throughput {
  double now = 0;  // share of `possible`
  double possible = 1;
};

// One GPU of the report: what it is, its mean over the run, and its newest readings.
struct GpuReport {
  GpuInfo info;
  std::optional<double> busy;
  std::optional<double> memory_used_bytes;
  std::optional<double> power_mw;
  GpuSample latest;
  bool lost = false;
};

struct Report {
  SourceKind source_kind = SourceKind::nvml;
  std::string source_detail;
  double duration_s = 0;
  std::vector<Job> jobs;
  std::optional<Verdict> verdict;  // nothing: nothing was judged
  std::optional<Throughput> throughput;
  std::vector<Finding> findings;
  std::vector<Finding> suspicions;
  std::vector<GpuReport> gpus;
  std::vector<ProcessSample> processes;
  std::vector<Event> events;
  std::vector<NotMeasured> not_measured;
};

}  // namespace lockstep
