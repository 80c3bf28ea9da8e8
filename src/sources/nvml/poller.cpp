#include "sources/nvml/poller.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "sources/nvml/gpu_reader.hpp"
#include "sources/nvml/nvml_api.hpp"
#include "sources/nvml/pci_power.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostQueued = 8192;     // over ten minutes at 10 Hz: a reader that slow has given up
constexpr auto kSilentAfter = 1s;             // a call this long is worth a word
constexpr auto kFindAgainEvery = 5s;          // a lost GPU is looked for
constexpr auto kReplanEvery = 1s;
constexpr auto kStopWait = 200ms;             // then a stuck thread is left behind

constexpr const char* kSleeps = "sleeps (runtime-suspended by the kernel); lockstep does not wake it";

std::atomic<bool> left_behind = false;

}  // namespace

// What the poller's thread and its owner share. Lives as long as either.
struct Poller::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Record> records;           // guarded by mutex, like all down to the atomics
  std::optional<Result<Machine>> started;
  std::vector<NotMeasured> not_measured;
  SamplingCost cost;
  bool finish = false;
  bool ended = false;

  std::atomic<const char*> call = nullptr;      // the call under way, for the words about silence
  std::atomic<std::int64_t> call_since_ns = 0;
};

// The thread's own side: everything here is touched by that thread alone.
class Poller::Work {
 public:
  Work(PollerOptions options, std::shared_ptr<Shared> shared)
      : options_(std::move(options)), shared_(std::move(shared)) {}

  void run() {
    Result<Machine> machine = start();
    const bool ok = static_cast<bool>(machine);
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->started = std::move(machine);
    }
    shared_->changed.notify_all();
    if (ok) poll();
    readers_.clear();
    if (api_ && events_ != nullptr) api_->nvmlEventSetFree(events_);
    if (api_ && initialised_) api_->nvmlShutdown();
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    shared_->changed.notify_all();
  }

 private:
  Result<Machine> start();
  Status initialise(const std::set<std::string>& suspended);
  void add_gpus(const std::vector<std::string>& addresses, const std::set<std::string>& suspended, unsigned int count);
  void add_slices(const GpuReader& parent, unsigned int nvml_index);
  Machine describe();
  void register_events();

  void poll();
  void tick(const std::vector<CallKind>& kinds);
  void read_gpus(const std::vector<CallKind>& kinds, double t_ms);
  void read_processes(double t_ms);
  void read_events(double t_ms);
  void look_after(GpuReader& reader, double t_ms);
  void publish_state();
  void push(Record record);

  // Makes the same kind of call on `gpus` GPUs and notes what one of them took.
  template <class Calls>
  void timed(CallKind kind, std::size_t gpus, Calls calls) {
    const auto begin = monotonic_now();
    shared_->call_since_ns = begin.count();
    shared_->call = kCallKindNames[static_cast<std::size_t>(kind)].data();
    calls();
    shared_->call = nullptr;
    schedule_->measured(kind, (monotonic_now() - begin) / static_cast<std::int64_t>(std::max<std::size_t>(gpus, 1)));
  }

  double now_ms() const { return to_ms(monotonic_now() - started_monotonic_); }

  const PollerOptions options_;
  const std::shared_ptr<Shared> shared_;
  std::optional<NvmlApi> api_;
  bool initialised_ = false;
  std::vector<std::unique_ptr<GpuReader>> readers_;
  std::set<const GpuReader*> may_sleep_;
  std::set<const GpuReader*> known_lost_;
  nvmlEventSet_t events_ = nullptr;
  std::optional<CallSchedule> schedule_;
  std::chrono::nanoseconds started_monotonic_{};
  std::chrono::nanoseconds started_unix_{};
  std::chrono::nanoseconds last_search_{};
  std::chrono::nanoseconds last_replan_{};
};

Result<Machine> Poller::Work::start() {
  shared_->call_since_ns = monotonic_now().count();
  shared_->call = "nvmlInit";
  auto api = NvmlApi::load(options_.library);
  if (!api) return std::move(api).error();
  api_ = *api;

  // A virtual driver has nothing to do with this machine's PCI devices.
  const std::vector<std::string> addresses =
      options_.library.empty() ? nvidia_gpu_addresses(options_.sysfs) : std::vector<std::string>{};
  std::set<std::string> suspended;
  for (const std::string& address : addresses)
    if (is_suspended(options_.sysfs, address)) suspended.insert(address);
  if (Status status = initialise(suspended); !status) return std::move(status).error();

  started_monotonic_ = monotonic_now();
  started_unix_ = unix_now();
  unsigned int count = 0;
  const nvmlReturn_t counted = api_->nvmlDeviceGetCount_v2(&count);
  if (counted != NVML_SUCCESS)
    return Error{fmt::format("cannot count the GPUs: {}", api_->nvmlErrorString(counted)), "run `lockstep doctor`"};
  add_gpus(addresses, suspended, count);
  if (readers_.empty())
    return Error{count == 0 ? std::string("the NVIDIA driver runs but shows no GPU")
                            : fmt::format("none of the {} GPUs here is in --gpus", count),
                 count == 0 ? "in a container add `--gpus all`; check NVIDIA_VISIBLE_DEVICES; or try `virtual:2`"
                            : fmt::format("choose from 0 to {}", count - 1)};
  register_events();
  schedule_.emplace(options_.schedule, readers_.size(), monotonic_now());
  shared_->call = nullptr;
  return describe();
}

Status Poller::Work::initialise(const std::set<std::string>& suspended) {
  // NO_ATTACH leaves sleeping GPUs alone; each other one is attached when its handle is asked for.
  const nvmlReturn_t result = !suspended.empty() && api_->nvmlInitWithFlags != nullptr
                                  ? api_->nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH)
                                  : api_->nvmlInit_v2();
  initialised_ = result == NVML_SUCCESS;
  if (initialised_) return Done{};
  const std::string why = api_->nvmlErrorString(result);
  if (result == NVML_ERROR_DRIVER_NOT_LOADED)
    return Error{fmt::format("the NVIDIA driver is not loaded ({})", why),
                 "load it (`modprobe nvidia`), or use virtual GPUs: virtual:2"};
  if (result == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    return Error{fmt::format("the NVIDIA library and the loaded driver differ in version ({})", why),
                 "reboot, or reload the driver, to finish its update"};
  return Error{fmt::format("NVML does not start: {}", why), "run `lockstep doctor`; `nvidia-smi` should say the same"};
}

void Poller::Work::add_gpus(const std::vector<std::string>& addresses, const std::set<std::string>& suspended,
                            unsigned int count) {
  const auto wanted = [&](int index) {
    return options_.gpus.empty() || std::find(options_.gpus.begin(), options_.gpus.end(), index) != options_.gpus.end();
  };
  for (unsigned int i = 0; i < count; ++i) {
    GpuReader::Place place{static_cast<int>(i), i, std::nullopt, i < addresses.size() ? addresses[i] : "", std::nullopt};
    if (!wanted(place.index)) continue;
    if (!suspended.empty() && suspended.contains(place.pci_address)) {
      readers_.push_back(std::make_unique<GpuReader>(*api_, place, started_unix_, kSleeps));
      may_sleep_.insert(readers_.back().get());
      continue;
    }
    nvmlDevice_t device = nullptr;
    if (const nvmlReturn_t opened = api_->nvmlDeviceGetHandleByIndex_v2(i, &device); opened != NVML_SUCCESS) {
      // Seen by the driver, not to be opened: it keeps a row that says so.
      readers_.push_back(std::make_unique<GpuReader>(
          *api_, place, started_unix_, fmt::format("the driver does not open it: {}", api_->nvmlErrorString(opened))));
      continue;
    }
    if (nvmlPciInfo_t pci{}; api_->nvmlDeviceGetPciInfo_v3 != nullptr && options_.library.empty() &&
                             api_->nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS)
      place.pci_address = sysfs_address(pci.busId);
    readers_.push_back(std::make_unique<GpuReader>(*api_, place, device, device, started_unix_));
    if (!place.pci_address.empty() && may_be_suspended(options_.sysfs, place.pci_address))
      may_sleep_.insert(readers_.back().get());
  }
  const std::size_t physical = readers_.size();
  for (std::size_t i = 0; i < physical; ++i) add_slices(*readers_[i], readers_[i]->place().nvml_index);
}

// MIG slices are rows of their own, numbered after the physical GPUs.
void Poller::Work::add_slices(const GpuReader& parent, unsigned int nvml_index) {
  unsigned int current = 0;
  unsigned int pending = 0;
  unsigned int most = 0;
  if (!parent.absence().empty() || api_->nvmlDeviceGetMigMode == nullptr || api_->nvmlDeviceGetMigDeviceHandleByIndex == nullptr ||
      api_->nvmlDeviceGetMaxMigDeviceCount == nullptr || api_->nvmlDeviceGetGpuInstanceId == nullptr)
    return;
  if (api_->nvmlDeviceGetMigMode(parent.device(), &current, &pending) != NVML_SUCCESS) return;
  if (current != NVML_DEVICE_MIG_ENABLE) return;
  if (api_->nvmlDeviceGetMaxMigDeviceCount(parent.device(), &most) != NVML_SUCCESS) return;
  for (unsigned int slice = 0; slice < most; ++slice) {
    nvmlDevice_t device = nullptr;
    if (api_->nvmlDeviceGetMigDeviceHandleByIndex(parent.device(), slice, &device) != NVML_SUCCESS) continue;
    unsigned int instance = slice;
    static_cast<void>(api_->nvmlDeviceGetGpuInstanceId(device, &instance));
    int row = 0;
    for (const auto& reader : readers_) row = std::max(row, reader->info().index + 1);
    const GpuReader::Place place{row, nvml_index, slice, "",
                                 MigSlice{parent.info().index, static_cast<int>(instance)}};
    readers_.push_back(std::make_unique<GpuReader>(*api_, place, device, parent.device(), started_unix_));
  }
}

void Poller::Work::register_events() {
  if (api_->nvmlEventSetCreate == nullptr || api_->nvmlEventSetFree == nullptr ||
      api_->nvmlDeviceRegisterEvents == nullptr || api_->nvmlEventSetWait_v2 == nullptr)
    return;
  if (api_->nvmlEventSetCreate(&events_) != NVML_SUCCESS) {
    events_ = nullptr;
    return;
  }
  for (const auto& reader : readers_)
    if (reader->absence().empty() && !reader->place().mig)
      static_cast<void>(api_->nvmlDeviceRegisterEvents(reader->device(), nvmlEventTypeXidCriticalError, events_));
}

namespace {
bool can_have_peers(const GpuReader& reader) { return reader.absence().empty() && !reader.place().mig; }
}  // namespace

Machine Poller::Work::describe() {
  Machine machine;
  machine.started_unix_ns = started_unix_.count();
  std::array<char, 256> text{};
  if (::gethostname(text.data(), text.size() - 1) == 0) machine.host = text.data();
  if (api_->nvmlSystemGetDriverVersion(text.data(), text.size()) == NVML_SUCCESS) machine.driver = text.data();
  for (const auto& reader : readers_) machine.gpus.push_back(reader->info());

  // From Ampere on (but for GA100) the plain power reading is a mean over one second (nvml.h).
  nvmlDeviceArchitecture_t architecture = NVML_DEVICE_ARCH_UNKNOWN;
  const GpuReader& first = *readers_.front();
  if (first.absence().empty() && api_->nvmlDeviceGetArchitecture != nullptr &&
      api_->nvmlDeviceGetArchitecture(first.device(), &architecture) == NVML_SUCCESS) {
    const std::string name = first.info().name.value_or("");
    const bool ga100 = name.find("A100") != std::string::npos || name.find("A30") != std::string::npos;
    machine.power_window_ms = architecture >= NVML_DEVICE_ARCH_AMPERE && !ga100 ? 1000 : 0;
  }

  if (api_->nvmlDeviceGetP2PStatus != nullptr && readers_.size() > 1) {
    std::vector<std::pair<int, int>> pairs;
    bool known = false;
    for (std::size_t a = 0; a < readers_.size(); ++a) {
      for (std::size_t b = a + 1; b < readers_.size(); ++b) {
        nvmlGpuP2PStatus_t status{};
        if (!can_have_peers(*readers_[a]) || !can_have_peers(*readers_[b])) continue;
        if (api_->nvmlDeviceGetP2PStatus(readers_[a]->device(), readers_[b]->device(), NVML_P2P_CAPS_INDEX_READ,
                                         &status) != NVML_SUCCESS)
          continue;
        known = true;
        if (status == NVML_P2P_STATUS_OK) pairs.emplace_back(readers_[a]->info().index, readers_[b]->info().index);
      }
    }
    if (known) machine.peer_to_peer = std::move(pairs);
  }
  return machine;
}

void Poller::Work::poll() {
  while (true) {
    tick(schedule_->take_due(monotonic_now()));
    const auto wake = std::chrono::steady_clock::time_point(schedule_->next_wake());
    std::unique_lock lock(shared_->mutex);
    if (shared_->changed.wait_until(lock, wake, [&] { return shared_->finish; })) break;
  }
  // The power samples since the last read, and one more reading of all the rest.
  std::vector<CallKind> all;
  for (std::size_t i = 0; i < kCallKinds; ++i) all.push_back(static_cast<CallKind>(i));
  tick(all);
}

void Poller::Work::tick(const std::vector<CallKind>& kinds) {
  const double t_ms = now_ms();
  std::vector<CallKind> of_gpus;
  bool processes = false;
  bool events = false;
  for (const CallKind kind : kinds) {
    if (kind == CallKind::processes) processes = true;
    else if (kind == CallKind::events) events = true;
    else of_gpus.push_back(kind);
  }
  if (!of_gpus.empty()) read_gpus(of_gpus, t_ms);
  if (processes) read_processes(t_ms);
  if (events) read_events(t_ms);

  if (monotonic_now() - last_replan_ >= kReplanEvery) {
    last_replan_ = monotonic_now();
    for (const auto& reader : readers_)  // read it well before it wraps
      if (const auto length = reader->power_buffer_length())
        schedule_->limit_period(CallKind::power_samples, std::min<std::chrono::nanoseconds>(*length * 8 / 10, 2s));
    schedule_->replan();
    publish_state();
  }
}

void Poller::Work::read_gpus(const std::vector<CallKind>& kinds, double t_ms) {
  GpuTick gpus(readers_.size());
  std::vector<Record> extra;
  const bool search = monotonic_now() - last_search_ >= kFindAgainEvery;
  if (search) last_search_ = monotonic_now();
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    gpus[i].index = readers_[i]->info().index;
    if (may_sleep_.contains(readers_[i].get())) look_after(*readers_[i], t_ms);
    if (search && readers_[i]->lost()) readers_[i]->try_to_find_again();
  }
  // One quantity of all GPUs after the other: what is compared between GPUs is read close together.
  for (const CallKind kind : kinds)
    timed(kind, readers_.size(), [&] {
      for (std::size_t i = 0; i < readers_.size(); ++i) readers_[i]->read(kind, gpus[i]);
    });
  for (const auto& reader : readers_) {
    for (PowerSamples& run : reader->take_extra_power_runs()) {
      GpuSample rest;
      rest.index = reader->info().index;
      rest.power_samples = std::move(run);
      extra.push_back({t_ms, GpuTick{std::move(rest)}});
    }
    if (reader->lost() && known_lost_.insert(reader.get()).second)
      extra.push_back({t_ms, Event{"lost", reader->info().index, "the driver says: GPU is lost"}});
    if (!reader->lost() && known_lost_.erase(reader.get()) > 0)
      extra.push_back({t_ms, Event{"recovered", reader->info().index, "the driver answers again"}});
  }
  push({t_ms, std::move(gpus)});
  for (Record& record : extra) push(std::move(record));
}

// A GPU that the kernel may suspend: it is asked for nothing while it sleeps, and read again when it wakes.
void Poller::Work::look_after(GpuReader& reader, double t_ms) {
  const bool sleeps = is_suspended(options_.sysfs, reader.place().pci_address);
  if (sleeps != reader.absence().empty()) return;
  if (sleeps) {
    reader.leave_alone(kSleeps);
    push({t_ms, Event{"suspended", reader.info().index, "runtime power management"}});
    return;
  }
  nvmlDevice_t device = nullptr;
  if (api_->nvmlDeviceGetHandleByIndex_v2(reader.place().nvml_index, &device) != NVML_SUCCESS) return;
  reader.wake(device);
  push({t_ms, Event{"resumed", reader.info().index, "runtime power management"}});
}

void Poller::Work::read_processes(double t_ms) {
  std::map<int, ProcessSample> by_pid;
  timed(CallKind::processes, readers_.size(), [&] {
    for (const auto& reader : readers_) {
      const auto found = reader->read_processes();
      if (!found) continue;
      for (const auto& [pid, memory] : *found) {
        ProcessSample& process = by_pid[pid];
        process.pid = pid;
        process.gpus.push_back({reader->info().index, memory});
      }
    }
  });
  ProcessTick tick;
  for (auto& [pid, process] : by_pid) tick.push_back(std::move(process));
  push({t_ms, std::move(tick)});
}

void Poller::Work::read_events(double t_ms) {
  if (events_ == nullptr) return;
  for (int most = 0; most < 64; ++most) {  // a storm of Xids must not hold the poller
    nvmlEventData_t data{};
    constexpr unsigned int kDoNotWait = 0;
    nvmlReturn_t result = NVML_ERROR_TIMEOUT;
    // One call serves all GPUs: its cost a GPU is a share of it.
    timed(CallKind::events, readers_.size(), [&] { result = api_->nvmlEventSetWait_v2(events_, &data, kDoNotWait); });
    if (result != NVML_SUCCESS) return;
    if ((data.eventType & static_cast<unsigned long long>(nvmlEventTypeXidCriticalError)) == 0) continue;
    std::optional<int> gpu;
    for (const auto& reader : readers_)
      if (reader->device() == data.device) gpu = reader->info().index;
    push({t_ms, Event{"xid", gpu, fmt::format("{}", data.eventData)}});
  }
}

void Poller::Work::publish_state() {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> gpus_of;  // one line a reason, not a GPU
  for (const auto& reader : readers_)
    for (const NotMeasured& entry : reader->not_measured())
      gpus_of[{entry.signal, entry.reason}].push_back(std::to_string(reader->info().index));
  std::vector<NotMeasured> list;
  for (const auto& [entry, gpus] : gpus_of)
    list.push_back({entry.first, gpus.size() == readers_.size()
                                     ? entry.second
                                     : fmt::format("{} (GPU {})", entry.second, join(gpus, ", "))});

  SamplingCost cost{schedule_->load(), {}};
  for (std::size_t i = 0; i < kCallKinds; ++i) {
    const auto kind = static_cast<CallKind>(i);
    cost.calls.push_back({kind, schedule_->cost(kind), schedule_->period(kind), schedule_->slowed_down(kind)});
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->not_measured = std::move(list);
  shared_->cost = std::move(cost);
}

void Poller::Work::push(Record record) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->records.size() >= kMostQueued) shared_->records.pop_front();
    shared_->records.push_back(std::move(record));
  }
  shared_->changed.notify_all();
}

Result<std::unique_ptr<Poller>> Poller::start(PollerOptions options) {
  const auto limit = options.start_limit;
  auto shared = std::make_shared<Shared>();
  std::thread thread([work = std::make_shared<Work>(std::move(options), shared)] {
    ::pthread_setname_np(::pthread_self(), "lockstep-poll");
    work->run();
  });
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_for(lock, limit, [&] { return shared->started.has_value(); })) {
    thread.detach();
    left_behind = true;
    return Error{fmt::format("the NVIDIA driver did not answer within {} ({})",
                             format_duration(limit), shared->call != nullptr ? shared->call.load() : "start"),
                 "see `dmesg | grep -i nvrm`; a hung driver usually needs a reboot"};
  }
  if (!*shared->started) {
    Error error = std::move(*shared->started).error();
    lock.unlock();
    thread.join();
    return error;
  }
  Machine machine = std::move(**shared->started);
  lock.unlock();
  return std::unique_ptr<Poller>(new Poller(std::move(shared), std::move(thread), std::move(machine)));
}

Poller::Poller(std::shared_ptr<Shared> shared, std::thread thread, Machine machine)
    : shared_(std::move(shared)), thread_(std::move(thread)), machine_(std::move(machine)) {}

Poller::~Poller() {
  finish();
  std::unique_lock lock(shared_->mutex);
  const bool ended = shared_->changed.wait_for(lock, kStopWait, [&] { return shared_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    left_behind = true;
    thread_.detach();
  }
}

void Poller::finish() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->finish = true;
  }
  shared_->changed.notify_all();
}

NextRecord Poller::next(std::chrono::milliseconds wait) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, wait, [&] { return !shared_->records.empty() || shared_->ended; });
  if (!shared_->records.empty()) {
    Record record = std::move(shared_->records.front());
    shared_->records.pop_front();
    return record;
  }
  if (shared_->ended) return EndOfInput{};
  return NothingYet{};
}

std::vector<NotMeasured> Poller::not_measured() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->not_measured;
}

std::optional<Source::Silence> Poller::silence() const {
  const char* const call = shared_->call;
  if (call == nullptr) return std::nullopt;
  const auto since = monotonic_now() - std::chrono::nanoseconds(shared_->call_since_ns.load());
  if (since < kSilentAfter) return std::nullopt;
  return Source::Silence{std::chrono::duration_cast<std::chrono::milliseconds>(since), call};
}

SamplingCost Poller::cost() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->cost;
}

bool Poller::any_left_behind() { return left_behind; }

}  // namespace lockstep
