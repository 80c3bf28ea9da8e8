#include "reference_trainer/run_state.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

constexpr const char* kRandom = "random.";  // and the rank

Tensor random_state() { return at::globalContext().defaultGenerator(at::kCPU).get_state().clone(); }

std::string shape_text(const ModelShape& shape) {
  return fmt::format("{} {} layers, {} heads, width {}, length {}, vocabulary {}", shape.kind == ModelKind::mlp ? "mlp" : "gpt", shape.layers, shape.heads, shape.width, shape.sequence_length,
                     shape.vocabulary);
}

// Everything but random numbers, under its name.
std::vector<NamedTensor> tensors_of(const RunState& state) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : state.model.parameters()) tensors.push_back({parameter.name, parameter.value});
  for (const OptimizerState& part : state.optimizer.state()) tensors.push_back({part.name, part.value});
  return tensors;
}

std::int64_t whole_number(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.words.find(name);
  return found == checkpoint.words.end() ? 0 : parse_integer(found->second).value_or(0);
}

// Copies a checkpoint into the run. The error says what does not fit.
Status restore(const RunState& state, const ResumePoint& point) {
  const Checkpoint& checkpoint = point.content;
  const auto shape = checkpoint.words.find("shape");
  if (shape == checkpoint.words.end() || shape->second != shape_text(state.shape))
    return Error{fmt::format("checkpoint {} is of another model: {}; this run has {}", printable(point.file.string()), shape == checkpoint.words.end() ? "unknown" : shape->second, shape_text(state.shape)),
                 "give the same --model, another --checkpoint-dir, or --resume never"};
  std::map<std::string, Tensor> by_name;
  for (const NamedTensor& tensor : checkpoint.tensors) by_name[tensor.name] = tensor.value;
  const at::NoGradGuard no_grad;
  for (NamedTensor& tensor : tensors_of(state)) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end() || found->second.sizes() != tensor.value.sizes())
      return Error{fmt::format("checkpoint {} lacks '{}'", printable(point.file.string()), tensor.name), "was it made with another --freeze? use the same, or --resume never"};
    tensor.value.copy_(found->second);
  }
  const auto scale = checkpoint.words.find("loss_scale");
  if (scale != checkpoint.words.end()) state.scaler.restore(std::strtod(scale->second.c_str(), nullptr), whole_number(checkpoint, "good_updates"));
  return Done{};
}

}  // namespace

Checkpoint checkpoint_of(const RunState& state, const Position& position, const Distributed& ranks) {
  const std::vector<Tensor> random = ranks.gather(random_state());
  Checkpoint checkpoint;
  if (!ranks.is_main()) return checkpoint;
  checkpoint.words = {{"update", std::to_string(position.update)}, {"epoch", std::to_string(position.epoch)}, {"samples", std::to_string(position.samples)},
                      {"world", std::to_string(ranks.world())},    {"shape", shape_text(state.shape)},      {"seed", std::to_string(state.seed)}};
  if (state.scaler.enabled()) {
    checkpoint.words["loss_scale"] = fmt::format("{}", state.scaler.scale_value());
    checkpoint.words["good_updates"] = std::to_string(state.scaler.good_updates());
  }
  checkpoint.tensors = tensors_of(state);
  for (std::size_t rank = 0; rank < random.size(); ++rank) checkpoint.tensors.push_back({kRandom + std::to_string(rank), random[rank]});
  return checkpoint;
}

Resumed resume(const RunState& state, const TrainSettings& settings, const Distributed& ranks) {
  Resumed resumed;
  // What rank 0 found: 0 nothing, 1 a checkpoint, 2 one that it refuses; then the position.
  Tensor news = at::zeros({4}, at::kLong);
  Tensor random = random_state().unsqueeze(0).repeat({ranks.world(), 1});
  std::optional<Error> problem;
  if (ranks.is_main()) {
    const auto after_damage = ranks.facts().attempt > 0 ? AfterDamage::take_the_one_before : AfterDamage::refuse;
    auto point = find_resume_point(settings.resume, settings.checkpoint_dir, after_damage);
    if (!point) problem = point.error();
    else if (point->has_value()) {
      if (Status restored = restore(state, **point); !restored) problem = restored.error();
      const Checkpoint& content = (*point)->content;
      resumed.words = fmt::format("{}resumed from {}", (*point)->words, printable((*point)->file.string()));
      news[0] = 1;
      news[1] = whole_number(content, "update");
      news[2] = whole_number(content, "epoch");
      news[3] = whole_number(content, "samples");
      for (const NamedTensor& tensor : content.tensors)
        for (int rank = 0; rank < ranks.world(); ++rank)
          if (tensor.name == kRandom + std::to_string(rank) && tensor.value.numel() == random.size(1)) random[rank].copy_(tensor.value);
    }
    if (problem) news[0] = 2;
  }
  ranks.broadcast({news});
  const auto found = news[0].item<std::int64_t>();
  if (found == 2) throw TrainFailure(problem.value_or(Error{"rank 0 refused the checkpoint", "see what rank 0 says"}));
  if (found == 0) return resumed;
  std::vector<Tensor> tensors;
  for (const NamedTensor& tensor : tensors_of(state)) tensors.push_back(tensor.value);
  ranks.broadcast(tensors);
  ranks.broadcast({random});
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_state(random[ranks.rank()].clone());
  resumed.position = {news[1].item<std::int64_t>(), news[2].item<std::int64_t>(), news[3].item<std::int64_t>()};
  return resumed;
}

}  // namespace lockstep
