#include "runs/verify_fix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "fix/shadow_tree.hpp"
#include "report/verification.hpp"
#include "runs/probed_run.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommandFile = ".lockstep-command.sh";

// The command as the patched line has it. One that is no longer one line of known words is given to
// a shell.
std::vector<std::string> command_in(const Project& project, const std::vector<std::string>& typed) {
  for (FileId id = 0; id < project.size(); ++id) {
    const SourceFile& file = project.file(id);
    if (!is_the_command(file)) continue;
    const auto& lines = file.commands();
    if (lines.size() == 1 && std::ranges::all_of(lines.front().words, [](const CommandWord& word) {
          return word.value.has_value();
        })) {
      std::vector<std::string> words;
      for (const CommandWord& word : lines.front().words) words.push_back(*word.value);
      // CUDA_VISIBLE_DEVICES=0,1 before a command is a shell's word.
      if (words.empty() || words.front().find('=') == std::string::npos) return words;
    }
    return {"/bin/sh", "-c", file.text()};
  }
  return typed;
}

std::string title_of(const Project& project, const FixPlan& plan, const PatchGroup& group) {
  std::vector<std::string> codes;
  for (const std::size_t member : group.findings)
    if (const std::string id(name_of(plan.findings[member].code).id);
        std::ranges::find(codes, id) == codes.end())
      codes.push_back(id);
  const CodeFinding& first = plan.findings[group.findings.front()];
  return fmt::format("{} {}: {}", join(codes, ", "), place_words(project, first.where.front()),
                     first.ways.front().description);
}

bool is_wanted(const PatchGroup& group, Apply wanted) {
  return group.safety == FixSafety::safe ||
         (group.safety == FixSafety::unsafe && wanted == Apply::safe_and_unsafe);
}

// Words that name the folder itself mean its copy.
std::string in_the_copy(std::string word, const fs::path& folder, const fs::path& copy) {
  const std::string from = folder.string();
  for (std::size_t at = word.find(from); from.size() > 1 && at != std::string::npos;
       at = word.find(from, at)) {
    const std::size_t end = at + from.size();
    if (end == word.size() ||
        std::string_view("/ '\";&|").find(word[end]) != std::string_view::npos) {
      word.replace(at, from.size(), copy.string());
      at += copy.string().size();
    } else {
      at = end;
    }
  }
  return word;
}

struct RunResult {
  ProbedRun run;
  std::vector<fs::path> written_through;  // links that led the command to the user's own files
};

Result<RunResult> run_once(const ProjectVersion& version, const VerifyOptions& options) {
  auto tree = TRY(ShadowTree::of(version.project, options.folder));
  std::vector<std::string> command = {"/bin/sh", "-c", "cd \"$0\" && exec \"$@\" 2>&1",
                                      tree.path().string()};
  for (const std::string& word : version.command)
    command.push_back(in_the_copy(word, options.folder, tree.path()));
  auto run = TRY(run_probed(command, {options.input, options.duration, std::nullopt, {}}));
  if (run.interrupted) return Error{"interrupted", "nothing was written"};
  if (!run.failure.empty()) run.failure = fmt::format("{}: {}", version.title, run.failure);
  return RunResult{std::move(run), tree.changed_behind_links()};
}

}  // namespace

bool is_the_command(const SourceFile& file) { return file.path().filename() == kCommandFile; }

SourceFile::Facts command_as_file(const std::vector<std::string>& command, const fs::path& folder) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + shell_quoted(word);
  SourceFile::Facts facts;
  facts.name = "your command";
  facts.path = folder / kCommandFile;
  facts.kind = FileKind::shell;
  facts.text = line + "\n";
  return facts;
}

std::vector<ProjectVersion> versions_to_measure(const Project& project, const Wishes& wishes,
                                                const CodeFilter& filter, Apply wanted, bool each,
                                                const std::vector<std::string>& command) {
  std::vector<ProjectVersion> versions = {{"as it is", project, command}};
  const FixPlan plan = plan_fixes(project, wishes, filter);
  if (!each) {
    const Patched patched = apply_in_memory(project, plan, wishes, filter, wanted);
    if (patched.texts.empty()) return versions;
    const Project after = project.with(patched.texts);
    versions.push_back({fmt::format("with {}", patched.applied == 1 ? "the patch"
                                                                    : fmt::format("all {} patches",
                                                                                  patched.applied)),
                        after, command_in(after, command)});
    return versions;
  }
  // One more each time, over a new look: a patch may make the next one possible.
  constexpr std::size_t kMost = 12;
  while (versions.size() <= kMost) {
    const Project& now = versions.back().project;
    const FixPlan next = plan_fixes(now, wishes, filter);
    const auto group = std::ranges::find_if(
        next.groups, [&](const PatchGroup& entry) { return is_wanted(entry, wanted); });
    if (group == next.groups.end()) break;
    std::map<FileId, std::string> texts;
    for (const auto& [file, edits] : group->edits)
      texts[file] = edited(now.file(file).text(), edits);
    const std::string title = title_of(now, next, *group);
    Project after = now.with(texts);
    auto line = command_in(after, command);
    versions.push_back({title, std::move(after), std::move(line)});
  }
  return versions;
}

Result<Verified> verify(const std::vector<ProjectVersion>& versions, const VerifyOptions& options) {
  Verified verified;
  std::vector<std::vector<RunSpeed>> runs(versions.size());
  std::set<fs::path> told;
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < versions.size(); ++i) {
      auto measured = TRY(run_once(versions[i], options));
      ProbedRun& run = measured.run;
      if (!run.failure.empty()) {
        verified.failure = std::move(run.failure);
        return verified;
      }
      if (!options.quiet) {
        const RunSpeed& speed = run.speed;
        const std::string rate =
            speed.samples_per_s   ? fmt::format(", {:.1f} samples/s", *speed.samples_per_s)
            : speed.batches_per_s ? fmt::format(", {:.1f} batches/s", *speed.batches_per_s)
                                  : "";
        say(fmt::format("round {} of {}, {}: {:.1f} s{}\n", round + 1, options.rounds,
                        i == 0                 ? "as it is"
                        : versions.size() == 2 ? "patched"
                                               : fmt::format("step {}", i),
                        speed.seconds, rate));
      }
      runs[i].push_back(run.speed);
      for (const fs::path& path : measured.written_through)
        if (told.insert(path).second && !options.quiet)
          say(
              fmt::format("lockstep: the command writes to {}, which is too large to be copied: "
                          "that is your own file\n",
                          printable(path.string())));
      if (i + 1 == versions.size()) verified.last = std::move(run.report);
    }
  Verification& measured = verified.measured;
  measured.basis = common_basis(runs);
  measured.cut_short = options.duration.has_value();
  for (std::size_t i = 0; i < versions.size(); ++i) {
    VerifiedVariant variant{versions[i].title, versions[i].command, {}, {}};
    for (const RunSpeed& run : runs[i]) {
      variant.speeds.push_back(speed_by(measured.basis, run));
      variant.seconds.push_back(run.seconds);
    }
    measured.variants.push_back(std::move(variant));
    measured.speedups.push_back(i == 0 ? Speedup{1, 1, 1}
                                       : speedup_between(measured.variants.front().speeds,
                                                         measured.variants.back().speeds));
  }
  return verified;
}

}  // namespace lockstep
