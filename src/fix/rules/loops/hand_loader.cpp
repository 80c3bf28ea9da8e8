// Finds DataLoaders of hand-written loops that make batches between the steps, or in memory that
// the GPU cannot read by itself.
//
// Why it costs: num_workers is 0 by default, so the training thread itself reads, decodes and
// collates every batch while the GPU waits; from memory that is not pinned a copy to the GPU goes
// through a staging buffer, and the host waits for it.
//
// Silent for streamed datasets (every worker would read all of it unless the dataset shares it
// out), for tensors that are in memory already (handing them from process to process costs more
// than it saves), for datasets that make tensors on the GPU (CUDA does not live through a fork),
// and where arguments come from elsewhere. Shown only, where the script has no main part:
// Python 3.14 starts workers anew, and such a script would start itself.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "fix/rules/loops/loader_proofs.hpp"

namespace lockstep {
namespace {

// return self.features[index], self.labels[index]: there is nothing to make.
bool only_indexes(const RuleInput& input, const ScriptFacts& script, std::string_view class_name) {
  for (const Node& function :
       class_named(input, script, class_name).descendants("function_definition"))
    if (function.field("name").text() == "__getitem__") return function.descendants("call").empty();
  return false;
}

bool is_in_memory(const RuleInput& input, const ScriptFacts& script, const CallAt& loader) {
  const Origins origins = script.origins->of(loader.file, dataset_of(*loader.call));
  return std::ranges::any_of(origins.all, [&](const Origin& origin) {
    const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
    if (made != nullptr && only_indexes(input, script, made->last_name())) return true;
    return origin.expression.is("list") || origin.expression.is("list_comprehension") ||
           (made != nullptr && (made->last_name() == "TensorDataset" ||
                                made->last_name() == "list" || made->last_name() == "zip"));
  });
}

// Its class moves samples to the GPU, or there is a collate function that may.
bool makes_gpu_tensors(const RuleInput& input, const ScriptFacts& script, const CallAt& loader) {
  for (const Origin& origin : script.origins->of(loader.file, dataset_of(*loader.call)).all) {
    const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
    if (made != nullptr && moves_to_a_device(class_named(input, script, made->last_name()).text()))
      return true;
  }
  const PythonArgument* const collate = loader.call->argument("collate_fn");
  if (collate == nullptr) return false;
  const ValueOrigins::Function* const function =
      script.origins->function(loader.file, collate->value.text());
  return function == nullptr ? collate->value.text().find('.') == std::string_view::npos &&
                                   !collate->value.is("identifier")
                             : moves_to_a_device(function->node.text());
}

// A function within a function cannot be handed to a worker that is started anew.
bool collates_locally(const ScriptFacts& script, const CallAt& loader) {
  const PythonArgument* const collate = loader.call->argument("collate_fn");
  if (collate == nullptr) return false;
  const ValueOrigins::Function* const function =
      script.origins->function(loader.file, collate->value.text());
  return collate->value.is("lambda") || (function != nullptr && function_around(function->node));
}

// A sampler of the project's own may follow what the training has found; workers fetch batches
// ahead of it.
bool chooses_batches_itself(const RuleInput& input, const ScriptFacts& script,
                            const CallAt& loader) {
  for (const char* name : {"batch_sampler", "sampler"}) {
    const PythonArgument* const given = loader.call->argument(name);
    if (given == nullptr) continue;
    for (const Origin& origin : script.origins->of(loader.file, given->value).all)
      if (const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
          made != nullptr && class_named(input, script, made->last_name()))
        return true;
  }
  return false;
}

bool has_main_part(const RuleInput& input, const ScriptFacts& script) {
  return text_of(input, script.code.script).find("__main__") != std::string_view::npos;
}

std::vector<const TrainingLoop*> loops_over(const ScriptFacts& script, const CallAt& loader) {
  auto loops = script.all_loops();
  std::erase_if(loops, [&](const TrainingLoop* loop) {
    return std::ranges::none_of(loop->loaders,
                                [&](const CallAt& other) { return other.call == loader.call; });
  });
  return loops;
}

// Whether a loop over this loader shows its batch on the way to the GPU: else there is nothing to
// pin for.
bool is_copied(const RuleInput& input, const ScriptFacts& script, const CallAt& loader) {
  const auto loops = loops_over(script, loader);
  return std::ranges::any_of(loops, [&](const TrainingLoop* loop) {
    const auto calls = calls_in_turn(input, *loop);
    return !waiting_copies(input, script, *loop).empty() ||
           std::ranges::any_of(calls, [](const PythonCall* call) {
             return call->argument("non_blocking") != nullptr;
           });
  });
}

// pin_memory=True, and non_blocking=True at the copies of the loops that go over this loader:
// without it the host still waits. Nothing where a loop may go over another loader, too.
std::vector<Change> pinned(const RuleInput& input, const ScriptFacts& script,
                           const CallAt& loader) {
  std::map<FileId, std::vector<Edit>> edits;
  edits[loader.file] =
      ArgumentSet::of_call(*loader.call).set(text_of(input, loader.file), "pin_memory", "True");
  if (edits[loader.file].empty()) return {};
  for (const TrainingLoop* const loop : loops_over(script, loader)) {
    const auto copies = waiting_copies(input, script, *loop);
    if (loop->loaders.size() > 1 && !copies.empty()) return {};
    for (const PythonCall* const copy : copies)
      for (Edit& edit :
           ArgumentSet::of_call(*copy).set(text_of(input, loop->file), "non_blocking", "True"))
        edits[loop->file].push_back(std::move(edit));
  }
  std::vector<Change> files;
  for (auto& [file, list] : edits) files.push_back({file, in_order(std::move(list))});
  return files;
}

// Copies that non_blocking does not help, as `.to(device, dtype=torch.long)`, or of what was made
// of the batch on the host: the host still waits for those.
std::string others_still_wait(const RuleInput& input, const ScriptFacts& script,
                              const CallAt& loader) {
  for (const TrainingLoop* const loop : loops_over(script, loader)) {
    const auto mended = waiting_copies(input, script, *loop);
    for (const PythonCall* const call : calls_in_turn(input, *loop)) {
      const bool to_a_device = (call->last_name() == "to" && call->positional(0) != nullptr &&
                                lower_case(call->list.text()).find("dev") != std::string::npos) ||
                               call->last_name() == "cuda";
      if (to_a_device && call->argument("non_blocking") == nullptr &&
          call->node.field("function").is("attribute") &&
          std::ranges::find(mended, call) == mended.end())
        return fmt::format("; {} still waits", call->node.text());
    }
  }
  return "";
}

// num_workers=0,  # Windows
bool is_meant(std::string_view text, const Setting* setting) {
  if (setting == nullptr) return false;
  const std::size_t end = setting->whole.to();
  return text.substr(end, line_end(text, end) - end).find('#') != std::string_view::npos;
}

bool trains_by_hand(const ScriptFacts& script) {
  return std::ranges::any_of(
      script.code.all, [](const CallAt& item) { return item.call->last_name() == "backward"; });
}

// train_loader = DataLoader(...), and none for validation.
bool is_named_for_training(const PythonCall& loader) {
  const Node assignment = loader.node.parent();
  if (!assignment.is("assignment") || assignment.field("right") != loader.node) return false;
  const std::string name = lower_case(assignment.field("left").text());
  return name.find("train") != std::string::npos && name.find("eval") == std::string::npos &&
         name.find("val") == std::string::npos && name.find("test") == std::string::npos;
}

void check_hand_loader(const RuleInput& input, const ScriptFacts& script, const CallAt& loader,
                       std::vector<CodeFinding>& findings) {
  const ArgumentSet arguments = ArgumentSet::of_call(*loader.call);
  if (arguments.is_open() || is_streamed(input, script, loader) ||
      is_in_memory(input, script, loader) || makes_gpu_tensors(input, script, loader))
    return;
  const std::string_view text = text_of(input, loader.file);
  const Place place = place_of(loader.file, loader.call->node);
  const Setting* const workers = arguments.find("num_workers");
  // DataLoader(dataset, 32, True, None, None, 4)
  const bool positional = loader.call->positional(5) != nullptr;
  if (!positional && (workers == nullptr || workers->number == 0) &&
      !arguments.has("multiprocessing_context"))
    propose({.code = FindingCode::loader_without_workers,
             .safety = has_main_part(input, script) && !collates_locally(script, loader) &&
                               !chooses_batches_itself(input, script, loader) &&
                               !is_meant(text, workers)
                           ? FixSafety::unsafe
                           : FixSafety::manual,
             .where = {place},
             .reason = workers != nullptr
                           ? "num_workers=0: the training thread makes each batch itself, and the "
                             "GPU waits meanwhile"
                           : "num_workers is not set and 0 by default: the training thread makes "
                             "each batch itself, and the GPU waits meanwhile",
             .description = "let 4 workers per rank make the batches ahead",
             .effect = "batches are ready when the step is; nothing is gained where a batch is "
                       "made in less time than a step takes",
             .changes = "random transforms draw from each worker's own generator; 4 more processes "
                        "a rank, with their memory",
             .files = {{loader.file, arguments.set(text, "num_workers", "4")}}},
            findings);
  const bool pinned_by_position = loader.call->positional(7) != nullptr;
  // computed
  if (!pinned_by_position && arguments.truth("pin_memory") == std::nullopt &&
      arguments.has("pin_memory"))
    return;
  if (!pinned_by_position && arguments.truth("pin_memory") != true &&
      is_copied(input, script, loader)) {
    const std::string proof = proof_of_host_batches(input, script, loader);
    const auto loops = loops_over(script, loader);
    const bool is_proven = !proof.empty() && std::ranges::all_of(loops, [&](const auto* loop) {
      return copies_are_the_last_use(input, script, *loop);
    });
    propose({.code = FindingCode::pageable_copies,
             .safety = is_proven ? FixSafety::safe : FixSafety::unsafe,
             .where = {place},
             .reason = "pin_memory is off: every copy to the GPU goes through a staging buffer, "
                       "and the host waits for it",
             .description = "keep batches in pinned memory, and copy them with non_blocking=True",
             .effect = "the host goes on while the batch travels" +
                       others_still_wait(input, script, loader),
             .changes = is_proven ? fmt::format("nothing in the numbers: {}; some host memory is "
                                                "locked",
                                                proof)
                                  : "some host memory is locked; the numbers are the same",
             .files = pinned(input, script, loader)},
            findings);
  }
  if (!pinned_by_position && arguments.truth("pin_memory") != true &&
      script.code.accelerators.empty() && loops_over(script, loader).empty() &&
      is_named_for_training(*loader.call))
    propose(
        {.code = FindingCode::pageable_copies,
         .safety = FixSafety::manual,
         .confidence = 0.6,
         .where = {place},
         .reason = "pin_memory is off: every copy to the GPU goes through a staging buffer, and "
                   "the host waits for it",
         .description = "pin_memory=True here, and non_blocking=True where the batch is copied",
         .effect = "the host goes on while the batch travels",
         .changes = "some host memory is locked; the numbers are the same"},
        findings);
}

}  // namespace

void hand_loader(const RuleInput& input, const ScriptFacts& script,
                 std::vector<CodeFinding>& findings) {
  if (!asks_for_cuda(input, script)) return;
  // Apple's GPUs have no pinned memory, and macOS starts workers anew
  if (text_of(input, script.code.script).find("mps") != std::string_view::npos) return;
  std::set<const PythonCall*> looked_at;  // two loops may go over one loader
  for (const TrainingLoop* const loop : script.all_loops())
    for (const CallAt& loader : loop->loaders)
      if (looked_at.insert(loader.call).second) check_hand_loader(input, script, loader, findings);
  // Handed on in ways that are not followed (a class, a factory): its name says what it is for.
  if (trains_by_hand(script) && !input.project.file(script.code.script).is_notebook())
    for (const CallAt& item : script.code.all)
      if (item.call->last_name() == "DataLoader" && is_named_for_training(*item.call) &&
          looked_at.insert(item.call).second)
        check_hand_loader(input, script, item, findings);
}

}  // namespace lockstep
