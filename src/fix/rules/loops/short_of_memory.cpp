// Where memory is short: half the batch a pass, two passes an update.
//
// Why it helps: activations grow with the batch of a pass; gradients of two half batches, each
// divided by two, add up to those of the whole one. The update is the same but for layers that look
// at the batch itself (BatchNorm), and takes a little longer.
//
// Only where it was asked for, by --select B502 or B506 or by a diagnosis that saw memory short:
// code does not show it. And only shown: how many passes it takes, nobody knows before.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/accumulation.hpp"

namespace lockstep {
namespace {

constexpr int kPasses = 2;

// The statements from the clip or the update on that belong to the update: scaler.update(),
// scheduler.step().
struct UpdateStatements {
  Node first;
  Node last;
  Node clears;  // optimizer.zero_grad() in every turn; none: it stands within
};
std::optional<UpdateStatements> update_statements(const RuleInput& input,
                                                  const TrainingLoop& loop) {
  const Node update = statement_of(loop.update->node);
  if (block_of(update) != block_of(statement_of(loop.backward->node))) return std::nullopt;
  UpdateStatements found{update, update, {}};
  for (const PythonCall* const call : calls_in_turn(input, loop)) {
    const Node statement = statement_of(call->node);
    const std::string_view name = call->last_name();
    if (name == "zero_grad") found.clears = statement;
    if (block_of(statement) != block_of(update) || statement.from() < loop.backward->node.from())
      continue;
    if ((name == "unscale_" || name.starts_with("clip_grad")) &&
        statement.from() < found.first.from())
      found.first = statement;
    const bool of_update = name == "update" || (name == "step" && call != loop.update);
    if (of_update && statement.from() > found.last.from()) found.last = statement;
  }
  // Nothing else may stand among them.
  for (Node statement = found.first; statement && statement != found.last;
       statement = next_statement(statement))
    if (!statement.is("expression_statement")) return std::nullopt;
  return found.clears ? std::optional(found) : std::nullopt;
}

}  // namespace

void short_of_memory(const RuleInput& input, const ScriptFacts& script,
                     std::vector<CodeFinding>& findings) {
  if (!input.wishes.short_of_memory) return;
  for (const TrainingLoop& loop : script.loops) {
    if (loop.by_library || loop.accumulates() || loop.optimizers != 1 || loop.loaders.size() != 1 ||
        !loop.loop.is("for_statement") || !loop.source)
      continue;
    const CallAt& loader = loop.loaders.front();
    const PythonArgument* const batch = loader.call->given("batch_size", 1);
    const auto statements = update_statements(input, loop);
    if (batch == nullptr || !statements) continue;
    const auto number = number_value(batch->value);
    const std::string_view text = text_of(input, loop.file);
    const Node target = loop.loop.field("left");
    const std::string counter = loop.counter.empty() ? "turn" : loop.counter;
    const std::string turn =
        loop.counter.empty() || loop.first_count == 0 ? counter + " + 1" : counter;
    const std::string condition =
        fmt::format("({}) % {} == 0 or {} == len({})", turn, kPasses, turn, loop.source.text());
    std::vector<Edit> edits;
    if (loop.counter.empty()) {
      const bool several = target.is("pattern_list") || target.is("tuple_pattern");
      edits.push_back(
          {target.from(), target.to(),
           fmt::format(fmt::runtime(several ? "{}, ({})" : "{}, {}"), counter, target.text())});
      edits.push_back({loop.loop.field("right").from(), loop.loop.field("right").to(),
                       fmt::format("enumerate({})", loop.loop.field("right").text())});
    }
    const Node loss = loss_of(loop);
    const bool bare = loss == loop.backward->node.field("function").field("object");
    edits.push_back(
        {loss.from(), loss.to(),
         fmt::format(fmt::runtime(bare ? "({} / {})" : "{} / {}"), loss.text(), kPasses)});
    const auto add = [&](std::vector<Edit> more) {
      edits.insert(edits.end(), more.begin(), more.end());
    };
    const std::string model = is_hand_made_ddp(script) ? wrapped_model(script, loop) : "";
    if (!model.empty())
      add(first_in_body(text, loop.loop,
                        fmt::format("{}.require_backward_grad_sync = {}", model, condition)));
    add(take_away(text, statements->clears));
    add(put_under(text, statements->first, statements->last, fmt::format("if {}:", condition)));
    add(line_below(text, statements->last,
                   indent_step(text) + std::string(statements->clears.text())));
    std::vector<Change> files = {{loop.file, in_order(std::move(edits))}};
    const std::string half = number && *number >= kPasses
                                 ? fmt::format("{:.0f}", *number / kPasses)
                                 : fmt::format("{} // {}", batch->value.text(), kPasses);
    if (loader.file == loop.file)
      files.front().edits = in_order([&] {
        auto all = files.front().edits;
        all.push_back({batch->value.from(), batch->value.to(), half});
        return all;
      }());
    else
      files.push_back({loader.file, {{batch->value.from(), batch->value.to(), half}}});
    const std::string whole =
        number ? fmt::format("{:.0f}", *number) : std::string(batch->value.text());
    propose({.code = input.wishes.short_of_memory == FindingCode::out_of_memory
                         ? FindingCode::out_of_memory
                         : FindingCode::memory_nearly_full,
             .safety = FixSafety::manual,
             .confidence = 0.7,
             .where = {place_of(loop.file, loop.loop), place_of(loader.file, loader.call->node)},
             .reason = fmt::format("every pass holds the activations of {} samples", whole),
             .description = fmt::format("{} samples a pass and {} passes an update: the effective "
                                        "batch stays {} a rank ({} x {})",
                                        half, kPasses, whole, half, kPasses),
             .effect = "about half the memory for activations",
             .changes = "nothing in the update but for layers that look at the batch (BatchNorm); "
                        "it takes a little longer",
             .files = std::move(files)},
            findings);
  }
}

}  // namespace lockstep
