#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "commands/finding_codes.hpp"
#include "commands/fix_options.hpp"
#include "commands/fix_writing.hpp"
#include "commands/version.hpp"
#include "fix/chosen_patches.hpp"
#include "fix/engine.hpp"
#include "fix/fix_report.hpp"
#include "fix/reported_patches.hpp"
#include "fix/write_back.hpp"
#include "render/json/json_renderer.hpp"
#include "render/json/sarif_renderer.hpp"
#include "render/text/fix_text.hpp"
#include "render/text/github_lines.hpp"
#include "render/text/paint.hpp"
#include "render/text/verification_text.hpp"
#include "render/words/words.hpp"
#include "report/join_code.hpp"
#include "report/verification.hpp"
#include "runs/observation.hpp"
#include "runs/verify_fix.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<Renderer>> renderer_for(const RunOptions& options,
                                               const std::string& format) {
  if (format == "json" || (format.empty() && options.format == Format::json))
    return std::unique_ptr<Renderer>(std::make_unique<JsonRenderer>());
  if (format == "sarif")
    return std::unique_ptr<Renderer>(std::make_unique<SarifRenderer>(version_number()));
  if (format == "github") return std::unique_ptr<Renderer>(std::make_unique<GithubLines>());
  if (format.empty() || format == "text")
    return std::unique_ptr<Renderer>(std::make_unique<FixText>(
        options.colors, options.output.empty() ? terminal_width() : std::nullopt));
  return usage_error(fmt::format("--format {} is unknown here", printable(format)),
                     "use text, json, sarif or github");
}

bool is_standard_input(const FixOptions& typed) {
  return typed.paths.size() == 1 && typed.paths.front() == "-";
}

// Of the file that was asked for, changed or not: an editor puts it in place of its buffer.
std::string text_of_the_one(const Project& patched) {
  for (FileId id = 0; id < patched.size(); ++id)
    if (patched.file(id).asked_for()) return patched.file(id).disk_text().value_or("");
  return "";
}

Result<Project> project_of(const FixOptions& typed, const std::optional<Versions>& versions) {
  if (!is_standard_input(typed))
    return read_project(typed.paths, versions, Neighbours::context, {}, typed.exclude);
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  return read_text_as_file(typed.stdin_name.empty() ? "stdin.py" : typed.stdin_name, text,
                           versions);
}

Result<int> fix_paths(const RunOptions& options, const FixOptions& typed, const CodeFilter& filter,
                      const Wishes& wishes, const Project& project, const FixPlan& plan) {
  auto renderer = TRY(renderer_for(options, typed.format));
  const bool asks = typed.apply || typed.interactive;
  std::set<int> numbers = typed.numbers;
  if (typed.interactive) numbers = ask_for_each(project, plan, options.colors);
  // Asked one by one, patches have been shown; as a diff they are what would be written.
  const bool gives_the_text = typed.apply && is_standard_input(typed);
  if (!typed.interactive && !typed.diff && !gives_the_text)
    TRY(put_result(options, renderer->render(report_of_plan(project, plan))));
  if (asks || typed.diff) {
    const Patched patched =
        !numbers.empty() || typed.interactive
            ? TRY(apply_numbers(project, plan, numbers))
            : apply_in_memory(project, plan, wishes, filter,
                              typed.unsafe ? Apply::safe_and_unsafe : Apply::safe);
    if (typed.diff) {
      TRY(put_result(options, diff_of_texts(project, patched.texts)));
    } else if (is_standard_input(typed)) {
      TRY(put_result(options, text_of_the_one(project.with(patched.texts))));
    } else {
      const auto files = rewrites(project, project.with(patched.texts));
      TRY(write_files(files));
      tell_applied(options, patched.applied, files);
    }
  }
  const bool would_change = std::ranges::any_of(plan.groups, [&](const PatchGroup& group) {
    return group.safety == FixSafety::safe || (group.safety == FixSafety::unsafe && !typed.safe);
  });
  if (typed.check && would_change) return exit_code::kFindings;
  // A file that nobody could read is not in order.
  return plan.unread > 0 ? exit_code::kCannotMeasure : exit_code::kDone;
}

std::string ids_of(const std::vector<FindingCode>& codes) {
  std::vector<std::string> ids;
  for (const FindingCode code : codes) ids.emplace_back(name_of(code).id);
  return join(ids, ", ");
}

// Of a report without patches: its findings as the selection, in what the paths hold.
Result<int> fix_what_was_found(const RunOptions& options, const FixOptions& typed,
                               CodeFilter filter, Wishes wishes,
                               const std::optional<Versions>& versions,
                               const std::vector<FindingCode>& reported) {
  const std::set<FindingCode> wanted = to_look_for_in_code(reported);
  for (const FindingCode code : {FindingCode::memory_nearly_full, FindingCode::out_of_memory})
    if (wanted.contains(code)) wishes.short_of_memory = code;
  if (filter.select.empty())
    filter.select = wanted;
  else
    std::erase_if(filter.select, [&](FindingCode code) { return !wanted.contains(code); });
  auto project = TRY(read_project(typed.paths, versions, Neighbours::context, {}, typed.exclude));
  // An empty selection would be all.
  const FixPlan plan = filter.select.empty() ? FixPlan() : plan_fixes(project, wishes, filter);
  if (plan.findings.empty()) {
    TRY(put_result(options, fmt::format("the report carries no patch, and nothing in {} matches "
                                        "its findings ({})\n",
                                        printable(join(typed.paths, ", ")),
                                        reported.empty() ? "it has none" : ids_of(reported))));
    return exit_code::kDone;
  }
  std::vector<FindingCode> unmatched;
  for (const FindingCode code : reported) {
    const auto behind = to_look_for_in_code({&code, 1});
    if (std::ranges::none_of(plan.findings, [&](const CodeFinding& finding) {
          return behind.contains(finding.code);
        }))
      unmatched.push_back(code);
  }
  if (!options.quiet)
    say(fmt::format("lockstep: what in the code matches the report's findings ({}){}\n",
                    ids_of(reported),
                    unmatched.empty() ? "" : "; nothing matches " + ids_of(unmatched)));
  return fix_paths(options, typed, filter, wishes, project, plan);
}

Result<int> fix_from_report(const RunOptions& options, const FixOptions& typed,
                            const CodeFilter& filter, const Wishes& wishes,
                            const std::optional<Versions>& versions) {
  const auto text = read_small_file(typed.from, 256U << 20U);
  if (!text)
    return Error{
        fmt::format("cannot read the report {}: {}", printable(typed.from), std::strerror(errno)),
        "make one: lockstep diagnose --json -o report.json", ErrorKind::cannot_measure};
  auto patches = TRY(patches_of_report(*text, typed.from));
  if (patches.empty() && !typed.paths.empty())
    return fix_what_was_found(options, typed, filter, wishes, versions, codes_in_report(*text));
  if (!typed.format.empty() || options.format == Format::json)
    return usage_error("--from shows the report's own patches, as text",
                       "leave --format away; the report itself is JSON already");
  std::erase_if(patches, [&](const ReportedPatch& patch) {
    return (!filter.select.empty() && !filter.select.contains(patch.code)) ||
           filter.ignore.contains(patch.code);
  });
  std::string shown;
  const Painter paint(options.colors);
  for (const ReportedPatch& patch : patches)
    shown += fmt::format("{} {}  [{}]  {}\n{}\n", name_of(patch.code).id, name_of(patch.code).name,
                         safety_word(patch.safety), printable(patch.description),
                         diff_text(patch.diff, 0, paint));
  if (shown.empty() && typed.paths.empty())
    shown =
        fmt::format("the report carries no patch; where the code is: lockstep fix PATH --from {}\n",
                    printable(typed.from));
  if (shown.empty()) shown = "the report carries no patch of those asked for\n";
  TRY(put_result(options, shown));
  const bool any = std::ranges::any_of(patches, [](const ReportedPatch& patch) {
    return patch.group && patch.safety != FixSafety::manual;
  });
  if (!typed.apply) return typed.check && any ? exit_code::kFindings : exit_code::kDone;
  auto rewritten =
      TRY(apply_reported(patches, typed.unsafe ? Apply::safe_and_unsafe : Apply::safe, wishes));
  TRY(write_files(rewritten.files));
  tell_applied(options, rewritten.patches, rewritten.files);
  return exit_code::kDone;
}

Result<VerifyOptions> checked_verify(const RunOptions& options, const FixOptions& typed) {
  VerifyOptions how;
  if (!typed.rounds.empty()) {
    const auto rounds = parse_integer(typed.rounds);
    if (!rounds || *rounds < 1 || *rounds > 1000)
      return usage_error(fmt::format("--rounds {} is no number of rounds", printable(typed.rounds)),
                         "give one; from 2 on there is an interval: --rounds 5");
    how.rounds = static_cast<int>(*rounds);
  }
  how.duration = options.duration;
  how.input = typed.watch;
  how.quiet = options.quiet;
  std::error_code failed;
  how.folder = fs::current_path(failed);
  return how;
}

// Where nothing is left to patch, what the newest --apply wrote is what can be proven.
std::vector<ProjectVersion> versions_of_undo(const Project& project, const fs::path& folder,
                                             const std::vector<std::string>& command) {
  const auto undo = undo_folder();
  if (!undo) return {};
  std::map<FileId, std::string> before;
  for (const FileRewrite& file : newest_applied(*undo, {folder}))
    if (const auto id = project.at(file.path))
      if (auto text = project.file(*id).text_of_disk(file.after)) before[*id] = std::move(*text);
  if (before.empty()) return {};
  return {{"before the last --apply", project.with(before), command},
          {"as it is now", project, command}};
}

std::string what_next(const FixOptions& typed, bool of_undo, bool helped, bool written) {
  const std::string unsafe = typed.unsafe ? " --unsafe" : "";
  if (of_undo) return helped ? "" : "take it back: lockstep fix --undo\n";
  if (written) return "";
  if (helped)
    return fmt::format("write it: lockstep fix --apply{} {}\n", unsafe,
                       typed.paths.empty() ? "." : join(typed.paths, " "));
  return typed.apply
             ? fmt::format(
                   "nothing was written; to have it all the same: lockstep fix --apply{} {}\n",
                   unsafe, typed.paths.empty() ? "." : join(typed.paths, " "))
             : "nothing was written\n";
}

Status write_patched(const RunOptions& options, const Project& project, const Project& patched,
                     std::size_t patches) {
  auto files = rewrites(project, patched);
  std::erase_if(files, [&](const FileRewrite& file) {
    const auto id = project.at(file.path);
    return id && is_the_command(project.file(*id));
  });
  if (Status written = write_files(files); !written) return written;
  tell_applied(options, patches, files);
  return Done{};
}

Result<int> verify_patches(const RunOptions& options, const FixOptions& typed,
                           const CodeFilter& filter, const Wishes& wishes,
                           const std::optional<Versions>& installed) {
  if (options.command.empty())
    return usage_error("no command to measure with",
                       "write it after --: lockstep fix . --verify -- python train.py");
  auto how = TRY(checked_verify(options, typed));
  auto project = TRY(read_project(typed.paths.empty() ? std::vector<std::string>{"."} : typed.paths,
                                  installed, Neighbours::context,
                                  {command_as_file(options.command, how.folder)}, typed.exclude));
  auto versions = versions_to_measure(project, wishes, filter,
                                      typed.unsafe ? Apply::safe_and_unsafe : Apply::safe,
                                      typed.each, options.command);
  const bool of_undo = versions.size() == 1;
  if (of_undo) versions = versions_of_undo(project, how.folder, options.command);
  if (versions.empty()) {
    const FixPlan plan = plan_fixes(project, wishes, filter);
    const bool unsafe = std::ranges::any_of(
        plan.groups, [](const PatchGroup& group) { return group.safety == FixSafety::unsafe; });
    return usage_error(
        "there is no patch to verify",
        unsafe ? "add --unsafe: there are patches that may change results (lockstep fix shows them)"
               : "lockstep fix . shows what it found");
  }
  for (const ProjectVersion& version : versions)
    for (FileId id = 0; id < project.size(); ++id)
      if (version.project.file(id).text() != versions.front().project.file(id).text() &&
          project.file(id).path().lexically_relative(how.folder).native().starts_with(".."))
        return usage_error(fmt::format("{} would change, and is not below this folder",
                                       printable(project.file(id).path().string())),
                           "run it from the folder that holds the project: the command runs in a "
                           "copy of where you are");
  watch_for_interrupts();
  if (!options.quiet)
    say(fmt::format("lockstep: {} runs of your command, {} versions by turns, in copies of {}\n",
                    static_cast<std::size_t>(how.rounds) * versions.size(), versions.size(),
                    printable(how.folder.string())));
  auto verified = verify(versions, how);
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  if (!verified) return std::move(verified).error();
  if (!verified->failure.empty()) {
    say(
        fmt::format("lockstep: error: {}  next: see that the command runs by itself, and that its "
                    "patched form is what you want: lockstep fix shows it\n",
                    verified->failure));
    return exit_code::kCommandFailed;
  }
  Report report = report_of_plan(project, plan_fixes(project, wishes, filter));
  report.verification = std::move(verified->measured);
  report.checklist = verified->last.checklist;
  const bool helped = is_proven(*report.verification);
  const bool write = typed.apply && !of_undo && helped;
  const std::string text =
      options.format == Format::json || typed.format == "json"
          ? JsonRenderer().render(report)
          : verification_text(*report.verification, only_steps_gain(*report.verification),
                              report.checklist, options.colors) +
                "\n" + what_next(typed, of_undo, helped, write);
  TRY(put_result(options, text));
  if (write) TRY(write_patched(options, project, versions.back().project, versions.size() - 1));
  return helped ? exit_code::kDone : exit_code::kFindings;
}

Result<int> run_fix(const RawOptions& raw, FixOptions typed) {
  auto options = TRY(check(raw));
  TRY(settle_apply(typed));
  CodeFilter filter;
  if (!typed.undo) TRY(take_settings(typed, filter));
  filter.select = TRY(codes_of(typed.select));
  filter.ignore = TRY(codes_of(typed.ignore));
  auto wishes = TRY(checked_wishes(typed));
  auto versions = TRY(checked_versions(typed));
  TRY(renderer_for(options, typed.format));
  if (typed.undo && (typed.apply || typed.check || !typed.from.empty()))
    return usage_error("--undo goes alone", "lockstep fix --undo [PATH]");
  if (typed.check && (typed.apply || typed.interactive || typed.diff))
    return usage_error("--check only looks, and --apply, --interactive and --diff do more",
                       "give one of them");
  if (typed.safe && typed.unsafe)
    return usage_error("--safe and --unsafe at once", "give one of them");
  if (typed.undo) return undo(options, typed);
  for (const FindingCode code : {FindingCode::memory_nearly_full, FindingCode::out_of_memory})
    if (filter.select.contains(code)) wishes.short_of_memory = code;
  if (!typed.from.empty()) return fix_from_report(options, typed, filter, wishes, versions);
  if (!typed.verify &&
      (typed.each || !typed.rounds.empty() || !typed.watch.empty() || options.duration))
    return usage_error("--each, --rounds, --duration and --watch belong to --verify",
                       "lockstep fix . --verify --each -- python train.py");
  if (!typed.verify && !options.command.empty())
    return usage_error("a command after -- is for --verify",
                       "lockstep fix . --verify -- python train.py");
  if (typed.verify) return verify_patches(options, typed, filter, wishes, versions);
  if (typed.paths.empty())
    return usage_error("no file or folder to look at",
                       "lockstep fix . looks at the folder you are in");

  if (is_standard_input(typed) && typed.interactive)
    return usage_error("-i asks, and standard input is the script",
                       "lockstep fix - --apply writes the patched text to standard output");
  if (!is_standard_input(typed) && !typed.stdin_name.empty())
    return usage_error("--stdin-filename names what comes through standard input",
                       "lockstep fix - --stdin-filename train.py < train.py");
  auto project = TRY(project_of(typed, versions));
  if (!typed.baseline.empty()) filter.known = TRY(read_baseline(typed.baseline));
  const FixPlan plan = plan_fixes(project, wishes, filter);
  if (!typed.write_baseline.empty()) return write_baseline(options, typed, project, plan);
  return fix_paths(options, typed, filter, wishes, project, plan);
}

}  // namespace

Run configure_fix(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<FixOptions>();
  app.add_option("PATH", typed->paths, "files and folders to look at; -: standard input")
      ->type_name("PATH");
  app.add_option("--stdin-filename", typed->stdin_name,
                 "the name of what comes through standard input")
      ->type_name("NAME");
  auto* const apply =
      app.add_option("--apply", typed->apply_words,
                     "write the safe patches, or those of these numbers: --apply 3,5")
          ->expected(0, 1)
          ->type_name("NUMBERS");
  app.add_flag("-i,--interactive", typed->interactive,
               "show each patch and ask whether to write it");
  app.add_flag("--diff", typed->diff, "print what --apply would write, for patch -p1");
  app.add_flag("--unsafe", typed->unsafe, "with --apply: write those too that may change results");
  app.add_flag("--undo", typed->undo, "take the newest --apply back, exactly");
  app.add_flag("--check", typed->check, "for CI: end with 1 when a patch could be applied");
  app.add_flag("--safe", typed->safe, "with --check: count the safe patches alone");
  app.add_option("--exclude", typed->exclude, "pass over such paths: 'legacy/', '*_old.py'")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->type_name("PATTERNS");
  app.add_option("--baseline", typed->baseline, "leave the findings of this file out")
      ->type_name("FILE");
  app.add_option("--write-baseline", typed->write_baseline,
                 "write all findings to this file, to be left out from now on")
      ->type_name("FILE");
  app.add_option("--select", typed->select, "only these findings, by code: P101,X701")
      ->allow_extra_args(false)
      ->type_name("CODES");
  app.add_option("--ignore", typed->ignore, "leave these findings out")
      ->allow_extra_args(false)
      ->type_name("CODES");
  app.add_option("--from", typed->from,
                 "apply the patches of a report: lockstep diagnose --json -o report.json")
      ->type_name("REPORT");
  app.add_option("--preset", typed->preset, "also set a published preset whole: standard or fast")
      ->type_name("NAME");
  app.add_option(
         "--global-batch", typed->global_batch,
         "when one process becomes N: grow (the batch x N, default) or keep (accumulation / N)")
      ->type_name("HOW");
  app.add_option("--gpus", typed->gpus, "how many GPUs there are, where no line says so")
      ->type_name("N");
  app.add_option("--assume", typed->assume,
                 "take this version for the installed one: transformers=4.44.2")
      ->allow_extra_args(false)
      ->type_name("PACKAGE=VERSION");
  app.add_flag("--verify", typed->verify,
               "prove it: run the command after -- with and without the patches, by turns, and say "
               "what they bring");
  app.add_flag("--each", typed->each,
               "with --verify: one patch after the other, with what each adds");
  app.add_option("--rounds", typed->rounds, "with --verify: so many runs of each version (5)")
      ->type_name("N");
  app.add_option("--duration", raw.duration,
                 "with --verify: end each run after so long (else it runs to its end)")
      ->type_name("TIME");
  app.add_option("--watch", typed->watch,
                 "with --verify: the GPUs to watch (this machine's; virtual:2)")
      ->type_name("INPUT");
  app.add_option("--format", typed->format, "text, json, sarif or github")->type_name("FORMAT");
  app.add_flag("--json", raw.json, "short for --format json");
  app.add_option("-o,--output", raw.output,
                 "write the result to this file instead of standard output")
      ->type_name("FILE");
  app.add_option("--color", raw.color, "auto, always or never (NO_COLOR is honoured)")
      ->type_name("WHEN");
  add_common_options(app, raw);
  return [typed, apply, &raw] {
    typed->apply = apply->count() > 0;
    return run_fix(raw, *typed);
  };
}

}  // namespace lockstep
