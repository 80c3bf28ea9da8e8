// Finds values that a LightningModule's training_step reads back from the GPU, writes out or sums
// up over the ranks in every step.
//
// Why it costs: as in a loop written by hand, .item() waits until the GPU has done all that was
// queued. Lightning's own self.log() takes tensors and reads them when it logs (every 50 steps by
// default); with sync_dist=True and on_step it adds them up over all ranks in each step.
//
// Silent where the step does so every few batches, and in files that train on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fix/facts/lightning_code.hpp"
#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> kReads = {"item", "tolist", "numpy", "cpu"};

bool is_self_log(const PythonCall& call) {
  return call.callee == "self.log" || call.callee == "self.log_dict";
}

// The call of self.log() that a value is given to as it is.
const PythonCall* logged_by(const std::vector<const PythonCall*>& calls, const PythonCall& read) {
  for (const PythonCall* const call : calls)
    if (is_self_log(*call) &&
        std::ranges::any_of(call->arguments, [&](const PythonArgument& argument) {
          return argument.value == read.node;
        }))
      return call;
  return nullptr;
}

bool shows_on_the_bar(const PythonCall& log) {
  const PythonArgument* const bar = log.argument("prog_bar");
  return bar != nullptr && bool_value(bar->value) != false;
}

bool reads_a_tensor(const PythonCall& call) {
  const Node object = call.node.field("function").field("object");
  return std::ranges::find(kReads, call.last_name()) != kReads.end() && call.arguments.empty() &&
         object;
}

void check_read(FileId file, const std::vector<const PythonCall*>& calls, const PythonCall& read,
                std::vector<CodeFinding>& findings) {
  const Node object = read.node.field("function").field("object");
  const PythonCall* const logged = logged_by(calls, read);
  const bool is_logged = read.last_name() == "item" && logged != nullptr;
  std::vector<Edit> edits;
  if (is_logged) edits.push_back({object.to(), read.node.to(), ""});
  propose(
      {.code = FindingCode::host_sync_every_step,
       .confidence = is_logged ? 0.8 : 0.7,
       .where = {place_of(file, read.node)},
       .reason = fmt::format("{} waits for the GPU in every step", read.node.text()),
       .description = is_logged ? "give self.log() the tensor: it reads it when it logs"
                                : "keep it on the GPU (detach()); self.log() takes tensors, and "
                                  "reads them every log_every_n_steps",
       .effect = logged != nullptr && shows_on_the_bar(*logged)
                     ? "one wait less a step; the progress bar still reads it whenever it is drawn "
                       "(TQDMProgressBar(refresh_rate=50) draws it less often)"
                     : "one wait less a step",
       .changes = is_logged ? "nothing in the numbers" : "when the value is known",
       .files = {{file, std::move(edits)}}},
      findings);
}

void check_log(FileId file, const PythonCall& call, std::vector<CodeFinding>& findings) {
  const PythonArgument* const over_ranks = call.argument("sync_dist");
  const PythonArgument* const on_step = call.argument("on_step");
  // torchmetrics: an object that adds itself up, over the epoch
  const PythonArgument* const value = call.given("value", 1);
  const bool is_a_metric =
      value != nullptr && value->value.is("attribute") && value->value.text().starts_with("self.");
  if (call.has_splat || is_a_metric || over_ranks == nullptr ||
      bool_value(over_ranks->value) != true ||
      (on_step != nullptr && bool_value(on_step->value) != true))
    return;
  propose({.code = FindingCode::reduce_every_step,
           .safety = FixSafety::manual,
           .confidence = 0.7,
           .where = {place_of(file, call.node)},
           .reason = "sync_dist=True for a value that is logged by step: with several ranks all of "
                     "them meet for it in every step",
           .description = "log it by epoch (on_step=False, on_epoch=True, sync_dist=True), or by "
                          "step without sync_dist: then it is rank 0's",
           .effect = "one collective less a step, where there are several ranks",
           .changes = "which value is logged"},
          findings);
}

void check_line(FileId file, const PythonCall& call, std::vector<CodeFinding>& findings) {
  propose({.code = FindingCode::logging_too_often,
           .safety = FixSafety::manual,
           .confidence = 0.7,
           .where = {place_of(file, call.node)},
           .reason = fmt::format("{} runs in every step", call.callee),
           .description = "use self.log(), which writes every log_every_n_steps, or put it under "
                          "`if batch_idx % 50 == 0:`",
           .effect = "this line in one step of 50",
           .changes = "what is written: one line in 50"},
          findings);
}

bool writes_a_line(const PythonCall& call) {
  return call.callee == "print" || call.full_name == "wandb.log" ||
         call.callee.starts_with("self.logger.experiment.");
}

bool trains_on_the_cpu(std::string_view text) {
  return text.find("accelerator=\"cpu\"") != std::string_view::npos ||
         text.find("accelerator='cpu'") != std::string_view::npos;
}

}  // namespace

void lightning_step(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  if (trains_on_the_cpu(text_of(input, file)) || !has_a_lightning_trainer(input.project)) return;
  const PythonModule& module = module_of(input, file);
  for (const LightningStep& step : lightning_steps(module)) {
    std::vector<Node> told;  // one finding a statement
    for (const Node& function : step.functions) {
      const auto calls = calls_in_every_run(module, function);
      for (const PythonCall* const call : calls) {
        const bool is_told = std::ranges::any_of(
            told, [&](const Node& statement) { return statement.contains(call->node); });
        if (is_self_log(*call)) check_log(file, *call, findings);
        if (is_told || (!writes_a_line(*call) && !reads_a_tensor(*call))) continue;
        told.push_back(statement_of(call->node));
        if (writes_a_line(*call))
          check_line(file, *call, findings);
        else
          check_read(file, calls, *call, findings);
      }
    }
  }
}

}  // namespace lockstep
