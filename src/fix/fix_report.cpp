#include "fix/fix_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {

std::string diff_between(const SourceFile& before, const SourceFile& after) {
  const std::string old_text = before.disk_text().value_or("");
  return unified_diff(before.name(), old_text,
                      line_edits(old_text, after.disk_text().value_or(old_text)));
}

std::string diff_of(const Project& project, const std::map<FileId, std::vector<Edit>>& edits) {
  std::string text;
  for (const auto& [id, list] : edits) {
    const SourceFile& file = project.file(id);
    text += file.is_notebook()
                ? diff_between(file, SourceFile(file.with_text(edited(file.text(), list))))
                : unified_diff(file.name(), file.text(), list);
  }
  return text;
}

namespace {

Fix fix_of(const Project& project, const Way& way) {
  Fix fix;
  fix.kind = way.kind;
  fix.safety = way.safety;
  fix.description = way.description;
  fix.effect = way.effect;
  fix.changes = way.changes;
  fix.command = way.command;
  if (!way.files.empty()) {
    const auto edits = edits_of({&way});
    const bool clash =
        std::ranges::any_of(edits, [](const auto& row) { return overlap(row.second); });
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
    for (const Place& place : source.where) {
      const SourceFile::Spot spot = project.file(place.file).spot(place.from);
      finding.where.push_back({spot.name, spot.line});
    }
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
  for (const Refusal& refusal : plan.refusals)
    report.not_measured.push_back({refusal.name, refusal.reason});
  report.findings_left_out = plan.left_out;
  return report;
}

}  // namespace lockstep
