// A plan as the files and lines that start it. One emitter a file; this is their table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/plan.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct EmitInput {
  const Plan& plan;
  std::string script = "train.py";
  std::vector<std::string> arguments;  // of the script
  // ranks of a batch job are started by lockstep launch, not by torchrun
  bool by_lockstep = false;
};

struct Emitted {
  std::string text;
  std::vector<std::string> notes;  // for the user, not for the file
};

struct Emitter {
  std::string_view name;  // of --emit
  std::string_view what;
  Result<Emitted> (*emit)(const EmitInput& input);
};
std::span<const Emitter> emitters();
const Emitter* emitter_named(std::string_view name);

Result<Emitted> emit_torchrun(const EmitInput& input);
Result<Emitted> emit_launch(const EmitInput& input);
Result<Emitted> emit_sbatch(const EmitInput& input);
Result<Emitted> emit_accelerate(const EmitInput& input);
Result<Emitted> emit_training_arguments(const EmitInput& input);
Result<Emitted> emit_deepspeed(const EmitInput& input);
Result<Emitted> emit_fsdp(const EmitInput& input);
Result<Emitted> emit_pytorchjob(const EmitInput& input);
Result<Emitted> emit_trainjob(const EmitInput& input);
Result<Emitted> emit_azureml(const EmitInput& input);

}  // namespace lockstep
