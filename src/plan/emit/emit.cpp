#include "plan/emit/emit.hpp"

#include <array>

namespace lockstep {
namespace {

constexpr std::array kEmitters = {
    Emitter{"torchrun", "the torchrun line", emit_torchrun},
    Emitter{"launch", "the lockstep launch line", emit_launch},
    Emitter{"sbatch", "a Slurm job file", emit_sbatch},
    Emitter{"accelerate", "Accelerate's YAML", emit_accelerate},
    Emitter{"training-arguments", "transformers' TrainingArguments as JSON",
            emit_training_arguments},
    Emitter{"deepspeed", "DeepSpeed's JSON", emit_deepspeed},
    Emitter{"fsdp", "FSDP settings as transformers takes them", emit_fsdp},
    Emitter{"pytorchjob", "a Kubeflow PyTorchJob v1", emit_pytorchjob},
    Emitter{"trainjob", "a Kubeflow TrainJob v1alpha1", emit_trainjob},
    Emitter{"azureml", "an Azure ML command job", emit_azureml},
};

}  // namespace

std::span<const Emitter> emitters() { return kEmitters; }

const Emitter* emitter_named(std::string_view name) {
  for (const Emitter& emitter : kEmitters)
    if (emitter.name == name) return &emitter;
  return nullptr;
}

}  // namespace lockstep
