#include "training/choose_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "training/batch_plan.hpp"
#include "training/model_shapes.hpp"
#include "training/training_memory.hpp"

namespace lockstep {
namespace {

constexpr double kUsableMemory = 0.9;        // the allocator's slack is 5 to 10 %
constexpr std::int64_t kLargestBatch = 64;   // beyond it a GPU gains little and the loss changes
constexpr std::int64_t kMostWorkers = 4;
constexpr double kBucketsWanted = 4;         // so that the exchange starts while backward still runs

// Notes a choice where the user has made none.
class Chooser {
 public:
  Chooser(TrainingChoice& result, const std::set<std::string>& given) : result_(result), given_(given) {}
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

std::string gigabytes(double bytes) { return format_bytes(bytes); }

// The largest batch that fits, a power of two; 0: not even one sample.
std::int64_t batch_that_fits(const MemoryNeeds& needs, double memory) {
  std::int64_t batch = 0;
  for (std::int64_t next = 1; next <= kLargestBatch && needs.of_batch(next) <= memory; next *= 2) batch = next;
  return batch;
}

// The largest batch up to `most` with which an update is a whole number of passes; `most` where none is.
std::int64_t batch_that_divides(std::int64_t most, const TrainSettings& settings, const ModelShape& shape, std::int64_t replicas) {
  for (std::int64_t batch = most; batch > 0; --batch) {
    TrainSettings with_batch = settings;
    with_batch.batch_size = batch;
    if (plan_batch(with_batch, shape, replicas)) return batch;
  }
  return most;
}

// Batch and checkpointing for the memory of one device.
Status fit_memory(Chooser& chooser, TrainingChoice& result, const ModelShape& shape, const TrainMachine& machine, bool on_gpu, std::int64_t replicas) {
  if (machine.memory_bytes == 0) return Done{};
  TrainSettings& settings = result.settings;
  const double memory = kUsableMemory * static_cast<double>(machine.memory_bytes) / (on_gpu ? 1 : std::max(1, result.ranks));
  MemoryOptions options{.half_precision = settings.precision == "bf16" || settings.precision == "fp16", .activation_checkpointing = settings.activation_checkpointing, .on_gpu = on_gpu};
  MemoryNeeds needs = memory_needs(shape, options);
  const std::int64_t wanted = settings.batch_size;
  if (needs.of_batch(chooser.is_open("batch-size") ? 1 : wanted) > memory && !options.activation_checkpointing && chooser.is_open("activation-checkpointing")) {
    options.activation_checkpointing = true;
    needs = memory_needs(shape, options);
    chooser.choose("activation-checkpointing", "true", fmt::format("forward's results would need {} a sample beside {} of states", gigabytes(memory_needs(shape, {options.half_precision, false, on_gpu}).per_sample_bytes), gigabytes(needs.states_bytes)));
  }
  if (!chooser.is_open("batch-size")) {
    if (needs.of_batch(wanted) <= memory) return Done{};
    const std::int64_t fits = batch_that_fits(needs, memory);
    return Error{fmt::format("batch {} needs {} on each device, of {}", wanted, gigabytes(needs.of_batch(wanted)), gigabytes(memory)),
                 fits > 0 ? fmt::format("use --batch-size {} and --accumulation {}", fits, (wanted * settings.accumulation + fits - 1) / fits) : "choose a smaller --model or --sequence-length"};
  }
  const std::int64_t fits = batch_that_fits(needs, memory);
  if (fits == 0)
    return Error{fmt::format("{} does not fit: {} for states and {} a sample, of {} on each device", settings.model, gigabytes(needs.states_bytes), gigabytes(needs.per_sample_bytes), gigabytes(memory)),
                 "choose a smaller --model or --sequence-length; --parallel naive holds it over several devices, one at work at a time"};
  const std::int64_t batch = batch_that_divides(on_gpu ? fits : std::min(fits, wanted), settings, shape, replicas);
  chooser.choose("batch-size", std::to_string(batch), on_gpu ? fmt::format("fits: {} of {} on each GPU (estimated)", gigabytes(needs.of_batch(batch)), gigabytes(memory)) : std::string("enough to keep a core busy"));
  return Done{};
}

void choose_workers(Chooser& chooser, const TrainingChoice& result, const TrainMachine& machine, bool on_gpu) {
  const int spare = on_gpu ? machine.cores / std::max(1, result.ranks) - 1 : (machine.cores - result.ranks) / std::max(1, result.ranks);
  const std::int64_t workers = std::clamp<std::int64_t>(spare, 1, kMostWorkers);
  chooser.choose("workers", std::to_string(workers), fmt::format("{} {} for {} {}", machine.cores, machine.cores == 1 ? "core" : "cores", result.ranks, result.ranks == 1 ? "process" : "processes"));
}

void choose_buckets(Chooser& chooser, const TrainSettings& settings, const ModelShape& shape) {
  if (settings.parallel != "ddp" && settings.parallel != "hybrid") return;
  const double gradients_mb = static_cast<double>(parameter_count(shape)) * 4 / 1024 / 1024;
  if (gradients_mb < 1 || gradients_mb / kBucketsWanted >= settings.bucket_mb) return;  // a small one travels in no time
  const double bucket = std::max(0.25, std::round(gradients_mb / kBucketsWanted * 4) / 4);
  chooser.choose("bucket-mb", fmt::format("{}", bucket), fmt::format("{:.1f} MB of gradients in about {:.0f} buckets: the first leaves while backward runs", gradients_mb, kBucketsWanted));
  chooser.choose("first-bucket-mb", fmt::format("{}", std::min(settings.first_bucket_mb, bucket)), "no larger than the others");
}

}  // namespace

Result<TrainingChoice> choose_training(const TrainSettings& settings, const std::set<std::string>& given, const TrainMachine& machine) {
  TrainingChoice result{settings, 1, {}};
  Chooser chooser(result, given);
  auto shape = shape_of(settings);
  if (!shape) return std::move(shape).error();

  if (settings.device == "cuda" && machine.gpus == 0) return Error{"--device cuda, and this machine shows no GPU", "leave it out for virtual GPUs, or see `lockstep doctor`"};
  if (settings.device == "auto")
    chooser.choose("device", machine.gpus > 0 ? "cuda" : "cpu", machine.gpus > 0 ? fmt::format("{} {}", machine.gpus, machine.gpus == 1 ? "GPU is here" : "GPUs are here") : "no GPU is here: each core stands for one");
  const bool on_gpu = result.settings.device == "cuda";
  const int there_are = on_gpu ? machine.gpus : machine.cores;
  const int devices = settings.devices > 0 ? static_cast<int>(settings.devices) : std::max(1, there_are);
  if (on_gpu && devices > machine.gpus)
    return usage_error(fmt::format("--devices {}, but this machine has {} GPUs", devices, machine.gpus), fmt::format("use --devices {}", machine.gpus));
  if (settings.devices == 0) chooser.choose("devices", std::to_string(devices), "all there are");

  if (result.settings.parallel == "auto")
    chooser.choose("parallel", devices > 1 ? "ddp" : "single", devices > 1 ? fmt::format("{} devices work at the same time, each on its own part of the batch", devices) : "there is one device");
  if (result.settings.parallel == "ddp") result.ranks = devices;
  if (result.settings.parallel == "hybrid") result.ranks = static_cast<int>((devices + settings.split - 1) / settings.split);

  if (result.settings.precision == "auto") {
    if (!on_gpu) chooser.choose("precision", "fp32", "cores have no matrix units for less");
    else if (knows_bf16(machine.gpu_name)) chooser.choose("precision", "bf16", "tensor cores, with fp32's range");
    else chooser.choose("precision", "fp16", fmt::format("{} has tensor cores for fp16 alone", machine.gpu_name));
  }
  const std::int64_t replicas = result.settings.parallel == "data-parallel" ? devices : result.ranks;
  const bool whole_model_on_each = result.settings.parallel != "naive" && result.settings.parallel != "hybrid";
  if (whole_model_on_each)
    if (Status fits = fit_memory(chooser, result, *shape, machine, on_gpu, replicas); !fits) return std::move(fits).error();
  auto plan = plan_batch(result.settings, *shape, replicas);
  if (!plan) return std::move(plan).error();
  result.settings.accumulation = plan->accumulation;
  if (plan->accumulation != settings.accumulation)
    result.choices.push_back({"accumulation", std::to_string(plan->accumulation), fmt::format("{} samples an update in passes of {} x {}", plan->samples_per_update, plan->batch_size, replicas)});
  choose_workers(chooser, result, machine, on_gpu);
  choose_buckets(chooser, result.settings, *shape);
  return result;
}

}  // namespace lockstep
