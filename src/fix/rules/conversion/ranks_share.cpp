// What is shown of a run of several processes: bars of one rank, means over the samples that a rank
// has seen.
#include "fix/rules/conversion/to_ddp.hpp"

namespace lockstep {

std::vector<const PythonCall*> bars_of(const PythonModule& module) {
  std::vector<const PythonCall*> bars;
  for (const PythonCall& call : module.calls()) {
    const bool is_bar = call.full_name.starts_with("tqdm.") &&
                        (call.last_name() == "tqdm" || call.last_name() == "trange");
    if (is_bar && !call.has_splat && call.argument("disable") == nullptr &&
        !call.node.enclosing("class_definition"))
      bars.push_back(&call);
  }
  return bars;
}

// total / len(loader.dataset): a rank's sum is over its own share.
std::vector<Edit> means_over_a_ranks_share(const PythonModule& module, const ScriptFacts& script) {
  std::vector<Edit> edits;
  for (const TrainingLoop& loop : script.loops) {
    const PythonCall& loader = *loop.loaders.front().call;
    const Node dataset = dataset_of(loader);
    for (const PythonAssignment& item : module.assignments()) {
      if (item.value != loader.node || item.element) continue;
      for (const PythonCall& call : module.calls()) {
        const PythonArgument* const of = call.callee == "len" ? call.positional(0) : nullptr;
        const bool is_the_whole =
            of != nullptr && (of->value.text() == item.target + ".dataset" ||
                              (dataset.is("identifier") && of->value.text() == dataset.text()));
        const Node quotient = call.node.parent();
        const bool divides = quotient.is("binary_operator") &&
                             quotient.field("right") == call.node &&
                             quotient.field("operator").text() == "/";
        if (is_the_whole && divides &&
            (!item.function || function_around(call.node) == item.function))
          edits.push_back({of->value.from(), of->value.to(), item.target + ".sampler"});
      }
    }
  }
  return edits;
}

}  // namespace lockstep
