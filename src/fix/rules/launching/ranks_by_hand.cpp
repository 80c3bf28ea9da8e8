// Finds ranks that a shell script starts one by one without saying where they are to meet.
//
// Why it matters: init_process_group reads MASTER_ADDR and MASTER_PORT beside RANK and WORLD_SIZE,
// and ends with "environment variable MASTER_ADDR expected, but not set" where they are missing.
// torchrun sets all of them, and ends the other ranks when one fails.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rule.hpp"

namespace lockstep {
namespace {

bool names_a_rank_by_hand(const Launch& launch) {
  const auto& set = launch.line->environment;
  return launch.launcher == Launcher::python && set.contains("WORLD_SIZE") &&
         set.contains("RANK") && !set.contains("MASTER_ADDR");
}

// Whether the ranks are told of a meeting point in another way: by the code, or by an init_method.
bool meets_elsewhere(const Project& project, const ScriptFacts& script) {
  const auto speaks_of_it = [&](FileId file) {
    return project.file(file).text().find("MASTER_ADDR") != std::string::npos;
  };
  return speaks_of_it(script.code.script) ||
         std::ranges::any_of(script.code.joins, [&](const CallAt& join) {
           const PythonArgument* const method = join.call->argument("init_method");
           return (method != nullptr && string_value(method->value) != "env://") ||
                  join.call->argument("store") != nullptr || speaks_of_it(join.file);
         });
}

}  // namespace

void ranks_by_hand(const RuleInput& input, const ScriptFacts& script,
                   std::vector<CodeFinding>& findings) {
  if (!script.code.trains() || !script.code.starts_itself.empty() ||
      meets_elsewhere(input.project, script))
    return;
  std::vector<const Launch*> ranks;
  for (const Launch& launch : script.launches)
    if (names_a_rank_by_hand(launch) && (ranks.empty() || ranks.front()->file == launch.file))
      ranks.push_back(&launch);
  if (ranks.empty()) return;
  CodeFinding finding;
  finding.code = FindingCode::world_size_not_set;
  finding.severity = Severity::critical;
  finding.reason = fmt::format(
      "{} started by hand with RANK and WORLD_SIZE, and without MASTER_ADDR and MASTER_PORT: "
      "init_process_group ends with \"environment variable MASTER_ADDR expected, but not set\"",
      ranks.size() == 1 ? "a rank is" : "ranks are");
  for (const Launch* const rank : ranks)
    finding.where.push_back({rank->file, rank->line->words[rank->first_word].from,
                             rank->line->words[rank->script_word].to});
  Way way;
  way.kind = FixKind::command;
  way.description =
      "one line in the place of these; or export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 before "
      "them";
  way.effect = "the ranks meet, and end together when one fails";
  way.command = {"torchrun", "--standalone",
                 ranks.size() == 1 ? std::string("--nproc_per_node=gpu")
                                   : fmt::format("--nproc_per_node={}", ranks.size()),
                 input.project.file(script.code.script).name()};
  const auto words = ranks.front()->arguments();
  way.command.insert(way.command.end(), words.begin(), words.end());
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

}  // namespace lockstep
