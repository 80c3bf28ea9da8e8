#include "reference_trainer/run_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "reference_trainer/failure.hpp"
#include "reference_trainer/random_numbers.hpp"

namespace lockstep {
namespace {

constexpr const char* kRandom = "random.";  // and the rank
constexpr const char* kScaleKey = "scaler.scale";
constexpr const char* kGoodUpdatesKey = "scaler.good_updates";

std::string shape_text(const ModelShape& shape) {
  return fmt::format("{} {} layers, {} heads, width {}, length {}, vocabulary {}",
                     shape.kind == ModelKind::mlp ? "mlp" : "gpt", shape.layers, shape.heads,
                     shape.width, shape.sequence_length, shape.vocabulary);
}

// Everything but random numbers, by name: ranks may hold it in other orders, and it is sent from
// one to the others.
std::vector<NamedTensor> tensors_of(const RunState& state) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : state.model.parameters())
    tensors.push_back({parameter.name, parameter.value});
  for (const OptimizerState& part : state.optimizer.state())
    tensors.push_back({part.name, part.value});
  if (state.scaler.enabled()) {
    tensors.push_back({kScaleKey, state.scaler.scale()});
    tensors.push_back({kGoodUpdatesKey, state.scaler.good_updates()});
  }
  std::ranges::sort(tensors,
                    [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
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
  if (shape == checkpoint.words.end() || shape->second != shape_text(state.plan.shape))
    return Error{fmt::format("checkpoint {} is of another model: {}; this run has {}",
                             printable(point.file.string()),
                             shape == checkpoint.words.end() ? "unknown" : shape->second,
                             shape_text(state.plan.shape)),
                 "give the same --model, another --checkpoint-dir, or --resume never"};
  std::map<std::string, Tensor> by_name;
  for (const NamedTensor& tensor : checkpoint.tensors) by_name[tensor.name] = tensor.value;
  const at::NoGradGuard no_grad;
  for (NamedTensor& tensor : tensors_of(state)) {
    const auto found = by_name.find(tensor.name);
    // that run was not in fp16
    if (found == by_name.end() && (tensor.name == kScaleKey || tensor.name == kGoodUpdatesKey))
      continue;
    if (found == by_name.end() || found->second.sizes() != tensor.value.sizes())
      return Error{
          fmt::format("checkpoint {} lacks '{}'", printable(point.file.string()), tensor.name),
          "was it made with another --freeze? use the same, or --resume never"};
    tensor.value.copy_(found->second);
  }
  return Done{};
}

// What must be the same for a resumed run to be the run that was stopped.
std::map<std::string, std::string> conditions_of(const RunState& state, const Distributed& ranks) {
  return {{"world", std::to_string(ranks.world())},
          {"batch", std::to_string(state.plan.batch.batch_size)},
          {"accumulation", std::to_string(state.plan.batch.accumulation)},
          {"seed", std::to_string(state.settings.seed)},
          {"data", fmt::format("{} samples", state.samples)}};
}

// "; batch was 4, is 8: …", or nothing.
std::string differences(const Checkpoint& checkpoint, const RunState& state,
                        const Distributed& ranks) {
  std::vector<std::string> words;
  for (const auto& [name, now] : conditions_of(state, ranks))
    if (const auto before = checkpoint.words.find(name);
        before != checkpoint.words.end() && before->second != now)
      words.push_back(fmt::format("{} was {}, is {}", name, printable(before->second), now));
  return words.empty() ? ""
                       : "; " + join(words, "; ") +
                             ": it goes on at the same place in the data, but not as the same run";
}

}  // namespace

Checkpoint checkpoint_of(const RunState& state, const Position& position,
                         const Distributed& ranks) {
  const std::vector<Tensor> random = ranks.gather(RandomNumbers::state(state.device));
  Checkpoint checkpoint;
  if (!ranks.is_main()) return checkpoint;
  checkpoint.words = conditions_of(state, ranks);
  checkpoint.words["update"] = std::to_string(position.update);
  checkpoint.words["epoch"] = std::to_string(position.epoch);
  checkpoint.words["samples"] = std::to_string(position.samples);
  checkpoint.words["shape"] = shape_text(state.plan.shape);
  checkpoint.tensors = tensors_of(state);
  for (std::size_t rank = 0; rank < random.size(); ++rank)
    checkpoint.tensors.push_back({kRandom + std::to_string(rank), random[rank]});
  return checkpoint;
}

Resumed resume(const RunState& state, const Distributed& ranks) {
  Resumed resumed;
  // What rank 0 found: 0 nothing, 1 a checkpoint, 2 one that it refuses; then the position.
  Tensor news = at::zeros({4}, at::kLong);
  Tensor random = RandomNumbers::state(state.device).unsqueeze(0).repeat({ranks.world(), 1});
  Tensor random_known = at::zeros({ranks.world()}, at::kLong);
  std::optional<Error> problem;
  if (ranks.is_main()) {
    try {
      auto point = find_resume_point(state.settings.resume, state.settings.checkpoint_dir,
                                     ranks.facts().attempt);
      if (!point)
        problem = point.error();
      else if (point->has_value()) {
        if (Status restored = restore(state, **point); !restored) problem = restored.error();
        const Checkpoint& content = (*point)->content;
        resumed.words =
            fmt::format("{}resumed from {}{}", (*point)->words, printable((*point)->file.string()),
                        differences(content, state, ranks));
        news[0] = 1;
        news[1] = whole_number(content, "update");
        news[2] = whole_number(content, "epoch");
        news[3] = whole_number(content, "samples");
        for (const NamedTensor& tensor : content.tensors)
          for (int rank = 0; rank < ranks.world(); ++rank)
            if (tensor.name == kRandom + std::to_string(rank) &&
                tensor.value.numel() == random.size(1)) {
              random[rank].copy_(tensor.value);
              random_known[rank] = 1;
            }
      }
      if (!problem)
        set_aside_later_ones(state.settings.checkpoint_dir, news[1].item<std::int64_t>());
    } catch (const std::exception& failure) {  // the others wait for the news
      problem =
          Error{fmt::format("the checkpoint could not be used: {}", printable(failure.what())),
                "give another one with --resume FILE, or start anew with --resume never"};
    }
    if (problem) news[0] = 2;
  }
  ranks.broadcast({news});
  const auto found = news[0].item<std::int64_t>();
  if (found == 2)
    throw TrainFailure::on_all_ranks(
        problem.value_or(Error{"rank 0 refused the checkpoint", "see what rank 0 says"}));
  if (found == 0) return resumed;
  std::vector<Tensor> tensors;
  for (const NamedTensor& tensor : tensors_of(state)) tensors.push_back(tensor.value);
  ranks.broadcast(tensors);
  ranks.broadcast({random, random_known});
  if (random_known[ranks.rank()].item<std::int64_t>() == 1)
    RandomNumbers::set_state(state.device, random[ranks.rank()]);
  resumed.position = {news[1].item<std::int64_t>(), news[2].item<std::int64_t>(),
                      news[3].item<std::int64_t>()};
  return resumed;
}

}  // namespace lockstep
