#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "capture/capture.hpp"
#include "commands/command_line.hpp"
#include "runs/judgement.hpp"
#include "runs/progress_line.hpp"
#include "runs/renderer_for.hpp"
#include "runs/trace_input.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kFirstLook = 1000ms;  // how long a step takes is not known before
constexpr auto kLongestLook = 120s;
constexpr int kMostLooks = 3;

// As typed, beside the shared options.
struct TraceOptions {
  std::string steps;
  std::string duration;
  std::vector<std::string> pids;
  std::string folder;
  bool stacks = false;
};

// What is asked for: so many whole steps, or a length of time.
struct Wanted {
  std::optional<std::int64_t> steps;
  std::chrono::milliseconds duration = kFirstLook;
  std::vector<int> pids;
};

Result<Wanted> checked(const TraceOptions& typed) {
  Wanted wanted;
  if (!typed.steps.empty() && !typed.duration.empty())
    return usage_error("--steps and --duration at once", "give one of them: --steps 5");
  if (!typed.duration.empty()) {
    auto duration = TRY(parse_duration(typed.duration));
    wanted.duration = std::chrono::duration_cast<std::chrono::milliseconds>(duration);
    if (wanted.duration < 1ms || wanted.duration > kLongestLook)
      return usage_error(
          fmt::format("--duration {} is no length for a trace", printable(typed.duration)),
          "give one from 1ms to 120s: --duration 2s");
  } else {
    wanted.steps =
        typed.steps.empty() ? std::optional<std::int64_t>(5) : parse_integer(typed.steps);
    if (!wanted.steps || *wanted.steps < 1 || *wanted.steps > 10'000)
      return usage_error(fmt::format("--steps {} is no number of steps", printable(typed.steps)),
                         "give one: --steps 5");
  }
  for (const std::string& text : typed.pids) {
    const auto pid = parse_integer(text);
    if (!pid || *pid < 1 || *pid > INT32_MAX)
      return usage_error(fmt::format("--pid {} is no process", printable(text)),
                         "give the number that ps shows: --pid 4242");
    wanted.pids.push_back(static_cast<int>(*pid));
  }
  return wanted;
}

Result<fs::path> folder_for(const std::string& typed) {
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

Error nobody_to_ask(const std::vector<int>& pids) {
  const std::string next =
      "start it so: KINETO_USE_DAEMON=1 torchrun ... train.py, or lockstep launch --probe ... "
      "train.py; the variable cannot be given to a process that runs";
  if (pids.empty())
    return {"no process with PyTorch was started with KINETO_USE_DAEMON here", next};
  return {fmt::format(
              "process {} and its children have no PyTorch that was started with KINETO_USE_DAEMON",
              pids.front()),
          next};
}

std::int64_t fewest_steps(const JudgedTraces& judged) {
  if (judged.run.signals.trace) return judged.run.signals.trace->steps;
  std::map<int, std::int64_t> counts;
  for (const StepAt& entry : judged.timeline.steps) ++counts[entry.step.rank];
  std::int64_t fewest = counts.empty() ? 0 : INT64_MAX;
  for (const auto& [rank, count] : counts) fewest = std::min(fewest, count);
  return fewest;
}

// Long enough for the steps that are wanted, from what the last look showed.
std::chrono::milliseconds longer_look(std::chrono::milliseconds last, std::int64_t seen,
                                      std::int64_t wanted) {
  constexpr std::int64_t kUnknownGrowth = 8;
  const auto next = seen > 0 ? last * (wanted + 2) / seen * 5 / 4 : last * kUnknownGrowth;
  return std::min<std::chrono::milliseconds>(next, kLongestLook);
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

Result<int> run_trace(const RawOptions& raw, const TraceOptions& typed) {
  auto options = TRY(check(raw, Formats::all));
  auto wanted = TRY(checked(typed));
  watch_for_interrupts();
  if (find_traced_processes("/proc", wanted.pids).empty()) return nobody_to_ask(wanted.pids);
  auto folder = TRY(folder_for(typed.folder));

  std::optional<JudgedTraces> judged;
  std::vector<std::string> notes;
  for (int look = 1;; ++look) {
    auto capture = [&] {
      const ProgressLine progress(options);
      CaptureOptions how;
      how.duration = wanted.duration;
      how.stacks = typed.stacks;
      how.folder = folder;
      how.progress = [&progress](const std::string& words) { progress.tell(words); };
      how.interrupted = [] { return interrupted_by() != 0; };
      // ranks may have come
      return capture_traces(find_traced_processes("/proc", wanted.pids), how);
    }();
    std::error_code ignored;
    if (!capture && typed.folder.empty()) fs::remove(folder, ignored);  // ours, and empty
    if (interrupted_by() != 0) return exit_code::kInterrupted;
    if (!capture) return std::move(capture).error();
    notes = std::move(capture->notes);
    auto result = judge_capture(*capture);
    const bool may_look_again = look < kMostLooks && wanted.steps && wanted.duration < kLongestLook;
    const std::int64_t seen = result ? fewest_steps(*result) : 0;
    if (!may_look_again || seen >= *wanted.steps) {
      if (!result) return std::move(result).error();
      if (wanted.steps && seen < *wanted.steps)
        notes.push_back(
            fmt::format("{} whole steps are in the traces, fewer than were asked for", seen));
      judged = std::move(*result);
      break;
    }
    wanted.duration = longer_look(wanted.duration, seen, *wanted.steps);
    if (!options.quiet)
      fmt::print(stderr, "lockstep: {} whole steps were in it; once more, for {:.1f} s\n", seen,
                 std::chrono::duration<double>(wanted.duration).count());
  }

  Report report = report_of(judged->timeline, judged->run);
  if (report.gpus.empty() && (!report.steps || report.steps->ranks.size() < 2))
    report.verdict.reset();
  if (!options.quiet) {
    for (const std::string& note : notes) fmt::print(stderr, "lockstep: {}\n", note);
    for (const std::string& note : judged->notes) fmt::print(stderr, "lockstep: {}\n", note);
    fmt::print(stderr, "lockstep: traces of {} process{} in {}\n", judged->traces.size(),
               judged->traces.size() == 1 ? "" : "es", printable(folder.string()));
  }
  TRY(put_result(options, renderer_for(options)->render(report)));
  return report.findings.empty() ? exit_code::kDone : exit_code::kFindings;
}

}  // namespace

Run configure_trace(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<TraceOptions>();
  app.add_option("--steps", typed->steps, "so many whole training steps at least (5)")
      ->type_name("N");
  app.add_option("--duration", typed->duration, "so long instead: 2s")->type_name("DURATION");
  app.add_option("--pid", typed->pids,
                 "only this process and its children; may be given several times")
      ->allow_extra_args(false)
      ->type_name("PID");
  app.add_option("-o,--output", typed->folder,
                 "the folder that the traces go to (a new one in the temporary folder)")
      ->type_name("DIR");
  app.add_flag("--stacks", typed->stacks,
               "with Python lines, which slows the steps that are traced");
  add_format_options(app, raw);
  add_common_options(app, raw);
  return [typed, &raw] { return run_trace(raw, *typed); };
}

}  // namespace lockstep
