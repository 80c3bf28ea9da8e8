#include "reference_trainer/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "reference_trainer/checkpoint.hpp"
#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/data/device_feed.hpp"
#include "reference_trainer/deliberate_fault.hpp"
#include "reference_trainer/distributed.hpp"
#include "reference_trainer/failure.hpp"
#include "reference_trainer/optimizer.hpp"
#include "reference_trainer/parallel/strategy.hpp"
#include "reference_trainer/peak_speed.hpp"
#include "reference_trainer/progress.hpp"
#include "reference_trainer/random_numbers.hpp"
#include "reference_trainer/run_plan.hpp"
#include "reference_trainer/run_state.hpp"
#include "reference_trainer/step_marks.hpp"
#include "reference_trainer/stop_request.hpp"
#include "reference_trainer/virtual_gpus.hpp"

// Of libtorch; its header would bring half of the JIT with it.
namespace torch {
void global_kineto_init();
}

namespace lockstep {
namespace {

std::vector<std::unique_ptr<ComputeDevice>> open_devices(const RunPlan& plan) {
  std::vector<std::unique_ptr<ComputeDevice>> devices;
  for (const int index : plan.devices)
    devices.push_back(std::make_unique<ComputeDevice>(plan.device, index));
  return devices;
}

std::vector<ComputeDevice*> pointers(const std::vector<std::unique_ptr<ComputeDevice>>& devices) {
  std::vector<ComputeDevice*> list;
  for (const auto& device : devices) list.push_back(device.get());
  return list;
}

LoaderOptions loader_options(const TrainSettings& settings, const RunPlan& plan) {
  return {.workers = settings.workers,
          .prefetch = settings.prefetch,
          .pin_memory = settings.pin_memory && plan.device == c10::DeviceType::CUDA,
          .preload = settings.preload,
          .delay = settings.loader_delay};
}

// Rank 0 alone saves, so rank 0 alone may fail here; the others hear of it when they meet next.
void try_checkpoints(const std::string& folder) {
  if (Status tried = CheckpointWriter::try_folder(folder); !tried)
    throw TrainFailure(std::move(tried).error());
}

// One rank's run. Members in the order in which they are needed; they end in the opposite order.
class Run {
 public:
  Run(TrainSettings& settings, const RunPlan& plan, const Distributed& ranks)
      : settings_(settings),
        plan_(plan),
        ranks_(ranks),
        devices_(open_devices(plan)),
        virtual_gpus_(pointers(devices_)),
        fault_(settings, ranks),
        marks_(ranks.rank(), ranks.world(),
               settings.step_marks ? StepMarks::Wire::yes : StepMarks::Wire::none),
        progress_(settings.log_format == "json" ? Progress::Format::json : Progress::Format::text,
                  ranks.is_main()),
        dataset_(open_dataset(settings, plan.shape)),
        loader_(*dataset_, sampler_options(), loader_options(settings, plan)),
        feed_(loader_,
              devices_.size() == 1 ? std::optional(devices_.front()->torch_device()) : std::nullopt,
              marks_),
        scaler_(plan.precision == Precision::fp16, devices_.front()->torch_device()) {
    check_data();
    for (const auto& device : devices_)
      RandomNumbers::seed(device->torch_device(), static_cast<std::uint64_t>(random_seed()));
    devices_.front()->run([&] {
      model_ = make_model(plan.shape,
                          {settings.dropout, settings.freeze, settings.activation_checkpointing,
                           settings.fused_kernels},
                          static_cast<std::uint64_t>(settings.seed));
    });
    strategy_ = make_strategy(*model_,
                              {settings, plan.precision, ranks, pointers(devices_), virtual_gpus_});
    optimizer_ = std::make_unique<Optimizer>(
        strategy_->parameters(),
        OptimizerOptions{settings.weight_decay, settings.beta1, settings.beta2, settings.epsilon,
                         settings.clip, settings.fused_kernels});
    for (const DeviceParameters& on_device : strategy_->parameters())
      for (const Parameter& parameter : on_device.parameters) values_.push_back(parameter.value);
    if (!settings.checkpoint_dir.empty() && ranks.is_main())
      try_checkpoints(settings.checkpoint_dir);
    if (!settings.checkpoint_dir.empty())
      writer_ =
          std::make_unique<CheckpointWriter>(settings.checkpoint_dir, settings.save_total_limit);
  }

  void train();

 private:
  std::int64_t random_seed() const {
    return settings_.seed + (fault_.is(TrainFault::same_seeds) ? 0 : ranks_.rank());
  }
  SamplerOptions sampler_options() const;
  void tell_facts();
  void check_data() const;
  void introduce(const Resumed& resumed);
  std::int64_t first_batch_left() const;
  std::int64_t updates_left_by_epochs() const;
  void train_epoch();
  void one_update(std::int64_t passes, bool ends_epoch);
  void evaluate(const Batch& batch);
  void log_update();
  void agree_to_stop();
  void save();
  ProgressLine progress_line(double loss);
  std::vector<DeviceMemory> memory_of_all_ranks();
  std::int64_t updates_per_epoch() const {
    return (loader_.batches() + plan_.batch.accumulation - 1) / plan_.batch.accumulation;
  }
  bool is_last_update() const { return is_stopping_ || position_.update >= updates_; }
  RunState state() {
    return {*model_,
            *optimizer_,
            scaler_,
            plan_,
            settings_,
            dataset_->size(),
            devices_.front()->torch_device()};
  }

  TrainSettings& settings_;
  const RunPlan& plan_;
  const Distributed& ranks_;
  std::vector<std::unique_ptr<ComputeDevice>> devices_;
  VirtualGpus virtual_gpus_;
  DeliberateFault fault_;
  StepMarks marks_;
  Progress progress_;
  std::unique_ptr<Dataset> dataset_;
  Loader loader_;
  DeviceFeed feed_;
  LossScaler scaler_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Tensor> values_;                // of all parameters that are trained
  std::unique_ptr<CheckpointWriter> writer_;  // nothing: no checkpoints
  std::optional<StopRequest> stop_request_;   // heard where there is a checkpoint to save it in

  Position position_;
  std::int64_t updates_ = 0;             // of the whole run
  std::int64_t passes_ = 0;              // of this process, for the step marks
  std::int64_t epochs_ = 0;              // begun by this process
  std::chrono::nanoseconds facts_at_{};  // when they were told last
  std::vector<Tensor> losses_;           // of the passes of the last update, on their devices
  double last_loss_ = 0;
  bool is_stopping_ = false;  // agreed on by all ranks
  bool warned_of_loss_ = false;

  // Since the last line.
  std::chrono::nanoseconds line_at_{};
  std::int64_t line_update_ = 0;
  std::int64_t line_samples_ = 0;
  std::int64_t samples_ = 0;  // of all ranks, since the start of this process
  std::chrono::nanoseconds began_{};
};

// Every rank its own part of one order; with a fault that says so, all of it, or less than rank 0.
SamplerOptions Run::sampler_options() const {
  SamplerOptions options{dataset_->size(),       ranks_.rank(),  ranks_.world(),
                         plan_.samples_per_pass, settings_.seed, settings_.shuffle,
                         settings_.drop_last};
  if (fault_.is(TrainFault::unsharded)) {
    options.rank = 0;
    options.world = 1;
  }
  if (fault_.is(TrainFault::uneven_batches) && !ranks_.is_main())
    options.samples -= plan_.samples_per_pass * ranks_.world();
  return options;
}

// What a probe would read in a Python program. Again every few seconds, for those who look later.
void Run::tell_facts() {
  constexpr auto kEvery = std::chrono::seconds(5);
  if (monotonic_now() - facts_at_ < kEvery) return;
  facts_at_ = monotonic_now();
  const bool on_cuda = plan_.device == c10::DeviceType::CUDA;
  std::size_t tensors = 0;
  for (const DeviceParameters& on_device : strategy_->parameters())
    tensors += on_device.parameters.size();
  marks_.fact(fmt::format("optimizer kind=AdamW fused=1 can_fuse=1 device={} tensors={}",
                          on_cuda ? "cuda" : "cpu", tensors));
  marks_.fact(fmt::format("seed torch={}", random_seed()));
  if (!ranks_.is_alone())
    marks_.fact(fmt::format("ddp backend={} find_unused={} unused_bytes=0 bucket={:.0f} bytes={}",
                            plan_.group.backend, settings_.find_unused ? 1 : 0,
                            settings_.bucket_mb * 1048576, parameter_count(plan_.shape) * 4));
  const SamplerOptions sampler = sampler_options();
  marks_.fact(fmt::format(
      "loader id=1 passes={} workers={} pin={} persistent=1 prefetch={} batch={} batches={} "
      "drop_last={} shards={} epoch={} shuffle={} order_seed={} sampler=Sampler",
      epochs_, settings_.workers, settings_.pin_memory && on_cuda ? 1 : 0, settings_.prefetch,
      plan_.samples_per_pass, loader_.batches(), settings_.drop_last ? 1 : 0,
      sampler.world > 1 || ranks_.world() == 1 ? std::to_string(sampler.world) : "",
      fault_.is(TrainFault::same_order) ? 0 : position_.epoch, settings_.shuffle ? 1 : 0,
      settings_.seed));
  const DeviceMemory memory = devices_.front()->memory();
  marks_.fact(fmt::format("memory allocated={} peak={} reserved={} total={}",
                          memory.allocated_bytes, memory.peak_bytes, memory.reserved_bytes,
                          devices_.front()->total_bytes()));
}

void Run::check_data() const {
  if (loader_.batches() > 0) return;
  throw TrainFailure::on_all_ranks(usage_error(
      fmt::format("{} is less than one batch on each of {} ranks: {} samples an update",
                  dataset_->description(), ranks_.world(), plan_.samples_per_pass * ranks_.world()),
      "use a smaller --batch-size, more data, or --no-drop-last"));
}

void Run::introduce(const Resumed& resumed) {
  const double parameters = static_cast<double>(parameter_count(plan_.shape));
  progress_.say(fmt::format("lockstep-train: {} ({} parameters), {}", settings_.model,
                            parameters >= 1e5 ? fmt::format("{:.1f} M", parameters / 1e6)
                                              : fmt::format("{:.1f} K", parameters / 1e3),
                            dataset_->description()));
  progress_.say(fmt::format("lockstep-train: {}; {} {}", strategy_->description(), ranks_.world(),
                            ranks_.world() == 1 ? "rank" : "ranks"));
  progress_.say(fmt::format(
      "lockstep-train: {} samples an update: batch {} x {} x accumulation {}; {} updates",
      plan_.batch.samples_per_update, plan_.batch.batch_size, plan_.batch.replicas,
      plan_.batch.accumulation, updates_));
  if (const std::string words = fault_.description(); !words.empty())
    progress_.say(fmt::format("lockstep-train: {}", words));
  if (!ranks_.facts().note.empty())
    progress_.say(fmt::format("lockstep-train: {}", ranks_.facts().note));
  if (plan_.device == c10::DeviceType::CPU)
    progress_.say("lockstep-train: on virtual GPUs: each is one CPU core");
  if (!resumed.words.empty())
    progress_.say(
        fmt::format("lockstep-train: {} (update {})", resumed.words, resumed.position.update));
}

void Run::train() {
  const Resumed resumed = resume(state(), ranks_);
  position_ = resumed.position;
  updates_ = settings_.steps > 0 ? settings_.steps : position_.update + updates_left_by_epochs();
  strategy_->warm_up(dataset_->batch_of({0}));
  introduce(resumed);
  ranks_.barrier();  // the clock starts together
  began_ = line_at_ = monotonic_now();
  line_update_ = position_.update;
  if (writer_) stop_request_.emplace();
  while (!is_last_update()) train_epoch();
  if (writer_) or_fail(writer_->finish());
  ranks_.barrier();  // nobody leaves while another still reads
  if (is_stopping_) {
    progress_.say(
        fmt::format("lockstep-train: told to end (SIGTERM): update {} of {} is saved, and --resume "
                    "auto goes on from there",
                    position_.update, updates_));
    StopRequest::end();
  }
  line_at_ = began_;
  line_samples_ = 0;
  line_update_ = resumed.position.update;
  if (position_.update > line_update_) {
    const ProgressLine line = progress_line(last_loss_);
    progress_.summary(line, position_.update - resumed.position.update, monotonic_now() - began_);
  } else {
    progress_.say("lockstep-train: nothing left to do: the checkpoint is at the last update");
  }
}

// The first batch of this epoch that is not done: a checkpoint may come from a run with another
// batch or number of ranks.
std::int64_t Run::first_batch_left() const {
  return position_.samples / (plan_.samples_per_pass * ranks_.world());
}

std::int64_t Run::updates_left_by_epochs() const {
  if (position_.epoch >= settings_.epochs) return 0;
  const std::int64_t of_this_epoch =
      std::max<std::int64_t>(0, loader_.batches() - first_batch_left());
  return (of_this_epoch + plan_.batch.accumulation - 1) / plan_.batch.accumulation +
         (settings_.epochs - position_.epoch - 1) * updates_per_epoch();
}

// What is left of the epoch.
void Run::train_epoch() {
  const std::int64_t first_batch = first_batch_left();
  position_.samples = first_batch * plan_.samples_per_pass * ranks_.world();
  if (first_batch >= loader_.batches()) {
    position_ = {.update = position_.update, .epoch = position_.epoch + 1, .samples = 0};
    return;
  }
  loader_.start_epoch(fault_.is(TrainFault::same_order) ? 0 : position_.epoch, first_batch);
  ++epochs_;
  facts_at_ = {};
  tell_facts();
  if (settings_.preload && samples_ == 0) {
    ranks_.barrier();
    began_ = line_at_ = monotonic_now();  // making the data is no training
  }
  const std::int64_t batches = loader_.batches();
  // The last update of an epoch may have fewer passes; it counts them, so that none is lost and
  // none weighs too little.
  for (std::int64_t batch = first_batch; batch < batches && !is_last_update();) {
    const std::int64_t passes = std::min(plan_.batch.accumulation, batches - batch);
    batch += passes;
    one_update(passes, batch >= batches);
  }
}

void Run::one_update(std::int64_t passes, bool ends_epoch) {
  losses_.clear();
  fault_.begin_update(loader_);
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const bool is_last = pass + 1 == passes;
    marks_.begin(passes_++);
    const std::optional<Batch> batch = feed_.next();
    fault_.slow_down(*devices_.front(), virtual_gpus_, marks_);
    losses_.push_back(strategy_->pass(*batch,
                                      {.loss_weight = 1 / static_cast<double>(passes),
                                       .loss_scale = scaler_.scale(),
                                       .exchange = is_last || fault_.is(TrainFault::sync_each_pass),
                                       .is_first = pass == 0},
                                      marks_));
    samples_ += batch->samples() * ranks_.world();
    if (is_last)
      marks_.time(LOCKSTEP_SPAN_OPTIMIZER, [&] {
        optimizer_->step(learning_rate_at(position_.update, settings_, updates_), scaler_, ranks_,
                         !strategy_->overwrites_gradients());
      });
    if (!is_last || position_.update + 1 < updates_) feed_.fetch_ahead();
    if (is_last) {
      ++position_.update;
      position_.samples += passes * plan_.samples_per_pass * ranks_.world();
      if (ends_epoch)
        position_ = {.update = position_.update, .epoch = position_.epoch + 1, .samples = 0};
      fault_.after_update({marks_, virtual_gpus_, losses_, values_, [&] { evaluate(*batch); }});
      // several agree where they meet
      const bool may_stop = ranks_.is_alone() && StopRequest::is_made();
      const bool logs = position_.update % settings_.log_every == 0 || is_last_update() || may_stop;
      const bool saves = settings_.save_every > 0 && position_.update % settings_.save_every == 0;
      if (logs) log_update();
      if (stop_request_ && (logs || saves)) agree_to_stop();
      if (writer_ && (is_last_update() || saves))
        marks_.time(LOCKSTEP_SPAN_CHECKPOINT, [&] { save(); });
    }
    marks_.end();
  }
  virtual_gpus_.refresh();
  tell_facts();
  progress_.bar(position_.update, updates_);
}

// A pass without gradients.
void Run::evaluate(const Batch& batch) {
  devices_.front()->run([&] {
    const at::NoGradGuard no_grad;
    model_->forward(batch.inputs.to(devices_.front()->torch_device()), model_->all_parts());
  });
}

// The only place where the host waits for the loss, and where ranks exchange it.
void Run::log_update() {
  double loss = 0;
  ProgressLine line;
  marks_.time(LOCKSTEP_SPAN_SYNC, [&] {
    for (const Tensor& part : losses_) loss += part.item<double>();
    loss = ranks_.mean(loss / static_cast<double>(losses_.size()));
    line = progress_line(loss);
  });
  last_loss_ = loss;
  marks_.time(LOCKSTEP_SPAN_LOGGING, [&] {
    progress_.line(line);
    if (!std::isfinite(loss) && !std::exchange(warned_of_loss_, true))
      progress_.say(
          "lockstep-train: the loss is no number any more\n  next: use a lower --learning-rate, or "
          "--clip 1");
  });
  // The first line after a resume may come early.
  const double distances =
      static_cast<double>(std::max<std::int64_t>(1, position_.update - line_update_)) /
      static_cast<double>(settings_.log_every);
  if (stop_request_)
    stop_request_->expect_meeting_every(std::chrono::duration<double>(monotonic_now() - line_at_) /
                                        distances);
  line_at_ = monotonic_now();
  line_update_ = position_.update;
  line_samples_ = samples_;
}

// The signal reaches ranks at different updates; all have to save the same one.
void Run::agree_to_stop() {
  const bool is_over = position_.update >= updates_;
  const bool is_wanted = ranks_.sum(StopRequest::is_made() ? 1 : 0) > 0;
  is_stopping_ = is_wanted && !is_over;  // what is at its end ends as ever
  if (is_wanted || is_over) stop_request_->is_agreed();
}

ProgressLine Run::progress_line(double loss) {
  const auto time =
      std::max<std::chrono::nanoseconds>(monotonic_now() - line_at_, std::chrono::nanoseconds(1));
  const double seconds = to_ms(time) / 1e3;
  const auto updates =
      static_cast<double>(std::max<std::int64_t>(1, position_.update - line_update_));
  ProgressLine line;
  line.step = position_.update;
  line.steps = updates_;
  line.epoch = static_cast<double>(position_.epoch) +
               static_cast<double>(position_.samples) /
                   static_cast<double>(std::max<std::int64_t>(
                       1, loader_.batches() * plan_.samples_per_pass * ranks_.world()));
  line.loss = loss;
  line.learning_rate =
      learning_rate_at(std::max<std::int64_t>(0, position_.update - 1), settings_, updates_);
  if (settings_.clip > 0) line.gradient_norm = optimizer_->last_norm();
  line.samples_per_s = static_cast<double>(samples_ - line_samples_) / seconds;
  line.tokens_per_s = line.samples_per_s * static_cast<double>(plan_.shape.sequence_length);
  line.step_ms = seconds * 1e3 / updates;
  const auto peak =
      settings_.peak_tflops > 0 ? std::optional(settings_.peak_tflops)
      : plan_.device == c10::DeviceType::CUDA
          ? peak_tflops(cuda_part()->device_name(plan_.devices.front()), plan_.precision)
          : std::nullopt;
  if (peak)
    line.model_flops_utilization =
        operations_per_token(plan_.shape) * line.tokens_per_s / (*peak * 1e12 * plan_.all_devices);
  line.memory = memory_of_all_ranks();
  line.epoch_time = std::chrono::nanoseconds(static_cast<std::int64_t>(
      static_cast<double>(time.count()) / updates * static_cast<double>(updates_per_epoch())));
  line.left = std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(time.count()) / updates *
                                static_cast<double>(updates_ - position_.update)));
  return line;
}

// By rank, on rank 0; a collective, so all ranks come here together.
std::vector<DeviceMemory> Run::memory_of_all_ranks() {
  DeviceMemory fullest;
  for (const auto& device : devices_)
    if (const DeviceMemory memory = device->memory(); memory.peak_bytes >= fullest.peak_bytes)
      fullest = memory;
  const Tensor own =
      at::tensor({fullest.allocated_bytes, fullest.reserved_bytes, fullest.peak_bytes}, at::kLong);
  std::vector<DeviceMemory> all;
  for (const Tensor& rank : ranks_.gather(own))
    all.push_back(
        {rank[0].item<std::int64_t>(), rank[1].item<std::int64_t>(), rank[2].item<std::int64_t>()});
  return all;
}

void Run::save() {
  Checkpoint checkpoint = checkpoint_of(state(), position_, ranks_);
  if (!ranks_.is_main()) return;
  or_fail(writer_->save(position_.update, std::move(checkpoint)));
}

// Whether other ranks had a part in it: Gloo, NCCL and the store say so in their words; all else is
// this rank's own.
bool is_of_the_exchange(const std::string& what) {
  for (const char* word :
       {"gloo", "Gloo", "NCCL", "nccl", "Connection closed", "Connection reset", "timed out",
        "Timed out", "timeout", "TCPStore", "Broken pipe", "socket"})
    if (what.find(word) != std::string::npos) return true;
  return false;
}

// A failure in the exchange between ranks, with the rank that is to blame; any other failure as it
// is.
[[noreturn]] void explain(const std::exception& problem, const Distributed& ranks) {
  const std::string what = problem.what();
  const std::string first_line = what.substr(0, what.find('\n'));
  if (ranks.is_alone() || !is_of_the_exchange(first_line))
    throw TrainFailure(fmt::format("libtorch failed: {}", printable(first_line)),
                       "if memory is short use a smaller --batch-size or "
                       "--activation-checkpointing; else see the words above");
  if (StopRequest::is_made()) StopRequest::end();  // the others were told to end, too
  const std::string missing = ranks.missing_ranks(std::chrono::seconds(2));
  if (missing.empty())
    throw TrainFailure(printable(first_line), "all ranks failed alike; see the first of them");
  throw TrainFailure(fmt::format("the exchange with the other ranks failed: {} ({})", missing,
                                 printable(first_line)),
                     "see that rank's own lines; if it is only slow, give a longer --timeout");
}

}  // namespace

void run_training(TrainSettings settings, const RankFacts& facts) {
  at::set_num_threads(1);  // devices compute; this thread waits for them
  count_cpu_memory();
  set_fault(settings);
  const RunPlan plan = plan_run(settings, facts);
  // lockstep trace may ask for a trace, as of any PyTorch process. Not before CUDA's half is
  // loaded: torch would decide that there is none.
  if (std::getenv("KINETO_USE_DAEMON") != nullptr) torch::global_kineto_init();
  allow_tensor_cores(plan.precision);
  if (plan.device == c10::DeviceType::CUDA && !settings.allocator.empty())
    c10::CachingAllocator::setAllocatorSettings(settings.allocator);
  const Distributed ranks(facts, plan.group);
  try {
    Run run(settings, plan, ranks);
    run.train();
  } catch (const TrainFailure&) {
    throw;
  } catch (const std::exception& problem) {
    explain(problem, ranks);
  }
}

}  // namespace lockstep
