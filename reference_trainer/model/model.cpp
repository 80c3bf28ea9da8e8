#include "reference_trainer/model/model.hpp"

#include <algorithm>
#include <utility>

#include "reference_trainer/model/gpt.hpp"
#include "reference_trainer/model/mlp.hpp"
#include "reference_trainer/precision.hpp"

namespace lockstep {

// A part whose inner results are thrown away after forward and computed again in backward: one
// input a block is kept instead of everything within it.
struct CheckpointedPart : torch::autograd::Function<CheckpointedPart> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        std::int64_t model, std::int64_t part) {
    context->save_for_backward({x});
    context->saved_data["model"] = model;
    context->saved_data["part"] = part;
    // the second time must drop the same
    if (reinterpret_cast<Model*>(model)->options_.dropout > 0)
      context->saved_data["random"] = at::globalContext().defaultGenerator(x.device()).get_state();
    context->saved_data["precision"] =
        static_cast<std::int64_t>(Autocast::of_this_thread(x.device().type()));
    const at::NoGradGuard no_grad;
    return reinterpret_cast<Model*>(model)->run_part(static_cast<int>(part), x, {});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* const model = reinterpret_cast<Model*>(context->saved_data["model"].toInt());
    const int part = static_cast<int>(context->saved_data["part"].toInt());
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    at::Generator generator = at::globalContext().defaultGenerator(x.device());
    Tensor random_now;
    if (context->saved_data.find("random") != context->saved_data.end()) {
      random_now = generator.get_state();
      generator.set_state(context->saved_data["random"].toTensor());
    }
    Tensor output;
    {
      const at::AutoGradMode with_grad(true);
      // Backward may run on a thread of its own, and autocast is the thread's: without this it
      // would compute in fp32.
      const Autocast autocast(static_cast<Precision>(context->saved_data["precision"].toInt()),
                              x.device().type());
      output = model->run_part(part, x, {});
    }
    if (random_now.defined()) generator.set_state(random_now);
    // the part's own parameters get theirs here
    torch::autograd::backward({output}, {gradients[0]});
    return {x.grad(), Tensor(), Tensor()};
  }
};

std::vector<Parameter> Model::trainable(PartRange range) const {
  std::vector<Parameter> chosen;
  for (const Parameter& parameter : parameters_)
    if (parameter.part >= range.from && parameter.part < range.to &&
        parameter.value.requires_grad())
      chosen.push_back(parameter);
  return chosen;
}

Tensor Model::forward(Tensor x, PartRange range, const Tensor& head_weight) {
  for (int part = range.from; part < range.to; ++part) {
    if (options_.activation_checkpointing && is_block(part) && at::GradMode::is_enabled()) {
      // else nothing would ask for this part's gradients
      if (!x.requires_grad()) x = x.detach().requires_grad_(true);
      x = CheckpointedPart::apply(x, reinterpret_cast<std::int64_t>(this),
                                  static_cast<std::int64_t>(part));
    } else {
      x = run_part(part, x, head_weight);
    }
  }
  return x;
}

void Model::move_to(at::Device device, PartRange range) {
  const at::NoGradGuard no_grad;
  for (Parameter& parameter : parameters_)
    if (parameter.part >= range.from && parameter.part < range.to)
      parameter.value.set_data(parameter.value.to(device));
}

Tensor Model::add(const std::string& name, Tensor value, int part) {
  value.requires_grad_(true);
  parameters_.push_back({name, value, part});
  return value;
}

void Model::set_parts(int parts) {
  parts_ = parts;
  std::int64_t frozen = 0;
  for (int part = 0; part < parts_ && frozen < options_.freeze; ++part) {
    if (!is_block(part)) continue;
    ++frozen;
    for (Parameter& parameter : parameters_)
      if (parameter.part == part) parameter.value.requires_grad_(false);
  }
}

std::unique_ptr<Model> make_model(const ModelShape& shape, const ModelOptions& options,
                                  std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  if (shape.kind == ModelKind::mlp) return std::make_unique<Mlp>(shape, options, generator);
  return std::make_unique<Gpt>(shape, options, generator);
}

std::vector<PartRange> cut_into(const Model& model, int pieces) {
  pieces = std::clamp(pieces, 1, model.parts());
  double left = 0;
  for (int part = 0; part < model.parts(); ++part) left += model.part_cost(part);
  std::vector<PartRange> ranges;
  int from = 0;
  for (int piece = 0; piece < pieces; ++piece) {
    const int pieces_after = pieces - piece - 1;
    const double share = left / (pieces_after + 1);
    double taken = 0;
    int to = from;
    // A part goes to the piece that holds more than half of it; every later piece must get one at
    // least.
    while (to < model.parts() - pieces_after &&
           (to == from || pieces_after == 0 || taken + model.part_cost(to) / 2 <= share))
      taken += model.part_cost(to++);
    ranges.push_back({from, to});
    left -= taken;
    from = to;
  }
  return ranges;
}

}  // namespace lockstep
