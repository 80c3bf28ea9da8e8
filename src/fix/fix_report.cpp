#include "fix/fix_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string diff_of(const Project& project, const std::map<FileId, std::vector<Edit>>& edits) {
  std::string text;
  for (const auto& [file, list] : edits) text += unified_diff(project.file(file).name(), project.file(file).text(), list);
  return text;
}

std::map<FileId, std::vector<Edit>> edits_of(const Way& way) {
  std::map<FileId, std::vector<Edit>> edits;
  for (const Change& change : way.files) {
    auto& list = edits[change.file];
    list.insert(list.end(), change.edits.begin(), change.edits.end());
  }
  for (auto& [file, list] : edits) list = in_order(std::move(list));
  return edits;
}

Fix fix_of(const Project& project, const Way& way) {
  Fix fix;
  fix.kind = way.kind;
  fix.safety = way.safety;
  fix.description = way.description;
  fix.effect = way.effect;
  fix.changes = way.changes;
  fix.command = way.command;
  if (!way.files.empty()) {
    const auto edits = edits_of(way);
    const bool clash = std::any_of(edits.begin(), edits.end(), [](const auto& row) { return overlap(row.second); });
    if (!clash) fix.diff = diff_of(project, edits);
    fix.root = project.root().string();
  }
  return fix;
}

}  // namespace

Report report_of_plan(const Project& project, const FixPlan& plan) {
  Report report;
  report.source_kind = SourceKind::code;
  report.source_detail = project.root().string();
  std::map<std::size_t, const PatchGroup*> group_of;
  for (const PatchGroup& group : plan.groups)
    for (const std::size_t member : group.findings) group_of[member] = &group;
  for (std::size_t i = 0; i < plan.findings.size(); ++i) {
    const CodeFinding& source = plan.findings[i];
    Finding finding;
    finding.code = source.code;
    finding.severity = source.severity;
    finding.confidence = source.confidence;
    finding.reason = source.reason;
    for (const Place& place : source.where) finding.where.push_back({project.file(place.file).name(), line_number(project.file(place.file).text(), place.from)});
    for (const Way& way : source.ways) finding.fixes.push_back(fix_of(project, way));
    if (const auto found = group_of.find(i); found != group_of.end() && !finding.fixes.empty()) {
      // The first way's diff is the group's: a part of it alone would break the run.
      finding.fixes.front().group = found->second->number;
      finding.fixes.front().safety = found->second->safety;
      finding.fixes.front().diff = diff_of(project, found->second->edits);
      finding.fixes.front().root = project.root().string();
    }
    report.findings.push_back(std::move(finding));
  }
  for (const Refusal& refusal : plan.refusals) report.not_measured.push_back({refusal.name, refusal.reason});
  report.findings_left_out = plan.left_out;
  return report;
}

Result<std::vector<ReportedPatch>> patches_of_report(const std::string& json_text, const std::string& name) {
  using Json = nlohmann::json;
  const Json report = Json::parse(json_text, nullptr, false);
  if (!report.is_object() || !report.contains("lockstep_report") || !report.contains("findings") || !report["findings"].is_array())
    return Error{fmt::format("{} is not a lockstep report", printable(name)), "make one: lockstep diagnose --json -o report.json, or lockstep fix --json PATH -o report.json", ErrorKind::cannot_measure};
  const auto word = [](const Json& object, const char* key) { return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : std::string(); };
  std::vector<ReportedPatch> patches;
  for (const Json& finding : report["findings"]) {
    if (!finding.is_object() || !finding.contains("fixes") || !finding["fixes"].is_array()) continue;
    const auto code = std::find_if(kFindingNames.begin(), kFindingNames.end(), [&](const FindingName& row) { return row.id == word(finding, "code"); });
    if (code == kFindingNames.end()) continue;
    for (const Json& fix : finding["fixes"]) {
      if (!fix.is_object() || word(fix, "diff").empty()) continue;
      ReportedPatch patch;
      patch.code = code->code;
      patch.safety = word(fix, "safety") == "safe" ? FixSafety::safe : word(fix, "safety") == "unsafe" ? FixSafety::unsafe : FixSafety::manual;
      patch.description = word(fix, "description");
      patch.diff = word(fix, "diff");
      patch.root = word(fix, "root");
      if (fix.contains("group") && fix["group"].is_number_integer()) patch.group = fix["group"].get<int>();
      // Findings of one group carry the same diff.
      const bool known = patch.group && std::any_of(patches.begin(), patches.end(), [&](const ReportedPatch& other) { return other.group == patch.group; });
      if (!known) patches.push_back(std::move(patch));
    }
  }
  return patches;
}

}  // namespace lockstep
