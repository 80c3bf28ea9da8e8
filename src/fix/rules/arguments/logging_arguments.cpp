// Finds logging in every step.
//
// Why it costs: to log a loss is to wait for it. Trainer's logging gathers the loss over all ranks
// and calls .item(), which stops the host until the GPU has caught up, and the GPU then waits for
// the host's next kernels. Beside it, logging_nan_inf_filter (on by default) asks `isnan(loss) or
// isinf(loss)` in every micro-step, two more waits (trainer.py 5.22.2:1892, 2229).
//
// Silent for runs of few steps, where nobody waits, where logging goes by epochs, where steps
// generate text (seconds each), and where axolotl's watchdog counts logged losses. TRL's trainers
// read their own metrics in each step, whatever the filter.
#include <algorithm>

#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

constexpr double kTooFewStepsToLogLess = 200;  // a second of logging in all

// Any but Transformers' own: TRL's and the project's may read metrics back in each step.
bool has_its_own_trainer(const ScriptFacts& script) {
  return std::ranges::any_of(script.code.trainers, [](const CallAt& trainer) {
    return !trainer.call->full_name.starts_with("transformers.");
  });
}

void check_logging_arguments(const RuleInput& input, const TrainingSettings& settings,
                             std::vector<CodeFinding>& findings) {
  const ArgumentSet& arguments = settings.arguments;
  if (const auto steps = arguments.number("max_steps");
      steps && *steps > 0 && *steps <= kTooFewStepsToLogLess)
    return;
  if (arguments.has("logging_strategy") && arguments.word("logging_strategy") != "steps") return;
  if (generates(settings.owner) || arguments.has("loss_watchdog_threshold") ||
      arguments.has("num_generations"))
    return;
  const bool own_trainer = settings.script == nullptr || has_its_own_trainer(*settings.script);
  const bool every_step = arguments.number("logging_steps") == 1;
  const bool acts_on_logs =
      settings.script != nullptr &&
      input.project.file(settings.script->code.script).text().find("def on_log") !=
          std::string::npos;
  if (every_step)
    propose(input, settings,
            {.code = FindingCode::logging_too_often,
             // a callback may count on each of them
             .safety = acts_on_logs ? FixSafety::manual : FixSafety::unsafe,
             .name = "logging_steps",
             .value = "10",
             .reason = "logging_steps=1 reads the loss back in every step, from all ranks where "
                       "there are several, and the host waits for it",
             .description = "log every 10 steps",
             .effect = own_trainer ? "less to gather and to write; what else the trainer reads "
                                     "back in each step stays"
                                   : "one wait in ten steps instead of one a step",
             .changes = "the logged loss is the mean of 10 steps; the training itself is the same"},
            findings);
  const bool filter_asked = arguments.truth("logging_nan_inf_filter") == true;
  if (own_trainer && settings.script != nullptr) return;
  if (!filter_asked &&
      !(every_step && !arguments.has("logging_nan_inf_filter") &&
        settings.kind != SettingsKind::axolotl && settings.kind != SettingsKind::llama_factory))
    return;
  propose(input, settings,
          {.code = FindingCode::host_sync_every_step,
           .name = "logging_nan_inf_filter",
           .value = "False",
           .reason = "logging_nan_inf_filter asks the GPU twice in every micro-step whether the "
                     "loss is a number, and waits for the answers",
           .description = "do not filter the logged loss",
           .effect = "the host runs ahead of the GPU between logs",
           .changes = "a step whose loss is nan or inf shows as such in the log; the training "
                      "itself is the same"},
          findings);
}

}  // namespace

void logging_of_script(const RuleInput& input, const ScriptFacts& script,
                       std::vector<CodeFinding>& findings) {
  for_settings_of(input, script, findings, check_logging_arguments);
}
void logging_of_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for_settings_in(input, file, findings, check_logging_arguments);
}

}  // namespace lockstep
