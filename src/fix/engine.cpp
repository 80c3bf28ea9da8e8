#include "fix/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>

#include "base/in_parallel.hpp"
#include "base/text.hpp"
#include "fix/facts/lightning_code.hpp"
#include "fix/patch_checks.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kWorthThreads = 8;

// Whether a Python file can hold a finding on its own: most files of a tree are passed over by
// these words alone.
bool may_train(const SourceFile& file) {
  if (file.kind() != FileKind::python) return false;
  for (const char* word : {"Trainer", "Accelerator", "DistributedDataParallel", "device_map",
                           "TrainingArguments", ".backward("})
    if (file.text().find(word) != std::string::npos) return true;
  return false;
}

bool has_a_loop(const SourceFile& file) {
  return file.text().find(".backward(") != std::string::npos;
}

// main.py, which takes train() from another file of the project.
bool may_start_training(const SourceFile& file) {
  return file.kind() == FileKind::python && file.text().find("train") != std::string::npos &&
         file.text().find("import ") != std::string::npos;
}

std::map<FileId, ScriptFacts> scripts_of(const Project& project) {
  std::map<FileId, ScriptFacts> scripts;
  for (Launch& launch : all_launches(project))
    if (launch.script && project.file(*launch.script).kind() == FileKind::python)
      scripts[*launch.script].launches.push_back(std::move(launch));
  // 1: it may train; 2: it may start what trains
  std::vector<char> trains(project.size(), 0);
  in_parallel(project.size(), kWorthThreads, [&](std::size_t id) {
    trains[id] = may_train(project.file(id)) ? 1 : may_start_training(project.file(id)) ? 2 : 0;
  });
  std::vector<char> wanted(project.size(), 0);
  in_parallel(project.size(), kWorthThreads, [&](std::size_t id) {
    if (trains[id] == 0 || !project.file(id).asked_for() || !looks_like_a_script(project.file(id)))
      return;
    wanted[id] =
        trains[id] == 1 || std::ranges::any_of(project.with_imports(id), [&](FileId other) {
          return trains[other] == 1 && has_a_loop(project.file(other));
        });
  });
  for (FileId id = 0; id < project.size(); ++id)
    if (wanted[id] != 0) scripts[id];
  std::vector<std::pair<const FileId, ScriptFacts>*> rows;
  for (auto& row : scripts) rows.push_back(&row);
  in_parallel(rows.size(), kWorthThreads, [&](std::size_t i) {
    std::vector<Launch> launches = std::move(rows[i]->second.launches);
    rows[i]->second = script_facts(project, rows[i]->first);
    rows[i]->second.launches = std::move(launches);
  });
  return scripts;
}

using FindingKey = std::tuple<FindingCode, FileId, std::size_t>;

FindingKey key_of(const CodeFinding& finding) {
  return {finding.code, finding.where.front().file, finding.where.front().from};
}

// All findings of the scripts and files that are wanted, in the order of files and lines, each
// once.
std::vector<CodeFinding> findings_in(const RuleInput& input,
                                     const std::function<bool(FileId)>& wants_file,
                                     const std::function<bool(const ScriptFacts&)>& wants_script) {
  std::vector<const ScriptFacts*> scripts;
  for (const auto& [id, facts] : input.scripts)
    if (wants_script(facts)) scripts.push_back(&facts);
  std::vector<FileId> files;
  const auto is_python = [&](FileId id) {
    return input.project.file(id).kind() == FileKind::python;
  };
  for (FileId id = 0; id < input.project.size(); ++id)
    if (input.project.file(id).kind() != FileKind::notebook && wants_file(id) &&
        (!is_python(id) || speaks_of_lightning(input.project.file(id).text())))
      files.push_back(id);
  std::vector<std::vector<CodeFinding>> parts(scripts.size() + files.size());
  in_parallel(parts.size(), kWorthThreads, [&](std::size_t i) {
    for (const Rule& rule : all_rules()) {
      const std::size_t before = parts[i].size();
      if (i < scripts.size() && rule.on_script != nullptr)
        rule.on_script(input, *scripts[i], parts[i]);
      if (i >= scripts.size()) {
        const FileId file = files[i - scripts.size()];
        const InspectFile inspect = is_python(file) ? rule.on_lightning : rule.on_file;
        if (inspect != nullptr &&
            (!is_python(file) || input.project.file(file).python() != nullptr))
          inspect(input, file, parts[i]);
      }
      for (CodeFinding& finding : std::span(parts[i]).subspan(before)) finding.rule = rule.name;
    }
  });
  std::vector<CodeFinding> all;
  std::map<FindingKey, std::size_t> seen;
  // a loader that two scripts share ties their launch lines together
  std::map<std::string, std::string> same_group;
  const auto group_now = [&](std::string name) {
    for (auto found = same_group.find(name); found != same_group.end();
         found = same_group.find(name))
      name = found->second;
    return name;
  };
  for (std::vector<CodeFinding>& part : parts)
    for (CodeFinding& finding : part) {
      const auto [known, fresh] = seen.emplace(key_of(finding), all.size());
      if (fresh) {
        all.push_back(std::move(finding));
        continue;
      }
      const std::string kept = group_now(all[known->second].group);
      const std::string other = group_now(finding.group);
      if (!kept.empty() && !other.empty() && kept != other) same_group[other] = kept;
    }
  for (CodeFinding& finding : all) finding.group = group_now(finding.group);
  std::ranges::stable_sort(all, [](const CodeFinding& a, const CodeFinding& b) {
    return std::tuple(a.where.front().file, a.where.front().from) <
           std::tuple(b.where.front().file, b.where.front().from);
  });
  return all;
}

std::map<std::pair<FindingCode, FileId>, int> counts_of(const std::vector<CodeFinding>& findings) {
  std::map<std::pair<FindingCode, FileId>, int> counts;
  for (const CodeFinding& finding : findings) ++counts[{finding.code, finding.where.front().file}];
  return counts;
}

class Planner {
 public:
  Planner(const Project& project, const Wishes& wishes, const CodeFilter& filter)
      : project_(project), wishes_(wishes), filter_(filter), scripts_(scripts_of(project)) {}

  FixPlan plan() {
    const RuleInput input{project_, wishes_, scripts_};
    plan_.findings =
        findings_in(input, [](FileId) { return true; }, [](const ScriptFacts&) { return true; });
    before_ = counts_of(plan_.findings);
    plan_.refusals = project_.refusals();
    name_unread();
    name_unknown_codes();
    leave_unasked();
    choose();
    refuse();
    merge_alike();
    group();
    return std::move(plan_);
  }

 private:
  void name_unread() {
    for (FileId file = 0; file < project_.size(); ++file) {
      if (!project_.file(file).asked_for()) continue;
      std::string why = project_.file(file).why_not_read();
      if (why.empty()) continue;
      plan_.refusals.push_back({project_.file(file).name(), std::move(why)});
      ++plan_.unread;
    }
  }

  // A typing mistake in a comment would let everything through.
  void name_unknown_codes() {
    for (FileId file = 0; file < project_.size(); ++file) {
      const SourceFile& source = project_.file(file);
      if (!source.asked_for() || source.text().find("lockstep: ignore[") == std::string::npos)
        continue;
      int number = 0;
      for (const std::string_view line : split(source.text(), '\n')) {
        ++number;
        for (const std::string& code : unknown_codes_in(line))
          plan_.refusals.push_back({fmt::format("{}:{}", source.name(), number),
                                    fmt::format("ignores '{}', which is no finding's code", code)});
      }
    }
  }

  // What was only read to understand the rest is not reported; a patch that would have to change it
  // too is shown only.
  void leave_unasked() {
    std::map<std::string, std::string> needs;  // group: a file that was not named
    for (const CodeFinding& finding : plan_.findings)
      if (const SourceFile& file = project_.file(finding.where.front().file);
          !file.asked_for() && !finding.group.empty())
        needs.emplace(finding.group, file.name());
    std::erase_if(plan_.findings, [&](const CodeFinding& finding) {
      return !project_.file(finding.where.front().file).asked_for();
    });
    for (CodeFinding& finding : plan_.findings) {
      const auto needed = needs.find(finding.group);
      if (finding.group.empty() || needed == needs.end() || finding.ways.empty()) continue;
      finding.ways.front().safety = FixSafety::manual;
      const std::string why =
          "it has to change together with what was named: give it to lockstep fix too, or the "
          "folder";
      if (std::ranges::none_of(plan_.refusals, [&](const Refusal& refusal) {
            return refusal.name == needed->second;
          }))
        plan_.refusals.push_back({needed->second, why});
    }
  }

  // A group of which one part is not wanted is left out whole: half of it would break the run.
  void choose() {
    std::set<std::string> broken;
    std::set<std::string> chosen;
    std::set<std::string> fresh;  // what a baseline does not hold in full is told in full
    for (const CodeFinding& finding : plan_.findings) {
      if (finding.group.empty()) continue;
      if (!is_known(project_, filter_, finding)) fresh.insert(finding.group);
      if (is_left_out(project_, filter_, finding)) broken.insert(finding.group);
      if (wants(filter_, finding.code)) chosen.insert(finding.group);
    }
    plan_.left_out = std::erase_if(plan_.findings, [&](const CodeFinding& finding) {
      if (!finding.group.empty())
        return broken.contains(finding.group) || !chosen.contains(finding.group) ||
               !fresh.contains(finding.group);
      return !wants(filter_, finding.code) || is_left_out(project_, filter_, finding) ||
             is_known(project_, filter_, finding);
    });
  }

  // A finding whose edit is not possible is still shown, with a word on why.
  void refuse() {
    std::set<std::pair<std::string, std::string>> told;
    for (CodeFinding& finding : plan_.findings)
      for (Way& way : finding.ways)
        for (const Change& change : way.files) {
          const SourceFile& file = project_.file(change.file);
          std::string why = file.asked_for() ? objection(file, change.edits)
                                             : "it was not named: give it to lockstep fix too";
          if (why.empty()) continue;
          if (told.emplace(file.name(), why).second)
            plan_.refusals.push_back({file.name(), std::move(why)});
          way.files.clear();
          way.safety = FixSafety::manual;
          break;
        }
  }

  // Whether one is the other at another line of the same file.
  static bool are_alike(const CodeFinding& a, const CodeFinding& b) {
    return a.rule == b.rule && a.group.empty() && b.group.empty() &&
           std::ranges::equal(a.ways, b.ways, [](const Way& x, const Way& y) {
             return x.safety == y.safety && x.description == y.description &&
                    x.changes == y.changes && x.command == y.command &&
                    std::ranges::equal(x.files, y.files, {}, &Change::file, &Change::file);
           });
  }

  // Eighty lines of one kind are one finding with eighty places, and one patch.
  void merge_alike() {
    constexpr std::size_t kMany = 5;  // a few are better read one by one
    std::map<std::tuple<FindingCode, FileId, std::string>, std::vector<std::size_t>> alike;
    for (std::size_t i = 0; i < plan_.findings.size(); ++i) {
      const CodeFinding& finding = plan_.findings[i];
      auto& members = alike[{finding.code, finding.where.front().file, finding.reason}];
      if (members.empty() || are_alike(plan_.findings[members.front()], finding))
        members.push_back(i);
    }
    std::set<std::size_t> joined_ones;
    for (const auto& [key, members] : alike)
      if (members.size() >= kMany && join_to_first(members))
        joined_ones.insert(members.begin() + 1, members.end());
    std::vector<CodeFinding> kept;
    for (std::size_t i = 0; i < plan_.findings.size(); ++i)
      if (!joined_ones.contains(i)) kept.push_back(std::move(plan_.findings[i]));
    plan_.findings = std::move(kept);
  }

  // Not where their edits are in each other's way.
  bool join_to_first(const std::vector<std::size_t>& members) {
    CodeFinding& first = plan_.findings[members.front()];
    std::vector<Way> ways = first.ways;
    for (std::size_t way = 0; way < ways.size(); ++way)
      for (std::size_t file = 0; file < ways[way].files.size(); ++file) {
        std::vector<Edit>& edits = ways[way].files[file].edits;
        for (std::size_t i = 1; i < members.size(); ++i) {
          const auto& more = plan_.findings[members[i]].ways[way].files[file].edits;
          edits.insert(edits.end(), more.begin(), more.end());
        }
        edits = in_order(std::move(edits));
        if (overlap(edits)) return false;
      }
    first.ways = std::move(ways);
    std::vector<int> lines;
    for (std::size_t i = 1; i < members.size(); ++i) {
      const Place& place = plan_.findings[members[i]].where.front();
      first.where.push_back(place);
      lines.push_back(line_of(place));
    }
    first.reason += same_at(lines);
    return true;
  }

  int line_of(const Place& place) const {
    return line_number(project_.file(place.file).text(), place.from);
  }

  static std::string same_at(const std::vector<int>& lines) {
    constexpr std::size_t kNamed = 5;
    std::vector<std::string> named;
    for (std::size_t i = 0; i < lines.size() && i < kNamed; ++i)
      named.push_back(std::to_string(lines[i]));
    return fmt::format(
        "; the same at line{} {}{}", lines.size() == 1 ? "" : "s", join(named, ", "),
        lines.size() > kNamed ? fmt::format(" and {} more", lines.size() - kNamed) : "");
  }

  void group() {
    std::vector<std::vector<std::size_t>> sets;
    std::map<std::string, std::size_t> position;
    for (std::size_t i = 0; i < plan_.findings.size(); ++i) {
      const std::string& name = plan_.findings[i].group;
      if (name.empty()) {
        sets.push_back({i});
        continue;
      }
      const auto [found, fresh] = position.emplace(name, sets.size());
      if (fresh) sets.emplace_back();
      sets[found->second].push_back(i);
    }
    const std::set<std::size_t> proven = proven_together(sets);
    std::vector<PatchGroup> groups;
    for (const auto& set : sets)
      if (auto group = group_of(set)) groups.push_back(std::move(*group));
    // A proof looks at the patched files anew, which is most of the work, and at nothing that
    // another one changes.
    constexpr std::size_t kProofsWorthThreads = 3;
    std::vector<std::string> objections(groups.size());
    in_parallel(groups.size(), kProofsWorthThreads, [&](std::size_t i) {
      if (!proven.contains(groups[i].findings.front())) objections[i] = proof_against(groups[i]);
    });
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!objections[i].empty()) {
        hold_back(groups[i].findings, groups[i].edits.begin()->first, objections[i]);
        continue;
      }
      groups[i].number = static_cast<int>(plan_.groups.size()) + 1;
      plan_.groups.push_back(std::move(groups[i]));
    }
  }

  // Each proof looks at the whole file again: of very many findings of one kind in a file (five
  // hundred unknown keys took 38 s) all are tried at once, and one by one only where that fails.
  std::set<std::size_t> proven_together(const std::vector<std::vector<std::size_t>>& sets) const {
    constexpr std::size_t kMany = 20;
    std::map<std::pair<FindingCode, FileId>, std::vector<std::size_t>> alike;
    for (const auto& set : sets) {
      const CodeFinding& finding = plan_.findings[set.front()];
      if (set.size() == 1 && !finding.ways.empty() && finding.ways.front().files.size() == 1 &&
          finding.ways.front().files.front().file == finding.where.front().file)
        alike[{finding.code, finding.where.front().file}].push_back(set.front());
    }
    std::set<std::size_t> proven;
    for (const auto& [key, members] : alike) {
      if (members.size() < kMany) continue;
      PatchGroup together;
      together.findings = members;
      std::vector<const Way*> ways;
      for (const std::size_t member : members) ways.push_back(&plan_.findings[member].ways.front());
      together.edits = edits_of(ways);
      const bool clash = std::ranges::any_of(
          together.edits, [](const auto& change) { return overlap(change.second); });
      if (!clash && proof_against(together).empty()) proven.insert(members.begin(), members.end());
    }
    return proven;
  }

  // Nothing: there is nothing to write, or it is held back.
  std::optional<PatchGroup> group_of(const std::vector<std::size_t>& members) {
    PatchGroup group;
    group.findings = members;
    group.safety = FixSafety::safe;
    std::vector<const Way*> ways;
    for (const std::size_t member : members) {
      const CodeFinding& finding = plan_.findings[member];
      const bool has_edit = !finding.ways.empty() && !finding.ways.front().files.empty();
      if (!has_edit) {
        group.safety = FixSafety::manual;
        continue;
      }
      group.safety = std::max(group.safety, finding.ways.front().safety);
      ways.push_back(&finding.ways.front());
    }
    if (ways.empty()) return std::nullopt;
    group.edits = edits_of(ways);
    for (const auto& [file, edits] : group.edits)
      if (overlap(edits)) {
        hold_back(members, file, "its own edits are in each other's way");
        return std::nullopt;
      }
    return group;
  }

  void hold_back(const std::vector<std::size_t>& members, FileId file, const std::string& why) {
    for (const std::size_t member : members)
      if (!plan_.findings[member].ways.empty()) {
        plan_.findings[member].ways.front().files.clear();
        plan_.findings[member].ways.front().safety = FixSafety::manual;
        plan_.findings[member].ways.front().description +=
            fmt::format(", by hand (no patch: {})", why);
      }
    plan_.refusals.push_back({project_.file(file).name(), "a patch was held back: " + why});
  }

  // Applies the group to a copy and looks again: still readable, the findings gone, nothing new.
  // Empty: all is well.
  std::string proof_against(const PatchGroup& group) const {
    std::map<FileId, std::string> texts;
    for (const auto& [file, edits] : group.edits)
      texts[file] = edited(project_.file(file).text(), edits);
    const Project after = project_.with(texts);
    for (const auto& [file, text] : texts)
      if (project_.file(file).tree() != nullptr &&
          (after.file(file).tree() == nullptr ||
           damage_of(after.file(file)) > damage_of(project_.file(file))))
        return fmt::format("{} would no longer be right", after.file(file).name());
    for (const auto& [file, edits] : group.edits)
      if (const std::string name = unset_name(after.file(file), edits); !name.empty())
        return fmt::format("`{}` may have no value where it would stand in {}", name,
                           after.file(file).name());
    const auto touched = [&](const ScriptFacts& script) {
      if (texts.contains(script.code.script)) return true;
      for (const CallAt& call : script.code.all)
        if (texts.contains(call.file)) return true;
      return std::ranges::any_of(script.launches,
                                 [&](const Launch& launch) { return texts.contains(launch.file); });
    };
    std::map<FileId, ScriptFacts> scripts;
    for (const auto& [id, facts] : scripts_) {
      if (!touched(facts)) continue;
      scripts[id] = script_facts(after, id);
      std::set<FileId> lines;
      for (const Launch& launch : facts.launches) lines.insert(launch.file);
      for (const FileId line : lines)
        for (Launch& launch : launches_in(after, line))
          if (launch.script == id) scripts[id].launches.push_back(std::move(launch));
    }
    const RuleInput input{after, wishes_, scripts};
    const auto left = findings_in(
        input, [&](FileId id) { return texts.contains(id); },
        [](const ScriptFacts&) { return true; });
    const auto left_counts = counts_of(left);
    const auto count = [](const std::map<std::pair<FindingCode, FileId>, int>& counts,
                          const CodeFinding& finding) {
      const auto found = counts.find({finding.code, finding.where.front().file});
      return found == counts.end() ? 0 : found->second;
    };
    // a name that is put right shows what its value means for the first time
    bool names_only = true;
    for (const std::size_t member : group.findings) {
      const CodeFinding& finding = plan_.findings[member];
      names_only = names_only && (finding.code == FindingCode::unknown_training_argument ||
                                  finding.code == FindingCode::unknown_accelerate_field);
      if (finding.ways.front().files.empty()) continue;
      if (count(left_counts, finding) >= count(before_, finding))
        return fmt::format("{} would still be found in {}", name_of(finding.code).id,
                           project_.file(finding.where.front().file).name());
    }
    for (const CodeFinding& finding : left)
      if (!names_only && finding.severity != Severity::info &&
          count(left_counts, finding) > count(before_, finding))
        return fmt::format("it would bring {} into {}", name_of(finding.code).id,
                           after.file(finding.where.front().file).name());
    return "";
  }

  const Project& project_;
  const Wishes& wishes_;
  const CodeFilter& filter_;
  std::map<FileId, ScriptFacts> scripts_;
  std::map<std::pair<FindingCode, FileId>, int> before_;
  FixPlan plan_;
};

}  // namespace

FixPlan plan_fixes(const Project& project, const Wishes& wishes, const CodeFilter& filter) {
  return Planner(project, wishes, filter).plan();
}

Patched apply_in_memory(const Project& project, const FixPlan& first_plan, const Wishes& wishes,
                        const CodeFilter& filter, Apply wanted) {
  // a file with this many patches in each other's way is finished by running fix again
  constexpr int kMostPasses = 10;
  Patched result;
  Project current = project;
  FixPlan plan = first_plan;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    std::map<FileId, std::vector<Edit>> edits;
    std::size_t taken = 0;
    for (const PatchGroup& group : plan.groups) {
      if (group.safety == FixSafety::manual ||
          (group.safety == FixSafety::unsafe && wanted == Apply::safe))
        continue;
      std::map<FileId, std::vector<Edit>> together;
      bool clash = false;
      for (const auto& [file, list] : group.edits) {
        std::vector<Edit>& all = together[file];
        if (const auto known = edits.find(file); known != edits.end()) all = known->second;
        const bool first = all.empty();
        all.insert(all.end(), list.begin(), list.end());
        all = in_order(std::move(all));
        clash = clash || overlap(all);
        // Each is right on its own; together they may still give a call the same name twice.
        if (!clash && !first)
          clash = damage_of(SourceFile(current.file(file).with_text(
                      edited(current.file(file).text(), all)))) > damage_of(current.file(file));
      }
      if (clash) continue;  // in the next pass
      for (auto& [file, list] : together) edits[file] = std::move(list);
      ++taken;
    }
    for (const auto& [file, list] : edits)
      result.texts[file] = edited(current.file(file).text(), list);
    result.applied += taken;
    // A patch may make room for the next (pinned memory, then copies that do not wait): until none
    // is left, so that a second run has nothing to do.
    if (taken == 0) break;
    current = project.with(result.texts);
    plan = plan_fixes(current, wishes, filter);
  }
  return result;
}

}  // namespace lockstep
