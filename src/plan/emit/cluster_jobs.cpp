// Jobs of clusters: Kubeflow's PyTorchJob and TrainJob, Azure ML's command job. The site's own
// names stand in capitals.
#include <fmt/format.h>

#include "plan/emit/parts.hpp"

namespace lockstep {
namespace {

std::string environment_of(const Plan& plan, const std::string& indent) {
  std::string text;
  for (const auto& [name, value] : variables_of(plan))
    text += fmt::format("{0}- name: {1}\n{0}  value: {2}\n", indent, name,
                        fmt::format("\"{}\"", value));
  return text.empty() ? "" : indent.substr(2) + "env:\n" + text;
}

std::string words_as_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + yaml_text(word);
  return "[" + text + "]";
}

std::vector<std::string> command_of(const EmitInput& input, bool torchrun) {
  std::vector<std::string> words;
  const bool by_torchrun = torchrun && !is_one_process(input.plan.choice);
  if (by_torchrun) words.emplace_back("torchrun");
  if (is_program(input.script) == by_torchrun)
    words.emplace_back(by_torchrun ? "--no-python" : "python");
  words.push_back(input.script);
  words.insert(words.end(), input.arguments.begin(), input.arguments.end());
  return words;
}

Emitted with_notes(std::string text, const Plan& plan, std::initializer_list<std::string> notes) {
  Emitted emitted{std::move(text), notes};
  for (std::string& note : notes_of(plan)) emitted.notes.push_back(std::move(note));
  return emitted;
}

// One replica of a PyTorchJob: every node has the same.
std::string replica_of(const EmitInput& input, const char* role, int count) {
  const PlannedWay& way = input.plan.choice;
  return fmt::format(
      "    {}:\n      replicas: {}\n      restartPolicy: OnFailure\n      template:\n        "
      "spec:\n          containers:\n            - name: pytorch\n              image: "
      "YOUR-IMAGE\n              command: {}\n{}"
      "              resources:\n                limits:\n                  nvidia.com/gpu: {}\n   "
      "           volumeMounts:\n                - name: shm\n                  mountPath: "
      "/dev/shm\n          volumes:\n            - name: shm\n              emptyDir:\n            "
      "    medium: Memory\n",
      role, count, words_as_list(command_of(input, true)),
      environment_of(input.plan, std::string(16, ' ')), way.gpus / way.nodes);
}

}  // namespace

Result<Emitted> emit_pytorchjob(const EmitInput& input) {
  const PlannedWay& way = input.plan.choice;
  std::string text = fmt::format(
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: {}\nspec:\n  "
      "nprocPerNode: \"{}\"\n  pytorchReplicaSpecs:\n",
      job_name(input), processes_a_node(way));
  text += replica_of(input, "Master", 1);
  if (way.nodes > 1) text += replica_of(input, "Worker", way.nodes - 1);
  return with_notes(text, input.plan,
                    {"YOUR-IMAGE is your container; submit: kubectl apply -f FILE"});
}

Result<Emitted> emit_trainjob(const EmitInput& input) {
  const PlannedWay& way = input.plan.choice;
  std::string text = fmt::format(
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: {}\nspec:\n  "
      "runtimeRef:\n    name: torch-distributed\n  trainer:\n    image: YOUR-IMAGE\n    command: "
      "{}\n    numNodes: {}\n    numProcPerNode: {}\n",
      job_name(input), words_as_list(command_of(input, true)), way.nodes, processes_a_node(way));
  text += fmt::format("    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: {}\n",
                      way.gpus / way.nodes);
  text += environment_of(input.plan, std::string(6, ' '));
  return with_notes(text, input.plan,
                    {"YOUR-IMAGE is your container; submit: kubectl apply -f FILE"});
}

Result<Emitted> emit_azureml(const EmitInput& input) {
  const PlannedWay& way = input.plan.choice;
  std::string text =
      "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ntype: "
      "command\n";
  text += fmt::format(
      "display_name: {}\ncode: .\ncommand: {}\nenvironment: "
      "azureml:YOUR-ENVIRONMENT@latest\ncompute: azureml:YOUR-GPU-CLUSTER\n",
      job_name(input),
      yaml_text((is_program(input.script) ? "" : "python ") + script_words(input)));
  if (!is_one_process(way))
    text += fmt::format("distribution:\n  type: pytorch\n  process_count_per_instance: {}\n",
                        processes_a_node(way));
  text += fmt::format("resources:\n  instance_count: {}\n  shm_size: 16g\n", way.nodes);
  std::string variables;
  for (const auto& [name, value] : variables_of(input.plan))
    variables += fmt::format("  {}: \"{}\"\n", name, value);
  if (!variables.empty()) text += "environment_variables:\n" + variables;
  return with_notes(text, input.plan, {"submit: az ml job create --file FILE"});
}

}  // namespace lockstep
