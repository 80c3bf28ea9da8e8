#include "training/choose_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "plan/strategy_names.hpp"
#include "training/batch_plan.hpp"
#include "training/model_shapes.hpp"
#include "training/plan_of_training.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kMostWorkers = 4;
// so that the exchange starts while backward still runs
constexpr double kBucketsWanted = 4;

// Notes a choice where the user has made none.
class Chooser {
 public:
  Chooser(TrainingChoice& result, const std::set<std::string>& given)
      : result_(result), given_(given) {}
  bool is_open(const std::string& name) const { return !given_.contains(name); }
  void choose(const std::string& name, const std::string& value, std::string why) {
    if (!is_open(name)) return;
    if (!set_setting(result_.settings, name, value)) return;
    result_.choices.push_back({name, value, std::move(why)});
  }

 private:
  TrainingChoice& result_;
  const std::set<std::string>& given_;
};

bool knows_bf16(const std::string& gpu) {
  for (const char* old : {"V100", "T4", "P100", "GTX", "RTX 20", "TITAN V", "Quadro RTX"})
    if (gpu.find(old) != std::string::npos) return false;
  return true;
}

// The trainer has no FSDP: where that would be faster, it is said.
std::string better_way(const PlanRequest& request, int devices, const Candidate& chosen) {
  PlanRequest free = request;
  free.allowed.clear();
  const SearchResult all = search(free, devices);
  if (!all.best || all.best->tokens_s < 1.1 * chosen.tokens_s) return "";
  return fmt::format(
      "; {} would be {:.1f} times as fast, which this trainer does not have (lockstep plan)",
      name_of(all.best->setting.strategy), all.best->tokens_s / chosen.tokens_s);
}

Error why_it_does_not_fit(const TrainSettings& settings, const PlanRequest& request,
                          const SearchResult& found) {
  const std::string has = format_bytes(usable_memory(request.machine.gpu));
  const Candidate& least = found.of_each.front();
  if (request.micro_batch && !asked_batch(request)) {
    PlanRequest open = request;
    open.micro_batch = std::nullopt;
    std::int64_t fits = 0;
    for (std::int64_t batch = 1; batch <= open.most_samples; batch *= 2) {
      TrainingSetting setting = least.setting;
      setting.micro_batch = batch;
      if (evaluate(open, setting).fits) fits = batch;
    }
    if (fits > 0)
      return Error{fmt::format("batch {} needs {} on each device, of {}", settings.batch_size,
                               format_bytes(least.memory.total_bytes()), has),
                   fmt::format("use --batch-size {} and --accumulation {}", fits,
                               (settings.batch_size * settings.accumulation + fits - 1) / fits)};
  }
  PlanRequest whole = request;
  whole.allowed.clear();
  const SearchResult all = search(whole, request.machine.gpus());
  const std::string other = all.best ? fmt::format(
                                           "{} would hold it, which this trainer does not have: "
                                           "lockstep plan --emit accelerate; ",
                                           name_of(all.best->setting.strategy))
                                     : std::string();
  return Error{
      fmt::format("{} does not fit: {} on each device at least, of {}", settings.model,
                  format_bytes(least.memory.total_bytes()), has),
      fmt::format("{}choose a smaller --model or --sequence-length{}", other,
                  settings.parallel == "auto" || settings.parallel == "naive"
                      ? ""
                      : "; --parallel naive holds it over several devices, one at work at a time")};
}

// What the planner found for the net on these devices, as settings. An error where nothing fits
// that the trainer can run.
Status take_plan(Chooser& chooser, TrainingChoice& result, const std::set<std::string>& given,
                 const ModelShape& shape, const TrainMachine& machine, int devices) {
  TrainSettings& settings = result.settings;
  const bool on_gpu = settings.device == "cuda";
  PlanRequest request = training_request(settings, given, shape, machine, devices);
  const auto all_it_can = request.allowed;
  const bool is_open = settings.parallel == "auto";
  if (is_open) request.allowed = {SplitStrategy::single, SplitStrategy::ddp};
  SearchResult found = search(request, devices);
  // An update that cannot be shared out is another matter: plan_batch says what would do.
  if (found.of_each.empty()) {
    if (is_open)
      chooser.choose("parallel", devices > 1 ? "ddp" : "single", "as many as there are devices");
    return Done{};
  }
  if (!found.best && is_open) {
    request.allowed = all_it_can;
    found = search(request, devices);
  }
  if (!found.best) return why_it_does_not_fit(settings, request, found);
  const TrainingSetting& setting = found.best->setting;
  if (settings.parallel == "auto") {
    const std::string parallel = parallel_of(setting.strategy);
    chooser.choose(
        "parallel", parallel,
        parallel == "ddp"
            ? fmt::format("{} devices work at the same time, each on its own part of the batch",
                          devices)
        : parallel == "single"
            ? std::string("there is one device")
            : fmt::format("it does not fit on one device: {}", words_of(setting.strategy)) +
                  better_way(request, devices, *found.best));
    if (parallel == "hybrid")
      chooser.choose("split", std::to_string(setting.group),
                     "the fewest devices that hold the model");
  }
  if (setting.checkpointing == Checkpointing::blocks && !settings.activation_checkpointing)
    chooser.choose("activation-checkpointing", "true",
                   fmt::format("forward's results would not fit beside {} of states",
                               format_bytes(found.best->memory.weights_bytes +
                                            found.best->memory.gradients_bytes +
                                            found.best->memory.optimizer_bytes)));
  chooser.choose("batch-size", std::to_string(setting.micro_batch),
                 on_gpu ? fmt::format("fits: {} of {} on each GPU (estimated)",
                                      format_bytes(found.best->memory.total_bytes()),
                                      format_bytes(usable_memory(request.machine.gpu)))
                        : std::string("enough to keep a core busy"));
  return Done{};
}

void choose_workers(Chooser& chooser, const TrainingChoice& result, const TrainMachine& machine,
                    bool on_gpu) {
  const int spare = on_gpu ? machine.cores / std::max(1, result.ranks) - 1
                           : (machine.cores - result.ranks) / std::max(1, result.ranks);
  const std::int64_t workers = std::clamp<std::int64_t>(spare, 1, kMostWorkers);
  chooser.choose(
      "workers", std::to_string(workers),
      fmt::format("{} {} for {} {}", machine.cores, machine.cores == 1 ? "core" : "cores",
                  result.ranks, result.ranks == 1 ? "process" : "processes"));
}

void choose_buckets(Chooser& chooser, const TrainSettings& settings, const ModelShape& shape) {
  if (settings.parallel != "ddp" && settings.parallel != "hybrid") return;
  const double gradients_mb = static_cast<double>(parameter_count(shape)) * 4 / 1024 / 1024;
  // a small one travels in no time
  if (gradients_mb < 1 || gradients_mb / kBucketsWanted >= settings.bucket_mb) return;
  const double bucket = std::max(0.25, std::round(gradients_mb / kBucketsWanted * 4) / 4);
  chooser.choose(
      "bucket-mb", fmt::format("{}", bucket),
      fmt::format(
          "{:.1f} MB of gradients in about {:.0f} buckets: the first leaves while backward runs",
          gradients_mb, kBucketsWanted));
  chooser.choose("first-bucket-mb", fmt::format("{}", std::min(settings.first_bucket_mb, bucket)),
                 "no larger than the others");
}

}  // namespace

Result<TrainingChoice> choose_training(const TrainSettings& settings,
                                       const std::set<std::string>& given,
                                       const TrainMachine& machine) {
  TrainingChoice result{settings, 1, {}};
  Chooser chooser(result, given);
  auto shape = TRY(shape_of(settings));

  if (settings.device == "cuda" && machine.gpus == 0)
    return Error{"--device cuda, and this machine shows no GPU",
                 "leave it out for virtual GPUs, or see `lockstep doctor`"};
  if (settings.device == "auto")
    chooser.choose("device", machine.gpus > 0 ? "cuda" : "cpu",
                   machine.gpus > 0
                       ? fmt::format("{} {}", machine.gpus,
                                     machine.gpus == 1 ? "GPU is here" : "GPUs are here")
                       : "no GPU is here: each core stands for one");
  const bool on_gpu = result.settings.device == "cuda";
  const int there_are = on_gpu ? machine.gpus : machine.cores;
  const int devices =
      settings.devices > 0 ? static_cast<int>(settings.devices) : std::max(1, there_are);
  if (on_gpu && devices > machine.gpus)
    return usage_error(
        fmt::format("--devices {}, but this machine has {} GPUs", devices, machine.gpus),
        fmt::format("use --devices {}", machine.gpus));
  if (settings.devices == 0) chooser.choose("devices", std::to_string(devices), "all there are");

  if (result.settings.precision == "auto") {
    if (!on_gpu)
      chooser.choose("precision", "fp32", "cores have no matrix units for less");
    else if (knows_bf16(machine.gpu_name))
      chooser.choose("precision", "bf16", "tensor cores, with fp32's range");
    else
      chooser.choose("precision", "fp16",
                     fmt::format("{} has tensor cores for fp16 alone", machine.gpu_name));
  }
  if (shape.kind == ModelKind::gpt && machine.memory_bytes > 0) {
    TRY(take_plan(chooser, result, given, shape, machine, devices));
  } else if (settings.parallel == "auto") {
    chooser.choose(
        "parallel", devices > 1 ? "ddp" : "single",
        devices > 1
            ? fmt::format("{} devices work at the same time, each on its own part of the batch",
                          devices)
            : "there is one device");
  }
  if (result.settings.parallel == "ddp") result.ranks = devices;
  if (result.settings.parallel == "hybrid")
    result.ranks = static_cast<int>((devices + result.settings.split - 1) / result.settings.split);
  const std::int64_t replicas =
      result.settings.parallel == "data-parallel" ? devices : result.ranks;
  auto plan = TRY(plan_batch(result.settings, shape, replicas));
  result.settings.accumulation = plan.accumulation;
  if (plan.accumulation != settings.accumulation)
    result.choices.push_back({"accumulation", std::to_string(plan.accumulation),
                              fmt::format("{} samples an update in passes of {} x {}",
                                          plan.samples_per_update, plan.batch_size, replicas)});
  choose_workers(chooser, result, machine, on_gpu);
  choose_buckets(chooser, result.settings, shape);
  return result;
}

}  // namespace lockstep
