#include "plan/make_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.hpp"
#include "plan/choose_settings.hpp"
#include "plan/explain_numbers.hpp"
#include "plan/strategy_names.hpp"

namespace lockstep {
namespace {

double real(std::int64_t number) { return static_cast<double>(number); }

Status check_request(const PlanRequest& request) {
  if (request.target_batch && request.tokens_per_update)
    return usage_error("--target-batch and --tokens-per-update say the same twice",
                       "give one of them");
  const std::int64_t length = request.workload.sequence_length;
  if (request.tokens_per_update && *request.tokens_per_update % length != 0)
    return usage_error(
        fmt::format("--tokens-per-update {}: no whole number of sequences of {} tokens",
                    *request.tokens_per_update, length),
        fmt::format("use {} or {}", *request.tokens_per_update / length * length,
                    (*request.tokens_per_update / length + 1) * length));
  const auto target = asked_batch(request);
  if (target && *target < 1)
    return usage_error("an update needs at least one sample",
                       "give a larger --target-batch or --tokens-per-update");
  if (target && request.micro_batch && *target % *request.micro_batch != 0)
    return usage_error(fmt::format("--target-batch {} is no multiple of --micro-batch {}", *target,
                                   *request.micro_batch),
                       "leave --micro-batch out, or choose one that divides it");
  if (request.workload.method == TrainingMethod::qlora && request.strategy == SplitStrategy::zero2)
    return usage_error("ZeRO-2 divides gradients, of which QLoRA has next to none",
                       "leave --strategy out");
  return Done{};
}

void fill_model(const PlanRequest& request, const Footprint& footprint, Plan& plan) {
  const Workload& workload = request.workload;
  plan.model = {.name = workload.net.name,
                .parameters = footprint.parameters,
                .trained_parameters = footprint.trained_parameters,
                .layers = workload.net.layers,
                .hidden = workload.net.hidden,
                .vocabulary = workload.net.vocabulary,
                .sequence_length = workload.sequence_length,
                .method = std::string(name_of(workload.method)),
                .precision = std::string(name_of(workload.format)),
                .frozen = {}};
  for (const Architecture& net : workload.frozen) plan.model.frozen.push_back(net.name);
}

void fill_hardware(const PlanRequest& request, Plan& plan) {
  const PlannedMachine& machine = request.machine;
  plan.hardware = {.gpu = std::string(machine.gpu.name),
                   .gpus_a_node = machine.gpus_a_node,
                   .nodes = machine.nodes,
                   .memory_bytes = machine.gpu.memory_bytes,
                   .links = machine.gpu.nvlink_bytes_s > 0 ? "nvlink" : "pcie",
                   .link_bytes_s = machine.link_bytes_s,
                   .network_bytes_s = machine.network_bytes_s,
                   .cores_a_node = machine.cores_a_node,
                   .notes = request.notes};
}

// 1, 2, 4 … and what there is.
std::vector<int> counts_to_show(const PlannedMachine& machine) {
  std::vector<int> counts;
  for (int gpus = 1; gpus < machine.gpus(); gpus *= 2)
    if (gpus <= machine.gpus_a_node || gpus % machine.gpus_a_node == 0) counts.push_back(gpus);
  counts.push_back(machine.gpus());
  return counts;
}

// What speedups are measured by: one GPU as planned, or, where it holds the training only by
// computing twice, swapping or not at all, one with memory enough.
double rate_of_one(const PlanRequest& request, const PlannedWay& first) {
  if (first.gpus == 1 && first.strategy == "single" && !first.activation_checkpointing)
    return first.tokens_s;
  PlanRequest ideal = request;
  ideal.machine.gpu.memory_bytes = 1e16;
  ideal.strategy = SplitStrategy::single;
  ideal.allowed.clear();
  ideal.checkpointing = false;
  ideal.most_samples = std::max<std::int64_t>(1, first.micro_batch * 4);
  const SearchResult found = search(ideal, 1);
  return found.best ? found.best->tokens_s : first.tokens_s / first.gpus;
}

void fill_scaling(const PlanRequest& request, Plan& plan) {
  std::vector<int> counts = counts_to_show(request.machine);
  if (std::ranges::find(counts, plan.choice.gpus) == counts.end())
    counts.insert(std::ranges::upper_bound(counts, plan.choice.gpus), plan.choice.gpus);
  PlanRequest with_more = request;
  // what more GPUs would bring
  if (counts.size() < 4 && request.machine.nodes == 1 && request.tokens) {
    for (int gpus = 1; gpus <= 8; gpus *= 2)
      if (std::ranges::find(counts, gpus) == counts.end()) counts.push_back(gpus);
    std::ranges::sort(counts);
    with_more.machine.gpus_a_node = std::max(with_more.machine.gpus_a_node, 8);
  }
  for (const int gpus : counts) {
    const SearchResult found = search(with_more, gpus);
    plan.candidates += found.tried;
    if (!found.best) continue;
    PlannedScale scale{planned_way(with_more, *found.best), 1, 1, std::nullopt, std::nullopt};
    if (request.tokens) {
      const double seconds = *request.tokens / scale.way.tokens_s;
      scale.days = seconds / 86400;
      scale.gpu_hours = seconds / 3600 * gpus;
    }
    plan.scaling.push_back(std::move(scale));
  }
  if (plan.scaling.empty()) return;
  plan.base_tokens_s = rate_of_one(with_more, plan.scaling.front().way);
  for (PlannedScale& scale : plan.scaling) {
    scale.speedup = scale.way.tokens_s / plan.base_tokens_s;
    scale.efficiency = scale.speedup / scale.way.gpus;
  }
}

// Half the samples in a pass and twice the passes, again and again; then computing more and
// dividing more. Accumulation alone frees nothing.
void fill_ladder(const PlanRequest& request, const Candidate& chosen, Plan& plan) {
  TrainingSetting setting = chosen.setting;
  const std::int64_t global = setting.global_batch();
  const auto add = [&](const TrainingSetting& rung, std::string note) {
    plan.ladder.push_back({planned_way(request, evaluate(request, rung)), std::move(note)});
  };
  add(setting, "the plan");
  if (setting.micro_batch >= 4) {
    TrainingSetting less = setting;
    less.micro_batch = setting.micro_batch * 3 / 4;
    add(less,
        fmt::format("the global batch becomes {} instead of {}", less.global_batch(), global));
  }
  while (setting.micro_batch > 1) {
    const std::int64_t half = (setting.micro_batch + 1) / 2;
    const bool same = setting.micro_batch % 2 == 0;
    setting.accumulation =
        same ? setting.accumulation * 2 : setting.accumulation * setting.micro_batch;
    setting.micro_batch = same ? half : 1;
    add(setting, "");
  }
  if (setting.checkpointing == Checkpointing::none) {
    setting.checkpointing = Checkpointing::blocks;
    add(setting, "activation checkpointing: about a third more compute");
  }
  if (setting.gpus > 1 &&
      (setting.strategy == SplitStrategy::ddp || setting.strategy == SplitStrategy::zero1 ||
       setting.strategy == SplitStrategy::zero2)) {
    setting.strategy = SplitStrategy::fsdp;
    setting.group = setting.gpus;
    add(setting, "FSDP: 1.5 times the traffic, for each pass");
  }
}

struct Doubt {
  const char* name;
  const char* unit;
  double share;
  std::function<double(const PlanRequest&, const Footprint&)> value;
  std::function<void(PlanRequest&, Footprint&, double)> scale;
};

// How far each number the model rests on may be off, and what that would do to the plan.
void fill_doubts(const PlanRequest& request, const Footprint& footprint, const Candidate& chosen,
                 Plan& plan) {
  const bool measured = request.calibrated;
  const std::vector<Doubt> doubts = {
      {"speed of matrix products", "TFLOP/s", measured ? 0.05 : 0.2,
       [](const PlanRequest& asked, const Footprint&) {
         return asked.machine.gpu.half_tflops * asked.machine.gpu.large_product_share;
       },
       [](PlanRequest& asked, Footprint&, double by) {
         asked.machine.gpu.large_product_share /= by;
       }},
      {"speed of the GPU's memory", "GB/s", measured ? 0.05 : 0.1,
       [](const PlanRequest& asked, const Footprint&) {
         return asked.machine.gpu.memory_bytes_s / 1e9;
       },
       [](PlanRequest& asked, Footprint&, double by) { asked.machine.gpu.memory_bytes_s /= by; }},
      {"speed of the links", "GB/s", 0.4,
       [](const PlanRequest& asked, const Footprint&) { return asked.machine.link_bytes_s / 1e9; },
       [](PlanRequest& asked, Footprint&, double by) {
         asked.machine.link_bytes_s /= by;
         asked.machine.network_bytes_s /= by;
       }},
      {"time until the host has started a layer", "ms", measured ? 0.1 : 0.4,
       [](const PlanRequest&, const Footprint& print) { return print.host_ms_a_layer; },
       [](PlanRequest&, Footprint& print, double by) { print.host_ms_a_layer *= by; }},
      {"bytes that forward keeps for a token", "bytes", measured ? 0.05 : 0.15,
       [](const PlanRequest&, const Footprint& print) {
         return print.kept_bytes + print.loss_bytes;
       },
       [](PlanRequest&, Footprint& print, double by) {
         print.kept_bytes *= by;
         print.kept_when_checkpointed_bytes *= by;
         print.loss_bytes *= by;
       }},
  };
  double step = 0;
  double memory = 0;
  for (const Doubt& doubt : doubts) {
    PlanRequest worse = request;
    Footprint heavier = footprint;
    doubt.scale(worse, heavier, 1 + doubt.share);
    const Candidate changed = evaluate(worse, heavier, chosen.setting);
    const double step_effect = changed.time.step_ms() / chosen.time.step_ms() - 1;
    const double memory_effect = changed.memory.total_bytes() / chosen.memory.total_bytes() - 1;
    step += step_effect * step_effect;
    memory += memory_effect * memory_effect;
    plan.assumptions.push_back({doubt.name, doubt.value(request, footprint), doubt.unit,
                                doubt.share, step_effect, memory_effect});
  }
  std::ranges::stable_sort(plan.assumptions,
                           [](const PlanAssumption& one, const PlanAssumption& other) {
                             return std::max(one.step_effect, one.memory_effect) >
                                    std::max(other.step_effect, other.memory_effect);
                           });
  constexpr double kBeside = 0.05;  // what no single number stands for
  plan.step_doubt = std::sqrt(step + kBeside * kBeside);
  plan.memory_doubt = std::sqrt(memory + kBeside * kBeside);
}

std::string gigabytes(double bytes) { return format_bytes(bytes); }

// The least change with which it would fit.
void find_ways_out(const PlanRequest& request, Plan& plan) {
  const auto fits = [](const PlanRequest& changed) {
    return search(changed, changed.machine.gpus()).best;
  };
  if (request.target_batch || request.tokens_per_update || request.micro_batch ||
      request.strategy || request.checkpointing) {
    PlanRequest free = request;
    free.target_batch = free.tokens_per_update = free.micro_batch = std::nullopt;
    free.strategy = std::nullopt;
    free.checkpointing = std::nullopt;
    if (const auto found = fits(free))
      plan.ways_out.push_back(fmt::format("leave batch and strategy open: {} with {} a GPU fits",
                                          name_of(found->setting.strategy),
                                          found->setting.micro_batch));
  }
  for (std::int64_t length = request.workload.sequence_length / 2; length >= 128; length /= 2) {
    PlanRequest shorter = request;
    shorter.workload.sequence_length = length;
    if (!fits(shorter)) continue;
    plan.ways_out.push_back(fmt::format("--sequence-length {}", length));
    break;
  }
  if (request.workload.optimizer == OptimizerKind::adamw &&
      request.workload.method == TrainingMethod::full) {
    PlanRequest lighter = request;
    lighter.workload.optimizer = OptimizerKind::adamw_8bit;
    if (const auto found = fits(lighter))
      plan.ways_out.push_back(
          fmt::format("--optimizer adamw-8bit: {}", words_of(found->setting.strategy)));
  }
  for (const TrainingMethod method : {TrainingMethod::lora, TrainingMethod::qlora}) {
    PlanRequest lighter = request;
    lighter.workload.method = method;
    if (static_cast<int>(method) <= static_cast<int>(request.workload.method)) continue;
    if (const auto found = fits(lighter)) {
      plan.ways_out.push_back(
          fmt::format("--method {}: {}", name_of(method), words_of(found->setting.strategy)));
      break;
    }
  }
  for (int gpus = request.machine.gpus() + 1; gpus <= 512; gpus = gpus < 8 ? gpus + 1 : gpus * 2) {
    PlanRequest larger = request;
    if (gpus <= 8)
      larger.machine.gpus_a_node = gpus;
    else {
      larger.machine.gpus_a_node = 8;
      larger.machine.nodes = (gpus + 7) / 8;
    }
    if (!fits(larger)) continue;
    plan.ways_out.push_back(fmt::format(
        "{} of these GPUs{}", larger.machine.gpus(),
        larger.machine.nodes > 1 ? fmt::format(", on {} nodes", larger.machine.nodes) : ""));
    break;
  }
  PlanRequest larger_host = request;
  larger_host.machine.host_memory_bytes = 1e15;
  if (fits(larger_host)) {
    const Footprint footprint = footprint_of(request.workload);
    const double resting =
        (footprint.weights_bytes + footprint.gradients_bytes + footprint.optimizer_bytes) /
        request.machine.nodes;
    plan.ways_out.push_back(
        fmt::format("a host with {} of memory a node, for what rests: --strategy offload (slow)",
                    format_bytes(resting / 0.8)));
  }
  const GpuKind* smallest = nullptr;
  for (const GpuKind& kind : gpu_kinds()) {
    if (kind.memory_bytes <= request.machine.gpu.memory_bytes ||
        (smallest != nullptr && kind.memory_bytes >= smallest->memory_bytes))
      continue;
    PlanRequest larger = request;
    larger.machine.gpu = kind;
    if (fits(larger)) smallest = &kind;
  }
  if (smallest != nullptr)
    plan.ways_out.push_back(
        fmt::format("GPUs with more memory: {}x{}", request.machine.gpus_a_node, smallest->name));
  if (!plan.ways_out.empty()) return;
  // No single change does: the smallest machine that would, of those that clouds have.
  for (const int nodes : {1, 2, 4, 8, 16, 32})
    for (const char* name : {"A100-80GB", "H100-80GB", "H200-141GB"})
      for (const int gpus : {1, 2, 4, 8}) {
        if (nodes > 1 && gpus < 8) continue;
        PlanRequest other = request;
        other.machine = {.gpu = *gpu_kind_named(name),
                         .gpus_a_node = gpus,
                         .nodes = nodes,
                         .link_bytes_s = 2e11,
                         .network_bytes_s = 4e10,
                         .host_memory_bytes = 1e12,
                         .cores_a_node = 96};
        if (!fits(other)) continue;
        plan.ways_out.push_back(fmt::format(
            "{}{} x {}", nodes > 1 ? fmt::format("{} nodes of ", nodes) : "", gpus, name));
        return;
      }
}

// Of ways that do not fit the one that lacks least on a GPU. Offloading fails for the host's
// memory, which is another matter.
Candidate least_of(const std::vector<Candidate>& candidates) {
  const auto lacks = [](const Candidate& candidate) {
    return candidate.memory.total_bytes() +
           (candidate.setting.strategy == SplitStrategy::offload ? 1e18 : 0);
  };
  return *std::ranges::min_element(candidates, [&](const Candidate& one, const Candidate& other) {
    return lacks(one) < lacks(other);
  });
}

// All GPUs, unless fewer are faster: over slow links, or where the global batch cannot be shared
// out well.
struct SearchOn {
  SearchResult found;
  int gpus = 1;
  std::optional<Candidate> on_all;  // the best that all of them could do
};
SearchOn search_with_fewer(const PlanRequest& request, std::size_t& tried) {
  constexpr double kFasterBy = 1.05;
  const PlannedMachine& machine = request.machine;
  SearchOn best{search(request, machine.gpus()), machine.gpus(), std::nullopt};
  best.on_all = best.found.best;
  tried += best.found.tried;
  if (request.strategy) return best;
  const int step = machine.nodes > 1 ? machine.gpus_a_node : 1;
  for (int gpus = machine.gpus() - step; gpus >= 1; gpus -= step) {
    SearchResult fewer = search(request, gpus);
    tried += fewer.tried;
    if (!fewer.best) continue;
    const bool swaps = fewer.best->setting.strategy == SplitStrategy::offload && best.found.best &&
                       best.found.best->setting.strategy != SplitStrategy::offload;
    if (!swaps &&
        (!best.found.best || fewer.best->tokens_s > kFasterBy * best.found.best->tokens_s))
      best = {std::move(fewer), gpus, best.on_all};
  }
  return best;
}

std::string reason_for(const Candidate& chosen, const SearchResult& found,
                       const PlanRequest& request) {
  const SplitStrategy strategy = chosen.setting.strategy;
  const std::string limit = gigabytes(usable_memory(request.machine.gpu));
  for (const Candidate& other : found.of_each) {
    if (other.setting.strategy == strategy) break;
    if (!other.fits)
      return fmt::format("{} would need {} of {} on each GPU; {}", name_of(other.setting.strategy),
                         gigabytes(other.memory.total_bytes()), limit,
                         strategy == SplitStrategy::model_split
                             ? "nothing that keeps all GPUs busy fits or is faster"
                             : "this is the simplest way that fits, or the fastest");
    if (other.fits)
      return fmt::format("{:.2f} times the speed of {}", chosen.tokens_s / other.tokens_s,
                         name_of(other.setting.strategy));
  }
  if (strategy == SplitStrategy::single)
    return request.machine.gpus() == 1 ? "there is one GPU, and it fits" : "it fits on one GPU";
  if (strategy != SplitStrategy::ddp)
    return request.strategy ? "asked for" : "nothing simpler can be shared out so";
  return fmt::format("it fits on each GPU ({} of {}), and gradients are all that has to travel",
                     gigabytes(chosen.memory.total_bytes()), limit);
}

}  // namespace

PlannedWay planned_way(const PlanRequest& request, const Candidate& candidate) {
  const Footprint footprint = footprint_of(request.workload);
  const TrainingSetting& setting = candidate.setting;
  const MemoryParts& memory = candidate.memory;
  PlannedWay way;
  way.strategy = name_of(setting.strategy);
  way.words = words_of(setting.strategy);
  way.gpus = setting.gpus;
  way.nodes = (setting.gpus + request.machine.gpus_a_node - 1) / request.machine.gpus_a_node;
  way.group = setting.group;
  way.replicas = setting.replicas();
  way.micro_batch = setting.micro_batch;
  way.accumulation = setting.accumulation;
  way.global_batch = setting.global_batch();
  way.tokens_per_update = way.global_batch * request.workload.sequence_length;
  way.activation_checkpointing = setting.checkpointing == Checkpointing::blocks;
  way.fits = candidate.fits;
  for (const auto& [name, bytes] : {std::pair{"weights", memory.weights_bytes},
                                    {"gradients", memory.gradients_bytes},
                                    {"optimizer", memory.optimizer_bytes},
                                    {"activations", memory.activations_bytes},
                                    {"logits and loss", memory.loss_bytes},
                                    {"casts, gathered layers, workspaces", memory.working_bytes},
                                    {"buckets", memory.buckets_bytes},
                                    {"allocator's slack", memory.slack_bytes},
                                    {"CUDA, libraries, NCCL", memory.context_bytes}})
    if (bytes > 0) way.memory.push_back({name, bytes});
  way.memory_bytes = memory.total_bytes();
  way.peak_allocated_bytes = memory.peak_bytes();
  way.memory_limit_bytes = usable_memory(request.machine.gpu);
  const StepTime& time = candidate.time;
  way.step_ms = time.step_ms();
  way.compute_ms = time.compute_ms;
  way.optimizer_ms = time.optimizer_ms;
  way.communication_ms = time.communication_ms;
  way.exposed_ms = time.exposed_ms + time.uneven_ms;
  way.communication_share = way.exposed_ms / way.step_ms;
  way.host_bound = time.host_bound;
  way.tokens_s = candidate.tokens_s;
  way.samples_s = candidate.tokens_s / real(request.workload.sequence_length);
  const double peak =
      (is_half(request.workload.format)                ? request.machine.gpu.half_tflops
       : request.workload.format == NumberFormat::tf32 ? request.machine.gpu.tf32_tflops
                                                       : request.machine.gpu.single_tflops) *
      1e12;
  way.model_flops_share = candidate.tokens_s *
                          (footprint.forward_operations + footprint.backward_operations) /
                          (peak * setting.gpus);
  return way;
}

Result<Plan> make_plan(const PlanRequest& request) {
  TRY(check_request(request));
  const Footprint footprint = footprint_of(request.workload);
  Plan plan;
  fill_model(request, footprint, plan);
  fill_hardware(request, plan);
  plan.calibrated = request.calibrated;
  const auto [found, gpus, on_all] = search_with_fewer(request, plan.candidates);
  if (found.of_each.empty()) {
    const auto target = asked_batch(request);
    if (target && *target < request.machine.gpus())
      return usage_error(
          fmt::format("a global batch of {} has less than one sample for each of {} GPUs", *target,
                      request.machine.gpus()),
          "raise --target-batch, or plan for fewer GPUs");
    return usage_error(
        fmt::format("nothing can be planned so: {}",
                    request.strategy == SplitStrategy::hybrid_fsdp
                        ? std::string("--strategy hybrid-fsdp needs several nodes")
                    : request.strategy
                        ? fmt::format("--strategy {} needs another number of GPUs than {}",
                                      name_of(*request.strategy), request.machine.gpus())
                        : fmt::format("a global batch of {} cannot be shared out among {} GPUs",
                                      target.value_or(0), request.machine.gpus())),
        target ? fmt::format("use --target-batch {} or {}",
                             *target / request.machine.gpus() * request.machine.gpus(),
                             (*target / request.machine.gpus() + 1) * request.machine.gpus())
               : "leave --strategy out");
  }
  const Candidate chosen = found.best ? *found.best : least_of(found.of_each);
  plan.choice = planned_way(request, chosen);
  for (const Candidate& candidate : found.of_each)
    if (candidate.setting.strategy != chosen.setting.strategy)
      plan.alternatives.push_back(planned_way(request, candidate));
  const Footprint of_choice = footprint_of(request.workload, chosen.setting.checkpointing);
  fill_doubts(request, of_choice, chosen, plan);
  if (!found.best) {
    plan.missing_bytes = plan.choice.memory_bytes - plan.choice.memory_limit_bytes;
    plan.reason =
        plan.missing_bytes > 0
            ? fmt::format(
                  "it fits nowhere: the least that a GPU would have to hold is {}, and it has {}",
                  gigabytes(plan.choice.memory_bytes), gigabytes(plan.choice.memory_limit_bytes))
            : std::string(
                  "it fits nowhere: the host's memory is too small for what would rest there");
    find_ways_out(request, plan);
  } else {
    plan.reason = reason_for(chosen, found, request);
    if (gpus < request.machine.gpus()) {
      plan.reason = fmt::format("{} of {} GPUs: {}; {}", gpus, request.machine.gpus(),
                                on_all ? fmt::format("all of them would be {:.1f} times slower, "
                                                     "for what they have to wait for each other",
                                                     chosen.tokens_s / on_all->tokens_s)
                                       : std::string("the batch cannot be shared out among all"),
                                plan.reason);
    }
    fill_ladder(request, chosen, plan);
  }
  fill_scaling(request, plan);
  if (plan.choice.fits) plan.settings = choose_settings(request, plan.choice);
  plan.numbers = explain_numbers(request, of_choice, chosen, plan);
  return plan;
}

}  // namespace lockstep
