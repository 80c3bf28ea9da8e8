#include "virtual_nvml/played_recording.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "virtual_nvml/cpu_gpus.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kPlayedSamples = 120;  // an H200's power buffer

// A fault names an NVML function, or a field of the recording: then the function that gives that
// field.
std::string function_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kFields = {{
      {"busy", "nvmlDeviceGetUtilizationRates"},
      {"memory_used_bytes", "nvmlDeviceGetMemoryInfo"},
      {"power_mw", "nvmlDeviceGetPowerUsage"},
      {"power_samples_mw", "nvmlDeviceGetSamples"},
      {"sm", "nvmlGpmSampleGet"},
      {"tensor", "nvmlGpmSampleGet"},
      {"dram", "nvmlGpmSampleGet"},
      {"sm_clock_mhz", "nvmlDeviceGetClockInfo"},
      {"temperature_c", "nvmlDeviceGetTemperature"},
      {"limits", "nvmlDeviceGetCurrentClocksEventReasons"},
      {"pcie_rx_bytes", "nvmlDeviceGetFieldValues"},
      {"processes", "nvmlDeviceGetComputeRunningProcesses_v3"},
  }};
  for (const auto& [field, function] : kFields)
    if (field == name) return std::string(function);
  return std::string(name);
}

// Newer readings replace older ones; a field that a tick does not hold keeps its value.
void merge(GpuSample& now, const GpuSample& newer) {
  const auto take = [](const char*, auto& old, const auto& fresh) {
    if (fresh.asked()) old = fresh;
  };
  for_each_quantity(take, now, newer);
}

}  // namespace

PlayedRecording::PlayedRecording(RecordingReader reader, std::int64_t start_monotonic_ns)
    : machine_(reader.machine()),
      start_monotonic_ns_(start_monotonic_ns),
      start_unix_us_((unix_now() - monotonic_now()).count() / 1000 + start_monotonic_ns / 1000),
      opened_ms_(static_cast<double>(monotonic_now().count() - start_monotonic_ns) / 1e6),
      reader_(std::move(reader)),
      upcoming_(reader_.next()),
      gpus_(machine_.gpus.size()) {
  const std::lock_guard lock(mutex_);
  catch_up();
}

std::uint64_t PlayedRecording::unix_us(double t_ms) const {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, start_unix_us_ + std::llround(t_ms * 1000)));
}

void PlayedRecording::catch_up() {
  const double now_ms = static_cast<double>(monotonic_now().count() - start_monotonic_ns_) / 1e6;
  while (upcoming_ && upcoming_->t_ms <= now_ms) {
    apply(*upcoming_);
    upcoming_ = reader_.next();
  }
}

void PlayedRecording::apply(const Record& record) {
  if (const auto* tick = std::get_if<GpuTick>(&record.content)) {
    for (const GpuSample& sample : *tick) apply(sample, record.t_ms);
  } else if (const auto* processes = std::get_if<ProcessTick>(&record.content)) {
    processes_ = *processes;
  } else if (const auto* event = std::get_if<Event>(&record.content)) {
    apply(*event, record.t_ms);
  }
}

void PlayedRecording::apply(const GpuSample& sample, double t_ms) {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (machine_.gpus[i].index != sample.index) continue;
    Gpu& gpu = gpus_[i];
    merge(gpu.now, sample);
    const auto power = sample.power_samples.value();
    if (!power) continue;
    gpu.ever_had_power_samples = true;
    const auto count = static_cast<double>(power->milliwatts.size());
    const double first = power->first_ms.value_or(t_ms - (count - 1) * power->sample_ms);
    for (std::size_t k = 0; k < power->milliwatts.size(); ++k) {
      gpu.power.push_back(
          {unix_us(first + static_cast<double>(k) * power->sample_ms), power->milliwatts[k]});
      if (gpu.power.size() > kPlayedSamples) gpu.power.pop_front();
    }
  }
}

void PlayedRecording::apply(const Event& event, double t_ms) {
  if (event.kind == "xid") {
    const auto code = parse_unsigned(event.detail);
    if (event.gpu && code) xids_.push_back({xids_.size() + 1, *event.gpu, *code});
    return;
  }
  ScriptedFault scripted{event.gpu, {}, ""};
  if (event.kind == "lost") {
    scripted.fault.kind = Fault::Kind::lost;
  } else if (event.kind == "hang") {
    scripted.fault.kind = Fault::Kind::hang;
    scripted.function = function_of(event.detail);
  } else if (event.kind == "not_supported") {
    scripted.fault.kind = Fault::Kind::not_supported;
    scripted.function = function_of(event.detail);
  } else if (event.kind == "slow_call") {
    // "<function or field> <milliseconds>" or "<milliseconds>"
    const auto words = split(event.detail, ' ');
    scripted.fault.kind = Fault::Kind::slow;
    scripted.fault.delay_ms = static_cast<int>(
        std::clamp<std::int64_t>(parse_integer(words.back()).value_or(100), 0, 60'000));
    if (words.size() > 1) scripted.function = function_of(words.front());
  } else if (event.kind == "restart") {  // every call fails until nvmlInit is called again
    if (t_ms <= opened_ms_) return;
    scripted.fault.kind = Fault::Kind::restart;
  } else if (event.kind == "recovered") {
    std::erase_if(faults_, [&](const ScriptedFault& fault) { return fault.gpu == event.gpu; });
    return;
  } else {
    return;
  }
  faults_.push_back(std::move(scripted));
}

GpuSample PlayedRecording::sample(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  catch_up();
  return gpus_[gpu].now;
}

std::vector<PidOnGpu> PlayedRecording::processes(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  catch_up();
  std::vector<PidOnGpu> result;
  for (const ProcessSample& process : processes_)
    for (const ProcessOnGpu& use : process.gpus)
      if (use.index == machine_.gpus[gpu].index) result.push_back({process.pid, use.memory_bytes});
  return result;
}

std::optional<std::vector<TimedSample>> PlayedRecording::power_samples(std::size_t gpu,
                                                                       std::uint64_t since_us) {
  const std::lock_guard lock(mutex_);
  catch_up();
  const Gpu& state = gpus_[gpu];
  if (!state.ever_had_power_samples) return std::nullopt;
  std::vector<TimedSample> result;
  for (const TimedSample& sample : state.power)
    if (sample.unix_us > since_us) result.push_back(sample);
  return result;
}

bool PlayedRecording::has_gpm(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  catch_up();
  return gpus_[gpu].now.sm.has_value();
}

Fault PlayedRecording::fault(std::size_t gpu, const char* function) {
  const std::lock_guard lock(mutex_);
  catch_up();
  for (const ScriptedFault& scripted : faults_) {
    if (scripted.gpu && machine_.gpus[gpu].index != *scripted.gpu) continue;
    if (!scripted.function.empty() && scripted.function != function) continue;
    return scripted.fault;
  }
  return {};
}

std::vector<XidEvent> PlayedRecording::xid_events(std::uint64_t after_serial) {
  const std::lock_guard lock(mutex_);
  catch_up();
  std::vector<XidEvent> result;
  for (const XidEvent& xid : xids_)
    if (xid.serial > after_serial) result.push_back(xid);
  return result;
}

Result<std::unique_ptr<VirtualGpus>> make_virtual_gpus(
    const std::string& description, std::optional<std::int64_t> goes_on_from_ns) {
  if (const auto request = parse_virtual_request(description)) {
    if (request->count < 1 || request->count > 64 || request->model == nullptr)
      return usage_error("virtual:" + description + " is not a number of GPUs from 1 to 64",
                         "try virtual:2, or virtual:2xRTX-4090");
    return std::unique_ptr<VirtualGpus>(
        std::make_unique<CpuGpus>(static_cast<std::size_t>(request->count), *request->model));
  }
  auto reader = TRY(RecordingReader::open(description));
  const char* const start = std::getenv("LOCKSTEP_VIRTUAL_START_NS");
  const auto start_ns = parse_integer(start != nullptr ? start : "");
  return std::unique_ptr<VirtualGpus>(std::make_unique<PlayedRecording>(
      std::move(reader), start_ns.value_or(goes_on_from_ns.value_or(monotonic_now().count()))));
}

}  // namespace lockstep
