#include "reference_trainer/self_test.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "reference_trainer/distributed.hpp"
#include "reference_trainer/failure.hpp"
#include "reference_trainer/run_plan.hpp"

namespace lockstep {
namespace {

// Each wrapped collective with numbers whose result is known.
bool collectives_work(const Distributed& ranks, at::Device device) {
  const int world = ranks.world();
  const auto expect = [&](const char* what, bool right) {
    if (ranks.is_main() || !right) fmt::print("{}: {}\n", what, right ? "right" : fmt::format("WRONG on rank {}", ranks.rank()));
    return right;
  };
  const double sum_of_ranks = world * (world - 1) / 2.0;
  bool all = true;

  Tensor from_main = at::full({3}, ranks.is_main() ? 42.0 : -1.0, device);
  ranks.broadcast({from_main});
  all &= expect("broadcast", at::all(from_main == 42.0).item<bool>());

  Tensor summed = at::full({1000}, static_cast<double>(ranks.rank()), device);
  ranks.all_reduce_sum(summed);
  all &= expect("all-reduce sum", at::all(summed == sum_of_ranks).item<bool>());

  Tensor highest = at::full({1}, static_cast<double>(ranks.rank()), device);
  ranks.all_reduce_max(highest);
  all &= expect("all-reduce max", highest.item<double>() == world - 1);

  all &= expect("mean", std::abs(ranks.mean(ranks.rank()) - sum_of_ranks / world) < 1e-12);

  const std::vector<Tensor> gathered = ranks.gather(at::full({2}, static_cast<std::int64_t>(ranks.rank()), at::kLong));
  bool in_order = gathered.size() == (ranks.is_main() ? static_cast<std::size_t>(world) : 0);
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) in_order &= at::all(gathered[rank] == static_cast<std::int64_t>(rank)).item<bool>();
  all &= expect("gather", in_order);

  ranks.barrier();
  all &= expect("barrier", true);
  return all;
}

}  // namespace

int run_self_test(const std::string& name, const RankFacts& facts, const TrainSettings& settings) {
  if (name != "collectives") throw TrainFailure(usage_error(fmt::format("no self test '{}'", printable(name)), "use --selftest collectives"));
  TrainSettings chosen = settings;
  const RunPlan plan = plan_run(chosen, facts);
  const bool on_cuda = plan.device == c10::DeviceType::CUDA;
  const Distributed ranks(facts, plan.group);
  const at::Device device = on_cuda ? at::Device(plan.device, static_cast<c10::DeviceIndex>(plan.devices.front())) : at::Device(plan.device);
  return collectives_work(ranks, device) ? 0 : 1;
}

}  // namespace lockstep
