// Finds an accumulation that the number of ranks does not divide.
//
// Why it matters: scripts that keep the global batch divide the passes among the ranks:
// `accumulation //= world_size`. 4 passes on 3 ranks are 1 each: three of four, and a global batch
// that is a quarter smaller than written; nanoGPT asserts, and ends.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// 5 * 8, as nanoGPT writes it.
std::optional<double> product_of(Node node) {
  while (node.is("parenthesized_expression")) node = node.child(0);
  if (const auto number = number_value(node)) return number;
  if (!node.is("binary_operator") || node.field("operator").text() != "*") return std::nullopt;
  const auto left = product_of(node.field("left"));
  const auto right = product_of(node.field("right"));
  return left && right ? std::optional(*left * *right) : std::nullopt;
}

}  // namespace

void divisible_accumulation(const RuleInput& input, const ScriptFacts& script,
                            std::vector<CodeFinding>& findings) {
  std::optional<int> ranks;
  for (const Launch& launch : script.launches)
    if (launch.is_distributed() && launch.processes && !option_among(launch.options, {"--nnodes"}))
      ranks = launch.processes;
  if (!ranks || script.loops.empty()) return;
  const auto files = files_of(script);
  for (const FileId file : files) {
    const PythonModule& module = module_of(input, file);
    for (const Node& item : module.tree().root().descendants("augmented_assignment")) {
      if (item.field("operator").text() != "//=" ||
          item.field("right").text().find("world_size") == std::string_view::npos)
        continue;
      const auto passes = product_of(module.only_value_of(item.field("left").text()));
      if (!passes || *passes < 1 || std::fmod(*passes, *ranks) == 0) continue;
      const double share = std::floor(*passes / *ranks);
      propose({.code = FindingCode::accumulation_not_divisible,
               .confidence = 0.9,
               .where = {place_of(file, item)},
               .reason = fmt::format(
                   "{} = {:.0f} is divided among {} ranks: {:.0f} passes on each, {:.0f} in all",
                   item.field("left").text(), *passes, *ranks, share, share * *ranks),
               .description =
                   fmt::format("use {:.0f} passes, or a number of ranks that divides {:.0f}",
                               std::max(1.0, std::round(*passes / *ranks)) * *ranks, *passes),
               .effect = "the global batch is the one that is written",
               .changes = "the global batch"},
              findings);
    }
  }
}

}  // namespace lockstep
