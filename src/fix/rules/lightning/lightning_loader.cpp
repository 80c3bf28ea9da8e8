// Finds the loaders of Lightning modules that make batches between the steps, or in memory that the
// GPU cannot read by itself.
//
// Why it costs: as in a loop written by hand. Lightning copies each batch with non_blocking=True,
// which does nothing for memory that is not pinned.
//
// Silent for streamed datasets, for data that is in memory as tensors, and where the number comes
// from elsewhere.
#include "fix/facts/lightning_code.hpp"
#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// Its dataset is one of tensors that are there: nothing is to be made.
bool is_of_tensors(const PythonModule& module, const PythonCall& loader) {
  Node dataset = dataset_of(loader);
  if (dataset.is("identifier") || dataset.is("attribute"))
    if (const Node value = module.only_value_of(dataset.text())) dataset = value;
  return dataset.text().find("TensorDataset") != std::string_view::npos;
}

}  // namespace

void lightning_loader(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  const std::string_view text = text_of(input, file);
  if (text.find("IterableDataset") != std::string_view::npos ||
      text.find("\"mps\"") != std::string_view::npos || !has_a_lightning_trainer(input.project))
    return;
  const PythonModule& module = module_of(input, file);
  for (const PythonCall* const loader : lightning_loaders(module)) {
    const ArgumentSet arguments = ArgumentSet::of_call(*loader);
    if (arguments.is_open() || is_of_tensors(module, *loader)) continue;
    const Place place = place_of(file, loader->node);
    const Setting* const workers = arguments.find("num_workers");
    const bool by_position = loader->positional(5) != nullptr;
    if (!by_position && (workers == nullptr || workers->number == 0))
      propose({.code = FindingCode::loader_without_workers,
               .where = {place},
               .reason = workers != nullptr
                             ? "num_workers=0: the training process makes each batch itself, and "
                               "its GPU waits meanwhile"
                             : "num_workers is not set and 0 by default: the training process "
                               "makes each batch itself, and its GPU waits meanwhile",
               .description = "let 4 workers per rank make the batches ahead",
               .effect = "batches are ready when the step is; nothing is gained where a batch is "
                         "made in less time than a step takes",
               .changes = "random transforms draw from each worker's own generator; 4 more "
                          "processes a rank, with their memory",
               .files = {{file, arguments.set(text, "num_workers", "4")}}},
              findings);
    const Setting* const pinned = arguments.find("pin_memory");
    if (loader->positional(7) == nullptr && (pinned == nullptr || pinned->truth == false))
      propose({.code = FindingCode::pageable_copies,
               .where = {place},
               .reason = "pin_memory is off: every copy to the GPU goes through a staging buffer, "
                         "and the host waits for it",
               .description = "keep batches in pinned memory",
               .effect = "the host goes on while the batch travels",
               .changes = "some host memory is locked; the numbers are the same",
               .files = {{file, arguments.set(text, "pin_memory", "True")}}},
              findings);
  }
}

}  // namespace lockstep
