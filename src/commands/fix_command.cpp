#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "commands/finding_codes.hpp"
#include "commands/observation.hpp"
#include "commands/version.hpp"
#include "fix/engine.hpp"
#include "fix/fix_report.hpp"
#include "fix/write_back.hpp"
#include "render/json/json_renderer.hpp"
#include "render/json/sarif_renderer.hpp"
#include "render/text/fix_text.hpp"
#include "render/text/github_lines.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// As typed, beside the shared options.
struct FixOptions {
  std::vector<std::string> paths;
  bool apply = false;
  bool unsafe = false;
  bool undo = false;
  bool check = false;
  std::vector<std::string> select;
  std::vector<std::string> ignore;
  std::string format;
  std::string from;
  std::string preset;
  std::string global_batch;
  std::string gpus;
  std::vector<std::string> assume;
};

Result<Wishes> checked_wishes(const FixOptions& typed) {
  Wishes wishes;
  if (typed.preset == "standard") wishes.preset = Preset::standard;
  else if (typed.preset == "fast") wishes.preset = Preset::fast;
  else if (!typed.preset.empty()) return usage_error(fmt::format("--preset {} is unknown", printable(typed.preset)), "use standard or fast");
  if (typed.global_batch == "keep") wishes.batch = GlobalBatch::keep;
  else if (!typed.global_batch.empty() && typed.global_batch != "grow")
    return usage_error(fmt::format("--global-batch {} is unknown", printable(typed.global_batch)), "use grow (batch x N) or keep (accumulation / N)");
  if (!typed.gpus.empty()) {
    const auto count = parse_integer(typed.gpus);
    if (!count || *count < 1 || *count > 1024) return usage_error(fmt::format("--gpus {} is no number of GPUs", printable(typed.gpus)), "give how many one machine has: --gpus 4");
    wishes.gpus = static_cast<int>(*count);
  }
  return wishes;
}

Result<std::optional<Versions>> checked_versions(const FixOptions& typed) {
  if (typed.assume.empty()) return std::optional<Versions>();
  Versions versions;
  for (const std::string& word : typed.assume) {
    const auto equals = word.find('=');
    const auto version = Version::parse(equals == std::string::npos ? "" : std::string_view(word).substr(word.find_first_not_of('=', equals)));
    if (!version) return usage_error(fmt::format("--assume {} is no version", printable(word)), "write it so: --assume transformers=4.44.2");
    versions.emplace(word.substr(0, equals), KnownVersion{*version, "--assume", true});
  }
  return std::optional(std::move(versions));
}

Result<std::unique_ptr<Renderer>> renderer_for(const SharedOptions& options, const std::string& format) {
  if (format == "json" || (format.empty() && options.format == Format::json)) return std::unique_ptr<Renderer>(std::make_unique<JsonRenderer>());
  if (format == "sarif") return std::unique_ptr<Renderer>(std::make_unique<SarifRenderer>(version_number()));
  if (format == "github") return std::unique_ptr<Renderer>(std::make_unique<GithubLines>());
  if (format.empty() || format == "text") return std::unique_ptr<Renderer>(std::make_unique<FixText>(options.colors, options.output.empty() ? terminal_width() : std::nullopt));
  return usage_error(fmt::format("--format {} is unknown here", printable(format)), "use text, json, sarif or github");
}

// What was written, in words.
void tell_applied(const SharedOptions& options, std::size_t patches, const std::vector<FileRewrite>& files) {
  if (options.quiet) return;
  std::vector<std::string> names;
  for (const FileRewrite& file : files) names.push_back(printable(file.path.string()));
  if (files.empty()) say("lockstep: nothing was written\n");
  else say(fmt::format("lockstep: {} {} applied, {} written: {}\n  take it back: lockstep fix --undo\n", patches, patches == 1 ? "patch" : "patches", files.size() == 1 ? "one file" : fmt::format("{} files", files.size()), join(names, ", ")));
}

Result<int> undo(const SharedOptions& options, const FixOptions& typed) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (const std::string& path : typed.paths) {
    fs::path absolute = fs::absolute(path, failed).lexically_normal();
    paths.push_back(absolute.filename().empty() ? absolute.parent_path() : absolute);
  }
  auto restored = undo_newest(undo_folder(), paths);
  if (!restored) return std::move(restored).error();
  std::string text;
  for (const fs::path& path : *restored) text += fmt::format("restored {}\n", printable(path.string()));
  if (Status put = put_result(options, text); !put) return std::move(put).error();
  return exit_code::kDone;
}

// One file of a report's patches, as it is on the disk now.
struct Target {
  std::string before;
  std::vector<Edit> edits;
};

// A report is text that anyone may have written: it changes nothing outside the folder that it names, by links or otherwise.
bool lies_below(const fs::path& path, const fs::path& root) {
  std::error_code failed;
  const fs::path real_root = fs::canonical(root, failed);
  if (failed || !root.is_absolute()) return false;
  const fs::path real_path = fs::weakly_canonical(path, failed);
  const std::string below = real_path.lexically_relative(real_root).string();
  return !failed && !below.empty() && !below.starts_with("..") && below != ".";
}

Result<int> fix_from_report(const SharedOptions& options, const FixOptions& typed, const CodeFilter& filter) {
  const auto text = read_small_file(typed.from, 256U << 20U);
  if (!text) return Error{fmt::format("cannot read the report {}: {}", printable(typed.from), std::strerror(errno)), "make one: lockstep diagnose --json -o report.json", ErrorKind::cannot_measure};
  auto patches = patches_of_report(*text, typed.from);
  if (!patches) return std::move(patches).error();
  std::map<fs::path, Target> targets;
  std::size_t applied = 0;
  std::size_t open = 0;
  std::string shown;
  for (const ReportedPatch& patch : *patches) {
    if ((!filter.select.empty() && !filter.select.contains(patch.code)) || filter.ignore.contains(patch.code)) continue;
    const char* const level = patch.safety == FixSafety::safe ? "safe" : patch.safety == FixSafety::unsafe ? "unsafe" : "manual";
    shown += fmt::format("{} {}  [{}]  {}\n{}\n", name_of(patch.code).id, name_of(patch.code).name, level, printable(patch.description), patch.diff);
    if (patch.safety == FixSafety::manual || !patch.group) continue;
    ++open;
    if (!typed.apply || (patch.safety == FixSafety::unsafe && !typed.unsafe)) continue;
    auto together = targets;
    for (const FileDiff& file : files_of_diff(patch.diff)) {
      const fs::path path = (patch.root / file.name).lexically_normal();
      if (!lies_below(path, patch.root))
        return Error{fmt::format("the report wants to change {}, which is not below its folder {}; nothing was changed", printable(path.string()), printable(patch.root.string())), "make the report again with this lockstep", ErrorKind::cannot_measure};
      Target& target = together[path];
      if (!targets.contains(path)) {
        auto content = read_small_file(path, 64U << 20U);
        if (!content) return Error{fmt::format("cannot read {}, which the report wants to change: {}", printable(path.string()), std::strerror(errno)), "is this the machine that the report was made on?", ErrorKind::cannot_measure};
        target.before = std::move(*content);
      }
      const auto edits = edits_of_diff(target.before, file.hunks);
      if (!edits) return Error{fmt::format("{} has changed since the report was made; nothing was changed", printable(path.string())), "diagnose again, or run lockstep fix on the file itself", ErrorKind::cannot_measure};
      target.edits.insert(target.edits.end(), edits->begin(), edits->end());
      target.edits = in_order(std::move(target.edits));
      if (overlap(target.edits))
        return Error{fmt::format("two patches of the report change the same lines of {}; nothing was changed", printable(path.string())), "apply one with --select CODE, then run lockstep fix on the file itself", ErrorKind::cannot_measure};
    }
    targets = std::move(together);
    ++applied;
  }
  std::vector<FileRewrite> files;
  for (auto& [path, target] : targets)
    if (std::string after = edited(target.before, target.edits); after != target.before) files.push_back({path, std::move(target.before), std::move(after)});
  if (typed.apply) {
    if (Status written = write_back(files, undo_folder()); !written) return std::move(written).error();
    tell_applied(options, applied, files);
  }
  if (shown.empty()) shown = "the report carries no patch\n";
  if (Status put = put_result(options, shown); !put) return std::move(put).error();
  return typed.check && open > 0 ? exit_code::kFindings : exit_code::kDone;
}

Result<int> run_fix(const RawOptions& raw, const FixOptions& typed) {
  RawOptions shared = raw;
  auto options = check(shared);
  if (!options) return std::move(options).error();
  auto select = codes_of(typed.select);
  if (!select) return std::move(select).error();
  auto ignore = codes_of(typed.ignore);
  if (!ignore) return std::move(ignore).error();
  auto wishes = checked_wishes(typed);
  if (!wishes) return std::move(wishes).error();
  auto versions = checked_versions(typed);
  if (!versions) return std::move(versions).error();
  auto renderer = renderer_for(*options, typed.format);
  if (!renderer) return std::move(renderer).error();
  if (typed.undo && (typed.apply || typed.check || !typed.from.empty())) return usage_error("--undo goes alone", "lockstep fix --undo [PATH]");
  if (typed.apply && typed.check) return usage_error("--apply writes and --check only looks", "give one of them");
  if (typed.undo) return undo(*options, typed);
  const CodeFilter filter{std::move(*select), std::move(*ignore)};
  if (!typed.from.empty()) return fix_from_report(*options, typed, filter);
  if (typed.paths.empty()) return usage_error("no file or folder to look at", "lockstep fix . looks at the folder you are in");

  auto project = read_project(typed.paths, *versions);
  if (!project) return std::move(project).error();
  const FixPlan plan = plan_fixes(*project, *wishes, filter);
  const Report report = report_of_plan(*project, plan);
  if (Status put = put_result(*options, (*renderer)->render(report)); !put) return std::move(put).error();
  if (typed.apply) {
    const Patched patched = apply_in_memory(*project, plan, *wishes, filter, typed.unsafe ? Apply::safe_and_unsafe : Apply::safe);
    std::vector<FileRewrite> files;
    for (const auto& [id, text] : patched.texts) files.push_back({project->file(id).path(), project->file(id).text(), text});
    if (Status written = write_back(files, undo_folder()); !written) return std::move(written).error();
    tell_applied(*options, patched.applied, files);
  }
  const bool would_change = std::any_of(plan.groups.begin(), plan.groups.end(), [](const PatchGroup& group) { return group.safety != FixSafety::manual; });
  return typed.check && would_change ? exit_code::kFindings : exit_code::kDone;
}

}  // namespace

Run configure_fix(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<FixOptions>();
  app.add_option("PATH", typed->paths, "files and folders to look at")->type_name("PATH");
  app.add_flag("--apply", typed->apply, "write the safe patches");
  app.add_flag("--unsafe", typed->unsafe, "with --apply: write those too that may change results");
  app.add_flag("--undo", typed->undo, "take the newest --apply back, exactly");
  app.add_flag("--check", typed->check, "for CI: end with 1 when a patch could be applied");
  app.add_option("--select", typed->select, "only these findings, by code: P101,X701")->allow_extra_args(false)->type_name("CODES");
  app.add_option("--ignore", typed->ignore, "leave these findings out")->allow_extra_args(false)->type_name("CODES");
  app.add_option("--from", typed->from, "apply the patches of a report: lockstep diagnose --json -o report.json")->type_name("REPORT");
  app.add_option("--preset", typed->preset, "also set a published preset whole: standard or fast")->type_name("NAME");
  app.add_option("--global-batch", typed->global_batch, "when one process becomes N: grow (the batch x N, default) or keep (accumulation / N)")->type_name("HOW");
  app.add_option("--gpus", typed->gpus, "how many GPUs there are, where no line says so")->type_name("N");
  app.add_option("--assume", typed->assume, "take this version for the installed one: transformers=4.44.2")->allow_extra_args(false)->type_name("PACKAGE=VERSION");
  app.add_option("--format", typed->format, "text, json, sarif or github")->type_name("FORMAT");
  app.add_flag("--json", raw.json, "short for --format json");
  app.add_option("-o,--output", raw.output, "write the result to this file instead of standard output")->type_name("FILE");
  app.add_option("--color", raw.color, "auto, always or never (NO_COLOR is honoured)")->type_name("WHEN");
  add_common_options(app, raw);
  return [typed, &raw] { return run_fix(raw, *typed); };
}

}  // namespace lockstep
