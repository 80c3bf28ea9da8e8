#include "plan/search.hpp"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr std::array kStrategies = {
    SplitStrategy::single,       SplitStrategy::ddp,     SplitStrategy::zero1,
    SplitStrategy::zero2,        SplitStrategy::fsdp,    SplitStrategy::hybrid_fsdp,
    SplitStrategy::hybrid_split, SplitStrategy::offload, SplitStrategy::model_split};
constexpr double kForSimplicity = 0.02;   // of throughput, a step in the order of strategies
constexpr double kForSpareMemory = 0.02;  // of throughput, all of it against none

int rung(SplitStrategy strategy) {
  return static_cast<int>(std::ranges::find(kStrategies, strategy) - kStrategies.begin());
}

// Sizes of the groups that hold one copy.
std::vector<int> groups_of(SplitStrategy strategy, int gpus, const PlannedMachine& machine) {
  const int a_node = std::min(gpus, machine.gpus_a_node);
  switch (strategy) {
    case SplitStrategy::single: return gpus == 1 ? std::vector{1} : std::vector<int>{};
    case SplitStrategy::ddp: return gpus > 1 ? std::vector{1} : std::vector<int>{};
    case SplitStrategy::zero1:
    case SplitStrategy::zero2:
    case SplitStrategy::fsdp: return gpus > 1 ? std::vector{gpus} : std::vector<int>{};
    case SplitStrategy::offload: return {gpus};
    case SplitStrategy::hybrid_fsdp:
      return a_node > 1 && gpus > a_node && gpus % a_node == 0 ? std::vector{a_node}
                                                               : std::vector<int>{};
    case SplitStrategy::hybrid_split: {
      std::vector<int> groups;
      for (int group = 2; group < gpus && group <= a_node; group *= 2) groups.push_back(group);
      return groups;
    }
    case SplitStrategy::model_split:
      return gpus > 1 && gpus <= machine.gpus_a_node ? std::vector{gpus} : std::vector<int>{};
  }
  return {};
}

// Passes an update, and samples a pass.
struct Batching {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
};
std::vector<Batching> batchings_of(const PlanRequest& request, int replicas) {
  std::vector<Batching> found;
  const auto target = asked_batch(request);
  if (target) {
    if (*target % replicas != 0) return found;
    const std::int64_t each = *target / replicas;
    for (std::int64_t micro = 1; micro <= std::min(each, request.most_samples); ++micro)
      if (each % micro == 0 && (!request.micro_batch || *request.micro_batch == micro))
        found.push_back({micro, each / micro});
    return found;
  }
  if (request.micro_batch) return {{*request.micro_batch, 1}};
  for (std::int64_t micro = 1; micro <= request.most_samples; micro *= 2) {
    found.push_back({micro, 1});
    if (micro > 1 && micro + micro / 2 <= request.most_samples)
      found.push_back({micro + micro / 2, 1});
  }
  return found;
}

// One that fits before one that does not; of the latter the one that lacks least.
bool is_better(const Candidate& one, const Candidate& other) {
  if (one.fits != other.fits) return one.fits;
  return one.fits ? one.score > other.score : one.memory.total_bytes() < other.memory.total_bytes();
}

}  // namespace

std::optional<std::int64_t> asked_batch(const PlanRequest& request) {
  if (request.target_batch) return request.target_batch;
  if (request.tokens_per_update)
    return *request.tokens_per_update / request.workload.sequence_length;
  return std::nullopt;
}

Candidate evaluate(const PlanRequest& request, const Footprint& footprint,
                   const TrainingSetting& setting) {
  Candidate candidate;
  const std::int64_t length = request.workload.sequence_length;
  candidate.setting = setting;
  candidate.memory = memory_of(footprint, setting, length, request.machine, request.calibration);
  candidate.time = time_of(footprint, setting, length, request.workload.format, request.machine,
                           request.calibration);
  const double usable = usable_memory(request.machine.gpu);
  candidate.fits = candidate.memory.total_bytes() <= usable;
  if (setting.strategy == SplitStrategy::offload) {
    const double resting =
        (footprint.weights_bytes + footprint.gradients_bytes + footprint.optimizer_bytes) /
        setting.group * std::min(setting.gpus, request.machine.gpus_a_node);
    candidate.fits = candidate.fits && resting <= 0.8 * request.machine.host_memory_bytes;
  }
  candidate.tokens_s =
      1e3 * static_cast<double>(setting.global_batch() * length) / candidate.time.step_ms();
  candidate.score = candidate.tokens_s * (1 - kForSimplicity * rung(setting.strategy)) *
                    (1 - kForSpareMemory * candidate.memory.total_bytes() / usable);
  return candidate;
}

Candidate evaluate(const PlanRequest& request, const TrainingSetting& setting) {
  return evaluate(request, footprint_of(request.workload, setting.checkpointing), setting);
}

SearchResult search(const PlanRequest& request, int gpus) {
  SearchResult result;
  const Footprint plain = footprint_of(request.workload, Checkpointing::none);
  const Footprint checkpointed = footprint_of(request.workload, Checkpointing::blocks);
  for (const SplitStrategy strategy : kStrategies) {
    if (request.strategy && *request.strategy != strategy) continue;
    if (!request.allowed.empty() &&
        std::ranges::find(request.allowed, strategy) == request.allowed.end())
      continue;
    std::optional<Candidate> best;
    for (const int group : groups_of(strategy, gpus, request.machine)) {
      if (request.group > 0 && strategy == SplitStrategy::hybrid_split && group != request.group)
        continue;
      TrainingSetting setting{.strategy = strategy, .gpus = gpus, .group = group};
      for (const Batching& batching : batchings_of(request, setting.replicas()))
        for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::blocks}) {
          if (request.checkpointing &&
              *request.checkpointing != (checkpointing == Checkpointing::blocks))
            continue;
          setting.micro_batch = batching.micro_batch;
          setting.accumulation = batching.accumulation;
          setting.checkpointing = checkpointing;
          const Candidate candidate = evaluate(
              request, checkpointing == Checkpointing::none ? plain : checkpointed, setting);
          ++result.tried;
          if (!best || is_better(candidate, *best)) best = candidate;
        }
    }
    if (!best) continue;
    if (best->fits && (!result.best || is_better(*best, *result.best))) result.best = best;
    result.of_each.push_back(*best);
  }
  return result;
}

}  // namespace lockstep
