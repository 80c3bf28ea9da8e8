// Finds DDP options that cost without need.
//
// Why it costs: find_unused_parameters walks the whole autograd graph after every forward pass to
// look for parameters without a gradient. Trainer asks for it by default (trainer.py 5.22.2:749)
// unless gradient checkpointing is on. A model whose parameters all take part, as most do, needs it
// not; one where some do not fails at once and says so.
//
// Shown and not applied: whether every parameter takes part is not in the code, and who asks for it
// may have had to.
//
// ddp_bucket_cap_mb=25 is DDP's own default: it is said, not changed.
#include <fmt/format.h>

#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

void check_ddp_arguments(const RuleInput& input, const TrainingSettings& settings,
                         std::vector<CodeFinding>& findings) {
  const ArgumentSet& arguments = settings.arguments;
  const bool asked = arguments.truth("ddp_find_unused_parameters") == true;
  const bool by_default =
      !arguments.has("ddp_find_unused_parameters") && settings.script != nullptr &&
      settings.script->is_launched_distributed() &&
      arguments.truth("gradient_checkpointing") != true && !arguments.has("deepspeed") &&
      !arguments.has("fsdp") && !is_sharded_by_launch(input.project, *settings.script);
  if (asked || by_default)
    propose(
        input, settings,
        {.code = FindingCode::find_unused_parameters,
         .severity = asked ? Severity::warning : Severity::info,
         .safety = FixSafety::manual,  // for all we know it is needed
         .name = "ddp_find_unused_parameters",
         .value = "False",
         .reason =
             asked
                 ? "ddp_find_unused_parameters=True walks the whole graph after every forward pass"
                 : "ddp_find_unused_parameters is not set, and Trainer then asks DDP to walk the "
                   "whole graph after every forward pass",
         .description = "do not look for unused parameters",
         .effect = "no walk over the graph in each step",
         .changes = "where a parameter gets no gradient DDP ends with an error that names this "
                    "option; set it back then"},
        findings);
  if (const auto cap = arguments.number("ddp_bucket_cap_mb"); cap == 25) {
    CodeFinding finding;
    finding.code = FindingCode::exposed_collectives;
    finding.severity = Severity::info;
    finding.confidence = 0.5;
    finding.reason = "ddp_bucket_cap_mb=25 is DDP's default: the line changes nothing";
    finding.where = {place_in(settings, "ddp_bucket_cap_mb")};
    Way way;
    way.kind = FixKind::advice;
    way.description =
        "leave it or take it away; larger buckets (50-100) help where links are slow and the model "
        "is large, and only a measurement tells";
    finding.ways.push_back(std::move(way));
    findings.push_back(std::move(finding));
  }
}

}  // namespace

void ddp_of_script(const RuleInput& input, const ScriptFacts& script,
                   std::vector<CodeFinding>& findings) {
  for_settings_of(input, script, findings, check_ddp_arguments);
}
void ddp_of_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for_settings_in(input, file, findings, check_ddp_arguments);
}

}  // namespace lockstep
