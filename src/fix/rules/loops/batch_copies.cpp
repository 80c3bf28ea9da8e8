// Finds copies of pinned batches that the host waits for.
//
// Why it costs: `.to(device)` of a pinned tensor still waits for the copy unless non_blocking=True
// is said; with it the copy joins the GPU's queue, and everything after it on the same stream comes
// after it: the meaning is the same.
//
// Only for names that the loop's batch brings, from a loader with pin_memory=True, on their way to
// a GPU: from the GPU back, non_blocking would give values that are not there yet.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loader_proofs.hpp"

namespace lockstep {
namespace {

bool is_pinned(const TrainingLoop& loop) {
  return !loop.loaders.empty() && std::ranges::all_of(loop.loaders, [](const CallAt& loader) {
    const PythonArgument* const pin = loader.call->argument("pin_memory");
    // pin_memory=True if use_cuda else False
    return pin != nullptr && (bool_value(pin->value) == true ||
                              (pin->value.is("conditional_expression") &&
                               pin->value.text().find("cuda") != std::string_view::npos));
  });
}

}  // namespace

void batch_copies(const RuleInput& input, const ScriptFacts& script,
                  std::vector<CodeFinding>& findings) {
  for (const TrainingLoop& loop : script.loops) {
    if (!is_pinned(loop)) continue;
    std::vector<Edit> edits;
    std::vector<Place> where;
    for (const PythonCall* const call : waiting_copies(input, script, loop)) {
      for (Edit& edit :
           ArgumentSet::of_call(*call).set(text_of(input, loop.file), "non_blocking", "True"))
        edits.push_back(std::move(edit));
      where.push_back(place_of(loop.file, call->node));
    }
    if (where.empty()) continue;
    propose(
        {.code = FindingCode::pageable_copies,
         .severity = Severity::info,
         .safety =
             copies_are_the_last_use(input, script, loop) ? FixSafety::safe : FixSafety::unsafe,
         .confidence = 0.85,
         .where = where,
         .reason = fmt::format(
             "the batch is pinned, and {} it to the GPU still make{} the host wait for each",
             where.size() == 1 ? "the copy of" : "the copies of", where.size() == 1 ? "s" : ""),
         .description = "copy with non_blocking=True",
         .effect = "the host goes on while the batch travels",
         .changes = "nothing in the numbers: what follows on the GPU's stream waits for the copy",
         .files = {{loop.file, std::move(edits)}}},
        findings);
  }
}

}  // namespace lockstep
