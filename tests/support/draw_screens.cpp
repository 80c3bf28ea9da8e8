// Draws the live screen of 16 GPUs with 256 processes each again and again and says what a frame
// takes, for scripts/bench.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "render/tui/monitor_screen.hpp"
#include "render/tui/screen_painter.hpp"
#include "render/tui/terminal/screen_writer.hpp"

using namespace lockstep;

namespace {

constexpr int kGpus = 16;
constexpr int kProcessesEach = 256;
constexpr int kFrames = 300;

Monitored busy_machine() {
  Monitored seen;
  seen.open = true;
  for (int i = 0; i < kGpus; ++i) {
    GpuNow gpu;
    gpu.info.index = i;
    gpu.info.name = "NVIDIA H200";
    gpu.info.power_limit_mw = 700'000;
    gpu.info.memory_total_bytes = 150ULL << 30U;
    seen.gpus.push_back(gpu);
    for (int j = 0; j < kProcessesEach; ++j) {
      ProcessSample process;
      process.pid = 10'000 + i * kProcessesEach + j;
      process.gpus = {{i, 100U << 20U}};
      process.command = {"python", "-u", "train.py", "--config", "configs/base.yaml"};
      process.user = "ada";
      process.cpu = 0.9;
      process.state = 'R';
      process.launcher = j == 0 ? "torchrun" : "python";
      process.parent_pid = 9999;
      seen.processes.push_back(process);
    }
  }
  std::vector<int> indices;
  for (int i = 0; i < kGpus; ++i) indices.push_back(i);
  seen.history = History(indices);
  return seen;
}

}  // namespace

int main() {
  Monitored seen = busy_machine();
  std::mt19937 chance(1);
  ScreenPainter painter;
  ScreenWriter writer;
  std::vector<double> frames_ms;
  std::size_t bytes = 0;
  std::size_t whole = 0;
  for (int frame = 0; frame < kFrames; ++frame) {
    GpuTick tick;
    for (int i = 0; i < kGpus; ++i) {
      GpuSample sample;
      sample.index = i;
      sample.busy = static_cast<double>(chance() % 101) / 100;
      sample.power_mw = 100'000.0 + static_cast<double>(chance() % 600'000);
      seen.gpus[static_cast<std::size_t>(i)].latest = sample;
      tick.push_back(sample);
    }
    seen.history.add(frame * 100.0, tick);
    const auto begin = std::chrono::steady_clock::now();
    const auto painted = painter.paint(draw_monitor(seen, {}, {200, 60}));
    const std::string changes = writer.update(painted.cells, painted.changed);
    if (frame < 10) continue;
    frames_ms.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
    bytes += changes.size();
    whole += painted.cells.ToString().size();
  }
  std::ranges::sort(frames_ms);
  const auto count = static_cast<double>(frames_ms.size());
  std::printf("{\"median_ms\":%.4f,\"p95_ms\":%.4f,\"bytes_a_frame\":%.0f,\"bytes_whole\":%.0f}\n",
              frames_ms[frames_ms.size() / 2], frames_ms[static_cast<std::size_t>(count * 0.95)],
              static_cast<double>(bytes) / count, static_cast<double>(whole) / count);
}
