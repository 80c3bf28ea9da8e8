#include "fix/running_script.hpp"

#include <algorithm>
#include <set>

#include "fix/fix_report.hpp"

namespace lockstep {

namespace fs = std::filesystem;

std::optional<fs::path> script_of(const RunningScript& running) {
  const auto& words = running.command;
  const auto is_python = [](const std::string& word) {
    return fs::path(word).filename().string().starts_with("python");
  };
  auto word = std::ranges::find_if(words, is_python);
  if (word == words.end()) return std::nullopt;
  for (++word; word != words.end(); ++word) {
    if (*word == "-c") return std::nullopt;
    if (*word == "-m") {
      if (++word == words.end()) return std::nullopt;
      std::string path = *word;
      std::ranges::replace(path, '.', '/');
      return running.folder / (path + ".py");
    }
    if (*word == "-W" || *word == "-X") {
      if (++word == words.end()) return std::nullopt;
      continue;
    }
    if (!word->starts_with("-"))
      return word->ends_with(".py") ? std::optional((running.folder / *word).lexically_normal())
                                    : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Report> code_report(const RunningScript& running) {
  const auto script = script_of(running);
  std::error_code failed;
  if (!script || !fs::is_regular_file(*script, failed)) return std::nullopt;
  auto project = read_project({script->string()}, std::nullopt, Neighbours::editable);
  if (!project || !project->at(*script)) return std::nullopt;
  Wishes wishes;
  wishes.gpus = running.gpus;
  wishes.launch_is_told = true;
  wishes.short_of_memory = running.short_of_memory;
  FixPlan plan = plan_fixes(*project, wishes, {});
  Report report = report_of_plan(*project, plan);
  // Of the neighbours only what changes together with the script.
  std::set<int> groups;
  const std::string name = project->file(*project->at(*script)).name();
  for (const Finding& finding : report.findings)
    if (!finding.where.empty() && finding.where.front().file == name)
      for (const Fix& fix : finding.fixes) groups.insert(fix.group.value_or(0));
  std::erase_if(report.findings, [&](const Finding& finding) {
    const bool own = !finding.where.empty() && finding.where.front().file == name;
    return !own && (finding.fixes.empty() || !finding.fixes.front().group ||
                    !groups.contains(*finding.fixes.front().group));
  });
  return report;
}

}  // namespace lockstep
