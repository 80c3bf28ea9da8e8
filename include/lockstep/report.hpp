// Everything a reader is told: the machine, the verdict, the findings, and what could not be
// measured.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/finding.hpp"
#include "lockstep/record.hpp"
#include "lockstep/signals.hpp"
#include "lockstep/source.hpp"
#include "lockstep/verification.hpp"

namespace lockstep {

enum class Pattern : std::uint8_t {
  in_step,
  taking_turns,
  one_leads,
  pipeline,
  single_gpu,
  independent,
  idle,
  unclear
};
inline constexpr std::array<std::string_view, 8> kPatternNames = {
    "in-step",    "taking-turns", "one-leads", "pipeline",
    "single-gpu", "independent",  "idle",      "unclear"};

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
  std::string name;             // the cluster's; empty: it has none
  std::vector<HostGpus> hosts;  // where several machines were watched
  std::optional<double> busy;   // mean of its GPUs
  Ledger ledger;                // where their time went
  // at the end, when nothing ran any more and its GPUs still held its memory
  std::optional<double> held_after_s;
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

// One GPU's row of a picture: a value a column, nothing where none is known.
struct LaneRow {
  int gpu = 0;
  std::vector<std::optional<double>> values;  // 0..1
  std::string place;                          // "node2:0", where several machines were watched
};

inline constexpr std::size_t kPictureColumns = 120;

// What the GPUs did over a stretch of time, side by side: kPictureColumns values a row.
struct LanePicture {
  std::string made_of;  // "busy", "power of limit", "memory"
  double from_s = 0;
  double column_s = 0;
  std::vector<LaneRow> rows;
};

// One thing people were told to look for after a fix, with what was measured.
struct CheckItem {
  std::string question;
  std::string measured;
  std::optional<bool> yes;  // nothing: not known

  std::string_view answer() const { return !yes ? "unknown" : *yes ? "yes" : "no"; }
};

// How a run compares with another, or with a known time on one GPU.
struct Comparison {
  std::string against;      // the other input, or "baseline"
  double speedup = 1;       // this run over the other
  double ideal = 1;         // what the GPUs could give
  double efficiency = 1;    // speedup over ideal
  std::string measured_by;  // "steps", "samples", "work", "time"
  struct Share {
    std::string code;
    double lost = 0;  // of the ideal
  };
  // the part of the ideal that is missing, split by finding; the rest is unexplained
  std::vector<Share> missing;
  struct Change {
    std::string what;
    double other = 0;  // in the run that is compared with
    double own = 0;    // in this one
    std::string unit;  // "ms", "fraction"
  };
  std::vector<Change> changes;  // where both are traces, or profiles: what a step takes
  // of two traces: share of this one's kernel time in kernels that the other has too
  std::optional<double> alike;
  std::vector<std::string> only_here;   // findings of this run alone, "D201 input-starved"
  std::vector<std::string> only_there;  // of the other alone
};

// The command that was run and watched.
struct CommandReport {
  std::vector<std::string> command;  // secrets replaced
  std::optional<int> exit_code;      // nothing: it still ran when the report was made
  bool stopped_by_lockstep = false;
};

// What `profile --dataloader` answers: is the loader what is slow, and what would hide it?
struct LoaderAnswer {
  LoaderTrial alone;
  std::vector<LoaderTrial> trials;
  std::optional<BatchTransfer> transfer;
  double step_alone_ms = 0;      // the step without waiting for data and copies
  bool loading_is_slow = false;  // slower than the step
  // that would hide it; nothing: none that was tried or can be told
  std::optional<int> enough_workers;
  bool tried = false;  // `enough_workers` was measured, not computed
  // batches ahead of each of them, so that the longest batch is covered
  std::optional<int> enough_prefetch;
  std::string sentence;
  std::vector<std::string> warnings;
};

struct Report {
  SourceKind source_kind = SourceKind::nvml;
  std::string source_detail;
  double duration_s = 0;
  std::optional<std::size_t> looks_without_times;  // the log has no times: the duration is a guess
  std::vector<Job> jobs;
  std::optional<Verdict> verdict;  // nothing: nothing was judged
  std::optional<Throughput> throughput;
  std::vector<Finding> findings;
  std::vector<Finding> suspicions;
  std::size_t findings_left_out = 0;  // true, but not asked for: --only, --ignore, --min-severity
  std::vector<GpuReport> gpus;
  std::vector<ProcessSample> processes;
  std::vector<Event> events;
  std::vector<NotMeasured> not_measured;
  std::vector<HostClock> clocks;  // of several machines whose recordings were put together
  std::vector<LanePicture> pictures;
  std::vector<CheckItem> checklist;
  std::optional<StepSignals> steps;
  std::optional<StackProfile> stacks;  // of the job that the verdict speaks of
  std::optional<CollectiveSignals> collectives;
  std::optional<CommunicatorSignals> communicators;
  std::vector<std::string> probes;  // that were heard: "python", "cuda"
  bool probes_broke_off = false;  // one stopped or lost records: that nothing was found proves less
  std::optional<LoaderAnswer> loader;
  std::optional<Comparison> comparison;
  std::string no_comparison;  // one was asked for, and this is what it lacks
  std::optional<TraceSignals> trace;
  std::optional<CommandReport> command;
  std::optional<Verification> verification;  // of patches: the command with and without them
};

// Whether the GPUs are virtual, live or in a recording: every screen and report says so.
inline bool is_virtual(const Report& report) {
  return report.source_kind == SourceKind::virtual_gpus ||
         std::ranges::any_of(report.gpus,
                             [](const GpuReport& gpu) { return is_virtual(gpu.info); });
}

}  // namespace lockstep
