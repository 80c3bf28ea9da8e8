#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "advice/advice_table.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"
#include "commands/child_command.hpp"
#include "commands/command_line.hpp"
#include "commands/finding_codes.hpp"
#include "commands/judgement.hpp"
#include "commands/observation.hpp"
#include "commands/probe_session.hpp"
#include "commands/progress_line.hpp"
#include "commands/renderer_for.hpp"
#include "commands/running_code.hpp"
#include "commands/trace_input.hpp"
#include "commands/watch.hpp"
#include "commands/with_ras.hpp"
#include "detectors/diagnosis.hpp"
#include "detectors/flight_findings.hpp"
#include "recording/reader.hpp"
#include "render/json/merged_trace.hpp"
#include "report/comparison.hpp"
#include "signals/derive_signals.hpp"
#include "signals/stuck_collectives.hpp"
#include "sources/flight_recorder/flight_dump.hpp"
#include "sources/merged/merged_recordings.hpp"
#include "sources/probe/probe_source.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchFor = 10s;
constexpr auto kReviewEvery = 500ms;

// As typed, beside the shared options.
struct DiagnoseOptions {
  std::vector<std::string> more_inputs;
  std::string min_severity;
  std::vector<std::string> only;
  std::vector<std::string> ignore;
  std::string against;
  std::string baseline;
  std::string probe = "auto";
  std::string compat;
  std::string trace;
  bool until_sure = false;
  bool stop_after = false;
};

// Which findings the user wants to hear of.
struct Filter {
  Severity at_least = Severity::info;
  std::set<FindingCode> only;  // empty: all
  std::set<FindingCode> ignore;

  bool wants(const Finding& finding) const {
    return finding.severity >= at_least && (only.empty() || only.contains(finding.code)) &&
           !ignore.contains(finding.code);
  }
};

Result<Filter> checked_filter(const DiagnoseOptions& typed) {
  Filter filter;
  if (typed.min_severity == "warning")
    filter.at_least = Severity::warning;
  else if (typed.min_severity == "critical")
    filter.at_least = Severity::critical;
  else if (!typed.min_severity.empty() && typed.min_severity != "info")
    return usage_error(fmt::format("--min-severity {} is unknown", printable(typed.min_severity)),
                       "use info, warning or critical");
  auto only = TRY(codes_of(typed.only));
  auto ignore = TRY(codes_of(typed.ignore));
  filter.only = std::move(only);
  filter.ignore = std::move(ignore);
  return filter;
}

// What a run is compared with: another file, or a time.
struct Reference {
  std::string name;
  std::optional<Judged> run;
  std::optional<std::chrono::nanoseconds> alone;
};

Result<Reference> reference_of(const DiagnoseOptions& typed, const SourceOptions& source_options) {
  Reference reference;
  if (!typed.baseline.empty()) {
    auto time = TRY(parse_duration(typed.baseline));
    if (time <= 0ns)
      return usage_error("a baseline of 0 compares with nothing",
                         "give the time on one GPU: --baseline 18m");
    reference.alone = time;
  }
  if (typed.against.empty()) return reference;
  if (reference.alone) return usage_error("--against and --baseline at once", "give one of them");
  auto source = TRY(open_source(typed.against, source_options));
  if (is_live(*source))
    return usage_error("--against needs a file",
                       "record the other run: lockstep record -o before.jsonl");
  auto timeline = TRY(observe(*source, {}));
  reference.name = typed.against;
  reference.run = judge(timeline);
  return reference;
}

std::optional<Comparison> comparison_with(const Reference& reference, const Judged& run) {
  if (reference.run)
    return compare_runs({run.signals, run.diagnosis},
                        {reference.run->signals, reference.run->diagnosis}, reference.name);
  if (reference.alone) return compare_with_time({run.signals, run.diagnosis}, *reference.alone);
  return std::nullopt;
}

Report compared_report_of(const Timeline& timeline, const Reference& reference) {
  const Judged run = judge(timeline);
  Report report = report_of(timeline, run);
  report.comparison = comparison_with(reference, run);
  return report;
}

// What is left out is not heard of, but no less true: the throughput stays as it is.
void leave_out_unwanted(const Filter& filter, Report& report) {
  const auto unwanted = [&](const Finding& finding) { return !filter.wants(finding); };
  report.findings_left_out = std::erase_if(report.findings, unwanted);
  std::erase_if(report.suspicions, unwanted);
}

// A command that ended before it held a GPU: nothing was judged, but how it ended is told all the
// same.
Report report_of_command_alone(const Source& source, ChildCommand& child) {
  Report report;
  report.source_kind = source.kind();
  report.source_detail = source.detail();
  report.command = child.report();
  return report;
}

std::string progress_words(const Timeline& so_far, const Diagnosis& diagnosis) {
  return fmt::format("watching {:.1f} s: {} ({:.0f} %)", (so_far.to_ms - so_far.from_ms) / 1e3,
                     kPatternNames[static_cast<std::size_t>(diagnosis.verdict.pattern)],
                     diagnosis.verdict.confidence * 100);
}

// How long a live watch goes on, and when it has seen enough.
ObservationOptions how_to_watch(const SharedOptions& options, const DiagnoseOptions& typed,
                                bool live, ChildCommand& child, const ProgressLine& progress) {
  ObservationOptions how;
  how.review_every = kReviewEvery;
  how.pid = child.started() ? std::optional(child.pid()) : options.pid;
  how.keep_free_gpus = true;
  if (!live) {
    how.duration = options.duration;
  } else if (!child.started()) {
    how.duration = options.duration.value_or(kWatchFor);
  }
  if (!live && !typed.until_sure) return how;
  how.stop = [&child] { return child.ended(); };
  // A command's start-up takes as long as it takes: its duration counts from the first sign of
  // work.
  const double longest_ms = to_ms(options.duration.value_or(kWatchFor));
  const bool of_command = child.started();
  how.enough = [&progress, longest_ms, of_command](const Timeline& so_far) {
    const Signals signals = derive_signals(so_far);
    const Diagnosis diagnosis = diagnose(signals);
    progress.tell(progress_words(so_far, diagnosis));
    const bool worked_long = of_command && diagnosis.first_job < signals.jobs.size() &&
                             signals.jobs[diagnosis.first_job].active &&
                             so_far.to_ms - signals.jobs[diagnosis.first_job].from_ms > longest_ms;
    return worked_long || is_sure(diagnosis, signals);
  };
  return how;
}

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return std::filesystem::equivalent(one, other, ignored);
}

// Traces need no watching: they are read, judged and told.
Result<int> diagnose_traces(const SharedOptions& options, const DiagnoseOptions& typed,
                            const Filter& filter) {
  if (!options.command.empty())
    return usage_error("a command after -- needs live GPUs, not a trace",
                       "leave the input out, or use virtual:2");
  if (!typed.baseline.empty())
    return usage_error("--baseline needs a whole run, and a trace is a part of one",
                       "compare two traces: --against OTHER");
  const TraceQuestion question{
      typed.compat.empty() ? TraceRules::exact : TraceRules::hta, {}, false};
  std::vector<std::string> paths = {options.input};
  paths.insert(paths.end(), typed.more_inputs.begin(), typed.more_inputs.end());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (const std::string& output : {options.output, typed.trace})
      if (!output.empty() && is_same_file(paths[i], output))
        return usage_error(
            fmt::format("{} would be written over by its own report", printable(paths[i])),
            "choose another name after -o or --trace");
    for (std::size_t j = 0; j < i; ++j)
      if (is_same_file(paths[i], paths[j]))
        return usage_error(fmt::format("{} is given twice", printable(paths[i])),
                           "give one file a rank");
  }
  auto judged = TRY(judge_traces(paths, question));
  Report report = report_of(judged.timeline, judged.run);
  if (!typed.against.empty()) {
    if (!std::filesystem::exists(typed.against)) return cannot_read(typed.against, ENOENT);
    if (!is_trace_file(typed.against))
      return usage_error(fmt::format("{} is no trace, and a trace can be compared with traces only",
                                     printable(typed.against)),
                         "give the trace of the other run");
    auto other = TRY(judge_traces({typed.against}, question));
    for (std::string& note : other.notes) judged.notes.push_back(std::move(note));
    report.comparison = compare_runs({judged.run.signals, judged.run.diagnosis},
                                     {other.run.signals, other.run.diagnosis}, typed.against);
    if (!report.comparison)
      judged.notes.push_back("nothing to compare: one of the traces has no whole step");
  }
  if (!options.quiet)
    for (const std::string& note : judged.notes) fmt::print(stderr, "lockstep: {}\n", note);
  leave_out_unwanted(filter, report);
  if (!typed.trace.empty())
    TRY(write_merged_trace(typed.trace, judged.traces, judged.clock_offsets_ns, judged.timeline,
                           report));
  TRY(put_result(options, renderer_for(options)->render(report)));
  return report.findings.empty() ? exit_code::kDone : exit_code::kFindings;
}

// What a hung job's flight recorder wrote: who is missing from which collective.
Result<int> diagnose_flight_dumps(const SharedOptions& options, const DiagnoseOptions& typed,
                                  const Filter& filter) {
  if (!options.command.empty() || !typed.against.empty() || !typed.baseline.empty() ||
      !typed.compat.empty() || !typed.trace.empty())
    return usage_error("dumps of the flight recorder are read alone",
                       "leave --against, --baseline, --compat, --trace and the command away");
  std::vector<std::string> paths = {options.input};
  paths.insert(paths.end(), typed.more_inputs.begin(), typed.more_inputs.end());
  auto dumps = TRY(read_flight_dumps(paths));
  Report report;
  report.source_kind = SourceKind::log;
  report.source_detail = paths.size() == 1
                             ? paths.front()
                             : fmt::format("{} dumps of the flight recorder, {} the first",
                                           paths.size(), paths.front());
  Diagnosis diagnosis;
  diagnosis.findings = find_in_flight_dumps(stuck_collectives(dumps));
  add_advice(diagnosis, {});
  report.findings = std::move(diagnosis.findings);
  if (paths.size() == 1 && report.findings.empty())
    return Error{
        fmt::format("{} alone has no collective that stands open", printable(paths.front())),
        "give the dumps of all ranks, so that it shows who is missing"};
  if (paths.size() == 1)
    report.not_measured.push_back(
        {"ranks", "one rank's dump alone: give those of all, so that it shows who is missing"});
  if (dumps.front().rank_is_a_guess)
    report.not_measured.push_back(
        {"ranks",
         "neither the dumps nor their names say which rank each is of: taken in the order given"});
  leave_out_unwanted(filter, report);
  shorten_paths(report, std::filesystem::current_path());
  TRY(put_result(options, renderer_for(options)->render(report)));
  return report.findings.empty() ? exit_code::kDone : exit_code::kFindings;
}

bool is_flight_dump(const std::string& path) {
  std::error_code ignored;
  // what is taken from a pipe is gone
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const auto start = read_small_file(path, 1U << 16U);
  return start && looks_like_flight_dump(*start);
}

bool is_recording_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && looks_like_recording(path);
}

// Several files are traces of several ranks, recordings of several machines, or a mistake.
Result<bool> inputs_are_traces(const SharedOptions& options, const DiagnoseOptions& typed) {
  const bool live = options.input.empty() || options.input.starts_with("virtual:");
  if (live && !typed.more_inputs.empty())
    return usage_error(fmt::format("'{}' beside live GPUs", printable(typed.more_inputs.front())),
                       "give files alone, or --against FILE to compare with");
  if (live) return false;
  if (!is_trace_file(options.input)) {
    if (typed.more_inputs.empty()) return false;
    for (const std::string& path : typed.more_inputs)
      if (!std::filesystem::exists(path)) return cannot_read(path, ENOENT);
    const bool all_recorded = is_recording_file(options.input) &&
                              std::ranges::all_of(typed.more_inputs, is_recording_file);
    if (!all_recorded)
      return usage_error(fmt::format("one input at a time: '{}' is a second, and only recordings "
                                     "or traces are read together",
                                     printable(typed.more_inputs.front())),
                         "compare two runs: lockstep diagnose RUN --against OTHER; or diagnose one "
                         "after the other");
    return false;
  }
  for (const std::string& path : typed.more_inputs)
    if (!std::filesystem::exists(path))
      return cannot_read(path, ENOENT);
    else if (!is_trace_file(path))
      return usage_error(
          fmt::format("{} is no trace as {} is", printable(path), printable(options.input)),
          "give the traces of one run's ranks, or one other input");
  return true;
}

// Of several machines, or of several ranks of one.
Result<std::unique_ptr<Source>> open_recordings(const SharedOptions& options,
                                                const DiagnoseOptions& typed) {
  if (!options.gpus.empty())
    return usage_error("--gpus counts the GPUs of one machine, and these are recordings of several",
                       "leave it out, or diagnose one recording");
  std::vector<std::string> paths = {options.input};
  for (const std::string& path : typed.more_inputs) {
    for (const std::string& known : paths)
      if (is_same_file(path, known))
        return usage_error(fmt::format("{} is given twice", printable(path)),
                           "give each recording once");
    paths.push_back(path);
  }
  return open_merged_recordings(paths);
}

Result<int> run_diagnose(const RawOptions& raw, const DiagnoseOptions& typed) {
  auto options = TRY(check(raw, Formats::all));
  auto filter = TRY(checked_filter(typed));
  if (!typed.compat.empty() && typed.compat != "hta")
    return usage_error(fmt::format("--compat {} is unknown", printable(typed.compat)),
                       "use --compat hta, or leave it out for exact numbers");
  if (!options.input.empty() && is_flight_dump(options.input))
    return diagnose_flight_dumps(options, typed, filter);
  auto traces = TRY(inputs_are_traces(options, typed));
  if (traces) return diagnose_traces(options, typed, filter);
  if (!typed.compat.empty() || !typed.trace.empty())
    return usage_error(
        fmt::format("{} belongs to traces", typed.compat.empty() ? "--trace" : "--compat"),
        "give a Kineto trace: lockstep diagnose trace.json.gz");

  watch_for_interrupts();
  SourceOptions source_options = options.source_options();
  source_options.process_period = 1s;  // a few looks at the processes within the shortest watch
  source_options.attention = Attention::close;
  auto reference = TRY(reference_of(typed, source_options));
  auto source = TRY(typed.more_inputs.empty() ? open_source(options.input, source_options)
                                              : open_recordings(options, typed));
  const bool live = is_live(*source);
  const bool of_this_machine = pids_are_of_this_machine(*source);
  if (!options.command.empty() && !live)
    return usage_error("a command after -- needs live GPUs, not a file",
                       "leave the input out, or use virtual:2");
  auto probes = TRY(parse_probes(typed.probe, kLightProbes));
  if (options.command.empty() || !of_this_machine)
    probes.python = probes.host = probes.cuda = probes.nccl = false;
  auto session = TRY(ProbeSession::start(probes));
  if (typed.stop_after && options.command.empty())
    return usage_error("--stop-after without a command",
                       "give one: lockstep diagnose --stop-after -- python train.py");
  if (reference.alone && (live || options.duration || typed.until_sure) && options.command.empty())
    return usage_error(
        "--baseline needs a whole run, and this looks at a part of one",
        "record the run: lockstep record -o run.jsonl -- CMD, then diagnose run.jsonl");
  if (!options.command.empty() && of_this_machine)
    source = std::make_unique<ProbeSource>(session.folder(), std::move(source));
  if (live && of_this_machine && probes.ras) source = with_ras(std::move(source));
  auto child = TRY(ChildCommand::start(options, session.environment()));

  auto timeline = [&] {
    const ProgressLine progress(options);
    return observe(*source, how_to_watch(options, typed, live, child, progress));
  }();
  if (!timeline) {
    // The command is the user's: whatever became of the watch, it is waited for. That it failed is
    // the better answer.
    const int code =
        child.finish(typed.stop_after ? ChildCommand::AtEnd::stop : ChildCommand::AtEnd::wait);
    if (interrupted_by() != 0) return exit_code::kInterrupted;
    if (code == 0) return std::move(timeline).error();
    if (!options.quiet) fmt::print(stderr, "lockstep: {}\n", timeline.error().what);
    TRY(put_result(options,
                   renderer_for(options)->render(report_of_command_alone(*source, child))));
    return exit_code::kCommandFailed;
  }
  if (const auto note = source->repair_note(); note && !options.quiet)
    fmt::print(stderr, "lockstep: {}\n", *note);
  if (const auto cost = source->cost(); cost && !options.quiet)
    fmt::print(stderr, "lockstep: watched closely: {:.1f} % of the time in the driver\n",
               *cost * 100);
  session.stop_measuring();
  source.reset();  // no more driver calls while the command goes on

  if (reference.alone && child.running()) {
    if (!options.quiet)
      fmt::print(
          stderr,
          "lockstep: the command still runs: its time cannot be compared with --baseline yet\n");
    reference.alone.reset();
  }
  Report report = compared_report_of(*timeline, reference);
  if (live && of_this_machine) add_code_of_processes(report, options.command);
  shorten_paths(report, std::filesystem::current_path());
  leave_out_unwanted(filter, report);
  if ((reference.run || reference.alone) && !report.comparison && !options.quiet)
    fmt::print(stderr, "lockstep: nothing to compare: one of the runs has no job that works\n");
  if (child.started() && typed.stop_after) child.finish(ChildCommand::AtEnd::stop);
  report.command = child.report();
  if (Status put = put_result(options, renderer_for(options)->render(report)); !put) {
    child.finish(ChildCommand::AtEnd::wait);
    return std::move(put).error();
  }
  std::fflush(stdout);
  if (child.running() && !options.quiet)
    fmt::print(stderr, "lockstep: the command goes on; waiting for its end\n");
  const int child_code = child.finish(ChildCommand::AtEnd::wait);
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  if (child_code != 0) return exit_code::kCommandFailed;
  return report.findings.empty() ? exit_code::kDone : exit_code::kFindings;
}

}  // namespace

Run configure_diagnose(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<DiagnoseOptions>();
  add_input_options(app, raw);
  app.add_option("MORE", typed->more_inputs,
                 "traces of the other ranks, or recordings of the other machines")
      ->type_name("FILES");
  app.add_option("--pid", raw.pid, "only this process and its children")->type_name("PID");
  app.add_option("--min-severity", typed->min_severity,
                 "leave out what is less: info, warning or critical")
      ->type_name("SEVERITY");
  app.add_option("--only", typed->only, "only these findings, by code: P101,D201")
      ->allow_extra_args(false)
      ->type_name("CODES");
  app.add_option("--ignore", typed->ignore, "leave these findings out")
      ->allow_extra_args(false)
      ->type_name("CODES");
  app.add_option("--against", typed->against,
                 "another run's file: prints speedup, efficiency and what is missing")
      ->type_name("INPUT");
  app.add_option("--baseline", typed->baseline, "time of the same work on one GPU: 18m")
      ->type_name("DURATION");
  app.add_option("--probe", typed->probe,
                 "probes for the command after --: auto, none, or of host, python, cuda, nccl and "
                 "ras those that you want")
      ->type_name("PROBES");
  app.add_option("--compat", typed->compat,
                 "hta: a trace's numbers as HolisticTraceAnalysis has them, rounding and all")
      ->type_name("TOOL");
  app.add_option("--trace", typed->trace,
                 "of traces: also write all ranks as one, findings marked, for Perfetto")
      ->type_name("FILE");
  app.add_flag("--until-sure", typed->until_sure,
               "read a recording as if live: stop as soon as the verdict is sure");
  app.add_flag("--stop-after", typed->stop_after,
               "end the command after -- once the verdict is there");
  add_prometheus_options(app, raw);
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [typed, &raw] { return run_diagnose(raw, *typed); };
}

}  // namespace lockstep
