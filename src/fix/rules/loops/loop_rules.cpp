#include "fix/rules/loops/loop_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "fix/python/bindings.hpp"

namespace lockstep {
namespace {

// x, batch["x"], batch[0] for names of the batch.
bool is_of_batch(const TrainingLoop& loop, Node object) {
  while (object.is("subscript")) object = object.field("value");
  if (!object.is("identifier")) return false;
  if (loop.batch.contains(std::string(object.text()))) return true;
  // {name: value.to(device) for name, value in batch.items()}
  for (Node outer = object.parent(); outer && outer != loop.loop; outer = outer.parent())
    for (const Node& clause : outer.children())
      if (clause.is("for_in_clause") &&
          names_in(clause.field("left")).contains(std::string(object.text())))
        return std::ranges::any_of(names_in(clause.field("right")), [&](const std::string& name) {
          return loop.batch.contains(name);
        });
  return false;
}

// torch.device(config.DEVICE), .to(args.device): what it is stands elsewhere.
bool is_named_elsewhere(Node device) {
  return (device.is("attribute") || device.is("subscript")) &&
         lower_case(device.text()).find("device") != std::string::npos;
}

// "cuda", "cuda:1", a device made of such, or a rank; nothing that may be the CPU or Apple's.
bool is_cuda(const ScriptFacts& script, FileId file, Node device) {
  const Origins origins = script.origins->of(file, device);
  return std::ranges::any_of(origins.all,
                             [](const Origin& origin) {
                               const Node node = origin.expression;
                               const Node of_call =
                                   node.is("call") &&
                                           node.text().find("device(") != std::string_view::npos
                                       ? node.field("arguments").child(0)
                                       : node;
                               return node.text().find("cuda") != std::string_view::npos ||
                                      speaks_of_ranks(node) || is_named_elsewhere(of_call);
                             }) &&
         std::ranges::none_of(origins.all, [](const Origin& origin) {
           return origin.expression.text().find("mps") != std::string_view::npos;
         });
}

}  // namespace

void propose(LoopFix fix, std::vector<CodeFinding>& findings) {
  const bool edits =
      std::ranges::any_of(fix.files, [](const Change& change) { return !change.edits.empty(); });
  CodeFinding finding;
  finding.code = fix.code;
  finding.severity = fix.severity;
  finding.confidence = fix.confidence;
  finding.reason = std::move(fix.reason);
  finding.where = std::move(fix.where);
  Way way;
  way.safety = edits ? fix.safety : FixSafety::manual;
  way.kind = edits ? FixKind::edit : FixKind::advice;
  way.description = std::move(fix.description);
  way.effect = std::move(fix.effect);
  way.changes = std::move(fix.changes);
  if (edits) way.files = std::move(fix.files);
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

std::vector<Edit> with_import(std::vector<Edit> edits, const PythonModule& module,
                              std::string_view name) {
  if (edits.empty()) return edits;
  for (Edit& edit : needed_import(module, name)) edits.push_back(std::move(edit));
  return edits;
}

std::vector<Edit> needed_from_import(const PythonModule& module, std::string_view from,
                                     std::string_view name) {
  for (const PythonImport& import : module.imports())
    if (import.at_top && import.name == name && import.alias.empty()) return {};
  const std::string_view text = module.tree().source();
  const std::size_t place = import_place(module);
  return {{place, place, fmt::format("from {} import {}{}", from, name, line_ending_of(text))}};
}

std::set<FileId> files_of(const ScriptFacts& script) {
  std::set<FileId> files = {script.code.script};
  for (const CallAt& item : script.code.all) files.insert(item.file);
  return files;
}

Node class_named(const RuleInput& input, const ScriptFacts& script, std::string_view name) {
  for (const FileId file : files_of(script))
    for (const PythonClass& entry : module_of(input, file).classes())
      if (entry.name == name) return entry.node;
  return {};
}

bool asks_for_cuda(const RuleInput& input, const ScriptFacts& script) {
  const auto names_it = [&](FileId file) {
    return text_of(input, file).find("cuda") != std::string_view::npos;
  };
  return std::ranges::any_of(files_of(script), names_it) ||
         std::ranges::any_of(input.project.with_imports(script.code.script), names_it) ||
         std::ranges::any_of(script.code.all, [](const CallAt& item) {
           return item.call->full_name == "torch.device" && item.call->positional(0) != nullptr &&
                  is_named_elsewhere(item.call->positional(0)->value);
         });
}

bool is_hand_made_ddp(const ScriptFacts& script) {
  // Apex has a class of the same name, with other attributes.
  const bool by_apex = std::ranges::any_of(script.code.wraps, [](const CallAt& wrap) {
    return wrap.call->full_name.starts_with("apex.");
  });
  // A script that wraps in nn.DataParallel itself, beside another of the project that is DDP's.
  const auto in_script = [&](const CallAt& item) { return item.file == script.code.script; };
  const bool parallel = std::ranges::any_of(script.code.all, [&](const CallAt& item) {
    return in_script(item) && item.call->last_name() == "DataParallel";
  });
  if (parallel && std::ranges::none_of(script.code.wraps, in_script)) return false;
  return script.code.trains_with_ddp && script.code.accelerators.empty() &&
         script.code.trainers.empty() && !by_apex;
}

std::vector<CallAt> wraps_of(const ScriptFacts& script, FileId file, Node expression) {
  std::vector<CallAt> found;
  const Origins origins = script.origins->of(file, expression);
  // model.module if hasattr(model, "module") else model
  if (std::ranges::any_of(origins.all, [](const Origin& origin) {
        return origin.expression.is("attribute") && origin.expression.text().ends_with(".module");
      }))
    return found;
  for (const Origin& origin : origins.all)
    for (const CallAt& wrap : script.code.wraps)
      if (wrap.file == origin.file && wrap.call->node == origin.expression) {
        // What stands before the wrap, in the same function and no loop around both, still has the
        // bare model.
        const bool before =
            wrap.file == file && function_around(wrap.call->node) == function_around(expression) &&
            expression.to() <= wrap.call->node.from() && !loop_around(wrap.call->node);
        if (!before) found.push_back(wrap);
      }
  return found;
}

std::string wrapped_model(const ScriptFacts& script, const TrainingLoop& loop) {
  for (const CallAt& item : script.code.all) {
    if (item.file != loop.file || !loop.loop.contains(item.call->node)) continue;
    const Node callee = item.call->node.field("function");
    if (!callee.is("identifier") && !(callee.is("attribute") && callee.text().starts_with("self.")))
      continue;
    if (!wraps_of(script, loop.file, callee).empty()) return std::string(callee.text());
  }
  return "";
}

std::vector<const PythonCall*> waiting_copies(const RuleInput& input, const ScriptFacts& script,
                                              const TrainingLoop& loop) {
  std::vector<const PythonCall*> found;
  // Accelerate's prepared loaders have moved the batch already.
  if (!script.code.accelerators.empty() &&
      std::ranges::any_of(script.code.all,
                          [](const CallAt& item) { return item.call->last_name() == "prepare"; }))
    return found;
  // What a collate function makes may have a to() of its own: Transformers' BatchEncoding takes
  // non_blocking only since 2024.
  const bool is_own = std::ranges::any_of(loop.loaders, [](const CallAt& loader) {
    return loader.call->argument("collate_fn") != nullptr;
  });
  // PyTorch before 0.4 has no non_blocking
  if (text_of(input, loop.file).find("async=True") != std::string_view::npos) return found;
  for (const PythonCall* const call : calls_in_turn(input, loop)) {
    const Node function = call->node.field("function");
    if (is_own && loop.batch.size() == 1 && function.field("object").is("identifier")) continue;
    if (!function.is("attribute") || !is_of_batch(loop, function.field("object")) ||
        call->has_splat || call->argument("non_blocking") != nullptr)
      continue;
    const std::string_view name = call->last_name();
    // async=True of old
    if (std::ranges::any_of(call->arguments, [](const PythonArgument& argument) {
          return !argument.name.empty() && argument.name != "device";
        }))
      continue;
    if ((name == "cuda" && call->arguments.size() <= 1) ||
        (name == "to" && call->arguments.size() == 1 &&
         is_cuda(script, loop.file, call->arguments.front().value)))
      found.push_back(call);
  }
  return found;
}

bool joins_always(const ScriptFacts& script) {
  return std::ranges::none_of(script.code.joins, [](const CallAt& join) {
    return static_cast<bool>(condition_around(join.call->node));
  });
}

Node dataset_of(const PythonCall& loader) {
  const PythonArgument* const argument = loader.given("dataset", 0);
  return argument == nullptr ? Node() : argument->value;
}

bool is_streamed(const RuleInput& input, const ScriptFacts& script, const CallAt& loader) {
  const Node dataset = dataset_of(*loader.call);
  // train_iter of torchtext
  if (!dataset || dataset.text().find("iter") != std::string_view::npos) return true;
  for (const Origin& origin : script.origins->of(loader.file, dataset).all) {
    const std::string_view words = origin.expression.text();
    if (words.find("Iterable") != std::string_view::npos ||
        words.find("streaming") != std::string_view::npos ||
        words.find("WebDataset") != std::string_view::npos)
      return true;
    const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
    if (made != nullptr && class_named(input, script, made->last_name())
                                   .field("superclasses")
                                   .text()
                                   .find("IterableDataset") != std::string_view::npos)
      return true;
  }
  return false;
}

std::vector<Origin> ingredients_of(const ScriptFacts& script, FileId file, Node expression) {
  constexpr std::size_t kMost = 64;
  std::vector<Origin> all = script.origins->of(file, expression).all;
  std::set<std::pair<FileId, std::uint32_t>> seen;
  for (const Origin& origin : all) seen.insert({origin.file, origin.expression.index()});
  for (std::size_t next = 0; next < all.size() && all.size() < kMost; ++next) {
    const Origin one = all[next];
    for (const Node& name : one.expression.descendants("identifier"))
      for (const Origin& part : script.origins->of(one.file, name).all)
        if (seen.insert({part.file, part.expression.index()}).second) all.push_back(part);
  }
  return all;
}

std::vector<const PythonCall*> calls_in_turn(const RuleInput& input, const TrainingLoop& loop) {
  std::vector<const PythonCall*> found;
  for (const PythonCall& call : module_of(input, loop.file).calls())
    if (loop.body().contains(call.node) && function_around(call.node) == loop.function)
      found.push_back(&call);
  return found;
}

bool is_assigned_in(const RuleInput& input, const TrainingLoop& loop, std::string_view name) {
  const auto& all = module_of(input, loop.file).assignments();
  if (binds(loop.body(), name) || std::ranges::any_of(all, [&](const PythonAssignment& item) {
        return item.target == name && loop.body().contains(item.statement);
      }))
    return true;
  const auto augmented = loop.body().descendants("augmented_assignment");
  return std::ranges::any_of(augmented,
                             [&](const Node& item) { return item.field("left").text() == name; });
}

std::string words_of(const RuleInput& input, FileId file, Node node) {
  return place_words(input.project, place_of(file, node));
}

}  // namespace lockstep
