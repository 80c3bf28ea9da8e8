// What several emitters say: the ranks, the variables, the words of a shell.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/emit/emit.hpp"

namespace lockstep {

// Processes a node: one a GPU, or one for all where the model lies over several.
int processes_a_node(const PlannedWay& way);
// Whether it is one process in all, started by plain python.
bool is_one_process(const PlannedWay& way);
// Whether weights are divided, or only optimizer states and gradients.
bool is_sharded(const PlannedWay& way);
bool is_zero(const PlannedWay& way);
// Variables to set, in order.
std::vector<std::pair<std::string, std::string>> variables_of(const Plan& plan);
// Whether the script is a program that is started as it is: anything but a Python file or -m
// MODULE.
bool is_program(const std::string& script);
// The script and its arguments, quoted for a shell.
std::string script_words(const EmitInput& input);
// "llama-8b-train": for names of jobs.
std::string job_name(const EmitInput& input);
// What strategies other than plain DDP ask of the script itself.
std::vector<std::string> notes_of(const Plan& plan);
// A YAML scalar: quoted where it has to be.
std::string yaml_text(const std::string& text);

}  // namespace lockstep
