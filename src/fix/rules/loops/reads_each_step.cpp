// Finds values that are read back from the GPU, or written out, in every step of a hand-written
// loop.
//
// Why it costs: loss.item() waits until the GPU has done all that was queued; the queue then runs
// dry while Python makes the next step. A line printed or logged in every step adds the terminal's
// or the disk's time to it. Of 1,866 public training files 177 places read the loss so.
//
// Three shapes: a sum (`running += loss.item()`) becomes a sum on the GPU that is read once after
// the loop; a line that prints or logs moves under `if i % 50 == 0:` where the loop counts;
// everything else is shown only. Silent where a condition already makes it rare, and in loops of
// which the script itself says that they are on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

constexpr int kEvery = 50;

// Statements that write a line.
bool writes(const PythonCall& call) {
  static constexpr std::array<std::string_view, 13> kNames = {"print",
                                                              "info",
                                                              "log",
                                                              "add_scalar",
                                                              "add_scalars",
                                                              "set_postfix",
                                                              "set_description",
                                                              "set_postfix_str",
                                                              "set_description_str",
                                                              "write",
                                                              "debug",
                                                              "log_metrics",
                                                              "log_metric"};
  const std::string_view name = call.last_name();
  if (std::ranges::find(kNames, name) == kNames.end()) return false;
  if (name == "print") return call.callee == "print";
  const std::string owner = call.callee.substr(0, call.callee.rfind('.'));
  if (name == "log")
    return owner == "wandb" || holds_any(owner, {"experiment", "neptune", "comet", "logger"}) ||
           owner.find("run") != std::string::npos || owner == "self" || owner == "mlflow" ||
           owner.ends_with("accelerator");
  if (name == "info" || name == "debug") return owner.find("log") != std::string::npos;
  if (name == "write")
    return owner.find("tqdm") != std::string::npos || owner.find("log") != std::string::npos;
  return true;
}

// loss = reconstruction + 0.1 * penalty: the names of the sum, where this turn computes them.
std::set<std::string> parts_of_loss(const TrainingLoop& loop, Node loss) {
  std::set<std::string> parts;
  if (!loss.is("identifier")) return parts;
  const auto assignments = loop.body().descendants("assignment");
  const auto gives = [&](const Node& item, std::string_view name) {
    return item.field("left").is("identifier") && item.field("left").text() == name;
  };
  for (const Node& item : assignments) {
    if (!gives(item, loss.text()) || !item.field("right").is("binary_operator")) continue;
    for (const Node& name : item.field("right").descendants("identifier"))
      if (std::ranges::any_of(assignments, [&](const Node& other) {
            return gives(other, name.text()) && other.field("right").is("call");
          }))
        parts.insert(std::string(name.text()));
  }
  return parts;
}

// A tensor of this turn, by the loss it is or the model's answer it comes from: the loss's own
// name, and what is computed from it.
bool is_of_loss(const TrainingLoop& loop, Node expression) {
  const Node loss = loss_of(loop);
  std::set<std::string> names = names_in(loss);
  if (loss.is("identifier")) names.insert(std::string(loss.text()));
  auto read = names_in(expression);
  if (expression.is("identifier")) read.insert(std::string(expression.text()));
  const auto reads_one_of = [&](const std::set<std::string>& wanted) {
    return std::ranges::any_of(read,
                               [&](const std::string& name) { return wanted.contains(name); });
  };
  return reads_one_of(names) || (!read.empty() && reads_one_of(parts_of_loss(loop, loss)));
}

// `if torch.isnan(loss):` asks the GPU.
bool decides_by(const TrainingLoop& loop, const PythonCall& call) {
  static constexpr std::array<std::string_view, 3> kAsks = {"isnan", "isinf", "isfinite"};
  if (std::ranges::find(kAsks, call.last_name()) == kAsks.end() || call.arguments.empty() ||
      !is_of_loss(loop, call.arguments.front().value) ||
      call.arguments.front().value.text().find(".item()") != std::string_view::npos)
    return false;
  if (call.full_name.starts_with("math.")) return true;
  const Node condition = call.node.enclosing("if_statement").field("condition");
  return condition && condition.contains(call.node);
}

// One value of a tensor that is no part of the batch as the loader gave it.
bool reads_one_value(const TrainingLoop& loop, std::string_view name, Node object) {
  if (name != "item") return false;
  auto names = names_in(object);
  if (object.is("identifier")) names.insert(std::string(object.text()));
  if (object.text().find(".cpu()") != std::string_view::npos) return false;
  const auto assignments = loop.body().descendants("assignment");
  const auto lies_on_the_host = [&](const std::string& each) {
    return loop.batch.contains(each) ||
           std::ranges::any_of(assignments, [&](const Node& assignment) {
             return assignment.field("left").text() == each &&
                    assignment.field("right").text().find(".cpu()") != std::string_view::npos;
           });
  };
  return !names.empty() && std::ranges::none_of(names, lies_on_the_host);
}

// loss.item(), loss.cpu(), float(loss): the calls that wait for the GPU.
std::vector<const PythonCall*> reads_in(const RuleInput& input, const TrainingLoop& loop) {
  std::vector<const PythonCall*> found;
  for (const PythonCall* const call : calls_in_turn(input, loop)) {
    const Node object = call->node.field("function").field("object");
    const std::string_view name = call->last_name();
    const bool method = (name == "item" || name == "cpu" || name == "tolist" || name == "numpy") &&
                        call->arguments.empty() && object &&
                        (is_of_loss(loop, object) || reads_one_value(loop, name, object));
    const bool function = call->callee == "float" && call->arguments.size() == 1 &&
                          is_of_loss(loop, call->arguments.front().value);
    // "{:.3f}".format(loss)
    const bool text = name == "format" && object.is("string") &&
                      std::ranges::any_of(call->arguments, [&](const PythonArgument& argument) {
                        return argument.value.is("identifier") && is_of_loss(loop, argument.value);
                      });
    if ((method || function || text || decides_by(loop, *call)) &&
        in_nearly_every_turn(loop, call->node))
      found.push_back(call);
  }
  return found;
}

// `total += loss.item()` with a plain name, which is only summed up and read: the name.
std::string summed_name(const PythonCall& read) {
  const Node statement = statement_of(read.node);
  const Node sum = statement.child(0);
  if (!statement.is("expression_statement") || !sum.is("augmented_assignment") ||
      !sum.field("left").is("identifier") || sum.field("operator").text() != "+=")
    return "";
  const std::string name(sum.field("left").text());
  const Node value = sum.field("right");
  // loss.item() alone or times something that is no tensor's business.
  const bool plain = value == read.node ||
                     (value.is("binary_operator") && value.field("operator").text() == "*" &&
                      (value.field("left") == read.node || value.field("right") == read.node));
  if (!plain || read.last_name() != "item") return "";
  return name;
}

// Where a sum may be a tensor as well as a number: in what is printed or logged, as it is or
// divided. round(x) would raise, and `last = x` would follow what is added later.
bool takes_a_tensor(Node identifier) {
  for (Node outer = identifier.parent(); outer; outer = outer.parent()) {
    if (outer.is("call")) {
      const std::string_view callee = outer.field("function").text();
      const std::string_view name =
          callee.substr(callee.rfind('.') == std::string_view::npos ? 0 : callee.rfind('.') + 1);
      static constexpr std::array<std::string_view, 12> kTaking = {"print",
                                                                   "format",
                                                                   "float",
                                                                   "info",
                                                                   "debug",
                                                                   "add_scalar",
                                                                   "log",
                                                                   "set_postfix",
                                                                   "set_postfix_str",
                                                                   "set_description",
                                                                   "set_description_str",
                                                                   "write"};
      return std::ranges::find(kTaking, name) != kTaking.end();
    }
    if (outer.is("attribute") && outer.field("attribute").text() == "item") return false;
    if (outer.is("expression_statement") || outer.is("block")) return false;
  }
  return false;
}

// What the loop itself does with the sum in every turn: it would wait there instead. And what would
// not take a tensor.
bool is_read_each_turn(const TrainingLoop& loop, const std::string& name, Node own_statement) {
  for (const Node& identifier : loop.body().descendants("identifier")) {
    if (identifier.text() != name || own_statement.contains(identifier)) continue;
    const Node parent = identifier.parent();
    if (parent.is("assignment") && parent.field("left") == identifier) continue;
    // A condition on the rank does not make it rare there: only a count does.
    bool rare = false;
    for (Node outer = identifier.parent(); outer && outer != loop.loop; outer = outer.parent())
      rare = rare || (outer.is("if_statement") &&
                      outer.field("condition").text().find('%') != std::string_view::npos);
    if (!rare || !takes_a_tensor(identifier)) return true;
  }
  return false;
}

// What of a turn waits for the GPU: statements that read a value, and what waits unseen.
struct Waits {
  std::set<std::size_t> statements;
  std::vector<std::string> unseen;
};

// A host that still waits elsewhere in the step gains little from one wait less.
constexpr const char* kLastWait =
    "one wait less a step: the host runs ahead of the GPU where nothing else in the step waits";
constexpr const char* kOneLess = "one wait less a step";
std::string effect_of_one_less(const Waits& waits) {
  const std::size_t statements = waits.statements.size() > 1 ? waits.statements.size() - 1 : 0;
  if (statements == 0 && waits.unseen.empty()) return kLastWait;
  std::vector<std::string> others = waits.unseen;
  if (statements > 0)
    others.insert(others.begin(), statements == 1 ? std::string("another read")
                                                  : fmt::format("{} other reads", statements));
  const bool one = others.size() == 1 && statements < 2 && !others.front().ends_with("copies");
  return fmt::format("{}; {} {} still, and until {} gone the host waits all the same", kOneLess,
                     join(others, " and "), one ? "waits" : "wait", one ? "that is" : "they are");
}

// GradScaler.step() asks whether a gradient is infinite, a batch in ordinary memory is copied while
// the host waits for all that was queued before.
Waits waits_of_a_turn(const RuleInput& input, const ScriptFacts& script, const TrainingLoop& loop) {
  static constexpr std::array<std::string_view, 5> kWaits = {"item", "cpu", "tolist", "numpy",
                                                             "synchronize"};
  Waits waits;
  for (const PythonCall* const read : reads_in(input, loop))
    waits.statements.insert(statement_of(read->node).from());
  for (const PythonCall* const call : calls_in_turn(input, loop)) {
    if (!in_every_turn(loop.loop, call->node)) continue;
    const bool reads =
        std::ranges::find(kWaits, call->last_name()) != kWaits.end() && call->arguments.empty();
    const bool shows =
        writes(*call) && std::ranges::any_of(call->arguments, [&](const auto& given) {
          return is_of_loss(loop, given.value);
        });
    if (reads || shows) waits.statements.insert(statement_of(call->node).from());
    const PythonArgument* const raises = call->argument("error_if_nonfinite");
    if (raises != nullptr && bool_value(raises->value) == true)
      waits.unseen.emplace_back("clip_grad_norm_(error_if_nonfinite=True)");
  }
  if (loop.scales) waits.unseen.emplace_back("GradScaler.step()");
  if (!waiting_copies(input, script, loop).empty()) waits.unseen.emplace_back("the batch's copies");
  return waits;
}

void sums(const RuleInput& input, const ScriptFacts& script, const TrainingLoop& loop,
          const PythonCall& read, const std::string& name, const Waits& waits,
          std::vector<CodeFinding>& findings) {
  const std::string_view text = text_of(input, loop.file);
  const Node statement = statement_of(read.node);
  std::vector<Edit> edits;
  const bool is_read = is_read_each_turn(loop, name, statement);
  // A handler around the loop would meet the sum as a tensor.
  if (loop.loop.is("for_statement") && !is_read && !loop.loop.enclosing("try_statement") &&
      in_every_turn(loop.loop, read.node)) {
    const Node method = read.node.field("function").field("attribute");
    auto after = line_below(text, loop.loop, fmt::format("{0} = float({0})  # read once", name));
    if (!after.empty()) {
      edits = std::move(after);
      // The sum of half floats ends at 65,504.
      const bool may_be_half =
          holds_any(text_of(input, script.code.script), {"half", "float16", "fp16"}) ||
          holds_any(text, {"half", "float16", "fp16"});
      edits.push_back({method.from(), method.to(), may_be_half ? "detach().float" : "detach"});
    }
  }
  propose({.code = FindingCode::host_sync_every_step,
           .confidence = 0.75,
           .where = {place_of(loop.file, read.node)},
           .reason = fmt::format("{} waits for the GPU in every step, to add a number up",
                                 read.node.text()),
           .description =
               is_read ? fmt::format("add {} up on the GPU, and read it every few steps where the "
                                     "loop now reads it in each",
                                     name)
                       : fmt::format("add {} up on the GPU and read it once after the loop", name),
           .effect = effect_of_one_less(waits),
           .changes = fmt::format(
               "{} is summed in the loss's own precision instead of double: its last digits", name),
           .files = {{loop.file, in_order(std::move(edits))}}},
          findings);
}

void lines(const RuleInput& input, const TrainingLoop& loop, const PythonCall& call,
           const Waits& waits, std::vector<CodeFinding>& findings) {
  const Node statement = statement_of(call.node);
  const std::string_view text = text_of(input, loop.file);
  std::vector<Edit> edits;
  if (!loop.counter.empty() && statement.is("expression_statement") &&
      statement.child(0) == call.node && !is_assigned_in(input, loop, loop.counter))
    edits = put_under(text, statement, fmt::format("if {} % {} == 0:", loop.counter, kEvery));
  const bool reads = std::ranges::any_of(call.arguments, [&](const PythonArgument& argument) {
    return is_of_loss(loop, argument.value);
  });
  propose({.code = FindingCode::logging_too_often,
           .confidence = 0.75,
           .where = {place_of(loop.file, call.node)},
           .reason = fmt::format("{} runs in every step{}", call.callee,
                                 reads ? ", and waits for the GPU to have the value" : ""),
           .description = fmt::format("write every {} steps", kEvery),
           .effect = reads ? effect_of_one_less(waits)
                           : fmt::format("this line in one step of {}", kEvery),
           .changes = fmt::format("what is written: one line in {}", kEvery),
           .files = {{loop.file, std::move(edits)}}},
          findings);
}

// A turn that is a function of its own: it does not know which turn it is, so its reads are shown.
void reads_of_a_turn(const RuleInput& input, const ScriptFacts& script, const TrainingLoop& loop,
                     std::vector<CodeFinding>& findings) {
  for (const PythonCall& call : module_of(input, loop.turn_file).calls()) {
    const Node object = call.node.field("function").field("object");
    if (!loop.turn.contains(call.node) || call.last_name() != "item" || !call.arguments.empty() ||
        !object || !is_of_loss(loop, object) ||
        !in_every_turn(loop.turn.field("body"), call.node) ||
        runs_on_every_rank(*script.origins, loop.turn_file, call.node) == false)
      continue;
    propose(
        {.code = FindingCode::host_sync_every_step,
         .safety = FixSafety::manual,
         .confidence = 0.7,
         .where = {place_of(loop.turn_file, call.node), place_of(loop.file, loop.loop)},
         .reason = fmt::format("{} waits for the GPU in every step", call.node.text()),
         .description = "return the loss itself (loss.detach()), and read it every few steps in "
                        "the loop that calls this",
         .effect = kOneLess,
         .changes = "when the value is known"},
        findings);
  }
}

}  // namespace

void reads_each_step(const RuleInput& input, const ScriptFacts& script,
                     std::vector<CodeFinding>& findings) {
  if (!asks_for_cuda(input, script)) return;
  for (const TrainingLoop& loop : script.spread_loops)
    reads_of_a_turn(input, script, loop, findings);
  for (const TrainingLoop& loop : script.loops) {
    const Waits waits = waits_of_a_turn(input, script, loop);
    std::vector<Node> told;
    const auto is_told = [&](Node node) {
      return std::ranges::any_of(told, [&](const Node& other) { return other.contains(node); });
    };
    for (const PythonCall* const call : calls_in_turn(input, loop)) {
      if (!writes(*call) || !in_nearly_every_turn(loop, call->node) || is_told(call->node))
        continue;
      // A bar's text without a value of the GPU's costs next to nothing.
      const bool bar = call->last_name().starts_with("set_");
      const bool reads = std::ranges::any_of(call->arguments, [&](const PythonArgument& argument) {
        return is_of_loss(loop, argument.value) ||
               argument.value.text().find(".item()") != std::string_view::npos;
      });
      if (!reads && (bar || call->callee != "print")) continue;
      lines(input, loop, *call, waits, findings);
      told.push_back(statement_of(call->node));
    }
    // to measure is what a benchmark is for
    const bool measures = holds_any(input.project.file(loop.file).path().filename().string(),
                                    {"bench", "profil", "timing"});
    for (const PythonCall* const call : calls_in_turn(input, loop))
      if (!measures && call->full_name == "torch.cuda.synchronize" &&
          in_every_turn(loop.loop, call->node))
        propose({.code = FindingCode::host_sync_every_step,
                 .safety = FixSafety::manual,
                 .confidence = 0.7,
                 .where = {place_of(loop.file, call->node)},
                 .reason = "torch.cuda.synchronize() waits in every step for all that is queued",
                 .description = "take it out; to time steps, time fifty of them between two of it",
                 .effect = effect_of_one_less(waits),
                 .changes = "what a clock around it shows"},
                findings);
    for (const PythonCall* const read : reads_in(input, loop)) {
      if (is_told(read->node)) continue;
      told.push_back(statement_of(read->node));
      if (const std::string name = summed_name(*read); !name.empty()) {
        sums(input, script, loop, *read, name, waits, findings);
        continue;
      }
      propose(
          {.code = FindingCode::host_sync_every_step,
           .confidence = 0.7,
           .where = {place_of(loop.file, read->node)},
           .reason = fmt::format("{} waits for the GPU in every step", read->node.text()),
           .description =
               "keep it on the GPU (detach()) and read it every few steps, or once after the loop",
           .effect = effect_of_one_less(waits),
           .changes = "when the value is known"},
          findings);
    }
  }
}

}  // namespace lockstep
