#include "signals/probe_settings.hpp"

#include <algorithm>
#include <utility>

#include "model/batch_room.hpp"
#include "signals/fact_values.hpp"

namespace lockstep {
namespace {

// Warm-up allocates; only what comes later tells of a steady state.
constexpr double kWarmUpMs = 5'000;
constexpr double kCoreLooksMs = 1'500;  // less is chance

void take_loader(ProbeSettings& settings, const ProbeFact& fact,
                 std::map<std::pair<int, std::uint64_t>, std::string>& epochs) {
  const FactValues values(fact);
  const auto id = static_cast<std::uint64_t>(values.number("id").value_or(0));
  auto found = std::ranges::find_if(settings.loaders, [&](const LoaderSetting& loader) {
    return loader.id == id && loader.rank == fact.rank;
  });
  if (found == settings.loaders.end()) {
    settings.loaders.push_back({.id = id, .rank = fact.rank});
    found = std::prev(settings.loaders.end());
  }
  LoaderSetting& loader = *found;
  const int passes = values.integer("passes").value_or(1);
  const bool is_new_pass = passes > loader.passes;  // else the same is said again
  loader.passes = std::max(loader.passes, passes);
  loader.workers = values.integer("workers").value_or(0);
  loader.prefetch = values.integer("prefetch");
  loader.batch = values.integer("batch");
  loader.batches = values.integer("batches");
  loader.shards = values.integer("shards");
  loader.pinned = values.yes("pin");
  loader.persistent = values.yes("persistent");
  loader.shuffles = values.yes("shuffle");
  loader.streams = !values.word("iterable").empty();
  loader.sampler = values.word("sampler");
  loader.order_seed = values.word("order_seed");
  const std::string epoch = values.word("epoch");
  const auto [last, is_first] = epochs.try_emplace({fact.rank, id}, epoch);
  if (!is_first && is_new_pass && !epoch.empty() && last->second == epoch) ++loader.same_epochs;
  last->second = epoch;
}

// Ranks try at the same time: the slowest of a number of workers is what the job would get.
void take_trial(std::vector<LoaderTrial>& trials, const LoaderTrial& trial) {
  const auto same = std::ranges::find_if(
      trials, [&](const LoaderTrial& other) { return other.workers == trial.workers; });
  if (same == trials.end())
    trials.push_back(trial);
  else if (trial.batch_ms > same->batch_ms)
    *same = trial;
}

}  // namespace

std::optional<ProbeSettings> probe_settings(const std::vector<FactAt>& facts) {
  if (facts.empty()) return std::nullopt;
  ProbeSettings settings;
  std::map<std::pair<int, std::uint64_t>, std::string> epochs;
  std::map<std::uint64_t, std::pair<double, double>> fetched;  // batches, milliseconds
  struct Counters {
    double t_ms = 0;
    double retries = 0;
    double allocations = 0;
  };
  std::map<int, Counters> first;
  struct Waited {
    double t_ms = 0;
    double ms = 0;
  };
  std::map<int, Waited> waited;  // by rank, when it was first asked
  for (const FactAt& entry : facts) {
    const ProbeFact& fact = entry.fact;
    const FactValues values(fact);
    settings.world_size = std::max(settings.world_size, values.integer("world_size").value_or(1));
    if (fact.name == "loader") {
      take_loader(settings, fact, epochs);
    } else if (fact.name == "fetched") {
      auto& [batches, total] = fetched[static_cast<std::uint64_t>(values.number("id").value_or(0))];
      batches += values.number("batches").value_or(0);
      settings.longest_batch_ms =
          std::max(settings.longest_batch_ms, values.number("longest_ms").value_or(0));
      total += values.number("total_ms").value_or(0);
    } else if (fact.name == "ddp") {
      settings.backend = values.word("backend");
      settings.finds_unused = values.yes("find_unused");
      settings.unused_bytes =
          std::max(settings.unused_bytes, values.number("unused_bytes").value_or(0));
      settings.bucket_bytes = values.number("bucket");
      settings.gradient_bytes = values.number("bytes");
      if (const auto time = values.number("comm_ns"); time && *time > 0)
        settings.collective_ms = *time / 1e6;
      if (const auto time = values.number("overlap_ns")) settings.overlapped_ms = *time / 1e6;
    } else if (fact.name == "optimizer") {
      settings.optimizer = values.word("kind");
      settings.optimizer_fused = values.yes("fused");
      settings.optimizer_can_fuse = values.yes("can_fuse");
      settings.on_gpu = values.word("device") == "cuda";
      settings.parameter_tensors = values.number("tensors").value_or(0);
    } else if (fact.name == "loader_alone" || fact.name == "loader_trial") {
      const LoaderTrial trial{values.integer("workers").value_or(0),
                              values.integer("batches").value_or(0),
                              values.integer("batch"),
                              values.number("first_ms").value_or(0),
                              values.number("batch_ms").value_or(0),
                              values.number("longest_ms").value_or(0)};
      // of the slowest rank
      if (fact.name == "loader_alone" &&
          (!settings.loader_alone || trial.batch_ms > settings.loader_alone->batch_ms))
        settings.loader_alone = trial;
      if (fact.name == "loader_trial") take_trial(settings.loader_trials, trial);
    } else if (fact.name == "loader_transfer") {
      settings.transfer = BatchTransfer{values.number("bytes").value_or(0),
                                        values.number("pageable_ms"), values.number("pinned_ms")};
    } else if (fact.name == "loader_failed") {
      settings.loader_trial_failed = values.word("why");
    } else if (fact.name == "collectives") {
      settings.other_collectives_a_step =
          std::max(settings.other_collectives_a_step, values.number("a_step").value_or(0));
    } else if (fact.name == "processor") {
      const Waited now{entry.t_ms, values.number("waited_ns").value_or(0) / 1e6};
      const auto [begin, is_first] = waited.try_emplace(fact.rank, now);
      if (const double length = now.t_ms - begin->second.t_ms; length > kCoreLooksMs)
        settings.waits_for_a_core[fact.rank] =
            std::clamp((now.ms - begin->second.ms) / length, 0.0, 1.0);
    } else if (fact.name == "hooks") {
      settings.read_hook_ns = std::max(settings.read_hook_ns, values.number("read_ns").value_or(0));
    } else if (fact.name == "program") {
      settings.framework = values.word("framework");
      settings.cores_a_rank = values.number("cores");
      settings.threads_a_rank = values.integer("threads");
    } else if (fact.name == "seed") {
      settings.seeds[fact.rank] = values.word("torch");
    } else if (fact.name == "memory") {
      settings.memory_reserved_bytes = values.number("reserved");
      if (const auto now = values.number("allocated"); now && *now > 0)
        settings.memory_states_bytes = std::min(settings.memory_states_bytes.value_or(*now), *now);
      settings.memory_peak_bytes =
          std::max(settings.memory_peak_bytes.value_or(0), values.number("peak").value_or(0));
      settings.memory_total_bytes = values.number("total");
      const Counters now{entry.t_ms, values.number("retries").value_or(0),
                         values.number("device_allocs").value_or(0)};
      const auto [begin, is_first] = first.try_emplace(fact.rank, now);
      if (entry.t_ms - begin->second.t_ms < kWarmUpMs && !is_first) {
        begin->second.allocations = now.allocations;
        continue;
      }
      settings.allocation_retries =
          std::max(settings.allocation_retries, now.retries - begin->second.retries);
      const double watched_s = (entry.t_ms - begin->second.t_ms - kWarmUpMs) / 1e3;
      if (watched_s > 1)
        settings.device_allocations_a_s =
            std::max(0.0, now.allocations - begin->second.allocations) / watched_s;
    }
  }
  for (const auto& [loader, sums] : fetched)
    if (sums.first > 0) settings.batch_ms_of_worker[loader] = sums.second / sums.first;
  if (settings.memory_states_bytes && settings.memory_peak_bytes &&
      settings.memory_total_bytes.value_or(0) > 0)
    settings.batch_room = batch_room(*settings.memory_states_bytes, *settings.memory_peak_bytes,
                                     *settings.memory_total_bytes);
  return settings;
}

}  // namespace lockstep
