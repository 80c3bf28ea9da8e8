#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "capture/capture.hpp"
#include "commands/command_line.hpp"
#include "runs/captured_traces.hpp"
#include "runs/judgement.hpp"
#include "runs/renderer_for.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// As typed, beside the shared options.
struct TraceOptions {
  std::string steps;
  std::string duration;
  std::vector<std::string> pids;
  std::string folder;
  bool stacks = false;
};

Result<TraceWish> checked(const TraceOptions& typed) {
  TraceWish wanted;
  wanted.stacks = typed.stacks;
  if (!typed.steps.empty() && !typed.duration.empty())
    return usage_error("--steps and --duration at once", "give one of them: --steps 5");
  if (!typed.duration.empty()) {
    auto duration = TRY(parse_duration(typed.duration));
    wanted.duration = std::chrono::duration_cast<std::chrono::milliseconds>(duration);
    if (wanted.duration < 1ms || wanted.duration > kLongestTrace)
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

Result<int> run_trace(const RawOptions& raw, const TraceOptions& typed) {
  auto options = TRY(check(raw, Formats::all));
  auto wanted = TRY(checked(typed));
  watch_for_interrupts();
  if (find_traced_processes("/proc", wanted.pids).empty()) return nobody_to_ask(wanted.pids);
  wanted.folder = TRY(folder_for_traces(typed.folder));
  auto captured = capture_and_judge(options, wanted);
  std::error_code ignored;
  const bool made = captured && *captured;
  if (!made && typed.folder.empty()) fs::remove(wanted.folder, ignored);  // ours, and empty
  if (!captured) return std::move(captured).error();
  if (!*captured) return exit_code::kInterrupted;
  const JudgedTraces& judged = (*captured)->judged;

  Report report = report_of(judged.timeline, judged.run);
  if (report.gpus.empty() && (!report.steps || report.steps->ranks.size() < 2))
    report.verdict.reset();
  if (!options.quiet) {
    for (const std::string& note : (*captured)->notes) fmt::print(stderr, "lockstep: {}\n", note);
    for (const std::string& note : judged.notes) fmt::print(stderr, "lockstep: {}\n", note);
    fmt::print(stderr, "lockstep: traces of {} process{} in {}\n", judged.traces.size(),
               judged.traces.size() == 1 ? "" : "es", printable(wanted.folder.string()));
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
