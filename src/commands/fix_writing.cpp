#include "commands/fix_writing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "fix/fix_report.hpp"
#include "render/text/fix_text.hpp"
#include "render/words/words.hpp"
#include "runs/exit_code.hpp"

namespace lockstep {

namespace fs = std::filesystem;

void tell_applied(const RunOptions& options, std::size_t patches,
                  const std::vector<FileRewrite>& files) {
  if (options.quiet) return;
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  for (const FileRewrite& file : files)
    if (names.size() < kNamed) names.push_back(printable(file.path.string()));
  if (files.size() > kNamed) names.push_back("...");
  if (files.empty())
    say("lockstep: nothing was written\n");
  else
    say(fmt::format(
        "lockstep: {} {} applied, {} written: {}\n  take it back: lockstep fix --undo\n", patches,
        patches == 1 ? "patch" : "patches",
        files.size() == 1 ? "one file" : fmt::format("{} files", files.size()), join(names, ", ")));
}

Result<int> undo(const RunOptions& options, const FixOptions& typed) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (const std::string& path : typed.paths) {
    fs::path absolute = fs::absolute(path, failed).lexically_normal();
    paths.push_back(absolute.filename().empty() ? absolute.parent_path() : absolute);
  }
  const auto folder = TRY(undo_folder());
  // What was applied to this folder first; only then what was applied elsewhere.
  auto restored =
      undo_newest(folder, paths.empty() ? std::vector{fs::current_path(failed)} : paths);
  if (!restored && paths.empty() && restored.error().kind == ErrorKind::usage)
    restored = undo_newest(folder, {});
  if (!restored) return std::move(restored).error();
  std::string text;
  for (const fs::path& path : *restored)
    text += fmt::format("restored {}\n", printable(path.string()));
  TRY(put_result(options, text));
  return exit_code::kDone;
}

Status write_files(const std::vector<FileRewrite>& files) {
  const auto folder = TRY(undo_folder());
  return write_back(files, folder);
}

std::set<int> ask_for_each(const Project& project, const FixPlan& plan, Colors colors) {
  const Painter paint(colors);
  std::set<int> chosen;
  bool all = false;
  for (const PatchGroup& group : plan.groups) {
    std::string shown = fmt::format("\npatch {} of {}, {}\n", group.number, plan.groups.size(),
                                    safety_word(group.safety));
    for (const std::size_t position : group.findings) {
      const CodeFinding& finding = plan.findings[position];
      shown +=
          fmt::format("  {} {}  {}: {}\n", name_of(finding.code).id, name_of(finding.code).name,
                      place_words(project, finding.where.front()), printable(finding.reason));
      if (!finding.ways.empty() && !finding.ways.front().changes.empty())
        shown += fmt::format("  changes: {}\n", printable(finding.ways.front().changes));
    }
    say(shown + "\n" + diff_text(diff_of(project, group.edits), 0, paint) + "\n");
    while (!all) {
      say("apply it? [y]es, [n]o, [a]ll that are left, [q]uit: ");
      std::string answer;
      if (!std::getline(std::cin, answer) || answer == "q") return chosen;
      all = answer == "a";
      if (answer == "y" || answer == "a") chosen.insert(group.number);
      if (answer == "y" || answer == "n") break;
    }
    if (all) chosen.insert(group.number);
  }
  return chosen;
}

Result<std::set<std::string>> read_baseline(const std::string& path) {
  const auto text = read_small_file(path, 64U << 20U);
  if (!text)
    return Error{
        fmt::format("cannot read the baseline {}: {}", printable(path), std::strerror(errno)),
        "make one: lockstep fix PATH --write-baseline " + printable(path),
        ErrorKind::cannot_measure};
  std::set<std::string> known;
  for (const std::string_view line : split(*text, '\n'))
    if (!trim(line).empty() && !line.starts_with('#')) known.emplace(trim(line));
  return known;
}

Result<int> write_baseline(const RunOptions& options, const FixOptions& typed,
                           const Project& project, const FixPlan& plan) {
  std::set<std::string> lines;
  for (const CodeFinding& finding : plan.findings) lines.insert(fingerprint_of(project, finding));
  std::string text =
      "# findings of lockstep fix that are known: code, file, and a hash of the line\n";
  for (const std::string& line : lines) text += line + "\n";
  TRY(write_file_atomically(typed.write_baseline, text));
  if (!options.quiet)
    say(fmt::format("lockstep: {} finding{} written to {}\n", lines.size(),
                    lines.size() == 1 ? "" : "s", printable(typed.write_baseline)));
  return exit_code::kDone;
}

}  // namespace lockstep
