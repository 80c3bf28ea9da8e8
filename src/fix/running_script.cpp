#include "fix/running_script.hpp"

#include <algorithm>

#include "fix/fix_report.hpp"

namespace lockstep {

namespace fs = std::filesystem;

std::optional<fs::path> script_of(const RunningScript& running) {
  const auto& words = running.command;
  const auto is_python = [](const std::string& word) { return fs::path(word).filename().string().starts_with("python"); };
  auto word = std::find_if(words.begin(), words.end(), is_python);
  if (word == words.end()) return std::nullopt;
  for (++word; word != words.end(); ++word) {
    if (*word == "-c") return std::nullopt;
    if (*word == "-m") {
      if (++word == words.end()) return std::nullopt;
      std::string path = *word;
      std::replace(path.begin(), path.end(), '.', '/');
      return running.folder / (path + ".py");
    }
    if (*word == "-W" || *word == "-X") {
      if (++word == words.end()) return std::nullopt;
      continue;
    }
    if (!word->starts_with("-")) return word->ends_with(".py") ? std::optional((running.folder / *word).lexically_normal()) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Report> code_report(const RunningScript& running) {
  const auto script = script_of(running);
  std::error_code failed;
  if (!script || !fs::is_regular_file(*script, failed)) return std::nullopt;
  auto project = read_project({script->string()}, std::nullopt);
  if (!project) return std::nullopt;
  Wishes wishes;
  wishes.gpus = running.gpus;
  return report_of_plan(*project, plan_fixes(*project, wishes, {}));
}

}  // namespace lockstep
