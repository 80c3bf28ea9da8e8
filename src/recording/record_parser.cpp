#include "recording/record_parser.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <string>
#include <utility>

#include "recording/collective_lines.hpp"
#include "recording/format.hpp"
#include "recording/step_detail_lines.hpp"
#include "recording/step_names.hpp"

namespace lockstep {
namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;

constexpr std::int64_t kMostGpus = 4096;  // indices beyond are damage, not GPUs

// Leaf values never throw: a value of the wrong type is one that could not be had.
bool is_null(Value value) {
  ondemand::json_type type{};
  return value.type().get(type) == simdjson::SUCCESS && type == ondemand::json_type::null;
}

std::optional<double> as_number(Value value) {
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::optional<std::uint64_t> as_unsigned(Value value) {
  std::uint64_t whole = 0;
  if (value.get_uint64().get(whole) == simdjson::SUCCESS) return whole;
  // Other tools write sizes as 1.5e10; anything that fits is taken, negative numbers are not.
  const auto number = as_number(value);
  if (!number || *number < 0 || *number >= 18446744073709551616.0) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

std::optional<std::int64_t> as_integer(Value value) {
  std::int64_t whole = 0;
  if (value.get_int64().get(whole) != simdjson::SUCCESS) return std::nullopt;
  return whole;
}

std::optional<int> as_int(Value value) {
  const auto whole = as_integer(value);
  if (!whole || *whole < -2147483648LL || *whole > 2147483647LL) return std::nullopt;
  return static_cast<int>(*whole);
}

std::optional<std::string> as_text(Value value) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) return std::nullopt;
  return std::string(text);
}

std::string_view raw_text(ondemand::object object) { return object.raw_json(); }

template <class T>
Reading<T> reading(std::optional<T> value, bool null) {
  if (value) return Reading<T>(std::move(*value));
  return null ? Reading<T>::not_supported() : Reading<T>::error();
}

void read_into(Reading<double>& into, Value value) {
  const bool null = is_null(value);
  into = reading(null ? std::nullopt : as_number(value), null);
}

void read_into(Reading<std::uint64_t>& into, Value value) {
  const bool null = is_null(value);
  into = reading(null ? std::nullopt : as_unsigned(value), null);
}

Reading<ClockLimits> limits_in(Value value) {
  if (is_null(value)) return Reading<ClockLimits>::not_supported();
  ondemand::array names;
  if (value.get_array().get(names) != simdjson::SUCCESS) return Reading<ClockLimits>::error();
  ClockLimits limits;
  for (auto name : names) {
    const auto text = as_text(name.value());
    for (std::size_t i = 0; text && i < kClockLimitNames.size(); ++i)
      if (kClockLimitNames[i] == *text) limits.add(static_cast<ClockLimit>(i));
  }
  return limits;
}

void read_into(Reading<ClockLimits>& into, Value value) { into = limits_in(value); }

// The three keys of a power run arrive one by one and in any order.
struct PowerRun {
  bool null = false;
  std::optional<std::vector<std::uint32_t>> milliwatts;
  std::optional<double> sample_ms;
  std::optional<double> first_ms;

  void read_samples(Value value) {
    null = is_null(value);
    ondemand::array samples;
    if (null || value.get_array().get(samples) != simdjson::SUCCESS) return;
    milliwatts.emplace();
    for (auto sample : samples) {
      const auto milliwatt = as_unsigned(sample.value());
      if (milliwatt && *milliwatt <= 0xFFFFFFFFU) {
        milliwatts->push_back(static_cast<std::uint32_t>(*milliwatt));
      } else {  // a hole would shift every later sample in time: the run is worth nothing
        milliwatts.reset();
        return;
      }
    }
  }

  Reading<PowerSamples> take() {
    if (null) return Reading<PowerSamples>::not_supported();
    if (!milliwatts && !sample_ms) return {};
    if (!milliwatts || !sample_ms || *sample_ms <= 0) return Reading<PowerSamples>::error();
    return PowerSamples{std::move(*milliwatts), *sample_ms, first_ms};
  }
};

std::optional<GpuSample> gpu_sample(ondemand::object fields) {
  GpuSample gpu;
  PowerRun power;
  bool has_index = false;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "index") {
      const auto index = as_integer(value);
      if (!index || *index < 0 || *index >= kMostGpus) return std::nullopt;
      gpu.index = static_cast<int>(*index);
      has_index = true;
    } else if (key == "power_samples_mw") {
      power.read_samples(value);
    } else if (key == "power_sample_ms") {
      power.sample_ms = as_number(value);
    } else if (key == "power_first_ms") {
      power.first_ms = as_number(value);
    } else {
      const auto take = [&](std::string_view name, auto& quantity) {
        if (name == key) read_into(quantity, value);
      };
      for_each_quantity(take, gpu);
    }
  }
  gpu.power_samples = power.take();
  return has_index ? std::optional(std::move(gpu)) : std::nullopt;
}

GpuTick gpu_tick(Value value) {
  GpuTick tick;
  for (auto entry : value.get_array())
    if (auto gpu = gpu_sample(entry.get_object())) tick.push_back(std::move(*gpu));
  return tick;
}

std::vector<ProcessOnGpu> process_gpus(Value value) {
  std::vector<ProcessOnGpu> gpus;
  for (auto entry : value.get_array()) {
    ProcessOnGpu gpu;
    gpu.index = -1;
    for (auto field : entry.get_object()) {
      const std::string_view key = field.unescaped_key();
      Value inner = field.value();
      if (key == "index") gpu.index = as_int(inner).value_or(-1);
      if (key == "memory_bytes") gpu.memory_bytes = as_unsigned(inner);
    }
    if (gpu.index >= 0 && gpu.index < kMostGpus) gpus.push_back(gpu);
  }
  return gpus;
}

std::optional<std::vector<std::string>> text_list(Value value) {
  ondemand::array entries;
  if (value.get_array().get(entries) != simdjson::SUCCESS) return std::nullopt;
  std::vector<std::string> texts;
  for (auto entry : entries)
    if (auto text = as_text(entry.value())) texts.push_back(std::move(*text));
  return texts;
}

std::optional<std::map<std::string, std::string>> text_map(Value value) {
  ondemand::object entries;
  if (value.get_object().get(entries) != simdjson::SUCCESS) return std::nullopt;
  std::map<std::string, std::string> texts;
  for (auto entry : entries) {
    const std::string key(std::string_view(entry.unescaped_key()));
    if (auto text = as_text(entry.value())) texts.emplace(key, std::move(*text));
  }
  return texts;
}

std::optional<ThreadDoing> doing_named(std::string_view name) {
  for (std::size_t i = 0; i < kDoingNames.size(); ++i)
    if (kDoingNames[i] == name) return static_cast<ThreadDoing>(i);
  return std::nullopt;
}

HostLook host_look(ondemand::object fields) {
  HostLook look;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "ago_ms") look.ago_ms = as_number(value).value_or(0);
    if (key == "main")
      if (const auto name = as_text(value)) look.main = doing_named(*name);
    ondemand::object workers;
    if (key != "workers" || value.get_object().get(workers) != simdjson::SUCCESS) continue;
    for (auto entry : workers) {
      const auto doing = doing_named(std::string_view(entry.unescaped_key()));
      const auto count = as_int(entry.value());
      if (doing && count && *count > 0)
        look.workers[index_of(*doing)] = static_cast<std::uint16_t>(std::min(*count, 0xFFFF));
    }
  }
  return look;
}

std::vector<HostLook> host_looks(Value value) {
  std::vector<HostLook> looks;
  ondemand::array entries;
  if (value.get_array().get(entries) != simdjson::SUCCESS) return looks;
  for (auto entry : entries) looks.push_back(host_look(entry.get_object()));
  return looks;
}

// ["train", "train.py", 31]
CodeFrame code_frame(ondemand::array parts) {
  CodeFrame frame;
  std::size_t place = 0;
  for (auto part : parts) {
    Value value = part.value();
    if (place == 0) frame.function = as_text(value).value_or("");
    if (place == 1) frame.file = as_text(value).value_or("");
    if (place == 2) frame.line = as_int(value).value_or(0);
    ++place;
  }
  return frame;
}

std::vector<StackSample> stack_samples(Value value) {
  constexpr int kMostInARow = 10'000;
  std::vector<StackSample> stacks;
  ondemand::array entries;
  if (value.get_array().get(entries) != simdjson::SUCCESS) return stacks;
  for (auto entry : entries) {
    StackSample stack;
    for (auto field : entry.get_object()) {
      const std::string_view key = field.unescaped_key();
      Value content = field.value();
      if (key == "ago_ms") stack.ago_ms = as_number(content).value_or(0);
      if (key == "call") stack.call = as_text(content).value_or("");
      if (key == "seen") stack.seen = std::clamp(as_int(content).value_or(1), 1, kMostInARow);
      if (key == "frames")
        for (auto frame : content.get_array())
          stack.frames.push_back(code_frame(frame.get_array()));
    }
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

ProcessSample process_sample(ondemand::object fields) {
  ProcessSample process;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "pid")
      process.pid = as_int(value).value_or(0);
    else if (key == "gpus")
      process.gpus = process_gpus(value);
    else if (key == "command")
      process.command = text_list(value);
    else if (key == "rank")
      process.rank = as_int(value);
    else if (key == "local_rank")
      process.local_rank = as_int(value);
    else if (key == "world_size")
      process.world_size = as_int(value);
    else if (key == "launcher")
      process.launcher = as_text(value);
    else if (key == "cpu")
      process.cpu = as_number(value);
    else if (key == "cpu_wait")
      process.cpu_wait = as_number(value);
    else if (key == "user")
      process.user = as_text(value);
    else if (key == "parent_pid")
      process.parent_pid = as_int(value);
    else if (key == "loader_workers")
      process.loader_workers = as_int(value);
    else if (key == "read_bytes")
      process.read_bytes = as_unsigned(value);
    else if (key == "write_bytes")
      process.write_bytes = as_unsigned(value);
    else if (key == "environment")
      process.environment = text_map(value);
    else if (key == "libraries")
      process.libraries = text_list(value);
    else if (key == "looks")
      process.looks = host_looks(value);
    else if (key == "stacks")
      process.stacks = stack_samples(value);
    else if (key == "state") {
      const auto state = as_text(value);
      if (state && state->size() == 1) process.state = state->front();
    }
  }
  return process;
}

ProcessTick process_tick(Value value) {
  ProcessTick tick;
  for (auto entry : value.get_array()) {
    ProcessSample process = process_sample(entry.get_object());
    if (process.pid > 0) tick.push_back(std::move(process));
  }
  return tick;
}

template <class Take>
void each_part(ondemand::object fields, const Take& take) {
  for (auto span : fields) {
    const std::string_view name = span.unescaped_key();
    Value length = span.value();
    for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
      if (kStepSpanNames[i] == name) take(i, length);
  }
}

DeviceTime device_time(ondemand::object fields) {
  DeviceTime device;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "device") device.device = as_int(value).value_or(0);
    if (key == "kernels") device.kernels = as_integer(value).value_or(0);
    for (const auto& [name, member] : recording_format::kDeviceNumbers)
      if (name == key) device.*member = as_number(value).value_or(0);
  }
  return device;
}

StepOnDevices on_devices(ondemand::object fields) {
  StepOnDevices time;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "devices")
      for (auto device : value.get_array())
        time.devices.push_back(device_time(device.get_object()));
    if (key == "idle_ms")
      each_part(value.get_object(), [&](std::size_t part, Value length) {
        time.idle_ms[part] = as_number(length).value_or(0);
      });
    for (const auto& [name, member] : recording_format::kOnDevicesNumbers)
      if (name == key) time.*member = as_number(value).value_or(0);
    for (const auto& [name, member] : recording_format::kOnDevicesCounts)
      if (name == key) time.*member = as_integer(value).value_or(0);
  }
  return time;
}

StepMark step_mark(ondemand::object fields, PlacePool& places) {
  StepMark step;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "rank") step.rank = as_int(value).value_or(0);
    if (key == "index") step.index = as_integer(value).value_or(0);
    if (key == "duration_ms") step.duration_ms = as_number(value).value_or(0);
    if (key == "passes") step.passes = as_int(value);
    if (key == "synced_passes") step.synced_passes = as_int(value);
    if (key == "gpu_idle_ms") step.gpu_idle_ms = as_number(value);
    if (bool dry = false; key == "gpu_ran_dry" && value.get_bool().get(dry) == simdjson::SUCCESS)
      step.gpu_ran_dry = dry;
    if (key == "beside_cupti" && value.get_bool().get(step.beside_cupti) != simdjson::SUCCESS)
      step.beside_cupti = false;
    if (key == "on_devices") step.on_devices = on_devices(value.get_object());
    if (key == "detail") step.detail = read_detail(raw_text(value.get_object()), places);
    if (key == "spans_ms")
      each_part(value.get_object(),
                [&](std::size_t part, Value length) { step.spans_ms[part] = as_number(length); });
  }
  return step;
}

ProbeFact probe_fact(ondemand::object fields) {
  ProbeFact fact;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "pid") fact.pid = as_int(value).value_or(0);
    if (key == "rank") fact.rank = as_int(value).value_or(0);
    if (key == "name") fact.name = as_text(value).value_or("");
    if (key != "values") continue;
    for (auto entry : value.get_object()) {
      const std::string name(std::string_view(entry.unescaped_key()));
      Value word = entry.value();
      if (const auto text = as_text(word)) fact.values.emplace(name, *text);
    }
  }
  return fact;
}

Event event(ondemand::object fields) {
  Event result;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "kind") result.kind = EventKind::read(as_text(value).value_or(""));
    if (key == "gpu") result.gpu = as_int(value);
    if (key == "detail") {
      result.detail = as_text(value).value_or("");
      // an Xid as a number
      if (const auto number = as_number(value)) result.detail = fmt::format("{}", *number);
    }
  }
  return result;
}

GpuInfo gpu_info(ondemand::object fields, int position) {
  GpuInfo gpu;
  gpu.index = position;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == "index")
      gpu.index = as_int(value).value_or(position);
    else if (key == "uuid")
      gpu.uuid = as_text(value);
    else if (key == "name")
      gpu.name = as_text(value);
    else if (key == "memory_total_bytes")
      gpu.memory_total_bytes = as_unsigned(value);
    else if (key == "power_limit_mw")
      gpu.power_limit_mw = as_number(value);
    else if (key == "power_limit_default_mw")
      gpu.power_limit_default_mw = as_number(value);
    else if (key == "sm_clock_max_mhz")
      gpu.sm_clock_max_mhz = as_number(value);
    else if (key == "busy_window_ms")
      gpu.busy_window_ms = as_number(value);
    else if (key == "host")
      gpu.host = as_text(value);
    else if (key == "host_index")
      gpu.host_index = as_int(value);
    else if (key == "job")
      gpu.job = as_text(value);
    else if (key == "mig" && !is_null(value)) {
      MigSlice slice;
      for (auto inner : value.get_object()) {
        const std::string_view name = inner.unescaped_key();
        Value number = inner.value();
        if (name == "parent") slice.parent = as_int(number).value_or(0);
        if (name == "instance") slice.instance = as_int(number).value_or(0);
      }
      gpu.mig = slice;
    }
  }
  return gpu;
}

std::vector<std::pair<int, int>> pairs(Value value) {
  std::vector<std::pair<int, int>> result;
  for (auto entry : value.get_array()) {
    std::vector<int> pair;
    for (auto number : entry.get_array()) pair.push_back(as_int(number.value()).value_or(-1));
    if (pair.size() == 2 && pair[0] >= 0 && pair[1] >= 0) result.emplace_back(pair[0], pair[1]);
  }
  return result;
}

// Nothing stands behind the line's one object.
bool at_end(ondemand::document& document) {
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

struct Header {
  std::optional<std::int64_t> version;
  Machine machine;
};

Header header(ondemand::object fields) {
  Header result;
  Machine& machine = result.machine;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (key == recording_format::kMagicKey) {
      result.version = as_integer(value);
    } else if (key == "started_unix_ns") {
      machine.started_unix_ns = as_integer(value).value_or(0);
    } else if (key == "host") {
      machine.host = as_text(value);
    } else if (key == "driver") {
      machine.driver = as_text(value);
    } else if (key == "process_coverage") {
      const auto text = as_text(value);
      machine.process_coverage = text == "partial" ? ProcessCoverage::partial
                                 : text == "none"  ? ProcessCoverage::none
                                                   : ProcessCoverage::all;
    } else if (key == "power_window_ms") {
      machine.power_window_ms = as_number(value);
    } else if (key == "p2p" && !is_null(value)) {
      machine.peer_to_peer = pairs(value);
    } else if (key == "gpus" && !is_null(value)) {
      for (auto entry : value.get_array())
        machine.gpus.push_back(gpu_info(entry.get_object(), static_cast<int>(machine.gpus.size())));
    }
  }
  return result;
}

}  // namespace

struct RecordParser::Scratch {
  ondemand::parser parser;
  PlacePool places;

  // The line's one object, or nothing when the line is no JSON object.
  std::optional<ondemand::document> document(std::string_view line) {
    ondemand::document result;
    const simdjson::padded_string_view padded(line, line.size() + simdjson::SIMDJSON_PADDING);
    if (parser.iterate(padded).get(result) != simdjson::SUCCESS) return std::nullopt;
    return result;
  }
};

RecordParser::RecordParser() : scratch_(std::make_unique<Scratch>()) {}
RecordParser::~RecordParser() = default;

Result<Machine> RecordParser::parse_header(std::string_view line) {
  const auto refuse = [] {
    return Error{"not a recording: the first line is no recording header",
                 "make one with: lockstep record -o FILE --duration 10s"};
  };
  try {
    auto document = scratch_->document(line);
    if (!document) return refuse();
    Header read = header(document->get_object());
    if (!at_end(*document) || !read.version || *read.version < 1) return refuse();
    if (*read.version > recording_format::kVersion)
      return Error{
          fmt::format("a recording of version {}, and this lockstep reads up to version {}",
                      *read.version, recording_format::kVersion),
          "update lockstep, or record again with this one"};
    return std::move(read.machine);
  } catch (const simdjson::simdjson_error&) {
    return refuse();
  }
}

ParsedLine RecordParser::parse_record(std::string_view line) {
  constexpr bool kDamaged = true;
  try {
    auto document = scratch_->document(line);
    if (!document) return {std::nullopt, kDamaged};
    std::optional<double> t_ms;
    std::optional<Record> record;
    for (auto field : document->get_object()) {
      const std::string_view key = field.unescaped_key();
      Value value = field.value();
      if (key == "t_ms")
        t_ms = as_number(value);
      else if (key == "gpus")
        record = Record{0, gpu_tick(value)};
      else if (key == "processes")
        record = Record{0, process_tick(value)};
      else if (key == "step")
        record = Record{0, step_mark(value.get_object(), scratch_->places)};
      else if (key == "fact")
        record = Record{0, probe_fact(value.get_object())};
      else if (key == "collective")
        record = Record{0, read_collective(raw_text(value.get_object()))};
      else if (key == "ras")
        record = Record{0, read_census(raw_text(value.get_object()))};
      else if (key == "event")
        record = Record{0, event(value.get_object())};
    }
    if (!at_end(*document) || !t_ms) return {std::nullopt, kDamaged};
    if (record) record->t_ms = *t_ms;
    return {std::move(record), !kDamaged};
  } catch (const simdjson::simdjson_error&) {
    return {std::nullopt, kDamaged};
  }
}

}  // namespace lockstep
