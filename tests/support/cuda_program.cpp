// A program that uses a GPU, as far as the CUDA probe can tell: loads libcupti, then the probe as
// the driver would at its start.
//
// usage: cuda_program PROBE KERNELS [torch.profiler | windows | beside]
//
// windows: the kernels come in two windows, and as many that nobody may see between them; beside:
// another thread runs, so that CUPTI has to stay.
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

extern "C" {
std::uint64_t fake_cupti_now();
std::uint64_t fake_cupti_enabled();
void fake_cupti_kernel(std::uint64_t start, std::uint64_t end, std::uint32_t device,
                       std::uint32_t stream, const char* name);
void fake_cupti_copy(std::uint64_t start, std::uint64_t end, std::uint8_t source,
                     std::uint8_t target, std::uint64_t bytes);
void fake_cupti_wait(std::uint64_t start, std::uint64_t end);
unsigned fake_cupti_finalized();
unsigned fake_cuda_waits();
}

namespace {

struct Probe {
  void (*window)(int);
  int (*may_leave)(const int*, int);
  std::uint64_t (*leave)(const int*, int);

  explicit Probe(void* library)
      : window(reinterpret_cast<void (*)(int)>(::dlsym(library, "lockstep_cuda_probe_window"))),
        may_leave(reinterpret_cast<int (*)(const int*, int)>(
            ::dlsym(library, "lockstep_cuda_probe_may_leave"))),
        leave(reinterpret_cast<std::uint64_t (*)(const int*, int)>(
            ::dlsym(library, "lockstep_cuda_probe_detach"))) {}
  bool leaves() const { return may_leave(nullptr, 0) != 0 && leave(nullptr, 0) != 0; }
};

// Longer than threads sleep that ask CUDA now and then.
void let_threads_run() { std::this_thread::sleep_for(std::chrono::milliseconds(600)); }

// Whether CUPTI is gone between the windows and was waited for.
bool goes_by_windows(const Probe& probe, long kernels) {
  // CUPTI's texts go with it: the next window has the same kernel elsewhere, and at its old place
  // another whose name begins alike.
  std::string text = std::string(60, 'k') + "_first";
  const auto work = [&](const char* name) {
    for (long i = 0; i < kernels; ++i) {
      const std::uint64_t now = fake_cupti_now();
      fake_cupti_kernel(now - 500, now, 0, 7, name);
    }
  };
  if (probe.leaves()) return false;  // a window is open
  work(text.c_str());
  probe.window(0);
  work("seen by nobody");
  if (probe.leaves()) return false;  // who knows what other threads do
  let_threads_run();
  if (!probe.leaves() || fake_cupti_finalized() != 1 || fake_cuda_waits() != 1) return false;
  work("CUPTI is not there");
  if (probe.leaves()) return false;
  const std::string elsewhere = text;
  text.replace(60, std::string::npos, "_other");
  probe.window(1);
  work(text.c_str());
  work(elsewhere.c_str());
  probe.window(0);
  return probe.leaves() && fake_cupti_finalized() == 2 && fake_cupti_enabled() == 0;
}

// Whether CUPTI stays for as long as another thread lives that ran, however seldom.
bool stays_beside_a_thread(const Probe& probe) {
  std::atomic<bool> ends = false;
  std::thread other([&] {
    while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  probe.window(0);
  let_threads_run();
  const bool left = probe.leaves();
  ends = true;
  other.join();
  let_threads_run();  // the kernel takes a moment to forget it
  return !left && fake_cupti_finalized() == 0 && probe.leaves();
}

}  // namespace

// Linkers that leave out libraries which nobody calls (Ubuntu's) would leave out C++'s, which the
// probe asks for names that people can read; every process with torch has it.
int main(int count, char** words) {
  auto* volatile const demangle = &abi::__cxa_demangle;
  if (count < 3 || demangle == nullptr) return 2;
  void* const probe = ::dlopen(words[1], RTLD_NOW);
  if (probe == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 3;
  }
  const auto start = reinterpret_cast<int (*)()>(::dlsym(probe, "InitializeInjection"));
  if (start == nullptr || start() != 1 || start() != 1) return 4;  // the driver may ask twice
  const long kernels = std::strtol(words[2], nullptr, 10);
  if (count > 3 && std::strcmp(words[3], "windows") == 0)
    return goes_by_windows(Probe(probe), kernels) ? 0 : 7;
  if (count > 3 && std::strcmp(words[3], "beside") == 0)
    return stays_beside_a_thread(Probe(probe)) ? 0 : 8;
  const std::uint64_t now = fake_cupti_now();
  // never freed, as CUPTI's names are; void gemm<128>(float const*, float const*, float*); a
  // string: libstdc++ is loaded, as in every program with torch
  const std::string& mangled = *new std::string("_Z4gemmILi128EEvPKfS1_Pf");
  const char* const gemm = mangled.c_str();
  for (long i = 0; i < kernels; ++i)
    fake_cupti_kernel(now + static_cast<std::uint64_t>(i) * 1000,
                      now + static_cast<std::uint64_t>(i) * 1000 + 500,
                      static_cast<std::uint32_t>(i % 2), 7,
                      i % 10 == 0 ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL" : gemm);
  fake_cupti_copy(now, now + 700, 1, 3, 4096);
  fake_cupti_wait(now, now + 9'000'000'000ULL);  // longer than a row holds
  if (count > 3 && std::strcmp(words[3], "torch.profiler") == 0) {
    const auto stop = reinterpret_cast<void (*)()>(::dlsym(probe, "lockstep_cuda_probe_stop"));
    if (stop == nullptr) return 5;
    stop();
    if (fake_cupti_enabled() != 0) return 6;
  }
  return 0;
}
