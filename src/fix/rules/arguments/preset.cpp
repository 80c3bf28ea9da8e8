// The published presets, whole: what people were told to set, with the global batch kept as it is.
//
// standard: batch 4, accumulation 2, logging every 5 steps; fast: batch 8, accumulation 1, logging
// every 10; both: 4 workers, pinned memory, no search for unused parameters, one checkpoint kept.
// Only on request (--preset): a preset is a starting point, not a finding.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

struct Values {
  double batch;
  double accumulation;
  double logging;
};

void check_preset(const RuleInput& input, const TrainingSettings& settings,
                  std::vector<CodeFinding>& findings) {
  if (settings.kind == SettingsKind::axolotl || settings.arguments.is_open()) return;
  const bool fast = input.wishes.preset == Preset::fast;
  const Values values = fast ? Values{8, 1, 10} : Values{4, 2, 5};
  const ArgumentSet& arguments = settings.arguments;
  const std::string& text = input.project.file(settings.file).text();
  const double batch = arguments.number("per_device_train_batch_size").value_or(8);
  const double accumulation = arguments.number("gradient_accumulation_steps").value_or(1);
  const bool known = (!arguments.has("per_device_train_batch_size") ||
                      arguments.number("per_device_train_batch_size")) &&
                     (!arguments.has("gradient_accumulation_steps") ||
                      arguments.number("gradient_accumulation_steps"));
  // The preset's own batch where it gives the same product, else its batch with the accumulation
  // that does.
  const double product = batch * accumulation;
  const bool divides = std::fmod(product, values.batch) == 0;
  const double new_batch = known && divides ? values.batch : batch;
  const double new_accumulation = known && divides ? product / values.batch : accumulation;
  std::vector<Edit> edits;
  const auto set = [&](const char* name, const std::string& value) {
    if (arguments.says(name, value)) return;
    for (Edit& edit : arguments.set(text, name, value)) edits.push_back(std::move(edit));
  };
  if (known) {
    set("per_device_train_batch_size", fmt::format("{:.0f}", new_batch));
    set("gradient_accumulation_steps", fmt::format("{:.0f}", new_accumulation));
  }
  set("logging_steps", fmt::format("{:.0f}", values.logging));
  set("dataloader_num_workers", "4");
  set("dataloader_pin_memory", "True");
  set("ddp_find_unused_parameters", "False");
  set("save_total_limit", "1");
  if (edits.empty()) return;
  CodeFinding finding;
  finding.code = FindingCode::batch_too_small;
  finding.severity = Severity::info;
  finding.reason = fmt::format(
      "the published preset '{}', as asked for: batch {:.0f} x accumulation {:.0f}, as {:.0f} x "
      "{:.0f} before",
      fast ? "fast" : "standard", new_batch, new_accumulation, batch, accumulation);
  finding.where = {place_in(settings, "per_device_train_batch_size")};
  Way way;
  way.safety = FixSafety::unsafe;
  way.description = fmt::format("set the preset '{}' whole", fast ? "fast" : "standard");
  way.effect = "fewer, larger micro-steps, fewer logs, batches made ahead";
  way.changes = known && divides
                    ? "the global batch is the same; old checkpoints but the last are deleted"
                    : "the batch stays as it is, for it is not a multiple of the preset's; old "
                      "checkpoints but the last are deleted";
  way.files.push_back({settings.file, in_order(std::move(edits))});
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

}  // namespace

void preset_of_script(const RuleInput& input, const ScriptFacts& script,
                      std::vector<CodeFinding>& findings) {
  if (input.wishes.preset != Preset::none) for_settings_of(input, script, findings, check_preset);
}
void preset_of_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  if (input.wishes.preset != Preset::none) for_settings_in(input, file, findings, check_preset);
}

}  // namespace lockstep
