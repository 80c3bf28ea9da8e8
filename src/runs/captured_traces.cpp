#include "runs/captured_traces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "capture/capture.hpp"
#include "runs/progress_line.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 3;

std::int64_t fewest_steps(const JudgedTraces& judged) {
  if (judged.run.signals.trace) return judged.run.signals.trace->steps;
  std::map<int, std::int64_t> counts;
  for (const StepAt& entry : judged.timeline.steps) ++counts[entry.step.rank];
  std::int64_t fewest = counts.empty() ? 0 : INT64_MAX;
  for (const auto& [rank, count] : counts) fewest = std::min(fewest, count);
  return fewest;
}

// Long enough for the steps that are wanted, from what the last try showed.
std::chrono::milliseconds longer_trace(std::chrono::milliseconds last, std::int64_t seen,
                                       std::int64_t wanted) {
  constexpr std::int64_t kUnknownGrowth = 8;
  const auto next = seen > 0 ? last * (wanted + 2) / seen * 5 / 4 : last * kUnknownGrowth;
  return std::min<std::chrono::milliseconds>(next, kLongestTrace);
}

Result<JudgedTraces> judge_capture(const Capture& capture) {
  std::vector<std::string> paths;
  TraceQuestion question;
  question.without_gpu = true;
  for (const CapturedTrace& trace : capture.traces) {
    paths.push_back(trace.file.string());
    if (trace.rank) question.ranks[trace.file.string()] = *trace.rank;
  }
  return judge_traces(paths, question);
}

// Traces are judged together, as ranks of one training: those of two would be compared with each
// other.
Status check_one_job(const std::vector<TracedProcess>& processes) {
  std::map<std::string, std::vector<int>> jobs;
  for (const TracedProcess& process : processes) jobs[process.job].push_back(process.pid);
  if (jobs.size() < 2) return Done{};
  std::vector<std::string> named;
  for (const auto& [job, pids] : jobs)
    named.push_back(
        fmt::format("process{} {}", pids.size() == 1 ? "" : "es", fmt::join(pids, ", ")));
  return Error{fmt::format("{} trainings here can be asked for a trace: {}", jobs.size(),
                           fmt::join(named, "; ")),
               fmt::format("choose one: lockstep trace --pid {}",
                           fmt::join(jobs.begin()->second, " --pid "))};
}

Result<Capture> capture_once(const RunOptions& options, const TraceWish& wish) {
  const ProgressLine progress(options);
  CaptureOptions how;
  how.duration = wish.duration;
  how.stacks = wish.stacks;
  how.folder = wish.folder;
  how.progress = [&progress](const std::string& words) { progress.tell(words); };
  how.interrupted = [] { return interrupted_by() != 0; };
  const auto processes = find_traced_processes("/proc", wish.pids);  // ranks may have come
  if (wish.pids.empty()) TRY(check_one_job(processes));
  return capture_traces(processes, how);
}

}  // namespace

Result<fs::path> folder_for_traces(const std::string& typed) {
  std::error_code problem;
  if (!typed.empty()) {
    fs::create_directories(typed, problem);
    if (problem)
      return usage_error(
          fmt::format("cannot make the folder {}: {}", printable(typed), problem.message()),
          "choose one that you may write to: -o DIR");
    return fs::path(typed);
  }
  std::string path = (fs::temp_directory_path(problem) / "lockstep-traces-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr)
    return Error{fmt::format("cannot make a folder for the traces: {}", std::strerror(errno)),
                 "name one: -o DIR"};
  return fs::path(path);
}

Result<std::optional<JudgedCapture>> capture_and_judge(const RunOptions& options, TraceWish wish) {
  for (int attempt = 1;; ++attempt) {
    auto capture = capture_once(options, wish);
    if (interrupted_by() != 0) return std::optional<JudgedCapture>();
    if (!capture) return std::move(capture).error();
    auto result = judge_capture(*capture);
    const bool may_try_again = attempt < kMostTries && wish.steps && wish.duration < kLongestTrace;
    const std::int64_t seen = result ? fewest_steps(*result) : 0;
    if (!may_try_again || seen >= *wish.steps) {
      if (!result) return std::move(result).error();
      std::vector<std::string> notes = std::move(capture->notes);
      if (wish.steps && seen < *wish.steps)
        notes.push_back(
            fmt::format("{} whole steps are in the traces, fewer than were asked for", seen));
      return std::optional(JudgedCapture{std::move(*result), std::move(notes)});
    }
    wish.duration = longer_trace(wish.duration, seen, *wish.steps);
    tell(options, fmt::format("{} whole steps were in it; once more, for {:.1f} s", seen,
                              std::chrono::duration<double>(wish.duration).count()));
  }
}

}  // namespace lockstep
