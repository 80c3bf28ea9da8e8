// Finds launchers that start more or fewer processes than there are GPUs for them.
//
// Why it matters: a rank without a GPU of its own ends with "invalid device ordinal", or shares
// one; a GPU without a rank is idle. Both numbers must be written: CUDA_VISIBLE_DEVICES (or what
// the job asks for) and the launcher's count.
//
// Fewer processes are shown only: the other GPUs may be meant for something else.
#include <fmt/format.h>

#include "base/text.hpp"
#include "fix/rule.hpp"

namespace lockstep {
namespace {

// Where the count is written: the value's own digits.
std::optional<Edit> count_edit(const Launch& launch, int count) {
  for (std::size_t i = launch.first_word; i < launch.script_word; ++i) {
    const CommandWord& word = launch.line->words[i];
    const auto equals = word.raw.find('=');
    const std::string_view name = std::string_view(word.raw).substr(0, equals);
    if (name != "--nproc_per_node" && name != "--nproc-per-node" && name != "--num_processes" &&
        name != "--num-processes")
      continue;
    if (equals != std::string::npos)
      return parse_unsigned(std::string_view(word.raw).substr(equals + 1))
                 ? std::optional(Edit{word.from + equals + 1, word.to, std::to_string(count)})
                 : std::nullopt;
    if (i + 1 < launch.script_word && parse_unsigned(launch.line->words[i + 1].raw))
      return Edit{launch.line->words[i + 1].from, launch.line->words[i + 1].to,
                  std::to_string(count)};
  }
  return std::nullopt;
}

}  // namespace

void launcher_counts(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for (const Launch& launch : launches_in(input.project, file)) {
    const bool one_machine =
        launch.launcher == Launcher::torchrun || launch.launcher == Launcher::accelerate;
    const auto machines = option_among(launch.options, {"--nnodes", "--num_machines"});
    if (!one_machine || launch.line->style != WordStyle::shell || !launch.processes ||
        launch.under_srun || (machines && *machines != "1"))
      continue;
    const VisibleGpus visible = visible_gpus(input.project, launch);
    if (!visible.count || *visible.count < 1 || *visible.count == *launch.processes ||
        !visible.from.starts_with("CUDA_VISIBLE_DEVICES"))
      continue;
    const bool more = *launch.processes > *visible.count;
    // A job that asks SLURM for as many GPUs as it starts processes: then the mask is the mistake.
    const auto asked =
        sbatch_value(input.project.file(file).text(), {"--gres", "--gpus", "--gpus-per-node"});
    const bool job_agrees = asked && asked->ends_with(std::to_string(*launch.processes));
    const auto edit = count_edit(launch, *visible.count);
    if (!edit) continue;
    CodeFinding finding;
    finding.code = more ? FindingCode::more_ranks_than_gpus : FindingCode::idle_gpus;
    finding.severity = more ? Severity::critical : Severity::info;
    finding.reason = fmt::format("{} processes for the {} GPU{} of {}", *launch.processes,
                                 *visible.count, *visible.count == 1 ? "" : "s", visible.from);
    finding.where = {{file, launch.line->words[launch.first_word].from,
                      launch.line->words[launch.script_word].to}};
    Way way;
    way.safety = more && !job_agrees ? FixSafety::unsafe : FixSafety::manual;
    way.description =
        fmt::format("start {} process{}{}", *visible.count, *visible.count == 1 ? "" : "es",
                    job_agrees ? ", or let all GPUs of the job be visible" : "");
    way.effect = more ? "each rank has a GPU" : "all GPUs that are visible work";
    way.changes = "the global batch goes with the number of processes";
    way.files.push_back({file, {*edit}});
    finding.ways.push_back(std::move(way));
    findings.push_back(std::move(finding));
  }
}

}  // namespace lockstep
