#include "sources/nvml/nvml_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.hpp"
#include "base/proc.hpp"
#include "sources/nvml/pci_power.hpp"

namespace lockstep {
namespace {

constexpr const char* kSleeps =
    "sleeps (runtime-suspended by the kernel); lockstep does not wake it";

}  // namespace

Result<std::unique_ptr<NvmlSession>> NvmlSession::open(const SessionOptions& options) {
  auto api = TRY(NvmlApi::load(options.library));
  std::unique_ptr<NvmlSession> session(new NvmlSession(api, options));

  // A virtual driver has nothing to do with this machine's PCI devices.
  const std::vector<std::string> addresses =
      options.library.empty() ? nvidia_gpu_addresses(options.sysfs) : std::vector<std::string>{};
  std::set<std::string> suspended;
  for (const std::string& address : addresses)
    if (is_suspended(options.sysfs, address)) suspended.insert(address);
  TRY(session->initialise(suspended));

  session->started_monotonic_ = options.clock ? options.clock->started_monotonic : monotonic_now();
  session->started_unix_ = options.clock ? options.clock->started_unix : unix_now();
  unsigned int count = 0;
  const nvmlReturn_t counted = api.nvmlDeviceGetCount_v2(&count);
  if (counted != NVML_SUCCESS)
    return Error{fmt::format("cannot count the GPUs: {}", api.nvmlErrorString(counted)),
                 "run `lockstep doctor`"};
  if (count == 0)
    return Error{
        "the NVIDIA driver runs but shows no GPU",
        "in a container add `--gpus all`; check NVIDIA_VISIBLE_DEVICES; or try `virtual:2`"};
  // A container may see fewer GPUs than sysfs shows; then the two cannot be matched, and none is
  // taken for asleep.
  if (addresses.size() != count) suspended.clear();
  session->add_gpus(addresses, suspended, count);
  for (const int wanted : options.gpus)
    if (std::ranges::none_of(session->readers_,
                             [&](const auto& reader) { return reader->info().index == wanted; }))
      return usage_error(fmt::format("GPU {} of --gpus is not here", wanted),
                         fmt::format("this machine has GPU 0 to {}", session->rows_ - 1));
  session->register_events();
  return session;
}

NvmlSession::~NvmlSession() {
  readers_.clear();  // they give their GPM samples back
  if (events_ != nullptr) api_.nvmlEventSetFree(events_);
  if (initialised_) api_.nvmlShutdown();
}

Status NvmlSession::initialise(const std::set<std::string>& suspended) {
  // NO_ATTACH leaves sleeping GPUs alone; each other one is attached when its handle is asked for.
  const nvmlReturn_t result = !suspended.empty() && api_.nvmlInitWithFlags != nullptr
                                  ? api_.nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH)
                                  : api_.nvmlInit_v2();
  initialised_ = result == NVML_SUCCESS;
  if (initialised_) return Done{};
  const std::string why = api_.nvmlErrorString(result);
  if (result == NVML_ERROR_DRIVER_NOT_LOADED)
    return Error{fmt::format("the NVIDIA driver is not loaded ({})", why),
                 "load it (`modprobe nvidia`), or use virtual GPUs: virtual:2"};
  if (result == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    return Error{
        fmt::format("the NVIDIA library and the loaded driver differ in version ({})", why),
        "reboot, or reload the driver, to finish its update"};
  return Error{fmt::format("NVML does not start: {}", why),
               "run `lockstep doctor`; `nvidia-smi` should say the same"};
}

void NvmlSession::add_gpus(const std::vector<std::string>& addresses,
                           const std::set<std::string>& suspended, unsigned int count) {
  rows_ = static_cast<int>(count);
  for (unsigned int i = 0; i < count; ++i) {
    GpuReader::Place place{static_cast<int>(i), i, i < addresses.size() ? addresses[i] : "",
                           std::nullopt};
    if (!suspended.empty() && suspended.contains(place.pci_address)) {
      readers_.push_back(std::make_unique<GpuReader>(api_, place, started_unix_, kSleeps));
      may_sleep_.insert(readers_.back().get());
      continue;
    }
    nvmlDevice_t device = nullptr;
    if (const nvmlReturn_t opened = api_.nvmlDeviceGetHandleByIndex_v2(i, &device);
        opened != NVML_SUCCESS) {
      // Seen by the driver, not to be opened: it keeps a row that says so.
      readers_.push_back(std::make_unique<GpuReader>(
          api_, place, started_unix_,
          fmt::format("the driver does not open it: {}", api_.nvmlErrorString(opened))));
      continue;
    }
    if (nvmlPciInfo_t pci{}; api_.nvmlDeviceGetPciInfo_v3 != nullptr && options_.library.empty() &&
                             api_.nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS)
      place.pci_address = sysfs_address(pci.busId);
    readers_.push_back(std::make_unique<GpuReader>(api_, place, device, device, started_unix_));
    if (!place.pci_address.empty() && may_be_suspended(options_.sysfs, place.pci_address))
      may_sleep_.insert(readers_.back().get());
  }
  const std::size_t physical = readers_.size();
  for (std::size_t i = 0; i < physical; ++i) add_slices(*readers_[i]);
  // Rows have the same number whichever of them are asked for, so the choice comes last.
  const auto unwanted = [&](const std::unique_ptr<GpuReader>& reader) {
    return !options_.gpus.empty() &&
           std::ranges::find(options_.gpus, reader->info().index) == options_.gpus.end();
  };
  for (const auto& reader : readers_)
    if (unwanted(reader)) may_sleep_.erase(reader.get());
  std::erase_if(readers_, unwanted);
}

// MIG slices are rows of their own, numbered after the physical GPUs.
void NvmlSession::add_slices(const GpuReader& parent) {
  unsigned int current = 0;
  unsigned int pending = 0;
  unsigned int most = 0;
  if (!parent.absence().empty() || api_.nvmlDeviceGetMigMode == nullptr ||
      api_.nvmlDeviceGetMigDeviceHandleByIndex == nullptr ||
      api_.nvmlDeviceGetMaxMigDeviceCount == nullptr || api_.nvmlDeviceGetGpuInstanceId == nullptr)
    return;
  if (api_.nvmlDeviceGetMigMode(parent.device(), &current, &pending) != NVML_SUCCESS) return;
  if (current != NVML_DEVICE_MIG_ENABLE) return;
  if (api_.nvmlDeviceGetMaxMigDeviceCount(parent.device(), &most) != NVML_SUCCESS) return;
  for (unsigned int slice = 0; slice < most; ++slice) {
    nvmlDevice_t device = nullptr;
    if (api_.nvmlDeviceGetMigDeviceHandleByIndex(parent.device(), slice, &device) != NVML_SUCCESS)
      continue;
    unsigned int instance = slice;
    static_cast<void>(api_.nvmlDeviceGetGpuInstanceId(device, &instance));
    const GpuReader::Place place{rows_++, parent.place().nvml_index, "",
                                 MigSlice{parent.info().index, static_cast<int>(instance)}};
    readers_.push_back(
        std::make_unique<GpuReader>(api_, place, device, parent.device(), started_unix_));
  }
}

void NvmlSession::register_events() {
  if (api_.nvmlEventSetCreate == nullptr || api_.nvmlEventSetFree == nullptr ||
      api_.nvmlDeviceRegisterEvents == nullptr || api_.nvmlEventSetWait_v2 == nullptr)
    return;
  if (api_.nvmlEventSetCreate(&events_) != NVML_SUCCESS) {
    events_ = nullptr;
    return;
  }
  for (const auto& reader : readers_)
    if (reader->absence().empty() && !reader->place().mig)
      static_cast<void>(
          api_.nvmlDeviceRegisterEvents(reader->device(), nvmlEventTypeXidCriticalError, events_));
}

Machine NvmlSession::machine() const {
  Machine machine;
  machine.started_unix_ns = started_unix_.count();
  std::array<char, 256> text{};
  if (::gethostname(text.data(), text.size() - 1) == 0) machine.host = text.data();
  if (api_.nvmlSystemGetDriverVersion(text.data(), text.size()) == NVML_SUCCESS)
    machine.driver = text.data();
  for (const auto& reader : readers_) machine.gpus.push_back(reader->info());
  machine.power_window_ms = power_window_ms();
  machine.peer_to_peer = peers();
  machine.process_coverage = process_coverage();
  return machine;
}

// What the absence of a process will prove. In a PID namespace of its own the driver may hide other
// containers'.
ProcessCoverage NvmlSession::process_coverage() const {
  const auto telling = std::ranges::count_if(readers_, [](const auto& reader) {
    return reader->absence().empty() && reader->read_processes();
  });
  if (telling == 0) return ProcessCoverage::none;
  const bool all_tell = telling == static_cast<std::ptrdiff_t>(readers_.size());
  const bool own_namespace = options_.library.empty() && in_own_pid_namespace("/proc");
  return all_tell && !own_namespace ? ProcessCoverage::all : ProcessCoverage::partial;
}

// From Ampere on (but for GA100) the plain power reading is a mean over one second (nvml.h).
std::optional<double> NvmlSession::power_window_ms() const {
  const GpuReader& first = *readers_.front();
  nvmlDeviceArchitecture_t architecture = NVML_DEVICE_ARCH_UNKNOWN;
  if (!first.absence().empty() || api_.nvmlDeviceGetArchitecture == nullptr ||
      api_.nvmlDeviceGetArchitecture(first.device(), &architecture) != NVML_SUCCESS)
    return std::nullopt;
  const std::string name = first.info().name.value_or("");
  const bool ga100 =
      name.find("A100") != std::string::npos || name.find("A30") != std::string::npos;
  return architecture >= NVML_DEVICE_ARCH_AMPERE && !ga100 ? 1000 : 0;
}

// Which pairs reach each other's memory; nothing when the driver does not tell.
std::optional<std::vector<std::pair<int, int>>> NvmlSession::peers() const {
  if (api_.nvmlDeviceGetP2PStatus == nullptr) return std::nullopt;
  std::vector<const GpuReader*> candidates;
  for (const auto& reader : readers_)
    if (reader->absence().empty() && !reader->place().mig) candidates.push_back(reader.get());
  std::vector<std::pair<int, int>> pairs;
  bool known = false;
  for (std::size_t a = 0; a < candidates.size(); ++a) {
    for (std::size_t b = a + 1; b < candidates.size(); ++b) {
      nvmlGpuP2PStatus_t status{};
      if (api_.nvmlDeviceGetP2PStatus(candidates[a]->device(), candidates[b]->device(),
                                      NVML_P2P_CAPS_INDEX_READ, &status) != NVML_SUCCESS)
        continue;
      known = true;
      if (status == NVML_P2P_STATUS_OK)
        pairs.emplace_back(candidates[a]->info().index, candidates[b]->info().index);
    }
  }
  return known ? std::optional(std::move(pairs)) : std::nullopt;
}

bool NvmlSession::has_slices(const GpuReader& reader) const {
  return std::ranges::any_of(readers_, [&](const auto& other) {
    return other->place().mig && other->place().mig->parent == reader.info().index;
  });
}

std::optional<Event> NvmlSession::look_after(GpuReader& reader) {
  if (!may_sleep_.contains(&reader)) return std::nullopt;
  const bool sleeps = is_suspended(options_.sysfs, reader.place().pci_address);
  if (sleeps != reader.absence().empty()) return std::nullopt;
  if (sleeps) {
    reader.leave_alone(kSleeps);
    return Event{"suspended", reader.info().index, "runtime power management"};
  }
  nvmlDevice_t device = nullptr;
  if (api_.nvmlDeviceGetHandleByIndex_v2(reader.place().nvml_index, &device) != NVML_SUCCESS)
    return std::nullopt;
  reader.wake(device);
  return Event{"resumed", reader.info().index, "runtime power management"};
}

std::optional<Event> NvmlSession::next_xid() {
  constexpr unsigned int kDoNotWait = 0;
  nvmlEventData_t data{};
  if (events_ == nullptr || api_.nvmlEventSetWait_v2(events_, &data, kDoNotWait) != NVML_SUCCESS)
    return std::nullopt;
  std::optional<int> gpu;
  for (const auto& reader : readers_)
    if (reader->device() == data.device) gpu = reader->info().index;
  return Event{"xid", gpu, fmt::format("{}", data.eventData)};
}

}  // namespace lockstep
