#include "reference_trainer/self_test.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "reference_trainer/data/sampler.hpp"
#include "reference_trainer/distributed.hpp"
#include "reference_trainer/failure.hpp"
#include "reference_trainer/parallel/gradient_reducer.hpp"
#include "reference_trainer/run_plan.hpp"

namespace lockstep {
namespace {

// Each wrapped collective with numbers whose result is known.
enum class Words : std::uint8_t { none, all };
bool collectives_work(const Distributed& ranks, at::Device device, Words words) {
  const int world = ranks.world();
  const auto expect = [&](const char* what, bool right) {
    if (words == Words::all && (ranks.is_main() || !right))
      fmt::print("{}: {}\n", what, right ? "right" : fmt::format("WRONG on rank {}", ranks.rank()));
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

  const std::vector<Tensor> gathered =
      ranks.gather(at::full({2}, static_cast<std::int64_t>(ranks.rank()), at::kLong));
  bool in_order = gathered.size() == (ranks.is_main() ? static_cast<std::size_t>(world) : 0);
  for (std::size_t rank = 0; rank < gathered.size(); ++rank)
    in_order &= at::all(gathered[rank] == static_cast<std::int64_t>(rank)).item<bool>();
  all &= expect("gather", in_order);

  ranks.barrier();
  all &= expect("barrier", true);
  return all;
}

// What rank 0 tells `lockstep doctor`, a line each.
void tell(const Distributed& ranks, const nlohmann::ordered_json& line) {
  if (ranks.is_main()) fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

// Of the library that torch brought; empty: it does not say.
std::string nccl_version() {
  void* const library = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (ask == nullptr || ask(&version) != 0) return {};
  return version < 10'000
             ? fmt::format("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100)
             : fmt::format("{}.{}.{}", version / 10'000, version % 10'000 / 100, version % 100);
}

// How fast gradients would travel: all-reduces of three sizes, with values that are checked. Bus
// speed as nccl-tests counts it: bytes that each rank sends and receives.
bool bandwidth_is_measured(const Distributed& ranks, at::Device device, const std::string& name) {
  constexpr auto kFor = std::chrono::milliseconds(400);
  const bool on_cuda = device.is_cuda();
  const auto wait = [&] {
    if (on_cuda) at::zeros({1}, device).item<float>();  // behind everything that was queued
  };
  bool all = true;
  for (const std::int64_t bytes :
       {std::int64_t{4} << 10, std::int64_t{1} << 20, std::int64_t{64} << 20}) {
    Tensor values = at::full({bytes / 4}, static_cast<double>(ranks.rank()) + 1,
                             at::TensorOptions(device).dtype(at::kFloat));
    ranks.all_reduce_sum(values);
    bool right = at::all(values == ranks.world() * (ranks.world() + 1) / 2.0).item<bool>();
    values.fill_(1);
    // so that asking rank 0 costs next to nothing
    const int rounds_a_look = bytes < (1 << 20) ? 50 : 5;
    int rounds = 0;
    // Rank 0 says when it is enough: ranks that stopped by their own clocks would wait for each
    // other.
    wait();
    ranks.barrier();
    const auto begun = std::chrono::steady_clock::now();
    for (bool goes_on = true; goes_on;) {
      for (int i = 0; i < rounds_a_look; ++i) ranks.all_reduce_sum(values);
      rounds += rounds_a_look;
      wait();
      Tensor enough = at::full(
          {1}, ranks.is_main() && std::chrono::steady_clock::now() - begun > kFor ? 1.0 : 0.0,
          device);
      ranks.broadcast({enough});
      goes_on = enough.item<double>() == 0;
      values.fill_(1);
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() / rounds;
    const double travel = 2.0 * (ranks.world() - 1) / ranks.world() * static_cast<double>(bytes);
    right = ranks.sum(right ? 0 : 1) == 0;
    all &= right;
    tell(ranks, {{"selftest", name},
                 {"check", "all_reduce"},
                 {"bytes", bytes},
                 {"ranks", ranks.world()},
                 {"right", right},
                 {"seconds", seconds},
                 {"bus_bytes_s", travel / seconds}});
  }
  return all;
}

// Every sample on exactly one rank, and another order in the next epoch.
bool shards_are_disjoint(const Distributed& ranks) {
  constexpr std::int64_t kBatch = 4;
  SamplerOptions options;
  options.samples = kBatch * 7 * ranks.world();
  options.rank = ranks.rank();
  options.world = ranks.world();
  options.batch_size = kBatch;
  Sampler sampler(options);
  const auto mine_of = [&](std::int64_t epoch) {
    sampler.set_epoch(epoch);
    std::vector<std::int64_t> mine;
    for (std::int64_t place = 0; place < sampler.batches(); ++place)
      for (const std::int64_t sample : sampler.batch(place)) mine.push_back(sample);
    return mine;
  };
  bool right = mine_of(0) != mine_of(1) || ranks.world() * kBatch * 7 < 2;
  for (const std::int64_t epoch : {0, 1}) {
    const std::vector<std::int64_t> mine = mine_of(epoch);
    std::set<std::int64_t> seen;
    std::size_t count = 0;
    for (const Tensor& shard : ranks.gather(at::tensor(mine, at::kLong)))
      for (std::int64_t i = 0; i < shard.numel(); ++i, ++count)
        seen.insert(shard[i].item<std::int64_t>());
    if (ranks.is_main() && ranks.world() > 1)
      right &= seen.size() == count && static_cast<std::int64_t>(count) == options.samples;
  }
  return right;
}

// One step of a small layer: ranks begin with other weights and see other samples, and end with the
// same weights, whose gradient was the mean over all samples.
bool a_step_leaves_equal_weights(const Distributed& ranks, at::Device device,
                                 const TrainSettings& settings) {
  constexpr std::int64_t kWidth = 64;
  VirtualGpus nowhere({});
  at::manual_seed(static_cast<std::uint64_t>(1000 + ranks.rank()));
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  Tensor weight = at::randn({kWidth, kWidth}, options).requires_grad_(true);
  Tensor bias = at::randn({kWidth}, options).requires_grad_(true);
  const Tensor samples = at::randn({8, kWidth}, options);
  // hands rank 0's weights to all
  GradientReducer reducer(ranks, {{"weight", weight, 0}, {"bias", bias, 0}}, settings, nowhere);
  const auto loss_of = [&](const Tensor& w, const Tensor& b) {
    return (at::matmul(samples, w) + b).square().mean();
  };

  Tensor own_weight = weight.detach().clone().requires_grad_(true);
  loss_of(own_weight, bias.detach()).backward();
  Tensor mean = own_weight.grad().clone();
  ranks.all_reduce_sum(mean);
  mean /= ranks.world();

  reducer.before_forward();
  const Tensor loss = loss_of(weight, bias);
  reducer.before_backward(loss);
  loss.backward();
  bool right = at::allclose(weight.grad(), mean, 1e-4, 1e-6);
  {
    at::NoGradGuard no_grad;
    weight.sub_(weight.grad(), 0.1);
    bias.sub_(bias.grad(), 0.1);
  }
  Tensor highest = at::cat({weight.detach().flatten(), bias.detach()});
  Tensor lowest = -highest;
  ranks.all_reduce_max(highest);
  ranks.all_reduce_max(lowest);
  return right && at::equal(highest, -lowest);
}

bool ddp_works(const Distributed& ranks, at::Device device, const TrainSettings& settings) {
  bool all = true;
  const auto told = [&](const char* what, bool right) {
    right = ranks.sum(right ? 0 : 1) == 0;
    tell(ranks, {{"selftest", "ddp"}, {"check", what}, {"ranks", ranks.world()}, {"right", right}});
    all &= right;
  };
  told("collectives", collectives_work(ranks, device, Words::none));
  told("shards", shards_are_disjoint(ranks));
  told("step", a_step_leaves_equal_weights(ranks, device, settings));
  return all;
}

}  // namespace

int run_self_test(const std::string& name, const RankFacts& facts, const TrainSettings& settings) {
  const std::vector<std::string> known = {"collectives", "gloo", "nccl", "ddp"};
  if (std::ranges::find(known, name) == known.end())
    throw TrainFailure::on_all_ranks(
        usage_error(fmt::format("no self test '{}'", printable(name)),
                    "use --selftest with one of " + join(known, ", ")));
  TrainSettings chosen = settings;
  if (name == "gloo") chosen.device = "cpu";
  if (name == "nccl") chosen.device = "cuda";
  RunPlan plan = plan_run(chosen, facts);
  const bool on_cuda = plan.device == c10::DeviceType::CUDA;
  if (name == "gloo" || name == "nccl") plan.group.backend = name;
  if (name == "nccl") plan.group.even_alone = true;
  const Distributed ranks(facts, plan.group);
  const at::Device device =
      on_cuda ? at::Device(plan.device, static_cast<c10::DeviceIndex>(plan.devices.front()))
              : at::Device(plan.device);
  if (name == "ddp") return ddp_works(ranks, device, chosen) ? 0 : 1;
  if (name == "collectives") return collectives_work(ranks, device, Words::all) ? 0 : 1;
  if (name == "nccl")
    tell(ranks, {{"selftest", name}, {"check", "version"}, {"version", nccl_version()}});
  if (ranks.is_alone())
    throw TrainFailure::on_all_ranks(usage_error(
        fmt::format("--selftest {} needs two ranks", name),
        "lockstep launch --nproc-per-node 2 --no-python lockstep-train --selftest " + name));
  return bandwidth_is_measured(ranks, device, name) ? 0 : 1;
}

}  // namespace lockstep
