#include "reference_trainer/parallel/data_parallel.hpp"

#include <fmt/format.h>

#include "reference_trainer/failure.hpp"

namespace lockstep {

DataParallel::DataParallel(Model& model, const StrategyOptions& options)
    : model_(model), precision_(options.precision), devices_(options.devices) {
  const auto shape = or_fail(shape_of(options.settings));
  const ModelOptions model_options{options.settings.dropout, options.settings.freeze,
                                   options.settings.activation_checkpointing};
  devices_[0]->run([&] { model_.move_to(devices_[0]->torch_device(), model_.all_parts()); });
  for (std::size_t i = 1; i < devices_.size(); ++i)
    devices_[i]->run([&] {
      copies_.push_back(make_model(shape, model_options, 0));
      copies_.back()->move_to(devices_[i]->torch_device(), copies_.back()->all_parts());
    });
  parameters_.push_back({devices_[0], model_.trainable(model_.all_parts())});
}

std::string DataParallel::description() const {
  return fmt::format("data-parallel: {} copies in one process, gathered on device 0",
                     devices_.size());
}

void DataParallel::send_weights() {
  const at::NoGradGuard no_grad;
  for (const auto& copy : copies_)
    for (std::size_t i = 0; i < copy->parameters().size(); ++i)
      copy->parameters()[i].value.copy_(model_.parameters()[i].value);
}

Tensor DataParallel::pass(const Batch& batch, const PassOptions& options, StepMarks& marks) {
  const std::vector<Tensor> inputs = batch.inputs.chunk(static_cast<std::int64_t>(devices_.size()));
  const std::size_t used = inputs.size();  // fewer than devices for a small batch
  const std::vector<ComputeDevice*> devices(devices_.begin(),
                                            devices_.begin() + static_cast<std::ptrdiff_t>(used));
  ComputeDevice& first = *devices_[0];
  std::vector<Tensor> outputs(used);
  std::vector<Tensor> gathered(used);
  Tensor loss;

  marks.time(LOCKSTEP_SPAN_COPY, [&] { first.run([&] { send_weights(); }); });
  marks.time(LOCKSTEP_SPAN_FORWARD, [&] {
    run_on_all(devices, [&](std::size_t i) {
      const at::Device here = devices[i]->torch_device();
      const Autocast autocast(precision_, here.type());
      Model& model = i == 0 ? model_ : *copies_[i - 1];
      outputs[i] = model.forward(inputs[i].to(here, /*non_blocking=*/true), model.all_parts());
    });
    first.run([&] {
      const at::Device here = first.torch_device();
      const Autocast autocast(precision_, here.type());
      for (std::size_t i = 0; i < used; ++i)
        gathered[i] = outputs[i].detach().to(here).requires_grad_(true);
      loss = model_.loss(at::cat(gathered), batch.targets.to(here));
    });
  });
  marks.time(LOCKSTEP_SPAN_BACKWARD, [&] {
    first.run([&] { backward_of(loss, options); });
    run_on_all(devices, [&](std::size_t i) {
      torch::autograd::backward({outputs[i]}, {gathered[i].grad().to(outputs[i].device())});
    });
  });
  marks.time(LOCKSTEP_SPAN_COLLECTIVE_EXPOSED,
             [&] { first.run([&] { add_gradients(used - 1); }); });
  return loss.detach();
}

void DataParallel::add_gradients(std::size_t copies) {
  const at::NoGradGuard no_grad;
  for (std::size_t copy = 0; copy < copies; ++copy)
    for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
      Tensor& own = const_cast<Tensor&>(copies_[copy]->parameters()[i].value);
      if (!own.grad().defined()) continue;
      Tensor target = model_.parameters()[i].value.grad();
      target.add_(own.grad().to(target.device()));
      own.mutable_grad() = Tensor();
    }
}

}  // namespace lockstep
