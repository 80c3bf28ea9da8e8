// Finds settings for finding faults, or for machines of another kind, that were left on.
//
// Why it costs: CUDA_LAUNCH_BLOCKING=1 makes the host wait for every kernel;
// TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective with another one; detect_anomaly walks the
// graph twice; NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 send what could go from GPU to GPU over
// the host.
//
// What is for finding faults is taken away (unsafe: somebody may be at it). Whether P2P works on
// the machine is not in the code: shown only.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

struct Harm {
  std::string_view name;
  std::string_view value;
  std::string_view why;
  bool for_faults;  // meant for finding faults: nothing is lost without it
};

constexpr std::array kHarms = {
    Harm{"CUDA_LAUNCH_BLOCKING", "1", "the host waits for every kernel", true},
    Harm{"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked by another one", true},
    Harm{"NCCL_P2P_DISABLE", "1",
         "GPUs that can reach each other talk over the host's memory instead", false},
    Harm{"NCCL_SHM_DISABLE", "1", "ranks of one machine talk over the network", false},
    Harm{"NCCL_IB_DISABLE", "1", "machines with InfiniBand talk over Ethernet", false},
};

const Harm* harm_of(std::string_view name, std::string_view value) {
  const auto found = std::ranges::find_if(
      kHarms, [&](const Harm& harm) { return harm.name == name && harm.value == value; });
  return found == kHarms.end() ? nullptr : &*found;
}

void tell(const Harm& harm, Place where, std::vector<Change> files,
          std::vector<CodeFinding>& findings) {
  propose({.code = FindingCode::harmful_environment,
           .confidence = harm.for_faults ? 0.9 : 0.5,
           .where = {where},
           .reason = fmt::format("{}={}: {}", harm.name, harm.value, harm.why),
           .description = harm.for_faults
                              ? fmt::format("take {} away once the fault is found", harm.name)
                              : fmt::format("take {} away where the hardware can do without "
                                            "(`lockstep doctor`, `nvidia-smi topo -p2p r`)",
                                            harm.name),
           .effect = harm.for_faults ? "kernels are queued ahead again"
                                     : "the fastest way between the GPUs is used",
           .changes = harm.for_faults ? "errors are reported later than where they happen"
                                      : "on machines where it was needed the run may hang",
           .files = std::move(files)},
          findings);
}

}  // namespace

void environment_of_script(const RuleInput& input, const ScriptFacts& script,
                           std::vector<CodeFinding>& findings) {
  const auto files = files_of(script);
  for (const FileId file : files) {
    const PythonModule& module = module_of(input, file);
    for (const PythonAssignment& item : module.assignments()) {
      if (!item.target.starts_with("os.environ[\"") || condition_around(item.statement)) continue;
      const Harm* const harm = harm_of(item.target.substr(12, item.target.size() - 14),
                                       string_value(item.value).value_or(""));
      if (harm == nullptr) continue;
      std::vector<Change> change;
      if (harm->for_faults)
        change.push_back({file, take_away(text_of(input, file), statement_of(item.statement))});
      tell(*harm, place_of(file, item.statement), std::move(change), findings);
    }
  }
  for (const CallAt& item : script.code.all) {
    const bool anomaly = item.call->full_name == "torch.autograd.set_detect_anomaly" &&
                         item.call->positional(0) != nullptr &&
                         bool_value(item.call->positional(0)->value) == true;
    const Node statement = statement_of(item.call->node);
    if (!anomaly || !statement.is("expression_statement") || condition_around(item.call->node))
      continue;
    propose({.code = FindingCode::harmful_environment,
             .confidence = 0.9,
             .where = {place_of(item.file, item.call->node)},
             .reason = "anomaly detection walks the graph with a trace of every operation: for "
                       "finding faults, not for training",
             .description = "take it away once the fault is found",
             .effect = "backward at its own speed",
             .changes = "a NaN no longer ends the run where it comes up",
             .files = {{item.file, take_away(text_of(input, item.file), statement)}}},
            findings);
  }
}

// export NCCL_P2P_DISABLE=1, and NAME=value before a command that trains.
void environment_of_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  const SourceFile& source = input.project.file(file);
  if (source.kind() != FileKind::shell || source.tree() == nullptr ||
      launches_in(input.project, file).empty())
    return;
  for (const Node& item : source.tree()->root().descendants("variable_assignment")) {
    const std::string_view name = item.field("name").text();
    std::string_view value = trim(item.field("value").text());
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\''))
      value = value.substr(1, value.size() - 2);
    const Harm* const harm = harm_of(name, value);
    if (harm == nullptr) continue;
    const Node statement = item.parent();
    const std::string_view text = source.text();
    std::vector<Edit> edits;
    if (harm->for_faults && statement.is("declaration_command") &&
        statement.children().size() == 1) {
      const std::size_t from = line_start(text, statement.from());
      const std::size_t to = line_end(text, statement.to());
      if (trim(text.substr(from, to - from)) == statement.text() &&
          !statement.enclosing("if_statement"))
        edits.push_back({from, to, ""});
    } else if (harm->for_faults && statement.is("command")) {
      std::size_t to = item.to();
      while (to < text.size() && text[to] == ' ') ++to;
      if (to < text.size() && text[to] != '\\' && text[to] != '\n')
        edits.push_back({item.from(), to, ""});
    }
    tell(*harm, place_of(file, item), {{file, std::move(edits)}}, findings);
  }
}

}  // namespace lockstep
