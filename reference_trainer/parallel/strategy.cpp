#include "reference_trainer/parallel/strategy.hpp"

#include "reference_trainer/parallel/data_parallel.hpp"
#include "reference_trainer/parallel/replica.hpp"

namespace lockstep {

void backward_of(const Tensor& loss, const PassOptions& options) {
  Tensor weighed = loss * options.loss_weight;
  if (options.loss_scale.defined()) weighed = weighed * options.loss_scale.to(weighed.device());
  weighed.sum().backward();
}

std::unique_ptr<Strategy> make_strategy(Model& model, const StrategyOptions& options) {
  if (options.settings.parallel == "data-parallel" && options.devices.size() > 1)
    return std::make_unique<DataParallel>(model, options);
  return std::make_unique<Replica>(model, options);
}

}  // namespace lockstep
