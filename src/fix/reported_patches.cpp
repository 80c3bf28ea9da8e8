#include "fix/reported_patches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "fix/chosen_patches.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestReport = 2U << 20U;

struct Target {
  std::string before;
  std::vector<Edit> edits;
};

Error refused(const fs::path& path, std::string_view why) {
  return {fmt::format("the report wants to change {}, {}; nothing was changed",
                      printable(path.string()), why),
          "make the report again with this lockstep, on this machine", ErrorKind::cannot_measure};
}

// Why a file may not be changed by a report; empty: it may.
std::string_view objection_to(const fs::path& path, const fs::path& root) {
  std::error_code failed;
  const fs::path real_root = fs::canonical(root, failed);
  if (failed || !root.is_absolute() || !real_root.has_relative_path())
    return "whose folder is not a project's";
  const fs::path below = fs::weakly_canonical(path, failed).lexically_relative(real_root);
  if (failed || below.empty() || below.string().starts_with("..") || below == ".")
    return "which is not below its folder";
  if (fs::weakly_canonical(path, failed) != real_root / path.lexically_relative(root))
    return "which is reached over a link";
  if (std::ranges::any_of(below,
                          [](const fs::path& part) { return part.string().starts_with("."); }))
    return "which is hidden";
  return "";
}

}  // namespace

Result<std::vector<ReportedPatch>> patches_of_report(const std::string& json_text,
                                                     const std::string& name) {
  using Json = nlohmann::json;
  const Json report = Json::parse(json_text, nullptr, false);
  if (!report.is_object() || !report.contains("lockstep_report") || !report.contains("findings") ||
      !report["findings"].is_array())
    return Error{fmt::format("{} is not a lockstep report", printable(name)),
                 "make one: lockstep diagnose --json -o report.json, or lockstep fix --json PATH "
                 "-o report.json",
                 ErrorKind::cannot_measure};
  const auto word = [](const Json& object, const char* key) {
    return object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                           : std::string();
  };
  std::vector<ReportedPatch> patches;
  for (const Json& finding : report["findings"]) {
    if (!finding.is_object() || !finding.contains("fixes") || !finding["fixes"].is_array())
      continue;
    const FindingName* const code = finding_named(word(finding, "code"));
    if (code == nullptr) continue;
    for (const Json& fix : finding["fixes"]) {
      if (!fix.is_object() || word(fix, "diff").empty()) continue;
      ReportedPatch patch;
      patch.code = code->code;
      patch.safety = word(fix, "safety") == "safe"     ? FixSafety::safe
                     : word(fix, "safety") == "unsafe" ? FixSafety::unsafe
                                                       : FixSafety::manual;
      patch.description = word(fix, "description");
      patch.diff = word(fix, "diff");
      patch.root = word(fix, "root");
      if (fix.contains("group") && fix["group"].is_number_integer())
        patch.group = fix["group"].get<int>();
      // Findings of one group carry the same diff.
      const bool known =
          patch.group && std::ranges::any_of(patches, [&](const ReportedPatch& other) {
            return other.group == patch.group;
          });
      if (!known) patches.push_back(std::move(patch));
    }
  }
  return patches;
}

std::vector<FindingCode> codes_in_report(const std::string& json_text) {
  const auto report = nlohmann::json::parse(json_text, nullptr, false);
  std::vector<FindingCode> codes;
  for (const char* list : {"findings", "suspicions"}) {
    if (!report.is_object() || !report.contains(list) || !report[list].is_array()) continue;
    for (const auto& finding : report[list]) {
      if (!finding.is_object() || !finding.contains("code") || !finding["code"].is_string())
        continue;
      const FindingName* const name = finding_named(finding["code"].get<std::string>());
      if (name != nullptr && std::ranges::find(codes, name->code) == codes.end())
        codes.push_back(name->code);
    }
  }
  return codes;
}

Result<Rewritten> apply_reported(const std::vector<ReportedPatch>& patches, Apply wanted,
                                 const Wishes& wishes) {
  std::map<fs::path, Target> targets;
  Rewritten result;
  CodeFilter again;  // the codes of patches that are in each other's way
  for (const ReportedPatch& patch : patches) {
    if (patch.safety == FixSafety::manual || !patch.group ||
        (patch.safety == FixSafety::unsafe && wanted == Apply::safe))
      continue;
    auto together = targets;
    bool clash = false;
    const auto files = files_of_diff(patch.diff);
    if (files.empty())
      return Error{fmt::format("the report's patch for {} is no diff; nothing was changed",
                               name_of(patch.code).id),
                   "make the report again with this lockstep", ErrorKind::cannot_measure};
    for (const FileDiff& file : files) {
      const fs::path path = (patch.root / file.name).lexically_normal();
      if (const std::string_view why = objection_to(path, patch.root); !why.empty())
        return refused(path, why);
      Target& target = together[path];
      if (!targets.contains(path)) {
        auto content = read_small_file(path, kLargestReport);
        if (!content) return refused(path, std::strerror(errno));
        target.before = std::move(*content);
      }
      const auto edits = edits_of_diff(target.before, file.hunks);
      if (!edits)
        return Error{fmt::format("{} has changed since the report was made; nothing was changed",
                                 printable(path.string())),
                     "diagnose again, or run lockstep fix on the file itself",
                     ErrorKind::cannot_measure};
      if (std::ranges::all_of(*edits, [](const Edit& edit) { return edit.from == edit.to; }) &&
          file.hunks.find("\n ") == std::string::npos && !target.before.empty())
        return refused(path, "by lines that say nothing of where they belong");
      target.edits.insert(target.edits.end(), edits->begin(), edits->end());
      target.edits = in_order(std::move(target.edits));
      clash = clash || overlap(target.edits);
    }
    if (clash) {
      again.select.insert(patch.code);
      continue;
    }
    targets = std::move(together);
    ++result.patches;
  }
  if (targets.empty()) return result;

  std::vector<std::string> names;
  for (const auto& [path, target] : targets) names.push_back(path.string());
  auto project = TRY(read_project(names, std::nullopt, Neighbours::editable));
  std::map<FileId, std::string> texts;
  for (const auto& [path, target] : targets) {
    const auto id = project.at(path);
    if (!id || !project.file(*id).refusal().empty())
      return refused(path, "which lockstep fix does not edit");
    auto text = project.file(*id).text_of_disk(edited(target.before, target.edits));
    if (!text) return refused(path, "which would no longer be read as a notebook");
    texts[*id] = std::move(*text);
  }
  Project patched = project.with(texts);
  for (const auto& [id, text] : texts)
    if (const SyntaxTree* const tree = project.file(id).tree();
        tree != nullptr && (patched.file(id).tree() == nullptr ||
                            patched.file(id).tree()->errors().size() > tree->errors().size()))
      return refused(project.file(id).path(), "which would no longer be read by a parser");
  if (!again.select.empty()) {
    const Patched more =
        apply_in_memory(patched, plan_fixes(patched, wishes, again), wishes, again, wanted);
    for (const auto& [id, text] : more.texts)
      if (texts.contains(id)) texts[id] = text;
    result.patches += more.applied;
  }
  result.files = rewrites(project, project.with(texts));
  return result;
}

}  // namespace lockstep
