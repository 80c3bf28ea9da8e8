#include "support/sample_recording.hpp"

#include "recording/writer.hpp"

namespace lockstep::testing {

Machine two_gpu_machine() {
  Machine machine;
  machine.started_unix_ns = 1'700'000'000'000'000'000;
  machine.host = "node1";
  machine.driver = "580.1";
  machine.power_window_ms = 1000;
  machine.peer_to_peer = {{0, 1}};
  for (int i = 0; i < 2; ++i)
    machine.gpus.push_back({i, "GPU-" + std::to_string(i), "NVIDIA H200", 150'000'000'000, 700'000,
                            200, std::nullopt});
  return machine;
}

std::vector<Record> one_of_each() {
  GpuSample gpu;
  gpu.index = 0;
  gpu.busy = 0.97;
  gpu.memory_used_bytes = 80'000'000'000;
  gpu.power_mw = 650'123.0;
  gpu.power_samples = PowerSamples{{650'000, 651'000}, 20, 3.5};
  gpu.sm = 0.8;
  gpu.tensor = 0.4;
  gpu.dram = 0.5;
  gpu.sm_clock_mhz = 1980.0;
  gpu.temperature_c = 61.0;
  ClockLimits limits;
  limits.add(ClockLimit::sw_power_cap);
  gpu.limits = limits;
  gpu.pcie_rx_bytes = 1;
  gpu.pcie_tx_bytes = 2;
  gpu.nvlink_rx_bytes = 18'446'744'073'709'551'615ULL;
  gpu.nvlink_tx_bytes = Reading<std::uint64_t>::not_supported();

  ProcessSample process;
  process.pid = 4242;
  process.gpus = {{0, 1'000'000}, {1, std::nullopt}};
  process.command = {"python", "train.py", "--name", "caf\xC3\xA9 \"x\"\n"};
  process.rank = 0;
  process.local_rank = 0;
  process.world_size = 2;
  process.launcher = "torchrun";
  process.cpu = 0.9;
  process.state = 'R';
  process.user = "ada";
  process.parent_pid = 4000;
  process.loader_workers = 4;
  process.read_bytes = 10;
  process.write_bytes = 20;
  process.environment = {{"RANK", "0"}, {"MASTER_ADDR", "node1"}};
  process.libraries = {"torch"};
  HostLook look;
  look.ago_ms = 40.5;
  look.main = ThreadDoing::sleep;
  look.workers[index_of(ThreadDoing::pipe)] = 4;
  process.looks = {look, HostLook{}};

  StepMark step{0, 12, 80.5, {}};
  step.spans_ms[0] = 1.5;
  step.spans_ms[5] = 3.25;
  StepMark on_gpu{1, 13, 80.5, {}};
  StepOnDevices time;
  time.devices = {{0, 40.5, 6, 4.5, 0.25, 35.25, 900}, {1, 1, 0, 0, 0, 79.5, 3}};
  time.any_ms = 41.5;
  time.exclusive_ms = 41.5;
  time.hand_overs = 2;
  time.idle_ms[0] = 30;
  time.launch_gaps = 12;
  time.launch_gaps_ms = 0.75;
  time.waits = 2;
  time.waits_ms = 1.5;
  time.tensor_core_ms = 20;
  on_gpu.on_devices = time;

  CollectiveCall call;
  call.pid = 4242;
  call.rank = call.place = 1;
  call.communicator = 18'446'744'073'709'551'615ULL;
  call.sequence = 7;
  call.called_ms = 60.25;
  call.queued_ms = 60.5;
  call.begin_ms = 61;
  call.end_ms = 63.5;
  call.bytes = 25e6;
  call.size = 2;
  call.nodes = 1;
  call.channels = 4;
  call.operation = "AllReduce";
  call.algorithm = "RING";
  call.protocol = "SIMPLE";
  call.captured = true;

  CommunicatorRank silent;
  silent.rank = 1;
  silent.pid = 4243;
  silent.host = "node2";
  silent.answers = false;
  silent.dead = true;
  CommunicatorRank there;
  there.pid = 4242;
  there.host = "node1";
  there.gpu = 0;
  there.counts = {{"AllReduce", 48112}};
  const CommunicatorCensus census{"2.28.9", {{"0xab", 2, {there, silent}}}};
  return {{0.0, GpuTick{gpu}}, {0.5, ProcessTick{process}},
          {80.5, step},        {81.0, Event{"xid", 1, "79"}},
          {82.0, on_gpu},      {82.5, call},
          {83.0, census}};
}

std::string recording_text(const Machine& machine, const std::vector<Record>& records) {
  std::string text = header_line(machine);
  for (const Record& record : records) text += record_line(record);
  return text;
}

std::vector<Record> all_records(RecordingReader& reader) {
  std::vector<Record> records;
  while (auto record = reader.next()) records.push_back(std::move(*record));
  return records;
}

GpuSample steady_sample(int index, double busy) {
  GpuSample gpu;
  gpu.index = index;
  gpu.busy = busy;
  gpu.memory_used_bytes = static_cast<std::uint64_t>(index + 1) << 30U;
  gpu.power_mw = 100'000 + 500'000 * busy;
  gpu.sm_clock_mhz = 1500.0;
  gpu.temperature_c = 40.0 + index;
  return gpu;
}

std::vector<Record> plateau(const std::vector<double>& busy, double seconds) {
  std::vector<Record> records;
  for (int tick = 0; tick <= static_cast<int>(seconds * 10); ++tick) {
    GpuTick gpus;
    for (std::size_t i = 0; i < busy.size(); ++i)
      gpus.push_back(steady_sample(static_cast<int>(i), busy[i]));
    records.push_back({tick * 100.0, gpus});
  }
  return records;
}

}  // namespace lockstep::testing
