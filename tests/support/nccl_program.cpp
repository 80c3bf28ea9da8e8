// Calls a profiler plugin as NCCL does, in the order in which NCCL does: for one version of the
// interface, of two ranks' communicators.
//
// usage: nccl_program PLUGIN VERSION COLLECTIVES [time]
// time: without pauses, and says what a collective takes
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

extern "C" {
#include "probes/nccl/nccl_profiler_abi.h"
}

namespace {

int mask = 0;
bool times = false;

std::uint64_t gpu_timer() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  // a clock of its own
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
         static_cast<std::uint64_t>(now.tv_nsec) + 5'000'000'000ULL;
}

template <class Plugin>
void* start(const Plugin& plugin, void* context, nccl_event_descriptor& event) {
  void* handle = nullptr;
  if (plugin.start_event(context, &handle, &event) != NCCL_OK) std::exit(7);
  return handle;
}

template <class Plugin>
void all_reduce(const Plugin& plugin, void* context, int version, std::uint64_t sequence,
                int rank) {
  void* group_api = nullptr;
  void* coll_api = nullptr;
  if (version >= 5) {  // ncclAllReduce: the group, then the call
    nccl_event_descriptor event{};
    event.type = NCCL_EVENT_GROUP_API;
    group_api = start(plugin, context, event);
    event = {};
    event.type = NCCL_EVENT_COLL_API;
    event.parent = group_api;
    event.of.coll_api = {"AllReduce", 1 << 20, "ncclFloat32", 0, nullptr, 0};
    coll_api = start(plugin, context, event);
    plugin.stop_event(coll_api);
  }
  nccl_event_descriptor event{};
  event.type = NCCL_EVENT_GROUP;
  void* const group = start(plugin, context, event);
  event = {};
  event.type = NCCL_EVENT_COLL;
  event.rank = rank;
  event.parent = version >= 5 ? coll_api : group;
  if (version == 1)
    event.of.coll_v1 = {nullptr, 0xABCD, sequence, 4, nullptr, nullptr, 1 << 20, 0,
                        7,       0,      0,        2, 4,       1,       2};
  else if (version == 2)
    event.of.coll_v2 = {nullptr, 0xABCD,        sequence, "AllReduce", nullptr, nullptr, 1 << 20,
                        0,       "ncclFloat32", 0,        2,           4,       "RING",  "SIMPLE"};
  else if (version == 3)
    event.of.coll_v3 = {nullptr, 0xABCD,        sequence, "AllReduce", nullptr, nullptr, 1 << 20,
                        0,       "ncclFloat32", 2,        4,           "RING",  "SIMPLE"};
  else
    event.of.coll_v4 = {sequence,      "AllReduce", nullptr, nullptr, 1 << 20,  0,
                        "ncclFloat32", 2,           4,       "RING",  "SIMPLE", group};
  void* const collective = start(plugin, context, event);
  plugin.stop_event(collective);
  plugin.stop_event(group);
  if (version >= 5) plugin.stop_event(group_api);
  if (version < 4 || (mask & NCCL_EVENT_KERNEL_CH) == 0) return;
  for (int channel = 0; channel < 2; ++channel) {  // the proxy thread's, later
    event = {};
    event.type = NCCL_EVENT_KERNEL_CH;
    event.parent = collective;
    event.of.kernel_ch = {static_cast<std::uint8_t>(channel), gpu_timer() - 300'000};
    void* const kernel = start(plugin, context, event);
    nccl_state_arguments arguments{};
    arguments.kernel_ch.timer = gpu_timer();
    plugin.record_state(kernel, NCCL_STATE_KERNEL_CH_STOP, &arguments);
    plugin.stop_event(kernel);
  }
}

template <class Plugin>
void run(const Plugin& plugin, void* context, int version, int collectives) {
  const std::uint64_t begin = gpu_timer();
  for (int i = 0; i < collectives; ++i) {
    all_reduce(plugin, context, version, static_cast<std::uint64_t>(i), 1);
    if (!times) ::usleep(200);
  }
  if (times) std::printf("%.0f ns\n", static_cast<double>(gpu_timer() - begin) / collectives);
  // A proxy that works for another process (PXN) hands over that process's pointers.
  nccl_event_descriptor foreign{};
  foreign.type = 1U << 3U;
  foreign.parent = reinterpret_cast<void*>(0x7FFFDEAD0000);
  if (start(plugin, reinterpret_cast<void*>(0x1000), foreign) != nullptr) std::exit(8);

  nccl_event_descriptor event{};
  event.type = NCCL_EVENT_P2P;
  event.rank = 1;
  if (version == 1)
    event.of.p2p_v1 = {nullptr, 0xABCD, 6, nullptr, 7, 1024, 0};
  else if (version <= 3)
    event.of.p2p_v2 = {nullptr, 0xABCD, "Send", nullptr, "ncclFloat32", 1024, 0};
  else
    event.of.p2p_v4 = {"Send", nullptr, "ncclFloat32", 1024, 0, 1, nullptr};
  plugin.stop_event(start(plugin, context, event));
  plugin.finalize(context);
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  void* const library = ::dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 3;
  }
  const int version = static_cast<int>(std::strtol(words[2], nullptr, 10));
  const int collectives = static_cast<int>(std::strtol(words[3], nullptr, 10));
  times = count > 4;
  void* const symbol = ::dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str());
  if (symbol == nullptr) return 4;
  void* context = nullptr;
  if (version <= 3) {
    const auto& plugin = *static_cast<nccl_profiler_v1*>(symbol);
    if (plugin.init(&context, &mask) != NCCL_OK) return 5;
    run(plugin, context, version, collectives);
  } else if (version == 4) {
    const auto& plugin = *static_cast<nccl_profiler_v4*>(symbol);
    if (plugin.init(&context, &mask, "job", 0xABCD, 1, 2, 1, nullptr) != NCCL_OK) return 5;
    run(plugin, context, version, collectives);
  } else {
    const auto& plugin = *static_cast<nccl_profiler_v5*>(symbol);
    if (plugin.init(&context, 0xABCD, &mask, "job", 1, 2, 1, nullptr) != NCCL_OK) return 5;
    run(plugin, context, version, collectives);
  }
  ::dlclose(library);  // NCCL does, with its last communicator
  return (mask & NCCL_EVENT_COLL) != 0 ? 0 : 6;
}
