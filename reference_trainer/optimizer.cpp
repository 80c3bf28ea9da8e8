#include "reference_trainer/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

double learning_rate_at(std::int64_t update, const TrainSettings& settings, std::int64_t updates) {
  const double highest = settings.learning_rate;
  const double least = std::min(settings.min_learning_rate, highest);
  if (update < settings.warmup_steps)
    return highest * static_cast<double>(update + 1) / static_cast<double>(settings.warmup_steps);
  const std::int64_t after_warmup = updates - settings.warmup_steps;
  if (after_warmup <= 1 || update >= updates) return after_warmup <= 1 ? highest : least;
  const double done =
      static_cast<double>(update - settings.warmup_steps) / static_cast<double>(after_warmup);
  return least + (highest - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

Optimizer::Optimizer(const std::vector<DeviceParameters>& parameters,
                     const OptimizerOptions& options)
    : options_(options) {
  for (const DeviceParameters& on_device : parameters)
    for (const bool decays : {true, false}) {
      Group group{.device = on_device.device, .weight_decay = decays ? options.weight_decay : 0};
      for (const Parameter& parameter : on_device.parameters) {
        if ((parameter.value.dim() >= 2) != decays) continue;
        group.names.push_back(parameter.name);
        group.values.push_back(parameter.value);
      }
      if (group.values.empty()) continue;
      group.device->run([&] {
        for (const Tensor& value : group.values) {
          group.first_moments.push_back(at::zeros_like(value).detach());
          group.second_moments.push_back(at::zeros_like(value).detach());
          group.steps.push_back(at::zeros({}, at::TensorOptions(value.device()).dtype(at::kFloat)));
        }
      });
      groups_.push_back(std::move(group));
    }
  std::vector<std::pair<std::string, std::int64_t>> places;
  for (const Group& group : groups_)
    for (const std::string& name : group.names)
      places.emplace_back(name, static_cast<std::int64_t>(places.size()));
  std::ranges::sort(places);
  std::vector<std::int64_t> order;
  for (const auto& [name, place] : places) order.push_back(place);
  by_name_ = at::tensor(order, at::kLong);
  const bool on_one_gpu =
      parameters.size() == 1 && parameters.front().device->torch_device().is_cuda();
  if (options.fused && on_one_gpu)
    fused_ = cuda_part()->make_fused_adamw(parameters.front().device->torch_device());
}

std::vector<Tensor> Optimizer::Group::gradients() const {
  std::vector<Tensor> list;
  for (const Tensor& value : values)
    list.push_back(value.grad().defined() ? value.grad() : at::zeros_like(value));
  return list;
}

// All devices at once, each its own groups in order.
void Optimizer::on_each_device(const std::function<void(Group&)>& work) {
  std::vector<std::future<void>> ends;
  for (Group& group : groups_)
    ends.push_back(group.device->start([&work, &group] { work(group); }));
  wait_for_all(ends);
}

void Optimizer::fused_step(double learning_rate, bool clear) {
  groups_.front().device->run([&] {
    const at::NoGradGuard no_grad;
    std::vector<UpdatedTensors> updated;
    for (Group& group : groups_) {
      at::_foreach_add_(group.steps, 1);
      updated.push_back({group.values, group.gradients(), group.first_moments, group.second_moments,
                         group.weight_decay});
    }
    norm_ = fused_->step(
        updated, {learning_rate, options_.beta1, options_.beta2, options_.epsilon, options_.clip},
        groups_.front().steps.front(), clear);
  });
}

void Optimizer::step(double learning_rate, LossScaler& scaler, const Distributed& ranks,
                     bool clear) {
  if (fused_ && !scaler.enabled()) {
    fused_step(learning_rate, clear);
    return;
  }
  const at::NoGradGuard no_grad;
  if (scaler.enabled()) {
    std::vector<std::vector<Tensor>> all;
    for (const Group& group : groups_) all.push_back(group.gradients());
    groups_.front().device->run([&] {
      const at::NoGradGuard quiet;
      scaler.unscale(all, ranks);
    });
  }
  if (options_.clip > 0) clip_gradients();
  on_each_device([&](Group& group) {
    const at::NoGradGuard quiet;
    std::vector<Tensor> gradients = group.gradients();
    std::optional<Tensor> found_inf;  // AdamW itself leaves the update out where it is 1
    if (scaler.enabled()) found_inf = scaler.found_inf().to(group.device->torch_device());
    if (found_inf)
      at::_foreach_add_(group.steps, (1 - *found_inf).squeeze());
    else
      at::_foreach_add_(group.steps, 1);
    at::_fused_adamw_(group.values, gradients, group.first_moments, group.second_moments, {},
                      group.steps, learning_rate, options_.beta1, options_.beta2,
                      group.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                      /*grad_scale=*/{}, found_inf);
  });
  scaler.update();
  if (clear) clear_gradients();
}

// The norm over everything, as torch.nn.utils.clip_grad_norm_ has it: one norm a tensor, then the
// norm of the norms.
void Optimizer::clip_gradients() {
  std::vector<Tensor> norms(groups_.size());
  on_each_device([&](Group& group) {
    const at::NoGradGuard quiet;
    norms[static_cast<std::size_t>(&group - groups_.data())] =
        at::stack(at::_foreach_norm(group.gradients(), 2));
  });
  const at::Device first = groups_.front().device->torch_device();
  for (Tensor& norm : norms) norm = norm.to(first);
  norm_ = at::cat(norms).index_select(0, by_name_.to(first)).norm();
  const Tensor factor = (options_.clip / (norm_ + 1e-6)).clamp_max(1.0);
  on_each_device([&](Group& group) {
    const at::NoGradGuard quiet;
    at::_foreach_mul_(group.gradients(), factor.to(group.device->torch_device()));
  });
}

double Optimizer::last_norm() const { return norm_.defined() ? norm_.item<double>() : 0; }

// To zero in place: under DDP a gradient is a piece of its bucket, and must stay one.
void Optimizer::clear_gradients() {
  on_each_device([](Group& group) {
    const at::NoGradGuard quiet;
    std::vector<Tensor> there;
    for (const Tensor& value : group.values)
      if (value.grad().defined()) there.push_back(value.grad());
    if (!there.empty()) at::_foreach_zero_(there);
  });
}

std::vector<OptimizerState> Optimizer::state() const {
  std::vector<OptimizerState> list;
  for (const Group& group : groups_)
    for (std::size_t i = 0; i < group.values.size(); ++i) {
      list.push_back({"optimizer.first_moment." + group.names[i], group.first_moments[i]});
      list.push_back({"optimizer.second_moment." + group.names[i], group.second_moments[i]});
      list.push_back({"optimizer.step." + group.names[i], group.steps[i]});
    }
  return list;
}

}  // namespace lockstep
