// Understands a script of one process with a training loop of its own: which variable is the model,
// where it lives, where training starts.
//
// Everything must be seen with certainty; each doubt is an objection, in words that the reader can
// act on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "fix/rules/conversion/to_ddp.hpp"
#include "fix/rules/launching/rank_hazards.hpp"

namespace lockstep {
namespace {

// The optimizer that a loop steps, as an expression.
Node optimizer_of(const TrainingLoop& loop) {
  if (loop.update->callee.find("scaler") != std::string::npos &&
      loop.update->positional(0) != nullptr)
    return loop.update->positional(0)->value;
  return loop.update->node.field("function").field("object");
}

// Groups of one model's parts: "net.features" and "net.head" are net's.
std::set<std::string> whose_parts(std::set<std::string> models) {
  if (models.size() < 2) return models;
  std::set<std::string> owners;
  for (const std::string& model : models) owners.insert(model.substr(0, model.find('.')));
  return owners.size() == 1 && *owners.begin() != "self" ? owners : models;
}

// "model" of torch.optim.Adam(model.parameters(), …), and the call itself.
struct Optimized {
  std::set<std::string> models;
  std::vector<CallAt> made;
};
Optimized optimized_by(const ScriptFacts& script, const TrainingLoop& loop) {
  Optimized found;
  for (const Origin& origin : script.origins->of(loop.file, optimizer_of(loop)).all) {
    const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
    if (made == nullptr) continue;
    bool any = false;
    auto calls = made->list.descendants("call");
    // params = [p for p in net.parameters() if p.requires_grad]
    if (const PythonArgument* const given = made->given("params", 0);
        given != nullptr && given->value.is("identifier"))
      for (const Origin& parameters : script.origins->of(origin.file, given->value).all)
        if (parameters.file == origin.file)
          for (const Node& call : parameters.expression.descendants("call")) calls.push_back(call);
    for (const Node& call : calls) {
      const std::string_view callee = call.field("function").text();
      for (const std::string_view ending :
           {std::string_view(".module.parameters"), std::string_view(".parameters"),
            std::string_view(".module.named_parameters"), std::string_view(".named_parameters")})
        if (callee.ends_with(ending)) {
          found.models.emplace(callee.substr(0, callee.size() - ending.size()));
          any = true;
          break;
        }
    }
    if (any) found.made.push_back({origin.file, made});
  }
  return found;
}

Node main_part_of(const PythonModule& module) {
  for (const Node& statement : module.tree().root().children())
    if (const std::string_view condition = statement.field("condition").text();
        statement.is("if_statement") && condition.find("__main__") != std::string_view::npos &&
        condition.find("==") != std::string_view::npos)
      return statement.field("consequence");
  return {};
}

// The statement of a scope's own block (a function's body, the module, its main part) that a node
// stands in.
Node own_statement(Node node, Node scope, Node main_part) {
  for (Node statement = statement_of(node); statement;
       statement = statement_of(block_of(statement))) {
    const Node block = block_of(statement);
    if (scope ? block == scope.field("body") : block.is("module") || block == main_part)
      return statement;
  }
  return {};
}

// Downloads, archives and files that are moved: N ranks at once would get into each other's way.
std::string files_made_by_all(const RuleInput& input, const ScriptFacts& script) {
  for (const CallAt& item : script.code.all) {
    const std::string_view name = item.call->last_name();
    const bool elsewhere =
        item.file != script.code.script || item.call->node.enclosing("class_definition");
    if (elsewhere && opens_for_writing(*item.call))
      return fmt::format("{} writes a file that every rank would write",
                         words_of(input, item.file, item.call->node));
    if (item.call->full_name == "os.system" || item.call->full_name.starts_with("subprocess."))
      return fmt::format("{} runs a program that every rank would run",
                         words_of(input, item.file, item.call->node));
    if (name == "urlretrieve" || name == "extractall" || name == "ZipFile" || name == "to_csv" ||
        name == "hf_hub_download" || item.call->full_name == "os.rename" ||
        item.call->full_name == "requests.get" ||
        item.call->full_name == "urllib.request.urlopen" ||
        item.call->full_name.starts_with("shutil."))
      return fmt::format(
          "{} makes files that every rank would make at once: let rank 0 do it first",
          words_of(input, item.file, item.call->node));
  }
  return "";
}

bool sets_a_seed(const ScriptFacts& script) {
  return std::ranges::any_of(script.code.all, [](const CallAt& item) {
    return item.call->last_name().find("seed") != std::string_view::npos;
  });
}

// What each rank would decide by a value of its own: a schedule, the end of the training, which
// samples are for training.
std::string decided_by_each(const RuleInput& input, const ScriptFacts& script) {
  const bool seeded = sets_a_seed(script);
  for (const CallAt& item : script.code.all) {
    const std::string_view name = item.call->last_name();
    if (item.call->callee == "input" && item.file == script.code.script)
      return fmt::format("{} asks the user, on every rank",
                         words_of(input, item.file, item.call->node));
    if (name == "ReduceLROnPlateau" || name == "EarlyStopping")
      return fmt::format("{} would follow each rank's own value: average it over the ranks first",
                         words_of(input, item.file, item.call->node));
    const bool splits = name == "random_split" || name == "train_test_split" || name == "sample" ||
                        item.call->full_name == "random.shuffle" ||
                        item.call->full_name == "numpy.random.permutation" ||
                        item.call->full_name == "torch.randperm";
    const bool fixed = seeded || item.call->argument("generator") != nullptr ||
                       item.call->argument("random_state") != nullptr;
    if (splits && !fixed && (name != "sample" || item.call->callee.find("df") != std::string::npos))
      return fmt::format("{} would split the data differently on each rank: give it a seed",
                         words_of(input, item.file, item.call->node));
  }
  // if loss.item() > 300: continue
  for (const TrainingLoop& loop : script.loops)
    for (const char* leave :
         {"break_statement", "continue_statement", "return_statement", "raise_statement"})
      for (const Node& statement : loop.body().descendants(leave)) {
        const Node condition = condition_around(statement).field("condition");
        const std::string_view words =
            condition && loop.loop.contains(condition) ? condition.text() : "";
        for (const char* own : {"loss", "acc", ".item(", "isnan", "isfinite", "isinf", "grad"})
          if (words.find(own) != std::string_view::npos)
            return fmt::format("{} may be met by one rank alone",
                               words_of(input, loop.file, statement));
      }
  for (const TrainingLoop& loop : script.loops)
    for (const EpochLoop& epochs : epoch_loops(*script.origins, loop))
      for (const Node& leave : epochs.loop.descendants("break_statement"))
        if (loop_around(leave) == epochs.loop)
          return fmt::format("{} may end the training on one rank alone",
                             words_of(input, epochs.file, leave));
  return "";
}

// The pass of a turn must be one call of the model itself: DDP sees nothing of its methods, and its
// buffers change between two calls.
std::string odd_pass(const RuleInput& input, const TrainingLoop& loop, const std::string& model) {
  std::size_t passes = 0;
  for (const PythonCall* const call : calls_in_turn(input, loop)) {
    if (call->node.from() > loop.backward->node.from()) continue;
    if (call->callee == model) ++passes;
    const bool method = call->callee.starts_with(model + ".") && call->last_name() != "train" &&
                        call->last_name() != "eval" && call->last_name() != "zero_grad" &&
                        call->last_name() != "parameters" &&
                        call->last_name() != "named_parameters" && call->last_name() != "to";
    if (method)
      return fmt::format("{} calls a method of the model, which DDP does not see",
                         words_of(input, loop.file, call->node));
  }
  if (passes != 1)
    return fmt::format("{} does not call {} once before backward()",
                       words_of(input, loop.file, loop.loop), model);
  return "";
}

// model = model.train(): what it was.
bool is_the_same_model(const PythonAssignment& item, const std::string& model) {
  static constexpr std::array<std::string_view, 6> kGiveBackThemselves = {
      "train", "eval", "to", "cuda", "float", "requires_grad_"};
  const Node function = item.value.is("call") ? item.value.field("function") : Node();
  return function && function.is("attribute") && function.field("object").text() == model &&
         std::ranges::find(kGiveBackThemselves, function.field("attribute").text()) !=
             kGiveBackThemselves.end();
}

// One for validation is gone over in the training, one that features are made of before it.
bool is_read_before_training(const PythonModule& module, const SingleProcessScript& single,
                             Node loader) {
  const Node statement = statement_of(loader);
  const std::string_view name = statement.child(0).field("left").text();
  return !name.empty() &&
         std::ranges::any_of(module.tree().root().descendants("identifier"), [&](const Node& use) {
           return use.text() == name && use.from() > statement.to() &&
                  use.to() < single.training.from() &&
                  function_around(use) == function_around(statement);
         });
}

// A set that the program makes up or puts together in an order of chance is another on each rank,
// unless a seed says otherwise: shares of it overlap.
std::string made_by_chance(const RuleInput& input, const ScriptFacts& script,
                           const SingleProcessScript& single) {
  if (sets_a_seed(script)) return "";
  const auto is_made_here = [&](const PythonCall* loader) {
    const Origins ways = script.origins->of(single.file, dataset_of(*loader));
    return std::ranges::any_of(ways.all, [&](const Origin& origin) {
      const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
      return made != nullptr && made->last_name() == "TensorDataset";
    });
  };
  if (std::ranges::none_of(single.loaders, is_made_here)) return "";
  static constexpr std::array<std::string_view, 8> kChance = {
      "torch.randn",       "torch.rand",         "torch.randint",        "torch.randperm",
      "numpy.random.rand", "numpy.random.randn", "numpy.random.randint", "numpy.random.normal"};
  for (const CallAt& item : script.code.all) {
    const PythonArgument* const shuffle = item.call->argument("shuffle");
    const bool is_another_loader =
        item.call->last_name() == "DataLoader" && shuffle != nullptr &&
        bool_value(shuffle->value) == true && item.file == single.file &&
        std::ranges::find(single.loaders, item.call) == single.loaders.end() &&
        is_read_before_training(module_of(input, single.file), single, item.call->node);
    const bool by_chance = std::ranges::find(kChance, item.call->full_name) != kChance.end();
    const bool in_a_loop = std::ranges::any_of(script.loops, [&](const TrainingLoop& loop) {
      return loop.file == item.file && loop.loop.contains(item.call->node);
    });
    if ((is_another_loader || by_chance) && !in_a_loop)
      return fmt::format("{} would make other data on each rank: give it a seed",
                         words_of(input, item.file, item.call->node));
  }
  return "";
}

}  // namespace

bool opens_for_writing(const PythonCall& call) {
  const PythonArgument* const mode = call.given("mode", 1);
  return call.callee == "open" && mode != nullptr &&
         string_value(mode->value).value_or("").find_first_of("wax") != std::string::npos;
}

std::string model_in_loop(const RuleInput& input, const ScriptFacts& script,
                          const SingleProcessScript& single, const TrainingLoop& loop) {
  const PythonModule& module = module_of(input, single.file);
  const auto function = std::ranges::find_if(
      module.functions(), [&](const PythonFunction& entry) { return entry.node == loop.function; });
  if (loop.function == single.scope || function == module.functions().end()) return single.model;
  for (const CallAt& call : script.origins->callers(loop.file, loop.function)) {
    if (call.file != single.file || function_around(call.call->node) != single.scope) continue;
    for (const PythonArgument& argument : call.call->arguments)
      if (!argument.name.empty() && argument.value.text() == single.model) return argument.name;
    for (std::size_t position = 0; call.call->positional(position) != nullptr; ++position)
      if (call.call->positional(position)->value.text() == single.model &&
          position < function->parameters.size())
        return function->parameters[position];
  }
  // Not given: the module's own name is read.
  const bool shadowed =
      std::ranges::find(function->parameters, single.model) != function->parameters.end() ||
      std::ranges::any_of(module.assignments(), [&](const PythonAssignment& item) {
        return item.function == loop.function && item.target == single.model;
      });
  return !single.scope && !shadowed ? single.model : "";
}

SingleProcessScript understand_single_process(const RuleInput& input, const ScriptFacts& script) {
  SingleProcessScript single;
  single.file = script.code.script;
  const auto object = [&](std::string words) {
    if (single.objection.empty()) single.objection = std::move(words);
    return single;
  };
  const PythonModule& module = module_of(input, single.file);
  single.main_part = main_part_of(module);
  for (const CallAt& item : script.code.all)
    if (item.call->last_name() == "DataParallel") {
      if (item.file != single.file)
        return object(fmt::format("{} is not in the script itself",
                                  words_of(input, item.file, item.call->node)));
      single.parallels.push_back(item.call);
    }
  std::set<std::string> models;
  std::vector<CallAt> optimizers;
  for (const TrainingLoop& loop : script.loops) {
    if (loop.file != single.file)
      return object(fmt::format("the training loop is in {}, not in the script itself",
                                input.project.file(loop.file).name()));
    if (loop.by_library) return object("backward() is a library's");
    if (loop.optimizers != 1)
      return object(fmt::format("{} steps several optimizers: each model needs its own wrap",
                                words_of(input, loop.file, loop.loop)));
    const Optimized optimized = optimized_by(script, loop);
    if (optimized.made.empty())
      return object(fmt::format("it is not seen which model the optimizer of {} trains",
                                words_of(input, loop.file, loop.loop)));
    models.insert(optimized.models.begin(), optimized.models.end());
    optimizers.insert(optimizers.end(), optimized.made.begin(), optimized.made.end());
  }
  models = whose_parts(std::move(models));
  if (models.size() != 1) return object("several models are trained: each needs its own wrap");
  single.model = *models.begin();
  if (single.model.find('.') != std::string::npos)
    return object(fmt::format("the model is {}, an attribute", single.model));
  for (const CallAt& made : optimizers)
    if (made.file != single.file ||
        function_around(made.call->node) != function_around(optimizers.front().call->node))
      return object("the optimizers are made in several functions");
  single.scope = function_around(optimizers.front().call->node);
  if (single.scope.enclosing("class_definition")) return object("the training is a class's method");

  for (const TrainingLoop& loop : script.loops) {
    std::vector<Node> ways;
    if (loop.function == single.scope)
      ways.push_back(loop.loop);
    else
      for (const CallAt& call : script.origins->callers(loop.file, loop.function))
        if (call.file == single.file && function_around(call.call->node) == single.scope)
          ways.push_back(call.call->node);
    if (ways.empty())
      return object("the training is not started where the model and its optimizer are made");
    for (const Node& way : ways) {
      const Node statement = own_statement(way, single.scope, single.main_part);
      if (!statement) return object("the training starts under a condition");
      if (!single.training || statement.from() < single.training.from())
        single.training = statement;
    }
    if (loop.loaders.size() != 1)
      return object(fmt::format("it is not seen which DataLoader {} goes over",
                                words_of(input, loop.file, loop.loop)));
    if (loop.loaders.front().file != single.file)
      return object(fmt::format("the DataLoader is made in {}",
                                input.project.file(loop.loaders.front().file).name()));
    if (std::ranges::find(single.loaders, loop.loaders.front().call) == single.loaders.end())
      single.loaders.push_back(loop.loaders.front().call);
  }
  for (const PythonAssignment& item : module.assignments())
    if (item.target == single.model && item.function == single.scope &&
        single.training.contains(item.statement) && !is_the_same_model(item, single.model))
      return object(fmt::format("{} is made anew within the training", single.model));
  for (const TrainingLoop& loop : script.loops) {
    const std::string model = model_in_loop(input, script, single, loop);
    if (model.empty())
      return object(fmt::format("{} is not seen to be given the model",
                                words_of(input, loop.file, loop.loop)));
    if (const std::string odd = odd_pass(input, loop, model); !odd.empty()) return object(odd);
  }
  // it is about something else
  if (!single.scope && single.main_part && !single.main_part.contains(single.training))
    single.main_part = Node();
  if (const std::string files = files_made_by_all(input, script); !files.empty())
    return object(files);
  if (const std::string decided = decided_by_each(input, script); !decided.empty())
    return object(decided);
  if (const std::string chance = made_by_chance(input, script, single); !chance.empty())
    return object(chance);
  if (script.code.sees_one_gpu || script.code.visible_devices)
    return object("the script sets CUDA_VISIBLE_DEVICES itself");
  if (const std::string hazard = hazard_beside_the_map(input.project, script.code); !hazard.empty())
    return object(hazard);
  return single;
}

}  // namespace lockstep
