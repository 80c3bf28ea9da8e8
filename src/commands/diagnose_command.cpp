#include <fmt/format.h>

#include <CLI/CLI.hpp>
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
#include "commands/command_line.hpp"
#include "commands/finding_codes.hpp"
#include "detectors/diagnosis.hpp"
#include "detectors/told/flight_findings.hpp"
#include "render/json/merged_trace.hpp"
#include "report/comparison.hpp"
#include "runs/judgement.hpp"
#include "runs/observation.hpp"
#include "runs/progress_line.hpp"
#include "runs/renderer_for.hpp"
#include "runs/running_code.hpp"
#include "runs/trace_input.hpp"
#include "runs/watched_command.hpp"
#include "signals/derive_signals.hpp"
#include "signals/stuck_collectives.hpp"
#include "sources/flight_recorder/flight_dump.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchFor = 10s;
constexpr auto kLongestWatch = 45s;  // four turns of 5 s on each of two GPUs, and a start
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
  reference.name = typed.against;
  reference.run = TRY(judge_file(typed.against, source_options,
                                 "record the other run: lockstep record -o before.jsonl"));
  return reference;
}

void compare(const Reference& reference, const Timeline& timeline, const Judged& run,
             bool command_ended, Report& report) {
  if (reference.run)
    report.comparison =
        compare_runs({run.signals, run.diagnosis},
                     {reference.run->signals, reference.run->diagnosis}, reference.name);
  if (!reference.alone) return;
  const bool whole =
      command_ended || shows_whole_work(timeline, run.signals, run.diagnosis.first_job);
  report.comparison = compare_with_time({run.signals, run.diagnosis}, *reference.alone, whole);
  if (!whole)
    report.no_comparison = fmt::format(
        "{:.1f} s of a run say nothing about how long all of it takes; next: lockstep diagnose "
        "--baseline {} -- CMD, which watches it to its end, or --against FILE of the other run",
        run.signals.duration_s, format_duration(*reference.alone));
}

Report compared_report_of(const Timeline& timeline, const Reference& reference,
                          bool command_ended) {
  const Judged run = judge(timeline);
  Report report = report_of(timeline, run);
  compare(reference, timeline, run, command_ended, report);
  return report;
}

// What is left out is not heard of, but no less true: the throughput stays as it is.
void leave_out_unwanted(const Filter& filter, Report& report) {
  const auto unwanted = [&](const Finding& finding) { return !filter.wants(finding); };
  report.findings_left_out = std::erase_if(report.findings, unwanted);
  std::erase_if(report.suspicions, unwanted);
}

std::string progress_words(const Timeline& so_far, const Diagnosis& diagnosis) {
  return fmt::format("watching {:.1f} s: {} ({:.0f} %)", (so_far.to_ms - so_far.from_ms) / 1e3,
                     kPatternNames[static_cast<std::size_t>(diagnosis.verdict.pattern)],
                     diagnosis.verdict.confidence * 100);
}

// How long a watch goes on, and when it has seen enough.
ObservationOptions how_to_watch(const RunOptions& options, const DiagnoseOptions& typed,
                                WatchedCommand& watched, const ProgressLine& progress,
                                bool to_the_end) {
  const bool live = watched.source().facts().live;
  const bool of_command = watched.child().started();
  ObservationOptions how;
  how.review_every = kReviewEvery;
  how.pid = options.pid;
  how.keep_free_gpus = true;
  if (!live) {
    how.duration = options.duration;
  } else if (!of_command) {
    how.duration = options.duration.value_or(kLongestWatch);
  }
  if ((!live && !typed.until_sure) || (of_command && to_the_end)) return how;
  // A command's start-up takes as long as it takes: its duration counts from the first sign of
  // work.
  const double longest_ms = to_ms(options.duration.value_or(kWatchFor));
  // Turns of some seconds need more than a usual watch.
  const bool may_go_on = live && !of_command && !options.duration;
  how.enough = [&progress, longest_ms, of_command, may_go_on](const Timeline& so_far) {
    const Signals signals = derive_signals(so_far);
    const Diagnosis diagnosis = diagnose(signals);
    progress.tell(progress_words(so_far, diagnosis));
    // Making a model is no training: what has not begun is waited for.
    const bool has_begun = diagnosis.verdict.pattern != Pattern::idle;
    const bool worked_long = of_command && diagnosis.first_job < signals.jobs.size() &&
                             signals.jobs[diagnosis.first_job].active && has_begun &&
                             so_far.to_ms - signals.jobs[diagnosis.first_job].from_ms > longest_ms;
    const bool watched_long = may_go_on && so_far.to_ms - so_far.from_ms >= longest_ms &&
                              !is_worth_waiting_for(diagnosis, signals);
    return worked_long || watched_long || is_sure(diagnosis, signals);
  };
  return how;
}

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return std::filesystem::equivalent(one, other, ignored);
}

// Traces need no watching: they are read, judged and told.
Result<int> diagnose_traces(const RunOptions& options, const DiagnoseOptions& typed,
                            const Filter& filter, const std::vector<std::string>& paths) {
  if (!options.command.empty())
    return usage_error("a command after -- needs live GPUs, not a trace",
                       "leave the input out, or use virtual:2");
  if (!typed.baseline.empty())
    return usage_error("--baseline needs a whole run, and a trace is a part of one",
                       "compare two traces: --against OTHER");
  const TraceQuestion question{
      typed.compat.empty() ? TraceRules::exact : TraceRules::hta, {}, false};
  for (const std::string& path : paths)
    for (const std::string& output : {options.output, typed.trace})
      if (!output.empty() && is_same_file(path, output))
        return usage_error(
            fmt::format("{} would be written over by its own report", printable(path)),
            "choose another name after -o or --trace");
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
Result<int> diagnose_flight_dumps(const RunOptions& options, const DiagnoseOptions& typed,
                                  const Filter& filter, const std::vector<std::string>& paths) {
  if (!options.command.empty() || !typed.against.empty() || !typed.baseline.empty() ||
      !typed.compat.empty() || !typed.trace.empty())
    return usage_error("dumps of the flight recorder are read alone",
                       "leave --against, --baseline, --compat, --trace and the command away");
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

// What cannot be asked of this input, or not together.
Status check_question(const RunOptions& options, const DiagnoseOptions& typed, const Source& source,
                      const Reference& reference) {
  const bool live = source.facts().live;
  if (!typed.compat.empty() || !typed.trace.empty())
    return usage_error(
        fmt::format("{} belongs to traces", typed.compat.empty() ? "--trace" : "--compat"),
        "give a Kineto trace: lockstep diagnose trace.json.gz");
  if (!options.command.empty() && !live)
    return usage_error("a command after -- needs live GPUs, not a file",
                       "leave the input out, or use virtual:2");
  if (typed.stop_after && options.command.empty())
    return usage_error("--stop-after without a command",
                       "give one: lockstep diagnose --stop-after -- python train.py");
  if (reference.alone && (live || options.duration || typed.until_sure) && options.command.empty())
    return usage_error(
        "--baseline needs a whole run, and this looks at a part of one",
        "record the run: lockstep record -o run.jsonl -- CMD, then diagnose run.jsonl");
  return Done{};
}

// Probes reach processes that are started here alone; NCCL's own count needs a live machine.
Result<ProbeChoice> probes_for(const RunOptions& options, const DiagnoseOptions& typed,
                               SourceFacts facts) {
  auto probes = TRY(parse_probes(typed.probe, kLightProbes));
  if (options.command.empty() || !facts.local_pids)
    probes.python = probes.host = probes.cuda = probes.nccl = false;
  probes.ras = probes.ras && facts.live && facts.local_pids;
  return probes;
}

// Nothing was seen of the GPUs. The command is the user's: it is waited for, and that it failed is
// the better answer.
Result<int> nothing_seen(const RunOptions& options, const DiagnoseOptions& typed,
                         WatchedCommand& watched, Error why) {
  ChildCommand& child = watched.child();
  const int code =
      child.finish(typed.stop_after ? ChildCommand::AtEnd::stop : ChildCommand::AtEnd::wait);
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  if (code == 0) return why;
  tell(options, why.what);
  Report report;
  report.source_kind = watched.source().kind();
  report.source_detail = watched.source().detail();
  report.command = child.report();
  TRY(put_result(options, renderer_for(options)->render(report)));
  return exit_code::kCommandFailed;
}

Result<int> diagnose_source(const RunOptions& options, const DiagnoseOptions& typed,
                            const Filter& filter, Reference reference,
                            std::unique_ptr<Source> source) {
  TRY(check_question(options, typed, *source, reference));
  const SourceFacts facts = source->facts();
  WatchedCommandOptions how;
  how.command = options.command;
  how.output = options.writes_to_file() ? ChildOutput::untouched : ChildOutput::to_stderr;
  how.probes = TRY(probes_for(options, typed, facts));
  auto watched = TRY(WatchedCommand::start(how, std::move(source)));
  auto timeline = [&] {
    const ProgressLine progress(options);
    // How long all of it takes is known at its end only.
    const bool to_the_end = reference.alone.has_value();
    return watched.observe(how_to_watch(options, typed, watched, progress, to_the_end));
  }();
  if (!timeline) return nothing_seen(options, typed, watched, std::move(timeline).error());
  if (const auto note = watched.source().repair_note()) tell(options, *note);
  if (const auto cost = watched.source().cost())
    tell(options, fmt::format("watched closely: {:.1f} % of the time in the driver", *cost * 100));
  watched.let_go();  // no more driver calls while the command goes on

  ChildCommand& child = watched.child();
  if (reference.alone && child.running()) {
    tell(options, "the command still runs: its time cannot be compared with --baseline yet");
    reference.alone.reset();
  }
  Report report = compared_report_of(*timeline, reference, child.started() && !child.running());
  if (facts.live && facts.local_pids) add_code_of_processes(report, options.command);
  shorten_paths(report, std::filesystem::current_path());
  leave_out_unwanted(filter, report);
  if ((reference.run || reference.alone) && !report.comparison && report.no_comparison.empty())
    tell(options, "nothing to compare: one of the runs has no job that works");
  if (child.started() && typed.stop_after) child.finish(ChildCommand::AtEnd::stop);
  report.command = child.report();
  return put_and_wait(options, report, child, "the command goes on; waiting for its end");
}

Result<int> run_diagnose(const RawOptions& raw, const DiagnoseOptions& typed) {
  auto options = TRY(check(raw, Formats::all));
  auto filter = TRY(checked_filter(typed));
  if (!typed.compat.empty() && typed.compat != "hta")
    return usage_error(fmt::format("--compat {} is unknown", printable(typed.compat)),
                       "use --compat hta, or leave it out for exact numbers");
  watch_for_interrupts();
  SourceOptions how = options.source_options();
  how.process_period = 1s;  // a few looks at the processes within the shortest watch
  how.attention = Attention::close;
  std::vector<std::string> names = {options.input};
  names.insert(names.end(), typed.more_inputs.begin(), typed.more_inputs.end());
  OpenedInput input = TRY(open_input(names, how));
  if (const auto* dumps = std::get_if<FlightDumpFiles>(&input))
    return diagnose_flight_dumps(options, typed, filter, dumps->paths);
  if (const auto* traces = std::get_if<TraceFiles>(&input))
    return diagnose_traces(options, typed, filter, traces->paths);
  auto reference = TRY(reference_of(typed, how));
  return diagnose_source(options, typed, filter, std::move(reference),
                         std::move(std::get<std::unique_ptr<Source>>(input)));
}

}  // namespace

Run configure_diagnose(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<DiagnoseOptions>();
  add_input_options(app, raw);
  app.add_option("MORE", typed->more_inputs,
                 "traces or logs of the other ranks, or recordings of the other machines")
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
