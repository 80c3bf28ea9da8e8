#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "commands/flame_file.hpp"
#include "commands/profile_running.hpp"
#include "render/json/trace_writer.hpp"
#include "report/comparison.hpp"
#include "runs/judgement.hpp"
#include "runs/progress_line.hpp"
#include "runs/renderer_for.hpp"
#include "runs/running_code.hpp"
#include "runs/watched_command.hpp"
#include "sources/host/proc_files.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kStepsOfLoaderTrial = 100;  // enough for the step's own time

struct ProfileOptions {
  std::string probe = "auto";
  std::string steps;
  std::string trace;
  std::string flame;
  std::string record;
  std::string against;
  std::string batches;
  bool dataloader = false;
  bool tune = false;
};

std::int64_t steps_of(const Timeline& timeline) {
  std::int64_t most = 0;
  for (const StepAt& entry : timeline.steps) most = std::max(most, entry.step.index);
  return most;
}

// GPUs where there are any; why not, where there are none.
std::unique_ptr<Source> gpus_for(const RunOptions& options, std::optional<NotMeasured>& missing) {
  SourceOptions source_options = options.source_options();
  source_options.process_period = 1s;
  source_options.attention = Attention::close;
  auto source = open_source(options.input, source_options);
  if (source) return std::move(*source);
  missing = NotMeasured{"gpu", source.error().what};
  return nullptr;
}

// How long the command's main threads could run and had no core, in seconds: of the one that waited
// longest.
double waited_for_cpu(int command) {
  double longest = 0;
  for_each_number_in("/proc", [&](int pid) {
    if (!is_or_stands_below(pid, command)) return;
    const auto text = read_small_file("/proc/" + std::to_string(pid) + "/schedstat", 128);
    const auto delay = parse_run_delay(text.value_or(""));
    longest = std::max(longest, static_cast<double>(delay.value_or(0)) / 1e9);
  });
  return longest;
}

std::string why_python_is_silent(WatchedCommand& source, const Timeline& timeline) {
  constexpr double kShortOfCpu = 0.3;  // of the time that was watched
  ChildCommand& child = source.child();
  if (child.started() && child.running()) {
    const double watched_s = (timeline.to_ms - timeline.from_ms) / 1e3;
    const double waited_s = waited_for_cpu(child.pid());
    if (waited_s > kShortOfCpu * std::max(1.0, watched_s))
      return fmt::format(
          "still importing: it waited {:.0f} s for a CPU; give it longer (--duration), or cores",
          waited_s);
  }
  std::error_code unknown;
  constexpr std::uintmax_t kRing = 8U << 20U;  // the smallest takes less
  if (const auto space = std::filesystem::space(source.session().folder(), unknown);
      !unknown && space.available < kRing)
    return fmt::format("no room for its records: {} has {:.1f} MB left (XDG_RUNTIME_DIR names it)",
                       printable(source.session().folder().string()),
                       static_cast<double>(space.available) / 1e6);
  return "no Python process with torch answered: none ran, or it was started with -S, -I or -E, "
         "which hide PYTHONPATH";
}

void tell_who_was_heard(WatchedCommand& source, const Timeline& timeline, Report& report) {
  const ProbeChoice& probes = source.session().probes();
  if (report.communicators && report.probes.empty()) report.probes.emplace_back("ras");
  for (const std::string& why : source.session().left_out())
    report.not_measured.push_back(
        {why.substr(0, why.find(':')), why.substr(std::min(why.size(), why.find(':') + 2))});
  const bool on_gpu = report.steps && !report.gpus.empty();
  if (probes.cuda && on_gpu && !source.heard(LOCKSTEP_ROLE_CUDA))
    report.not_measured.push_back(
        {"cuda",
         "no process started CUDA with the probe: what the GPUs did is told from the host's side"});
  for (const FactAt& entry : timeline.facts)
    if (const auto why = entry.fact.values.find("stopped"); entry.fact.name == "cuda_probe" &&
                                                            why != entry.fact.values.end() &&
                                                            why->second == "torch.profiler")
      report.not_measured.push_back({"cuda", "rank " + std::to_string(entry.fact.rank) +
                                                 " started torch.profiler, which takes CUPTI's "
                                                 "records for itself: the probe stopped there"});
  if (!probes.any()) {
    report.not_measured.push_back({"steps", "no probe was switched on (--probe none)"});
    return;
  }
  if (probes.python && !source.heard(LOCKSTEP_ROLE_RANK))
    report.not_measured.push_back({"python", why_python_is_silent(source, timeline)});
  else if (timeline.steps.empty())
    report.not_measured.push_back(
        {"steps", "torch was loaded, and fewer than two optimizer steps were seen"});
}

// batches=100,tune=1 for the probe; empty: not asked for.
Result<std::string> loader_trial_words(const ProfileOptions& typed) {
  if (!typed.dataloader) {
    if (typed.tune || !typed.batches.empty())
      return usage_error("--tune and --batches belong to --dataloader",
                         "add it: lockstep profile --dataloader --tune -- python train.py");
    return std::string();
  }
  const auto batches =
      typed.batches.empty() ? std::optional<std::int64_t>(100) : parse_integer(typed.batches);
  if (!batches || *batches < 2 || *batches > 1'000'000)
    return usage_error(
        fmt::format("--batches {} is no number of batches", printable(typed.batches)),
        "give one of 2 or more: --batches 100");
  return fmt::format("batches={},tune={}", *batches, typed.tune ? 1 : 0);
}

Result<std::optional<std::int64_t>> checked_steps(const std::string& typed) {
  if (typed.empty()) return std::optional<std::int64_t>();
  const auto steps = parse_integer(typed);
  if (!steps || *steps < 1)
    return usage_error(fmt::format("--steps {} is no number of steps", printable(typed)),
                       "give one: --steps 50");
  return steps;
}

// What was seen, judged and told; the command may still run.
Report profile_report(const RunOptions& options, const Timeline& timeline,
                      const std::optional<NotMeasured>& no_gpu, WatchedCommand& watched,
                      const std::optional<Judged>& before, const std::string& before_name) {
  const Judged run = judge(timeline);
  Report report = report_of(timeline, run);
  if (before) {
    report.comparison = compare_runs({run.signals, run.diagnosis},
                                     {before->signals, before->diagnosis}, before_name);
    if (!report.comparison) report.no_comparison = "one of the two runs has no five steps";
  }
  if (report.gpus.empty() && !report.steps) report.verdict.reset();
  if (no_gpu) report.not_measured.push_back(*no_gpu);
  tell_who_was_heard(watched, timeline, report);
  add_code_of_processes(report, options.command);
  shorten_paths(report, std::filesystem::current_path());
  report.command = watched.child().report();
  return report;
}

// A job that runs already cannot be given probes.
Result<int> run_profile_of_running(const RunOptions& options, const ProfileOptions& typed) {
  if (!options.command.empty())
    return usage_error("--pid and a command at once", "give one of them");
  if (typed.probe != "auto" || typed.dataloader || typed.tune || !typed.batches.empty() ||
      !typed.trace.empty() || !typed.against.empty())
    return usage_error(
        "--probe, --trace, --against and --dataloader need probes, and a running process takes "
        "none",
        "leave them out, or start it anew: lockstep profile -- CMD");
  RunningProfile wanted;
  wanted.steps = TRY(checked_steps(typed.steps));
  wanted.record = typed.record;
  wanted.flame = typed.flame;
  return profile_running(options, wanted);
}

Result<int> run_profile(const RawOptions& raw, const ProfileOptions& typed) {
  auto options = TRY(check(raw, Formats::all));
  TRY(check_flame_file(typed.flame));
  if (options.pid) return run_profile_of_running(options, typed);
  if (options.command.empty())
    return usage_error(
        "no command to profile",
        "write it after --: lockstep profile -- torchrun --nproc_per_node=2 train.py; or name a "
        "process that runs: --pid PID");
  WatchedCommandOptions what;
  what.command = options.command;
  what.output = options.writes_to_file() ? ChildOutput::untouched : ChildOutput::to_stderr;
  what.probes = TRY(parse_probes(typed.probe, ProbeChoice{}));
  if (!typed.trace.empty()) what.probes.cuda_always = true;  // every kernel is to be drawn
  what.device_work =
      typed.trace.empty() ? ProbeReader::DeviceWork::counted : ProbeReader::DeviceWork::kept;
  what.record_to = typed.record;
  auto most_steps = TRY(checked_steps(typed.steps));
  const std::string loader_words = TRY(loader_trial_words(typed));
  if (!loader_words.empty() && !what.probes.python)
    return usage_error("--dataloader needs the Python probe",
                       "leave --probe out, or name it: --probe python");
  if (!loader_words.empty() && !most_steps) most_steps = kStepsOfLoaderTrial;

  std::optional<Judged> before;
  if (!typed.against.empty())
    before = TRY(judge_file(typed.against, options.source_options(),
                            "record the other run: lockstep profile --record before.jsonl -- CMD"));

  watch_for_interrupts();
  if (!loader_words.empty()) ::setenv("LOCKSTEP_PROBE_LOADER", loader_words.c_str(), 1);
  std::optional<NotMeasured> no_gpu;
  auto gpus = gpus_for(options, no_gpu);
  auto watched = TRY(WatchedCommand::start(what, std::move(gpus)));

  ObservationOptions how;
  how.without_gpus = true;
  how.keep_free_gpus = true;
  const ProgressLine progress(options);
  how.enough = [&](const Timeline& so_far) {
    if (const auto steps = steps_of(so_far); steps > 0)
      progress.tell(fmt::format("profiling: {} steps", steps));
    if (so_far.steps.empty()) return false;
    if (most_steps && steps_of(so_far) >= *most_steps) return true;
    return options.duration && so_far.to_ms - so_far.steps.front().t_ms > to_ms(*options.duration);
  };
  auto timeline = watched.observe(how);
  ChildCommand& child = watched.child();
  // The command is the user's: whatever fails on our side, it is waited for.
  const auto wait_and_fail = [&](Error error) {
    child.finish(ChildCommand::AtEnd::wait);
    return error;
  };
  if (!timeline) return wait_and_fail(std::move(timeline).error());
  const Report report = profile_report(options, *timeline, no_gpu, watched, before, typed.against);
  if (Status written = watched.close_recording(); !written)
    return wait_and_fail(std::move(written).error());
  if (!typed.trace.empty())
    if (Status written = write_trace(typed.trace, *timeline); !written)
      return wait_and_fail(std::move(written).error());
  if (Status written = write_flame_file(options, typed.flame, report, options.command.front());
      !written)
    return wait_and_fail(std::move(written).error());
  const int code = TRY(put_and_wait(options, report, child,
                                    interrupted_by() != 0
                                        ? "interrupted; waiting for the command's end"
                                        : "measured; the command goes on, waiting for its end"));
  const bool nothing_seen = timeline->steps.empty() && report.gpus.empty();
  if (nothing_seen && (code == exit_code::kDone || code == exit_code::kFindings))
    return Error{"no training step was seen",
                 what.probes.any_inside()
                     ? "see `not measured` above; a step ends with torch.optim's step()"
                     : "switch the probes on: leave --probe none out"};
  return code;
}

}  // namespace

Run configure_profile(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<ProfileOptions>();
  add_input_options(app, raw);
  app.add_option("--pid", raw.pid,
                 "instead of a command: the job of this process as it runs, without a restart")
      ->type_name("PID");
  app.add_option("--steps", typed->steps, "measure so many steps, then leave the command alone")
      ->type_name("N");
  app.add_option("--probe", typed->probe,
                 "auto, none, or of host, python, cuda, nccl and ras those that you want")
      ->type_name("PROBES");
  app.add_flag("--dataloader", typed->dataloader,
               "also time the training loader alone, and say whether it is what is slow");
  app.add_flag("--tune", typed->tune,
               "with --dataloader: try numbers of workers on your own dataset");
  app.add_option("--batches", typed->batches, "with --dataloader: so many batches (100)")
      ->type_name("N");
  app.add_option("--record", typed->record,
                 "also write what was seen as a recording, for lockstep diagnose FILE")
      ->type_name("FILE");
  app.add_option("--against", typed->against,
                 "the recording of an earlier profile: what became faster, by part and by code")
      ->type_name("FILE");
  app.add_option("--trace", typed->trace,
                 "also write the steps as a trace for chrome://tracing or Perfetto")
      ->type_name("FILE");
  app.add_option("--flame", typed->flame,
                 "also draw where a step's time goes: a flame graph, .svg or .json for speedscope")
      ->type_name("FILE");
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [typed, &raw] { return run_profile(raw, *typed); };
}

}  // namespace lockstep
