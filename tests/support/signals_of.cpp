#include "support/signals_of.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "support/change_signals.hpp"

namespace lockstep::testing {
namespace {

constexpr double kMemoryBytes = 85.5e9;  // an H100 with 80 GB, as NVML has it
constexpr double kLimitMw = 700'000;
constexpr double kRunMs = 30'000;
constexpr int kFirstPid = 4242;

GpuSignals gpu_that_works(int index) {
  GpuSignals gpu;
  gpu.index = index;
  gpu.info.index = index;
  gpu.info.name = "NVIDIA H100 80GB HBM3";
  gpu.info.memory_total_bytes = static_cast<std::uint64_t>(kMemoryBytes);
  gpu.info.power_limit_mw = kLimitMw;
  gpu.info.busy_window_ms = 200;
  gpu.busy_highest = 1.0;
  gpu.memory_highest_fraction = 0.76;
  gpu.power_highest_mw = 0.98 * kLimitMw;
  gpu.power_lowest_mw = 0.35 * kLimitMw;
  gpu.sm = 0.82;
  gpu.tensor = 0.41;
  gpu.dram = 0.48;
  gpu.clock_mhz = 1755;
  gpu.clock_highest_mhz = 1980;
  gpu.temperature_highest_c = 64;
  gpu.limit_shares.emplace();
  gpu.limit_shares->fill(0);
  gpu.limit_looks = 100;
  gpu.clock_while_free_mhz = 1830;
  gpu.pcie_rx_bytes_s = 60e6;
  gpu.pcie_tx_bytes_s = 20e6;
  gpu.pcie_rx_peak_bytes_s = 400e6;
  gpu.nvlink_bytes_s = 60e9;
  return gpu;
}

GpuSignals gpu_that_rests(int index) {
  GpuSignals gpu = gpu_that_works(index);
  gpu.busy_fraction = gpu.busy_highest = 0;
  gpu.memory_used_bytes = gpu.memory_median_bytes = 4e6;
  gpu.memory_highest_fraction = 0;
  gpu.power_mw = gpu.power_highest_mw = gpu.power_lowest_mw = 0.1 * kLimitMw;
  gpu.sm = gpu.tensor = gpu.dram = std::nullopt;
  gpu.clock_mhz = gpu.clock_while_free_mhz = std::nullopt;
  gpu.nvlink_bytes_s = 0;
  return gpu;
}

ProcessSample python_process(int pid, std::vector<int> gpus, double memory_fraction) {
  ProcessSample process;
  process.pid = pid;
  for (const int gpu : gpus)
    process.gpus.push_back({gpu, static_cast<std::uint64_t>(memory_fraction * kMemoryBytes)});
  process.command = {"/usr/bin/python3", "train.py", "--batch-size", "32"};
  process.launcher = "python";
  process.cpu = 1.0;
  process.state = 'R';
  process.user = "u";
  process.parent_pid = 900;
  process.loader_workers = 4;
  process.read_bytes = process.write_bytes = 0;
  process.environment.emplace();
  process.libraries = {"torch", "nccl"};
  return process;
}

void make_rank(ProcessSample& process, int rank, int world_size) {
  process.rank = process.local_rank = rank;
  process.world_size = world_size;
  process.launcher = "torchrun";
  const std::string size = std::to_string(world_size);
  process.environment = {{"RANK", std::to_string(rank)}, {"LOCAL_RANK", std::to_string(rank)},
                         {"WORLD_SIZE", size},           {"LOCAL_WORLD_SIZE", size},
                         {"MASTER_ADDR", "127.0.0.1"},   {"MASTER_PORT", "29500"}};
}

void hold_memory(JobSignals& job, std::size_t member, double fraction) {
  job.members[member].memory_fraction = fraction;
  job.members[member].memory_bytes = fraction * kMemoryBytes;
}

void measure_balances(JobSignals& job) {
  if (job.members.size() < 2) return;
  std::vector<double> memory;
  for (const GpuInJob& member : job.members) memory.push_back(*member.memory_bytes);
  const auto balance = [](auto from, auto to) {
    return *std::min_element(from, to) / *std::max_element(from, to);
  };
  job.memory_balance = balance(memory.begin(), memory.end());
  job.memory_lead = memory.front() / memory.back();
  job.replica_balance = balance(memory.begin() + 1, memory.end());
  job.power_balance = 0.97;
}

// A job on the first `gpus` GPUs, all of them alike.
JobSignals job_on(int gpus, double busy, double work, double memory_fraction) {
  JobSignals job;
  job.active = true;
  job.to_ms = kRunMs;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    job.gpus.push_back(gpu);
    GpuInJob member;
    member.index = gpu;
    member.busy = busy;
    member.work = work;
    member.hollow = 1 - work / busy;
    member.power_of_limit = 0.3 + 0.55 * work;
    member.power_mw = *member.power_of_limit * kLimitMw;
    job.members.push_back(member);
    hold_memory(job, static_cast<std::size_t>(gpu), memory_fraction);
  }
  measure_balances(job);
  job.busy_sum = gpus * busy;
  job.second_busy = gpus > 1 ? busy : 0;
  job.idle_together = 1 - std::max(busy, 0.0);
  job.host.main_cpu = 1.0;
  job.host.loader_workers = job.host.most_loader_workers = 4;
  job.host.read_bytes_s = 5e6;
  job.host.write_bytes_s = 100;
  job.host.runnable = 0.85;
  job.host.looks = 30;
  return job;
}

TurnSignals lanes_in_step(int gpus, LaneKind kind) {
  TurnSignals turns;
  turns.kind = kind;
  turns.resolution_ms = kind == LaneKind::busy ? 200 : 20;
  turns.bins = static_cast<std::size_t>(kRunMs / turns.resolution_ms);
  turns.exclusive_busy = 0.03;
  turns.exclusive_by_chance = 0.06;
  turns.together = kind == LaneKind::busy ? 0.6 : 0.92;
  turns.opposed = -(gpus - 1) * turns.together;
  turns.swing = kind == LaneKind::busy ? 0.05 : 0.18;
  turns.any_active = 0.95;
  turns.duty.assign(static_cast<std::size_t>(gpus), 0.93);
  turns.owned.assign(static_cast<std::size_t>(gpus), 1.0 / gpus);
  turns.hand_overs = 6;
  turns.hand_backs = 3;
  turns.period_ms = 250;
  turns.period_strength = 0.7;
  turns.blocks = 70;
  turns.blocks_together = 62;
  return turns;
}

TurnSignals lanes_in_turns(int gpus, LaneKind kind) {
  TurnSignals turns = lanes_in_step(gpus, kind);
  const double share = 1.0 / gpus;
  turns.exclusive_busy = 0.95;
  turns.exclusive_by_chance = std::pow(1 - share, gpus - 1) + 0.05;
  turns.together = -0.95 / (gpus - 1);
  turns.opposed = 0.93;
  turns.swing = 0.95 * std::sqrt(share * (1 - share));
  turns.duty.assign(static_cast<std::size_t>(gpus), 0.95 * share);
  turns.hand_overs = 118;
  turns.hand_backs = 118 - gpus;
  turns.period_ms = 500;
  turns.period_strength = 0.8;
  turns.blocks = 58;
  turns.blocks_exclusive = 55;
  turns.blocks_together = 0;
  return turns;
}

Signals machine_with(std::vector<JobSignals> jobs, int gpus) {
  Signals signals;
  signals.duration_s = kRunMs / 1e3;
  signals.tick_ms = 100;
  signals.ticks = 300;
  signals.processes_known = true;
  signals.peer_to_peer.emplace();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    signals.gpus.push_back(gpu_that_rests(gpu));
    for (int other = 0; other < gpu; ++other) signals.peer_to_peer->emplace_back(other, gpu);
  }
  for (const JobSignals& job : jobs) {
    for (const GpuInJob& member : job.members) {
      GpuSignals& gpu = signals.gpus[static_cast<std::size_t>(member.index)];
      gpu = job.active ? gpu_that_works(member.index) : gpu_that_rests(member.index);
      gpu.busy_fraction = member.busy;
      gpu.memory_used_bytes = gpu.memory_median_bytes = member.memory_bytes;
      gpu.power_mw = member.power_mw;
    }
  }
  const auto is_held = [&](int gpu) {
    return std::ranges::any_of(
        jobs, [&](const JobSignals& job) { return std::ranges::count(job.gpus, gpu) > 0; });
  };
  for (int gpu = 0; gpu < gpus; ++gpu)
    if (!is_held(gpu)) signals.free_gpus.push_back(gpu);
  signals.jobs = std::move(jobs);
  return signals;
}

void add_ranks(JobSignals& job) {
  const int size = static_cast<int>(job.gpus.size());
  for (int rank = 0; rank < size; ++rank) {
    job.processes.push_back(python_process(kFirstPid + rank, {rank}, 0.75));
    make_rank(job.processes.back(), rank, size);
    job.pids.push_back(kFirstPid + rank);
    job.ranks.push_back(rank);
  }
  job.world_size = size;
}

void add_one_process(JobSignals& job, double memory_fraction) {
  job.processes = {python_process(kFirstPid, job.gpus, memory_fraction)};
  job.pids = {kFirstPid};
  job.one_process_on_all = job.gpus.size() > 1;
}

JobSignals job_in_step(int gpus) {
  JobSignals job = job_on(gpus, 0.97, 0.93, 0.75);
  job.fine = lanes_in_step(gpus, LaneKind::power_samples);
  job.coarse = lanes_in_step(gpus, LaneKind::busy);
  job.power_together = 0.8;
  job.power_swing = 0.05;
  job.work_power_turns = 0.02;
  return job;
}

}  // namespace

Signals healthy_ranks(int gpus) {
  JobSignals job = job_in_step(gpus);
  add_ranks(job);
  return machine_with({job}, gpus);
}

Signals split_model(int gpus) {
  JobSignals job = job_on(gpus, 0.98 / gpus, 0.93 / gpus, 0.5);
  add_one_process(job, 0.5);
  job.second_busy = 0.25;
  job.idle_together = 0.03;
  job.fine = lanes_in_turns(gpus, LaneKind::power_samples);
  job.coarse = lanes_in_turns(gpus, LaneKind::busy);
  job.coarse->exclusive_busy = 0.55;
  job.work_power_turns = 0.7;
  return machine_with({job}, gpus);
}

Signals data_parallel(int gpus) {
  JobSignals job = job_on(gpus, 0.7, 0.62, 0.35);
  add_one_process(job, 0.35);
  hold_memory(job, 0, 0.72);
  measure_balances(job);
  job.idle_together = 0.08;
  job.fine = lanes_in_step(gpus, LaneKind::power_samples);
  job.fine->exclusive_busy = 0.15;
  job.fine->exclusive_by_chance = 0.16;
  job.fine->together = 0.55;
  job.fine->blocks_together = 40;
  return machine_with({job}, gpus);
}

Signals pipeline_of(int stages) {
  Signals signals = healthy_ranks(stages);
  JobSignals& job = signals.jobs.front();
  for (int gpu = 0; gpu < stages; ++gpu) load_gpu(signals, gpu, 0.76, 0.06);
  TurnSignals& turns = *job.fine;
  turns.exclusive_busy = 0.2;
  turns.exclusive_by_chance = 0.1;
  turns.together = 0.15;
  turns.opposed = 0.1;
  turns.swing = 0.35;
  turns.hand_overs = 60;
  turns.hand_backs = 56;
  turns.blocks_together = 3;
  turns.blocks_exclusive = 3;
  job.busy_sum = 0.76 * stages;
  job.second_busy = 0.75;
  job.idle_together = 0.02;
  return signals;
}

Signals alone(int gpus_of_machine) {
  JobSignals job = job_in_step(1);
  job.fine->owned = {1.0};
  add_one_process(job, 0.75);
  return machine_with({job}, gpus_of_machine);
}

Signals copies_by_hand(int gpus) {
  std::vector<JobSignals> jobs;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    JobSignals job = job_in_step(1);
    job.gpus = {gpu};
    job.members.front().index = gpu;
    job.processes = {python_process(kFirstPid + gpu, {gpu}, 0.75)};
    job.processes.front().environment = {{"CUDA_VISIBLE_DEVICES", std::to_string(gpu)}};
    job.pids = {kFirstPid + gpu};
    jobs.push_back(std::move(job));
  }
  return machine_with(std::move(jobs), gpus);
}

Signals server(int gpus) {
  JobSignals job = job_on(gpus, 0.55, 0.3, 0.98);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    job.processes.push_back(python_process(kFirstPid + gpu, {gpu}, 0.98));
    job.processes.back().command = {"/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server",
                                    "--model", "m"};
    job.processes.back().loader_workers = 0;
    job.pids.push_back(kFirstPid + gpu);
  }
  job.serves = true;
  job.idle_together = 0.45;
  job.host.loader_workers = job.host.most_loader_workers = 0;
  job.fine = lanes_in_step(gpus, LaneKind::power_samples);
  job.fine->period_ms.reset();
  job.fine->period_strength = 0;
  Signals signals = machine_with({job}, gpus);
  for (GpuSignals& gpu : signals.gpus) gpu.memory_highest_fraction = 0.98;
  return signals;
}

Signals nothing_runs(int gpus) {
  JobSignals job = job_on(gpus, 1, 1, 0.05);
  add_ranks(job);
  job.active = false;
  job.busy_sum = job.second_busy = 0;
  job.idle_together = 1;
  for (GpuInJob& member : job.members) {
    member.busy = member.work = 0;
    member.hollow.reset();
  }
  return machine_with({job}, gpus);
}

}  // namespace lockstep::testing
