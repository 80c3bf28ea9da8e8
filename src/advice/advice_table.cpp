#include "advice/advice_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep {
namespace {

struct Remedy {
  FindingCode code;
  FixKind kind;
  FixSafety safety;
  std::string_view description;
  std::string_view command = "";  // words parted by spaces
};

// What does not depend on the job. Codes whose remedy is a launch line are in job_fixes().
constexpr std::array kRemedies = {
    Remedy{FindingCode::taking_turns, FixKind::edit, FixSafety::unsafe,
           "remove device_map=\"auto\" (or give device_map={\"\": local_rank}), so that each "
           "process loads the whole model on its own GPU"},
    Remedy{FindingCode::one_gpu_leads, FixKind::edit, FixSafety::unsafe,
           "replace nn.DataParallel(model) by DistributedDataParallel(model, "
           "device_ids=[local_rank])"},
    Remedy{FindingCode::ranks_share_a_gpu, FixKind::edit, FixSafety::safe,
           "let each rank take its own GPU before the model is made: "
           "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))"},
    Remedy{FindingCode::pipeline_bubbles, FixKind::edit, FixSafety::unsafe,
           "use more micro-batches (at least four times the number of stages) or an interleaved "
           "schedule"},
    Remedy{FindingCode::input_starved, FixKind::edit, FixSafety::safe,
           "DataLoader(..., num_workers=4 or more a GPU, pin_memory=True, persistent_workers=True, "
           "prefetch_factor=4); read from local disk"},
    Remedy{FindingCode::loader_without_workers, FixKind::edit, FixSafety::safe,
           "DataLoader(..., num_workers=4, persistent_workers=True, pin_memory=True); with "
           "Transformers: dataloader_num_workers=4"},
    Remedy{FindingCode::pageable_copies, FixKind::edit, FixSafety::safe,
           "DataLoader(..., pin_memory=True) and batch.to(device, non_blocking=True)"},
    Remedy{
        FindingCode::host_sync_every_step, FixKind::edit, FixSafety::safe,
        "keep losses on the GPU (total += loss.detach()) and call .item() every 50 steps at most"},
    Remedy{FindingCode::logging_too_often, FixKind::edit, FixSafety::safe,
           "log every 50 steps (logging_steps=50) and on rank 0 only"},
    Remedy{FindingCode::checkpoint_stall, FixKind::edit, FixSafety::safe,
           "save less often (save_steps), or in the background: "
           "torch.distributed.checkpoint.async_save"},
    Remedy{FindingCode::evaluation_stall, FixKind::edit, FixSafety::safe,
           "share the evaluation between the ranks (DistributedSampler, then all_reduce the sums), "
           "or do it less often"},
    Remedy{
        FindingCode::launch_bound, FixKind::edit, FixSafety::unsafe,
        "make the kernels larger or fewer: a larger batch, torch.compile(model), fused optimizers"},
    Remedy{FindingCode::stopped_by_collector, FixKind::edit, FixSafety::safe,
           "gc.disable() after start-up and gc.collect() at the same step on all ranks, every few "
           "hundred steps"},
    Remedy{FindingCode::straggler_rank, FixKind::advice, FixSafety::manual,
           "look at that rank: its GPU's clocks and limits, other processes on its GPU or its "
           "cores, and the length of its batches"},
    Remedy{FindingCode::exposed_collectives, FixKind::edit, FixSafety::unsafe,
           "accumulate gradients under no_sync(), use a larger batch, "
           "gradient_as_bucket_view=True, a bf16 compression hook"},
    Remedy{FindingCode::sync_every_micro_step, FixKind::edit, FixSafety::safe,
           "wrap all but the last micro-step in model.no_sync()"},
    Remedy{FindingCode::slow_link, FixKind::command, FixSafety::manual,
           "see which path the GPUs have to each other, and remove NCCL_P2P_DISABLE / "
           "NCCL_SHM_DISABLE where they are set",
           "nvidia-smi topo -m"},
    Remedy{FindingCode::stuck_collective, FixKind::advice, FixSafety::manual,
           "find the rank that does not come (py-spy dump --pid PID on each rank): a collective "
           "under `if rank == 0`, a crashed loader, or uneven batches"},
    Remedy{FindingCode::rank_conditional_collective, FixKind::edit, FixSafety::manual,
           "let all ranks call the same collectives in the same order: take the call out of `if "
           "rank == 0`, or out of a loop that has more turns on some ranks"},
    Remedy{FindingCode::gloo_on_gpus, FixKind::edit, FixSafety::safe,
           "dist.init_process_group(\"nccl\")"},
    Remedy{FindingCode::reduce_every_step, FixKind::edit, FixSafety::safe,
           "add metrics up on each rank and all_reduce them every 50 steps; take barrier() out of "
           "the loop"},
    Remedy{
        FindingCode::batch_too_small, FixKind::edit, FixSafety::unsafe,
        "raise the batch per GPU until memory is about 85 % used (and the learning rate with it)"},
    Remedy{FindingCode::memory_nearly_full, FixKind::environment, FixSafety::safe,
           "keep the allocator from fragmenting; a batch one size smaller also does",
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    Remedy{FindingCode::tensor_cores_unused, FixKind::edit, FixSafety::unsafe,
           "torch.set_float32_matmul_precision(\"high\") for TF32, or train in bf16: "
           "torch.autocast(\"cuda\", torch.bfloat16); before Ampere (V100, T4, RTX 20) in fp16 "
           "with torch.amp.GradScaler"},
    Remedy{FindingCode::power_capped, FixKind::command, FixSafety::manual,
           "see what was lowered: the power limit (back with `nvidia-smi -pl`, as root) or the "
           "clocks (`nvidia-smi -rgc`)",
           "nvidia-smi -q -d POWER,CLOCK,PERFORMANCE"},
    Remedy{FindingCode::thermal_throttle, FixKind::command, FixSafety::manual,
           "see the temperatures, then fans, air flow and neighbours of that GPU",
           "nvidia-smi -q -d TEMPERATURE,PERFORMANCE"},
    Remedy{
        FindingCode::pcie_degraded, FixKind::command, FixSafety::manual,
        "compare the link's width and generation with what the slot should give; reseat the card",
        "nvidia-smi -q -d PCIE"},
    Remedy{FindingCode::ecc_or_xid, FixKind::command, FixSafety::manual,
           "read the kernel's own words, and look the number up in NVIDIA's Xid catalogue",
           "dmesg -T"},
    Remedy{FindingCode::gpu_lost, FixKind::advice, FixSafety::manual,
           "the GPU needs a reset or the machine a reboot; `dmesg -T | grep -i xid` says what "
           "happened before"},
    Remedy{FindingCode::every_rank_saves, FixKind::edit, FixSafety::safe,
           "save on rank 0 only, with a barrier after it on all ranks: if dist.get_rank() == 0: "
           "torch.save(...)"},
    Remedy{FindingCode::cpu_oversubscribed, FixKind::environment, FixSafety::safe,
           "fewer threads a process: cores divided by (ranks x (workers + 1))",
           "OMP_NUM_THREADS=1"},
    Remedy{FindingCode::unsharded_data, FixKind::edit, FixSafety::unsafe,
           "DataLoader(..., sampler=DistributedSampler(dataset)) without shuffle=True, and "
           "sampler.set_epoch(epoch) in each epoch"},
    Remedy{FindingCode::set_epoch_missing, FixKind::edit, FixSafety::unsafe,
           "call sampler.set_epoch(epoch) at the begin of each epoch"},
    Remedy{FindingCode::workers_restarted_each_epoch, FixKind::edit, FixSafety::safe,
           "DataLoader(..., persistent_workers=True)"},
    Remedy{FindingCode::find_unused_parameters, FixKind::edit, FixSafety::unsafe,
           "DistributedDataParallel(..., find_unused_parameters=False); with Transformers: "
           "ddp_find_unused_parameters=False"},
    Remedy{FindingCode::accumulation_too_high, FixKind::edit, FixSafety::unsafe,
           "double the batch of a pass and halve the accumulation: the global batch stays, and "
           "measure"},
    Remedy{FindingCode::unfused_optimizer, FixKind::edit, FixSafety::unsafe,
           "torch.optim.AdamW(..., fused=True); with Transformers: optim=\"adamw_torch_fused\""},
    Remedy{FindingCode::allocator_thrash, FixKind::environment, FixSafety::safe,
           "let segments grow instead of being freed; fixed shapes or a smaller batch also do",
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    Remedy{
        FindingCode::same_seed_every_rank, FixKind::edit, FixSafety::unsafe,
        "torch.manual_seed(seed + rank) after the model is made; the sampler's seed stays equal"},
    Remedy{FindingCode::unreduced_metric, FixKind::edit, FixSafety::unsafe,
           "dist.all_reduce the sums and the counts before the metric is printed"},
    Remedy{FindingCode::ranks_missing, FixKind::advice, FixSafety::manual,
           "start the missing ranks, or start all of them with one command: torchrun --standalone "
           "--nproc_per_node=N train.py"},
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto end = text.find(' ');
    words.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return words;
}

const JobSignals* job_with(const Finding& finding, const Signals& signals) {
  for (const JobSignals& job : signals.jobs)
    if (job.origin == JobOrigin::cluster && !finding.gpus.empty() &&
        std::ranges::find(job.gpus, finding.gpus.front()) != job.gpus.end())
      return &job;
  for (const JobSignals& job : signals.jobs)
    for (const int pid : finding.pids)
      if (std::ranges::find(job.pids, pid) != job.pids.end()) return &job;
  for (const JobSignals& job : signals.jobs)
    if (job.gpus == finding.gpus) return &job;
  return nullptr;
}

// The parts of a split model together: more than one GPU holds?
bool fits_one_gpu(const JobSignals& job, const Signals& signals) {
  constexpr double kHeadroom = 0.9;
  double held = 0;
  double smallest = 1e18;
  for (const GpuInJob& member : job.members) {
    held += member.memory_bytes.value_or(0);
    for (const GpuSignals& gpu : signals.gpus)
      if (gpu.index == member.index && gpu.info.memory_total_bytes)
        smallest = std::min(smallest, static_cast<double>(*gpu.info.memory_total_bytes));
  }
  return held <= kHeadroom * smallest;
}

// A job over several machines: the same line on each of them, with its share of the processes.
std::vector<std::string> over_machines(std::vector<std::string> line, const JobSignals* job,
                                       std::size_t gpus) {
  if (job == nullptr || !job->spread) return line;
  const std::size_t hosts = job->spread->hosts.size();
  std::vector<std::string> whole = {
      line.front(), "--nnodes=" + std::to_string(hosts),
      "--nproc_per_node=" + std::to_string(std::max<std::size_t>(1, gpus / hosts)),
      "--rdzv-backend=c10d", "--rdzv-endpoint=" + job->spread->hosts.front().name + ":29500"};
  // after torchrun --standalone --nproc_per_node
  whole.insert(whole.end(), line.begin() + 3, line.end());
  return whole;
}

void add_launch(Finding& finding, const JobSignals* job, std::size_t gpus,
                std::string description) {
  const ProcessSample* const process =
      job != nullptr && !job->processes.empty() ? &job->processes.front() : nullptr;
  finding.fixes.push_back({FixKind::command, FixSafety::unsafe, std::move(description),
                           over_machines(launch_line(process, gpus), job, gpus), std::nullopt});
}

// One process on each GPU that the finding speaks of, the empty ones among them.
std::size_t processes_meant(const Finding& finding, std::size_t own) {
  double gpus = 0;
  for (const Evidence& item : finding.evidence) {
    if (item.signal == "processes") gpus = item.threshold.value_or(gpus);
    if (item.signal == "idle_gpus" || item.signal == "job_gpus") gpus += item.value;
  }
  // what a machine found itself comes without
  return gpus > 0 ? static_cast<std::size_t>(gpus) : own;
}

// A job that a cluster placed is started by its job file, and over machines.
void add_cluster_fixes(Finding& finding, const JobSignals& job) {
  switch (finding.code) {
    case FindingCode::taking_turns:
    case FindingCode::one_gpu_leads:
      add_launch(finding, &job, job.gpus.size(),
                 "start one process a GPU on every machine, all ranks of one job");
      break;
    case FindingCode::idle_gpus:
      finding.fixes.push_back(
          {FixKind::advice,
           FixSafety::manual,
           "the cluster gave these GPUs to the job, and it never used them: give them back, or "
           "start ranks on them (WORLD_SIZE must count them)",
           {},
           std::nullopt});
      break;
    default: break;
  }
}

// Remedies that start the job differently.
void add_job_fixes(Finding& finding, const Signals& signals) {
  const JobSignals* const job = job_with(finding, signals);
  const std::size_t own =
      job != nullptr ? job->gpus.size() : std::max<std::size_t>(2, finding.gpus.size());
  if (job != nullptr && job->origin == JobOrigin::cluster) return add_cluster_fixes(finding, *job);
  switch (finding.code) {
    case FindingCode::taking_turns:
      add_launch(finding, job, own,
                 "start one process a GPU: each trains its share of every batch on its own copy of "
                 "the model");
      if (job != nullptr && !fits_one_gpu(*job, signals))
        finding.fixes.push_back({FixKind::advice,
                                 FixSafety::manual,
                                 "the parts together hold more than one GPU has: if the model does "
                                 "not fit on one with a smaller batch, use FSDP "
                                 "(accelerate launch --use_fsdp) instead of DDP",
                                 {},
                                 std::nullopt});
      break;
    case FindingCode::one_gpu_leads:
      add_launch(finding, job, own, "start one process a GPU instead of one for all");
      break;
    case FindingCode::idle_gpus:
      add_launch(finding, job, processes_meant(finding, own), "use the empty GPUs too");
      break;
    case FindingCode::world_size_not_set:
      add_launch(finding, job, processes_meant(finding, own),
                 "start the script with a launcher, which sets RANK, LOCAL_RANK and WORLD_SIZE");
      break;
    case FindingCode::unsynchronised_copies:
      add_launch(finding, job, finding.gpus.size(),
                 "start all of them as ranks of one job, so that they train one model");
      break;
    case FindingCode::harmful_environment:
      for (const Evidence& item : finding.evidence) {
        const std::string name = item.signal.substr(0, item.signal.find('='));
        finding.fixes.push_back({FixKind::environment,
                                 FixSafety::safe,
                                 "take " + item.signal + " out of the environment",
                                 {"unset", name},
                                 std::nullopt});
      }
      break;
    default: break;
  }
}

void add_fixes(Finding& finding, const Signals& signals) {
  add_job_fixes(finding, signals);
  for (const Remedy& remedy : kRemedies)
    if (remedy.code == finding.code)
      finding.fixes.push_back({remedy.kind, remedy.safety, std::string(remedy.description),
                               words_of(remedy.command), std::nullopt});
}

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::string> launch_line(const ProcessSample* process, std::size_t gpus) {
  std::vector<std::string> line = {"torchrun", "--standalone",
                                   "--nproc_per_node=" + std::to_string(gpus)};
  // Our own trainer is no script; as a rank of several it takes DDP by itself.
  if (process != nullptr && process->command && !process->command->empty() &&
      file_name_of(process->command->front()) == "lockstep-train") {
    line.emplace_back("--no-python");
    line.emplace_back("lockstep-train");
    for (std::size_t i = 1; i < process->command->size(); ++i) {
      const std::string& word = (*process->command)[i];
      if (word == "--parallel" || word == "--devices")
        ++i;
      else
        line.push_back(word);
    }
    return line;
  }
  const bool is_known = process != nullptr && process->command && process->command->size() > 1 &&
                        file_name_of(process->command->front()).starts_with("python");
  if (!is_known) {
    line.emplace_back("train.py");
    return line;
  }
  const std::vector<std::string>& command = *process->command;
  std::size_t at = 1;
  while (at < command.size() && command[at].starts_with("-") && command[at] != "-m" &&
         command[at] != "-c") {
    if (command[at] == "-X" || command[at] == "-W") ++at;  // have a value
    ++at;
  }
  if (at >= command.size() || command[at] == "-c") {
    line.emplace_back("train.py");
    return line;
  }
  line.insert(line.end(), command.begin() + static_cast<std::ptrdiff_t>(at), command.end());
  return line;
}

void add_advice(Diagnosis& diagnosis, const Signals& signals) {
  for (Finding& finding : diagnosis.findings) add_fixes(finding, signals);
  for (Finding& finding : diagnosis.suspicions) add_fixes(finding, signals);
}

}  // namespace lockstep
