// Finds DeepSpeed settings that make every step wait.
//
// Why it costs: wall_clock_breakdown times forward, backward and step with device synchronizations
// around each; it is a tool for an afternoon. steps_per_print: 1 writes a line, and reads the loss
// scale and the throughput, in every step.
#include "fix/rule.hpp"
#include "fix/settings/training_settings.hpp"

namespace lockstep {
namespace {

bool is_deepspeed(const ArgumentSet& set) {
  return set.has("zero_optimization") ||
         (set.has("train_micro_batch_size_per_gpu") &&
          (set.has("optimizer") || set.has("fp16") || set.has("bf16") ||
           set.has("gradient_accumulation_steps")));
}

void propose(const RuleInput& input, FileId file, const ArgumentSet& set, const char* name,
             FindingCode code, const char* value, const char* reason, const char* effect,
             std::vector<CodeFinding>& findings) {
  CodeFinding finding;
  finding.code = code;
  finding.reason = reason;
  finding.where = {place_of(file, set.find(name)->whole)};
  Way way;
  way.safety = FixSafety::unsafe;
  way.description = std::string(name) + " becomes " + value;
  way.effect = effect;
  way.changes = "what is printed; the training itself is the same";
  way.files.push_back({file, set.set(input.project.file(file).text(), name, value)});
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

}  // namespace

void deepspeed_config(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  const SourceFile& source = input.project.file(file);
  if (source.kind() != FileKind::json ||
      (source.text().find("zero_optimization") == std::string::npos &&
       source.text().find("train_micro_batch_size_per_gpu") == std::string::npos))
    return;
  if (source.tree() == nullptr) return;
  const Node top = source.tree()->root().child(0);
  if (!top.is("object")) return;
  const ArgumentSet set = ArgumentSet::of_json(top);
  if (!is_deepspeed(set)) return;
  if (set.truth("wall_clock_breakdown") == true)
    propose(
        input, file, set, "wall_clock_breakdown", FindingCode::host_sync_every_step, "False",
        "wall_clock_breakdown waits for the GPU around forward, backward and step, in every step",
        "no waits but the step's own", findings);
  if (set.number("steps_per_print") == 1)
    propose(input, file, set, "steps_per_print", FindingCode::logging_too_often, "100",
            "steps_per_print: 1 reports in every step", "one report in a hundred steps", findings);
}

}  // namespace lockstep
