// A real CPU load on threads named vgpu<i>: what virtual GPUs measure.
//
// usage: vgpu_load SECONDS GPU:DUTY[:PERIOD_MS[:OFFSET_MS]]...  [--register BYTES] [--waiting]
// DUTY 0..1 of each period is computed, the rest slept. With --register the process registers its
// threads and memory as the reference trainer does; --waiting says that they spin in a collective.
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "virtual_nvml/compute_threads.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  int gpu = 0;
  double duty = 1;
  double period_ms = 20;
  double offset_ms = 0;
  std::atomic<int> tid = 0;
};

void run(Load& load, Clock::time_point end) {
  load.tid = static_cast<int>(::syscall(SYS_gettid));
  ::pthread_setname_np(::pthread_self(), ("vgpu" + std::to_string(load.gpu)).c_str());
  const auto ms = [](double value) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(value));
  };
  auto period = Clock::now() + ms(load.offset_ms);
  std::this_thread::sleep_until(period);
  volatile double sink = 1;
  while (Clock::now() < end) {
    const auto busy_until = period + ms(load.period_ms * load.duty);
    while (Clock::now() < busy_until)
      for (int i = 0; i < 200; ++i) sink = sink * 1.0000001;
    period += ms(load.period_ms);
    std::this_thread::sleep_until(period);
  }
}

void register_threads(const std::vector<std::unique_ptr<Load>>& loads, unsigned long long bytes,
                      bool waiting) {
  nlohmann::json gpus = nlohmann::json::array();
  for (const auto& load : loads) {
    while (load->tid == 0) std::this_thread::yield();
    gpus.push_back({{"index", load->gpu},
                    {"memory_bytes", bytes},
                    {"tid", load->tid.load()},
                    {"waiting", waiting}});
  }
  const auto folder = lockstep::runtime_folder();
  std::filesystem::create_directories(folder);
  ::chmod(folder.c_str(), 0700);
  const auto file = folder / ("vgpu-" + std::to_string(::getpid()) + ".json");
  std::ofstream(file.string() + ".new") << nlohmann::json{{"pid", ::getpid()}, {"gpus", gpus}};
  std::filesystem::rename(file.string() + ".new", file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    return std::fprintf(stderr, "usage: vgpu_load SECONDS GPU:DUTY[:PERIOD_MS[:OFFSET_MS]]...\n"),
           2;
  const auto end =
      Clock::now() + std::chrono::milliseconds(static_cast<int>(std::atof(argv[1]) * 1000));
  std::vector<std::unique_ptr<Load>> loads;
  unsigned long long bytes = 0;
  bool registers = false;
  bool waiting = false;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--register") {
      registers = true;
      bytes = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--waiting") {
      waiting = true;
    } else {
      auto load = std::make_unique<Load>();
      std::sscanf(word.c_str(), "%d:%lf:%lf:%lf", &load->gpu, &load->duty, &load->period_ms,
                  &load->offset_ms);
      loads.push_back(std::move(load));
    }
  }
  std::vector<std::thread> threads;
  for (const auto& load : loads) threads.emplace_back([&, end] { run(*load, end); });
  if (registers) register_threads(loads, bytes, waiting);
  for (std::thread& thread : threads) thread.join();
}
