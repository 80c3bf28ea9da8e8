// Finds attention that is computed piece by piece. Shown only, and not where Gemma is spoken of:
// Gemma 2 and 3 are trained so on purpose.
//
// Why it costs: attn_implementation="eager" multiplies, masks, takes the softmax and multiplies
// again as kernels of their own, and stores the whole T x T matrix in between; "sdpa"
// (Transformers' default where a model has it) and "flash_attention_2" do it in one kernel.
#include "fix/rule.hpp"

namespace lockstep {

void attention(const RuleInput& input, const ScriptFacts& script,
               std::vector<CodeFinding>& findings) {
  if (!script.code.trains()) return;
  for (const std::size_t position : script.code.trained_loads) {
    const CallAt& load = script.code.loads[position];
    const PythonArgument* const chosen = load.call->argument("attn_implementation");
    if (chosen == nullptr || string_value(chosen->value) != "eager") continue;
    const std::string& text = input.project.file(load.file).text();
    if (text.find("gemma") != std::string::npos || text.find("Gemma") != std::string::npos)
      continue;
    CodeFinding finding;
    finding.code = FindingCode::launch_bound;
    finding.severity = Severity::info;
    finding.confidence = 0.6;
    finding.reason =
        "attn_implementation=\"eager\" computes attention in several kernels and stores the whole "
        "matrix between them";
    finding.where = {place_of(load.file, chosen->whole)};
    Way way;
    way.description =
        "use the fused kernel, unless the model asks for eager attention in training (Gemma 2 and "
        "3 do)";
    way.effect = "less memory and fewer kernels, more so for long texts";
    way.changes = "the loss within rounding";
    way.files.push_back({load.file,
                         {{chosen->value.from(), chosen->value.to(),
                           chosen->value.text().starts_with('\'') ? "'sdpa'" : "\"sdpa\""}}});
    finding.ways.push_back(std::move(way));
    findings.push_back(std::move(finding));
  }
}

}  // namespace lockstep
