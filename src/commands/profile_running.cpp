#include "commands/profile_running.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/interrupt.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "capture/traced_processes.hpp"
#include "commands/flame_file.hpp"
#include "runs/captured_traces.hpp"
#include "runs/exit_code.hpp"
#include "runs/judgement.hpp"
#include "runs/progress_line.hpp"
#include "runs/renderer_for.hpp"
#include "runs/running_code.hpp"
#include "runs/watched_command.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kProfileFor = 20s;  // some 400 stacks: a share of 20 % within 4 points
constexpr std::int64_t kTracedSteps = 5;

std::size_t stacks_in(const Timeline& timeline) {
  std::size_t count = 0;
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes)
      for (const StackSample& stack : process.stacks) count += static_cast<std::size_t>(stack.seen);
  return count;
}

Result<Timeline> watch_job(const RunOptions& options, WatchedCommand& watched) {
  ObservationOptions how;
  how.duration = options.duration.value_or(kProfileFor);
  how.pid = options.pid;
  how.whole_job = true;
  how.keep_free_gpus = true;
  const ProgressLine progress(options);
  how.enough = [&](const Timeline& so_far) {
    progress.tell(fmt::format("profiling process {}: {:.0f} s, {} Python stacks", *options.pid,
                              (so_far.to_ms - so_far.from_ms) / 1e3, stacks_in(so_far)));
    return interrupted_by() != 0;
  };
  return watched.observe(how);
}

std::optional<StepPart> part_of(const Finding& finding) {
  switch (name_of(finding.code).part) {
    case LedgerPart::input: return StepPart::data_wait;
    case LedgerPart::sync: return StepPart::sync;
    case LedgerPart::logging: return StepPart::logging;
    case LedgerPart::checkpoint: return StepPart::checkpoint;
    case LedgerPart::evaluation: return StepPart::evaluation;
    case LedgerPart::gc: return StepPart::gc;
    case LedgerPart::host_code: return StepPart::other;
    default: return std::nullopt;
  }
}

// A trace without Python knows how long, stacks know where: the line that most of them were at.
void name_line_by_stacks(const StackProfile& stacks, Finding& finding) {
  const auto part = part_of(finding);
  if (!part || !finding.where.empty()) return;
  for (const SeenStack& stack : stacks.stacks)  // most often seen first
    if (stack.part == *part && !stack.place.file.empty()) {
      finding.where.push_back({stack.place.file, stack.place.line});
      return;
    }
}

// Kernels were seen one by one: what they say goes before what readings and stacks let one infer.
void prefer_trace(const JudgedTraces& traced, Report& report) {
  const auto known_better = [](const Finding& finding) {
    return includes(name_of(finding.code).known_by, KnownBy::trace);
  };
  std::erase_if(report.findings, known_better);
  std::erase_if(report.suspicions, known_better);
  const Report of_trace = report_of(traced.timeline, traced.run);
  for (const Finding& finding : of_trace.findings) report.findings.push_back(finding);
  for (const Finding& finding : of_trace.suspicions) report.suspicions.push_back(finding);
  if (report.stacks)
    for (auto* const findings : {&report.findings, &report.suspicions})
      for (Finding& finding : *findings) name_line_by_stacks(*report.stacks, finding);
  std::ranges::stable_sort(report.findings, std::greater{}, &Finding::lost_gpu_hours_a_day);
  report.trace = of_trace.trace;
  report.steps = of_trace.steps;
  report.throughput = of_trace.throughput;
  if (!report.jobs.empty() && !of_trace.jobs.empty())
    report.jobs.front().ledger = of_trace.jobs.front().ledger;
}

// Asks the ranks for a trace, where they were started so that they can be asked. False: they were
// not, or did not answer, which is told.
Result<bool> add_trace(const RunOptions& options, const RunningProfile& wanted, Report& report) {
  TraceWish wish;
  wish.steps = wanted.steps.value_or(kTracedSteps);
  for (const Job& job : report.jobs)
    wish.pids.insert(wish.pids.end(), job.pids.begin(), job.pids.end());
  if (wish.pids.empty() || find_traced_processes("/proc", wish.pids).empty()) return false;
  wish.folder = TRY(folder_for_traces(""));
  auto captured = capture_and_judge(options, wish);
  if (!captured || !*captured) {
    std::error_code ignored;
    std::filesystem::remove(wish.folder, ignored);  // ours, and empty
    if (!captured) report.not_measured.push_back({"trace", captured.error().what});
    return false;
  }
  for (const std::string& note : (*captured)->notes) tell(options, note);
  for (const std::string& note : (*captured)->judged.notes) tell(options, note);
  tell(options, fmt::format("traces in {}", printable(wish.folder.string())));
  prefer_trace((*captured)->judged, report);
  return true;
}

// On which rung it stands, and what a restart would add.
void tell_what_is_missing(bool traced, Report& report) {
  std::erase_if(report.not_measured,
                [](const NotMeasured& entry) { return entry.signal == "steps"; });
  if (!traced && report.steps) return;  // marks of the trainer, or of probes from its launch
  const std::string seen = traced          ? "a trace of the profiler"
                           : report.stacks ? "Python stacks and the GPUs' readings"
                                           : "the GPUs' readings";
  report.not_measured.push_back(
      {"steps",
       fmt::format("the job runs without probes: this is from {}. Started as `lockstep "
                   "profile -- CMD` it would also tell {}",
                   seen,
                   traced ? "every step of the run instead of a few, each with its lines"
                          : "each step's length and parts, why the GPU was idle by line, "
                            "its kernels, and who comes late to collectives; with "
                            "KINETO_USE_DAEMON=1 it could be asked for a trace while it runs")});
}

}  // namespace

Result<int> profile_running(const RunOptions& options, const RunningProfile& wanted) {
  const int pid = *options.pid;
  if (!parent_of(pid))
    return Error{fmt::format("there is no process {}", pid), "see them: lockstep monitor --once"};
  watch_for_interrupts();
  SourceOptions source_options = options.source_options();
  source_options.process_period = 1s;
  source_options.attention = Attention::closest;
  auto source = TRY(open_source(options.input, source_options));
  if (!source->facts().live || !source->facts().local_pids)
    return usage_error("--pid is of a process that runs here, not of a file",
                       "leave the file out, or diagnose it: lockstep diagnose FILE");
  WatchedCommandOptions what;
  what.record_to = wanted.record;
  auto watched = TRY(WatchedCommand::start(what, std::move(source)));
  const Timeline timeline = TRY(watch_job(options, watched));
  TRY(watched.close_recording());
  watched.let_go();
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  Report report = report_of(timeline, judge(timeline));
  const bool traced = TRY(add_trace(options, wanted, report));
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  tell_what_is_missing(traced, report);
  add_code_of_processes(report, {});
  shorten_paths(report, std::filesystem::current_path());
  TRY(write_flame_file(options, wanted.flame, report, fmt::format("process {}", pid)));
  TRY(put_result(options, renderer_for(options)->render(report)));
  return report.findings.empty() ? exit_code::kDone : exit_code::kFindings;
}

}  // namespace lockstep
