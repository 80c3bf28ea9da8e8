#include "sources/nvml/gpu_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/clock.hpp"
#include "base/median.hpp"
#include "lockstep/virtual_driver.hpp"

namespace lockstep {
namespace {

constexpr const char* kNoSuchCall = "this driver has no such call";
constexpr const char* kGpmSignals = "sm, tensor, dram";
constexpr const char* kPcieBytes = "pcie_rx_bytes, pcie_tx_bytes";
constexpr const char* kNvlinkBytes = "nvlink_rx_bytes, nvlink_tx_bytes";
constexpr unsigned int kAllLinks = 0xFFFFFFFFU;  // NVLink counters summed over links
constexpr std::size_t kMostPowerSamples = 4096;  // a bound on what a driver may claim

bool means_lost(nvmlReturn_t result) {
  return result == NVML_ERROR_GPU_IS_LOST || result == NVML_ERROR_RESET_REQUIRED;
}

bool means_session_ended(nvmlReturn_t result) {
  return result == NVML_ERROR_UNINITIALIZED || result == NVML_ERROR_DRIVER_NOT_LOADED;
}

bool means_unsupported(nvmlReturn_t result) {
  return result == NVML_ERROR_NOT_SUPPORTED || result == NVML_ERROR_FUNCTION_NOT_FOUND ||
         result == NVML_ERROR_NO_PERMISSION || result == NVML_ERROR_INVALID_ARGUMENT ||
         result == NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

}  // namespace

GpuReader::GpuReader(const NvmlApi& api, Place place, nvmlDevice_t device, nvmlDevice_t parent,
                     std::chrono::nanoseconds started_unix)
    : GpuReader(api, std::move(place), started_unix, "") {
  device_ = device;
  parent_ = parent;
  learn_static_facts();
}

GpuReader::GpuReader(const NvmlApi& api, Place place, std::chrono::nanoseconds started_unix,
                     std::string absence)
    : api_(api),
      place_(std::move(place)),
      started_unix_(started_unix),
      absence_(std::move(absence)),
      power_state_{static_cast<std::uint64_t>(started_unix.count() / 1000)} {
  info_.index = place_.index;
  info_.mig = place_.mig;
}

GpuReader::~GpuReader() {
  if (gpm_old_ != nullptr) api_.nvmlGpmSampleFree(gpm_old_);
  if (gpm_new_ != nullptr) api_.nvmlGpmSampleFree(gpm_new_);
}

void GpuReader::wake(nvmlDevice_t device) {
  absence_.clear();
  device_ = parent_ = device;
  if (!info_.name) learn_static_facts();
}

void GpuReader::learn_static_facts() {
  std::array<char, 128> text{};
  if (api_.nvmlDeviceGetName(device_, text.data(), text.size()) == NVML_SUCCESS)
    info_.name = text.data();
  if (api_.nvmlDeviceGetUUID(device_, text.data(), text.size()) == NVML_SUCCESS)
    info_.uuid = text.data();
  nvmlMemory_t memory{};
  if (api_.nvmlDeviceGetMemoryInfo(device_, &memory) == NVML_SUCCESS)
    info_.memory_total_bytes = memory.total;
  if (place_.mig) return;  // what follows is the whole GPU's
  const auto learn = [this](std::optional<double>& fact, auto call, auto... arguments) {
    unsigned int value = 0;
    if (call != nullptr && call(device_, arguments..., &value) == NVML_SUCCESS && value > 0)
      fact = value;
  };
  learn(info_.power_limit_mw, api_.nvmlDeviceGetEnforcedPowerLimit);
  learn(info_.power_limit_default_mw, api_.nvmlDeviceGetPowerManagementDefaultLimit);
  learn(info_.sm_clock_max_mhz, api_.nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM);
  info_.busy_window_ms = busy_window_ms();
}

// The driver keeps its utilization readings in a buffer; their spacing is the window.
std::optional<double> GpuReader::busy_window_ms() const {
  if (api_.nvmlDeviceGetFieldValues != nullptr) {
    nvmlFieldValue_t field{};
    field.fieldId = kBusyWindowMsField;
    if (api_.nvmlDeviceGetFieldValues(device_, 1, &field) == NVML_SUCCESS &&
        field.nvmlReturn == NVML_SUCCESS)
      return static_cast<double>(field.value.ullVal);
  }
  if (api_.nvmlDeviceGetSamples == nullptr) return std::nullopt;
  nvmlValueType_t type{};
  std::array<nvmlSample_t, 256> samples{};
  unsigned int count = samples.size();
  if (api_.nvmlDeviceGetSamples(device_, NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &count,
                                samples.data()) != NVML_SUCCESS)
    return std::nullopt;
  std::vector<double> spacing_ms;
  for (unsigned int i = 1; i < std::min<unsigned int>(count, samples.size()); ++i)
    if (samples[i].timeStamp > samples[i - 1].timeStamp)
      spacing_ms.push_back(static_cast<double>(samples[i].timeStamp - samples[i - 1].timeStamp) /
                           1e3);
  if (spacing_ms.size() < 3) return std::nullopt;
  return std::round(middle_value(std::move(spacing_ms)));
}

template <class T>
Reading<T> GpuReader::answer(const char* signal, nvmlReturn_t result, T value) {
  if (result == NVML_SUCCESS) {
    if (!refusals_.empty()) refusals_.erase(signal);  // what was refused once may come later
    return Reading<T>(std::move(value));
  }
  if (means_lost(result)) lost_ = true;
  if (means_session_ended(result)) session_ended_ = true;
  if (!means_unsupported(result)) return Reading<T>::error();
  refusals_[signal] = std::string("the driver says: ") + api_.nvmlErrorString(result);
  return Reading<T>::not_supported();
}

template <class T>
Reading<T> GpuReader::missing_function(const char* signal) {
  refusals_[signal] = kNoSuchCall;
  return Reading<T>::not_supported();
}

template <class Call, class... Arguments>
Reading<double> GpuReader::ask(const char* signal, Call call, Arguments... arguments) {
  if (call == nullptr) return missing_function<double>(signal);
  unsigned int value = 0;
  const nvmlReturn_t result = call(device_, arguments..., &value);
  return answer<double>(signal, result, value);
}

void GpuReader::read(CallKind kind, GpuSample& sample) {
  if (!absence_.empty()) return;  // not asked: asking would wake it
  if (lost_) return mark_all(kind, sample);
  switch (kind) {
    case CallKind::busy: return read_busy(sample);
    case CallKind::clocks:
      sample.sm_clock_mhz = ask("sm_clock_mhz", api_.nvmlDeviceGetClockInfo, NVML_CLOCK_SM);
      return;
    case CallKind::power: sample.power_mw = ask("power_mw", api_.nvmlDeviceGetPowerUsage); return;
    case CallKind::memory: return read_memory(sample);
    case CallKind::temperature:
      sample.temperature_c =
          ask("temperature_c", api_.nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU);
      return;
    case CallKind::limits: return read_limits(sample);
    case CallKind::power_samples: return read_power_samples(sample);
    case CallKind::gpm: return read_gpm(sample);
    case CallKind::byte_counters: return read_byte_counters(sample);
    case CallKind::events:
    case CallKind::processes: return;  // of the whole machine: the poller's
  }
}

void GpuReader::read_busy(GpuSample& sample) {
  nvmlUtilization_t utilization{};
  const nvmlReturn_t result = api_.nvmlDeviceGetUtilizationRates(device_, &utilization);
  sample.busy = answer<double>("busy", result, utilization.gpu / 100.0);
}

void GpuReader::read_memory(GpuSample& sample) {
  if (api_.nvmlDeviceGetMemoryInfo_v2 != nullptr) {  // without what the driver keeps for itself
    nvmlMemory_v2_t memory{};
    memory.version = nvmlMemory_v2;
    const nvmlReturn_t result = api_.nvmlDeviceGetMemoryInfo_v2(device_, &memory);
    if (!means_unsupported(result)) {
      sample.memory_used_bytes = answer<std::uint64_t>("memory_used_bytes", result, memory.used);
      return;
    }
  }
  nvmlMemory_t memory{};
  const nvmlReturn_t result = api_.nvmlDeviceGetMemoryInfo(device_, &memory);
  sample.memory_used_bytes = answer<std::uint64_t>("memory_used_bytes", result, memory.used);
}

void GpuReader::read_limits(GpuSample& sample) {
  const auto call = api_.nvmlDeviceGetCurrentClocksEventReasons != nullptr
                        ? api_.nvmlDeviceGetCurrentClocksEventReasons
                        : api_.nvmlDeviceGetCurrentClocksThrottleReasons;
  if (call == nullptr) {
    sample.limits = missing_function<ClockLimits>("limits");
    return;
  }
  unsigned long long reasons = 0;
  const nvmlReturn_t result = call(device_, &reasons);
  ClockLimits limits;
  for (std::size_t bit = 0; bit < kClockLimitNames.size(); ++bit)
    if ((reasons >> bit & 1U) != 0) limits.add(static_cast<ClockLimit>(bit));
  sample.limits = answer<ClockLimits>("limits", result, limits);
}

void GpuReader::read_power_samples(GpuSample& sample) {
  if (api_.nvmlDeviceGetSamples == nullptr) {
    sample.power_samples = missing_function<PowerSamples>("power_samples_mw");
    return;
  }
  nvmlValueType_t type{};
  if (power_buffer_.empty()) {  // how much the driver keeps
    unsigned int capacity = 0;
    const nvmlReturn_t result =
        api_.nvmlDeviceGetSamples(device_, NVML_TOTAL_POWER_SAMPLES, 0, &type, &capacity, nullptr);
    if (result != NVML_SUCCESS) {
      sample.power_samples = answer<PowerSamples>("power_samples_mw", result, {});
      return;
    }
    power_buffer_.resize(std::clamp<std::size_t>(capacity, 1, kMostPowerSamples));
  }
  auto count = static_cast<unsigned int>(power_buffer_.size());
  const nvmlReturn_t result =
      api_.nvmlDeviceGetSamples(device_, NVML_TOTAL_POWER_SAMPLES, power_state_.last_seen_us, &type,
                                &count, power_buffer_.data());
  if (result == NVML_ERROR_NOT_FOUND) return;  // nothing new since the last read
  if (result != NVML_SUCCESS) {
    sample.power_samples = answer<PowerSamples>("power_samples_mw", result, {});
    return;
  }
  std::vector<TimedPower> fresh;
  for (unsigned int i = 0;
       i < std::min<unsigned int>(count, static_cast<unsigned int>(power_buffer_.size())); ++i)
    if (power_buffer_[i].timeStamp > power_state_.last_seen_us)
      fresh.push_back({power_buffer_[i].timeStamp, power_buffer_[i].sampleValue.uiVal});
  if (fresh.empty()) return;
  std::vector<PowerSamples> runs =
      equally_spaced_runs(std::move(fresh), started_unix_, power_state_);
  sample.power_samples =
      answer<PowerSamples>("power_samples_mw", NVML_SUCCESS, std::move(runs.front()));
  extra_power_runs_.assign(std::make_move_iterator(runs.begin() + 1),
                           std::make_move_iterator(runs.end()));
}

std::optional<std::chrono::nanoseconds> GpuReader::power_buffer_length() const {
  if (!power_state_.spacing_seen) return std::nullopt;
  return std::chrono::nanoseconds(
      std::llround(static_cast<double>(power_buffer_.size()) * power_state_.spacing_ms * 1e6));
}

std::vector<PowerSamples> GpuReader::take_extra_power_runs() {
  return std::exchange(extra_power_runs_, {});
}

void GpuReader::read_gpm(GpuSample& sample) {
  const auto none = [&](Reading<double> reading) {
    sample.sm = sample.tensor = sample.dram = reading;
  };
  const bool known = api_.nvmlGpmSampleGet != nullptr && api_.nvmlGpmMetricsGet != nullptr &&
                     api_.nvmlGpmSampleAlloc != nullptr && api_.nvmlGpmSampleFree != nullptr &&
                     api_.nvmlGpmQueryDeviceSupport != nullptr;
  if (!known) return none(missing_function<double>(kGpmSignals));
  if (gpm_new_ == nullptr) {
    nvmlGpmSupport_t support{};
    support.version = NVML_GPM_SUPPORT_VERSION;
    const nvmlReturn_t result = api_.nvmlGpmQueryDeviceSupport(parent_, &support);
    if (result != NVML_SUCCESS || support.isSupportedDevice == 0) {
      refusals_[kGpmSignals] = "the GPU has no GPM counters (Hopper and later have)";
      return none(Reading<double>::not_supported());
    }
    if (api_.nvmlGpmSampleAlloc(&gpm_old_) != NVML_SUCCESS ||
        api_.nvmlGpmSampleAlloc(&gpm_new_) != NVML_SUCCESS)
      return none(Reading<double>::error());
  }
  const nvmlReturn_t result =
      place_.mig && api_.nvmlGpmMigSampleGet != nullptr
          ? api_.nvmlGpmMigSampleGet(parent_, static_cast<unsigned int>(place_.mig->instance),
                                     gpm_new_)
          : api_.nvmlGpmSampleGet(device_, gpm_new_);
  if (result != NVML_SUCCESS) return none(answer<double>(kGpmSignals, result, 0));
  std::swap(gpm_old_, gpm_new_);  // gpm_old_ now holds the sample just taken
  const auto now = monotonic_now();
  const auto before = std::exchange(gpm_old_at_, now);
  if (!before) return;  // one sample has no span yet

  nvmlGpmMetricsGet_t get{};
  get.version = NVML_GPM_METRICS_GET_VERSION;
  get.sample1 = gpm_new_;
  get.sample2 = gpm_old_;
  constexpr std::array<unsigned int, 7> kMetrics = {NVML_GPM_METRIC_SM_UTIL,
                                                    NVML_GPM_METRIC_ANY_TENSOR_UTIL,
                                                    NVML_GPM_METRIC_DRAM_BW_UTIL,
                                                    NVML_GPM_METRIC_PCIE_RX_PER_SEC,
                                                    NVML_GPM_METRIC_PCIE_TX_PER_SEC,
                                                    NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
                                                    NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC};
  get.numMetrics = kMetrics.size();
  for (std::size_t i = 0; i < kMetrics.size(); ++i) get.metrics[i].metricId = kMetrics[i];
  const nvmlReturn_t computed = api_.nvmlGpmMetricsGet(&get);
  if (computed != NVML_SUCCESS) return none(answer<double>(kGpmSignals, computed, 0));
  const auto usable = [&](std::size_t i) {
    return get.metrics[i].nvmlReturn == NVML_SUCCESS && std::isfinite(get.metrics[i].value);
  };
  const auto fraction = [&](std::size_t i) {
    return usable(i) ? Reading<double>(std::clamp(get.metrics[i].value / 100, 0.0, 1.0))
                     : Reading<double>::error();
  };
  refusals_.erase(kGpmSignals);
  sample.sm = fraction(0);
  sample.tensor = fraction(1);
  sample.dram = fraction(2);

  // GPM also gives the traffic, as a rate since the last sample, and does not wrap.
  gpm_counts_bytes_ = usable(3) && usable(4);
  const double seconds = std::chrono::duration<double>(now - *before).count();
  const auto moved = [&](std::size_t i, ByteTotal& total) {
    constexpr double kMebibyte = 1048576;
    return usable(i) ? Reading<std::uint64_t>(total.add(get.metrics[i].value * kMebibyte * seconds))
                     : Reading<std::uint64_t>::not_supported();
  };
  if (!gpm_counts_bytes_) return;
  sample.pcie_rx_bytes = moved(3, pcie_rx_);
  sample.pcie_tx_bytes = moved(4, pcie_tx_);
  sample.nvlink_rx_bytes = moved(5, nvlink_rx_);
  sample.nvlink_tx_bytes = moved(6, nvlink_tx_);
}

void GpuReader::read_byte_counters(GpuSample& sample) {
  if (gpm_counts_bytes_) return;  // without wrapping, and at no further cost
  if (api_.nvmlDeviceGetFieldValues == nullptr) {
    sample.pcie_rx_bytes = sample.pcie_tx_bytes = missing_function<std::uint64_t>(kPcieBytes);
    sample.nvlink_rx_bytes = sample.nvlink_tx_bytes = missing_function<std::uint64_t>(kNvlinkBytes);
    return;
  }
  std::array<nvmlFieldValue_t, 4> fields{};
  fields[0].fieldId = NVML_FI_DEV_PCIE_COUNT_RX_BYTES;
  fields[1].fieldId = NVML_FI_DEV_PCIE_COUNT_TX_BYTES;
  fields[2].fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX;
  fields[3].fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX;
  fields[2].scopeId = fields[3].scopeId = kAllLinks;
  const nvmlReturn_t result = api_.nvmlDeviceGetFieldValues(device_, fields.size(), fields.data());
  const auto counter = [&](std::size_t i, const char* signal, ByteTotal& total,
                           std::uint64_t unit) {
    const nvmlFieldValue_t& field = fields[i];
    const nvmlReturn_t got = result != NVML_SUCCESS ? result : field.nvmlReturn;
    if (got != NVML_SUCCESS) return answer<std::uint64_t>(signal, got, 0);
    const bool narrow = field.valueType == NVML_VALUE_TYPE_UNSIGNED_INT;
    return Reading<std::uint64_t>(
        total.read(narrow ? field.value.uiVal : field.value.ullVal,
                   narrow ? ByteTotal::Width::bits_32 : ByteTotal::Width::bits_64, unit));
  };
  constexpr std::uint64_t kBytes = 1;
  constexpr std::uint64_t kKibibytes = 1024;  // NVLink throughput counts KiB
  sample.pcie_rx_bytes = counter(0, kPcieBytes, pcie_rx_, kBytes);
  sample.pcie_tx_bytes = counter(1, kPcieBytes, pcie_tx_, kBytes);
  sample.nvlink_rx_bytes = counter(2, kNvlinkBytes, nvlink_rx_, kKibibytes);
  sample.nvlink_tx_bytes = counter(3, kNvlinkBytes, nvlink_tx_, kKibibytes);
}

std::optional<std::vector<std::pair<int, std::optional<std::uint64_t>>>>
GpuReader::read_processes() {
  using Found = std::vector<std::pair<int, std::optional<std::uint64_t>>>;
  if (!absence_.empty() || lost_) return Found{};
  const auto fetch = [&]<class Info>(auto call, Info) -> std::optional<Found> {
    std::vector<Info> infos(64);
    for (int tries = 0; tries < 4; ++tries) {  // the list may grow between two calls
      auto count = static_cast<unsigned int>(infos.size());
      const nvmlReturn_t result = call(device_, &count, infos.data());
      if (result == NVML_ERROR_INSUFFICIENT_SIZE) {
        infos.resize(static_cast<std::size_t>(count) + 32);
        continue;
      }
      static_cast<void>(answer<int>("processes", result, 0));
      if (result != NVML_SUCCESS) return std::nullopt;
      Found found;
      for (unsigned int i = 0;
           i < std::min<unsigned int>(count, static_cast<unsigned int>(infos.size())); ++i) {
        const bool known =
            infos[i].usedGpuMemory != static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE);
        found.emplace_back(
            static_cast<int>(infos[i].pid),
            known ? std::optional<std::uint64_t>(infos[i].usedGpuMemory) : std::nullopt);
      }
      return found;
    }
    return std::nullopt;
  };
  if (api_.nvmlDeviceGetComputeRunningProcesses_v3 != nullptr)
    return fetch(api_.nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t{});
  if (api_.nvmlDeviceGetComputeRunningProcesses_v2 != nullptr)
    return fetch(api_.nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t{});
  if (api_.nvmlDeviceGetComputeRunningProcesses != nullptr)
    return fetch(api_.nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t{});
  refusals_["processes"] = kNoSuchCall;
  return std::nullopt;
}

// A lost GPU keeps its row: asked for, and an error.
void GpuReader::mark_all(CallKind kind, GpuSample& sample) const {
  switch (kind) {
    case CallKind::busy: sample.busy = Reading<double>::error(); break;
    case CallKind::clocks: sample.sm_clock_mhz = Reading<double>::error(); break;
    case CallKind::power: sample.power_mw = Reading<double>::error(); break;
    case CallKind::memory: sample.memory_used_bytes = Reading<std::uint64_t>::error(); break;
    case CallKind::temperature: sample.temperature_c = Reading<double>::error(); break;
    case CallKind::limits: sample.limits = Reading<ClockLimits>::error(); break;
    case CallKind::power_samples: sample.power_samples = Reading<PowerSamples>::error(); break;
    case CallKind::gpm: sample.sm = sample.tensor = sample.dram = Reading<double>::error(); break;
    case CallKind::byte_counters:
      sample.pcie_rx_bytes = sample.pcie_tx_bytes = sample.nvlink_rx_bytes =
          sample.nvlink_tx_bytes = Reading<std::uint64_t>::error();
      break;
    case CallKind::events:
    case CallKind::processes: break;
  }
}

void GpuReader::try_to_find_again() {
  nvmlDevice_t found = nullptr;
  unsigned int celsius = 0;
  if (place_.mig || api_.nvmlDeviceGetTemperature == nullptr) return;
  if (const nvmlReturn_t result = api_.nvmlDeviceGetHandleByIndex_v2(place_.nvml_index, &found);
      result != NVML_SUCCESS) {
    session_ended_ = session_ended_ || means_session_ended(result);
    return;
  }
  if (api_.nvmlDeviceGetTemperature(found, NVML_TEMPERATURE_GPU, &celsius) != NVML_SUCCESS) return;
  device_ = parent_ = found;
  lost_ = false;
}

std::vector<NotMeasured> GpuReader::not_measured() const {
  if (!absence_.empty()) return {{"all", absence_}};
  std::vector<NotMeasured> list;
  for (const auto& [signal, reason] : refusals_)
    if (!gpm_counts_bytes_ || (signal != kPcieBytes && signal != kNvlinkBytes))
      list.push_back({signal, reason});
  return list;
}

}  // namespace lockstep
