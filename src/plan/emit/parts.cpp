#include "plan/emit/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.hpp"

namespace lockstep {

bool is_one_process(const PlannedWay& way) {
  return way.gpus == 1 || way.strategy == "model-split";
}

bool is_sharded(const PlannedWay& way) {
  return way.strategy == "fsdp" || way.strategy == "hybrid-fsdp" || way.strategy == "offload";
}
bool is_zero(const PlannedWay& way) { return way.strategy == "zero1" || way.strategy == "zero2"; }

int processes_a_node(const PlannedWay& way) {
  if (is_one_process(way)) return 1;
  const int a_node = way.gpus / way.nodes;
  return way.strategy == "hybrid-split" ? std::max(1, a_node / way.group) : a_node;
}

std::vector<std::pair<std::string, std::string>> variables_of(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const PlannedSetting& setting : plan.settings) {
    const bool is_variable = std::ranges::all_of(setting.name, [](unsigned char c) {
      return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
    });
    // its value is the site's
    if (is_variable && setting.name != "NCCL_SOCKET_IFNAME")
      variables.emplace_back(setting.name, setting.value);
  }
  return variables;
}

bool is_program(const std::string& script) {
  return !script.ends_with(".py") && !script.starts_with("-");
}

std::string script_words(const EmitInput& input) {
  std::string words = shell_quoted(input.script);
  for (const std::string& argument : input.arguments) words += " " + shell_quoted(argument);
  return words;
}

std::string job_name(const EmitInput& input) {
  std::string name;
  for (const char c : input.plan.model.name)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '-';
  while (!name.empty() && name.front() == '-') name.erase(0, 1);
  if (name.size() > 40) name.resize(40);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "train" : name + "-" + input.plan.model.method;
}

std::vector<std::string> notes_of(const Plan& plan) {
  const PlannedWay& way = plan.choice;
  std::vector<std::string> notes;
  if (!way.fits) notes.emplace_back("this does not fit: see lockstep plan without --emit");
  notes.push_back(fmt::format("in the script: batch {} a device, {} {} an update{}",
                              way.micro_batch, way.accumulation,
                              way.accumulation == 1 ? "pass" : "passes",
                              way.activation_checkpointing ? ", activation checkpointing" : ""));
  if (is_sharded(way))
    notes.emplace_back(
        "the script has to use FSDP: --emit accelerate or --emit fsdp has the settings");
  if (is_zero(way))
    notes.emplace_back("the script has to use ZeRO: --emit deepspeed has the settings");
  if (way.strategy == "model-split" || way.strategy == "hybrid-split")
    notes.push_back(
        way.strategy == "model-split"
            ? std::string("the model has to be placed over the GPUs: device_map in transformers")
            : fmt::format("the script has to place the layers: process i of a node has the GPUs "
                          "{0} i to {0} i + {1}",
                          way.group, way.group - 1));
  return notes;
}

std::string yaml_text(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
  }) && std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  const bool word = text == "true" || text == "false" || text == "yes" || text == "no" ||
                    text == "on" || text == "off" || text == "null";
  if (plain && !word) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else
      quoted += c;
  }
  return quoted + "\"";
}

}  // namespace lockstep
