// Finds checkpoints every few steps.
//
// Why it costs: while rank 0 writes weights and optimizer state (16 bytes a parameter: 2 GB for a
// model of 124 M) all ranks wait. Once in 500 steps nobody notices; every few steps it is most of
// the run. save_total_limit is a matter of disk space: old checkpoints are deleted, no fewer are
// written.
//
// Silent for short runs. Shown only, where load_best_model_at_end ties saving to evaluation.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

constexpr double kTooOften = 20;
constexpr double kShortRun = 500;

void check_saving_arguments(const RuleInput& input, const TrainingSettings& settings,
                            std::vector<CodeFinding>& findings) {
  const ArgumentSet& arguments = settings.arguments;
  const auto steps = arguments.number("save_steps");
  if (!steps || *steps < 1 || *steps > kTooOften) return;
  if (const auto strategy = arguments.word("save_strategy"); strategy && *strategy != "steps")
    return;
  if (const auto most = arguments.number("max_steps"); most && *most > 0 && *most <= kShortRun)
    return;
  // it may end before the 500th
  const bool length_unknown = arguments.has("max_steps") && !arguments.number("max_steps");
  const bool tied = length_unknown || arguments.truth("load_best_model_at_end") == true ||
                    arguments.has("metric_for_best_model");
  const double rarer = std::max(100.0, 10 * *steps);
  propose(input, settings,
          {.code = FindingCode::checkpoint_stall,
           .safety = tied ? FixSafety::manual : FixSafety::unsafe,
           .name = "save_steps",
           .value = fmt::format("{:.0f}", rarer),
           .reason = fmt::format("save_steps={:.0f}: all ranks wait while a checkpoint is written, "
                                 "every {:.0f} steps (save_total_limit does not change that)",
                                 *steps, *steps),
           .description =
               length_unknown ? "save less often, as far as max_steps lets you"
               : tied ? fmt::format("save every {:.0f} steps; load_best_model_at_end needs a "
                                    "multiple of eval_steps",
                                    rarer)
                      : fmt::format("save every {:.0f} steps (Trainer's default is 500)", rarer),
           .effect = "fewer pauses",
           .changes = fmt::format("after a crash up to {:.0f} steps are done again", rarer)},
          findings);
}

}  // namespace

void saving_of_script(const RuleInput& input, const ScriptFacts& script,
                      std::vector<CodeFinding>& findings) {
  for_settings_of(input, script, findings, check_saving_arguments);
}
void saving_of_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for_settings_in(input, file, findings, check_saving_arguments);
}

}  // namespace lockstep
