#include "recording/writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "recording/collective_lines.hpp"
#include "recording/format.hpp"
#include "recording/reader.hpp"
#include "recording/step_detail_lines.hpp"
#include "recording/step_names.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// The shortest text that reads back as the same number; fractions and milliseconds need no more
// than this.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

// A number as people write it: 700000 and not 700000.0.
Json plain(double value) {
  const double kept = rounded(value);
  if (kept == std::floor(kept) && std::abs(kept) < 9e15) return static_cast<std::int64_t>(kept);
  return kept;
}
Json plain_or_null(const std::optional<double>& value) {
  return value ? plain(*value) : Json(nullptr);
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string_view name_of(ProcessCoverage coverage) {
  return coverage == ProcessCoverage::all       ? "all"
         : coverage == ProcessCoverage::partial ? "partial"
                                                : "none";
}

// Ticks are the bulk of a recording: written straight to text, five times as fast as by way of a
// DOM.
class TickLine {
 public:
  explicit TickLine(double t_ms) {
    fmt::format_to(end(), R"({{"t_ms":{},"gpus":[)", rounded(t_ms));
  }

  void add(const GpuSample& gpu) {
    fmt::format_to(end(), R"({}{{"index":{})", first_ ? "" : ",", gpu.index);
    first_ = false;
    for_each_quantity([this](const char* name, const auto& reading) { put(name, reading); }, gpu);
    put_power_samples(gpu.power_samples);
    text_.push_back('}');
  }

  std::string take() {
    fmt::format_to(end(), "]}}\n");
    return fmt::to_string(text_);
  }

 private:
  fmt::appender end() { return fmt::appender(text_); }

  // A stale reading was not asked at this tick: it is left out, like one that was not asked for.
  template <class T>
  bool absent_or_null(std::string_view key, const Reading<T>& reading) {
    if (reading.state() == ReadingState::not_asked || reading.state() == ReadingState::stale)
      return true;
    if (reading.has_value()) return false;
    fmt::format_to(end(), R"(,"{}":null)", key);
    return true;
  }

  template <class T>
  void put(std::string_view key, const Reading<T>& reading) {
    if (absent_or_null(key, reading)) return;
    if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(*reading.value()))
        fmt::format_to(end(), R"(,"{}":{})", key, rounded(*reading.value()));
      else
        fmt::format_to(end(), R"(,"{}":null)", key);
    } else {
      fmt::format_to(end(), R"(,"{}":{})", key, *reading.value());
    }
  }

  void put_power_samples(const Reading<PowerSamples>& reading) {
    if (absent_or_null("power_samples_mw", reading)) return;
    const PowerSamples samples = *reading.value();
    fmt::format_to(end(), R"(,"power_samples_mw":[{}],"power_sample_ms":{})",
                   fmt::join(samples.milliwatts, ","), rounded(samples.sample_ms));
    if (samples.first_ms)
      fmt::format_to(end(), R"(,"power_first_ms":{})", rounded(*samples.first_ms));
  }

  void put(std::string_view key, const Reading<ClockLimits>& reading) {
    if (absent_or_null(key, reading)) return;
    std::string_view separator;
    fmt::format_to(end(), R"(,"{}":[)", key);
    for (std::size_t i = 0; i < kClockLimitNames.size(); ++i) {
      if (!reading.value()->has(static_cast<ClockLimit>(i))) continue;
      fmt::format_to(end(), R"({}"{}")", separator, kClockLimitNames[i]);
      separator = ",";
    }
    text_.push_back(']');
  }

  fmt::memory_buffer text_;
  bool first_ = true;
};

Json looks_json(const std::vector<HostLook>& looks) {
  Json list = Json::array();
  for (const HostLook& look : looks) {
    Json workers = Json::object();
    for (std::size_t i = 0; i < kDoingNames.size(); ++i)
      if (look.workers[i] > 0) workers[std::string(kDoingNames[i])] = look.workers[i];
    Json entry = {{"ago_ms", plain(look.ago_ms)},
                  {"main", look.main ? Json(kDoingNames[index_of(*look.main)]) : Json(nullptr)}};
    if (!workers.empty()) entry["workers"] = std::move(workers);
    list.push_back(std::move(entry));
  }
  return list;
}

Json stacks_json(const std::vector<StackSample>& stacks) {
  Json list = Json::array();
  for (const StackSample& stack : stacks) {
    Json frames = Json::array();
    for (const CodeFrame& frame : stack.frames)
      frames.push_back({frame.function, frame.file, frame.line});
    Json entry = {{"ago_ms", plain(stack.ago_ms)}, {"frames", std::move(frames)}};
    if (!stack.call.empty()) entry["call"] = stack.call;
    if (stack.seen > 1) entry["seen"] = stack.seen;
    list.push_back(std::move(entry));
  }
  return list;
}

Json process_json(const ProcessSample& process, const WriterOptions& options) {
  Json gpus = Json::array();
  for (const ProcessOnGpu& gpu : process.gpus)
    gpus.push_back({{"index", gpu.index}, {"memory_bytes", or_null(gpu.memory_bytes)}});
  const bool drop = options.redaction == Redaction::commands_and_host;
  Json environment = or_null(process.environment);
  if (drop && environment.is_object()) environment.erase("MASTER_ADDR");  // a host name
  Json json = {{"pid", process.pid},
               {"gpus", gpus},
               {"command", drop ? Json(nullptr) : or_null(process.command)},
               {"rank", or_null(process.rank)},
               {"local_rank", or_null(process.local_rank)},
               {"world_size", or_null(process.world_size)},
               {"launcher", or_null(process.launcher)},
               {"cpu", plain_or_null(process.cpu)},
               {"cpu_wait", plain_or_null(process.cpu_wait)},
               {"state", process.state ? Json(std::string(1, *process.state)) : Json(nullptr)},
               {"user", drop ? Json(nullptr) : or_null(process.user)},
               {"parent_pid", or_null(process.parent_pid)},
               {"loader_workers", or_null(process.loader_workers)},
               {"read_bytes", or_null(process.read_bytes)},
               {"write_bytes", or_null(process.write_bytes)},
               {"environment", environment},
               {"libraries", or_null(process.libraries)}};
  if (!process.looks.empty()) json["looks"] = looks_json(process.looks);
  if (!process.stacks.empty() && !drop) json["stacks"] = stacks_json(process.stacks);
  return json;
}

Json on_devices_json(const StepOnDevices& time) {
  Json devices = Json::array();
  for (const DeviceTime& device : time.devices) {
    Json entry = {{"device", device.device}, {"kernels", device.kernels}};
    for (const auto& [name, field] : recording_format::kDeviceNumbers)
      entry[std::string(name)] = plain(device.*field);
    devices.push_back(std::move(entry));
  }
  Json idle = Json::object();
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (time.idle_ms[i] > 0) idle[std::string(kStepSpanNames[i])] = plain(time.idle_ms[i]);
  Json json = {{"devices", std::move(devices)}, {"idle_ms", std::move(idle)}};
  for (const auto& [name, field] : recording_format::kOnDevicesNumbers)
    if (time.*field != 0) json[std::string(name)] = plain(time.*field);
  for (const auto& [name, field] : recording_format::kOnDevicesCounts)
    if (time.*field != 0) json[std::string(name)] = time.*field;
  return json;
}

Json step_json(const StepMark& step, const WriterOptions& options) {
  Json spans = Json::object();
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (step.spans_ms[i]) spans[std::string(kStepSpanNames[i])] = plain(*step.spans_ms[i]);
  Json json = {{"rank", step.rank},
               {"index", step.index},
               {"duration_ms", plain(step.duration_ms)},
               {"spans_ms", spans}};
  if (step.passes) json["passes"] = *step.passes;
  if (step.synced_passes) json["synced_passes"] = *step.synced_passes;
  if (step.gpu_idle_ms) json["gpu_idle_ms"] = plain(*step.gpu_idle_ms);
  if (step.gpu_ran_dry) json["gpu_ran_dry"] = *step.gpu_ran_dry;
  if (step.beside_cupti) json["beside_cupti"] = true;
  if (step.on_devices) json["on_devices"] = on_devices_json(*step.on_devices);
  // Files and functions tell as much as commands do.
  if (step.detail && options.redaction != Redaction::commands_and_host)
    json["detail"] = detail_json(*step.detail);
  return json;
}

}  // namespace

std::string header_line(const Machine& machine, const WriterOptions& options) {
  const bool drop = options.redaction == Redaction::commands_and_host;
  // Machines and jobs stay apart from each other, and nameless.
  std::map<std::string, std::string> hosts;
  std::map<std::string, std::string> jobs;
  const auto told = [drop](std::map<std::string, std::string>& names, const char* kind,
                           const std::string& name) {
    return drop ? names.emplace(name, kind + std::to_string(names.size() + 1)).first->second : name;
  };
  Json gpus = Json::array();
  for (const GpuInfo& gpu : machine.gpus) {
    Json entry = {{"index", gpu.index},
                  {"uuid", or_null(gpu.uuid)},
                  {"name", or_null(gpu.name)},
                  {"memory_total_bytes", or_null(gpu.memory_total_bytes)},
                  {"power_limit_mw", plain_or_null(gpu.power_limit_mw)},
                  {"busy_window_ms", plain_or_null(gpu.busy_window_ms)}};
    if (gpu.power_limit_default_mw)
      entry["power_limit_default_mw"] = plain(*gpu.power_limit_default_mw);
    if (gpu.sm_clock_max_mhz) entry["sm_clock_max_mhz"] = plain(*gpu.sm_clock_max_mhz);
    if (gpu.mig) entry["mig"] = {{"parent", gpu.mig->parent}, {"instance", gpu.mig->instance}};
    if (gpu.host) entry["host"] = told(hosts, "host", *gpu.host);
    if (gpu.host_index) entry["host_index"] = *gpu.host_index;
    if (gpu.job) entry["job"] = told(jobs, "job", *gpu.job);
    gpus.push_back(entry);
  }
  Json header = {{recording_format::kMagicKey, recording_format::kVersion},
                 {"started_unix_ns", machine.started_unix_ns},
                 {"host", drop ? Json(nullptr) : or_null(machine.host)},
                 {"driver", or_null(machine.driver)},
                 {"process_coverage", name_of(machine.process_coverage)}};
  if (machine.power_window_ms) header["power_window_ms"] = plain(*machine.power_window_ms);
  if (machine.peer_to_peer) header["p2p"] = *machine.peer_to_peer;
  header["gpus"] = gpus;
  return line_of(header);
}

std::string record_line(const Record& record, const WriterOptions& options) {
  if (const auto* tick = std::get_if<GpuTick>(&record.content)) {
    TickLine line(record.t_ms);
    for (const GpuSample& gpu : *tick) line.add(gpu);
    return line.take();
  }
  if (const auto* call = std::get_if<CollectiveCall>(&record.content))
    return fmt::format("{{\"t_ms\":{},\"collective\":{}}}\n", plain(record.t_ms).dump(),
                       collective_json(*call));
  if (const auto* census = std::get_if<CommunicatorCensus>(&record.content))
    return fmt::format("{{\"t_ms\":{},\"ras\":{}}}\n", plain(record.t_ms).dump(),
                       census_json(*census, options));
  Json json = {{"t_ms", plain(record.t_ms)}};
  if (const auto* processes = std::get_if<ProcessTick>(&record.content)) {
    Json list = Json::array();
    for (const ProcessSample& process : *processes) list.push_back(process_json(process, options));
    json["processes"] = list;
  } else if (const auto* step = std::get_if<StepMark>(&record.content)) {
    json["step"] = step_json(*step, options);
  } else if (const auto* fact = std::get_if<ProbeFact>(&record.content)) {
    json["fact"] = {
        {"pid", fact->pid}, {"rank", fact->rank}, {"name", fact->name}, {"values", fact->values}};
  } else {
    const Event& event = std::get<Event>(record.content);
    json["event"] = {
        {"kind", event.kind.text()}, {"gpu", or_null(event.gpu)}, {"detail", event.detail}};
  }
  return line_of(json);
}

// The bytes' way to the file, compressed or not. Lines are gathered and go out whole.
class RecordingWriter::Output {
 public:
  Output(int file, bool owned, bool compressed, std::string name)
      : file_(file),
        owned_(owned),
        name_(std::move(name)),
        stream_(compressed ? ZSTD_createCStream() : nullptr) {
    // Level 3 packs ticks about tenfold at less than a thousandth of a core (10 Hz, 8 GPUs).
    if (stream_ != nullptr) ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, 3);
  }
  ~Output() {
    static_cast<void>(end());
    ZSTD_freeCStream(stream_);
    if (owned_ && file_ >= 0) ::close(file_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  Status add(const std::string& line) {
    pending_ += line;
    return pending_.size() < kBlock ? Status(Done{}) : push(ZSTD_e_continue);
  }
  Status flush() { return push(ZSTD_e_flush); }
  Status end() {
    if (ended_) return Done{};
    ended_ = true;
    return push(ZSTD_e_end);
  }

 private:
  static constexpr std::size_t kBlock = 64U << 10U;

  Status push(ZSTD_EndDirective directive) {
    if (stream_ == nullptr) {
      const Status status = put(pending_);
      pending_.clear();
      return status;
    }
    ZSTD_inBuffer in{pending_.data(), pending_.size(), 0};
    std::string packed(ZSTD_CStreamOutSize(), '\0');
    std::size_t remaining = 0;
    do {
      ZSTD_outBuffer out{packed.data(), packed.size(), 0};
      remaining = ZSTD_compressStream2(stream_, &out, &in, directive);
      if (ZSTD_isError(remaining) != 0)
        return Error{fmt::format("cannot compress the recording: {}", ZSTD_getErrorName(remaining)),
                     "write an uncompressed one: a name that ends in .jsonl"};
      if (Status status = put(std::string_view(packed).substr(0, out.pos)); !status) return status;
    } while (directive == ZSTD_e_continue ? in.pos < in.size : remaining > 0);
    pending_.clear();
    return Done{};
  }

  Status put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0)
        return Error{fmt::format("cannot write {}: {}", printable(name_), std::strerror(errno)),
                     "free some space; what is in the file so far can be read"};
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return Done{};
  }

  int file_;
  bool owned_;
  std::string name_;
  ZSTD_CStream* stream_;
  std::string pending_;
  bool ended_ = false;
};

namespace {
// Makes room under `path` without losing what is there.
Status make_room(const std::filesystem::path& path) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem) ||
      std::filesystem::file_size(path, problem) == 0)
    return Done{};
  if (!looks_like_recording(path))
    return usage_error(fmt::format("{} exists and is not a recording", printable(path.string())),
                       "choose another name after -o, or remove that file first");
  std::filesystem::rename(path, path.string() + ".old", problem);
  if (problem)
    return usage_error(
        fmt::format("cannot keep the old {}: {}", printable(path.string()), problem.message()),
        "choose another name after -o");
  return Done{};
}
}  // namespace

Result<RecordingWriter> RecordingWriter::create(const std::filesystem::path& path,
                                                const Machine& machine, WriterOptions options) {
  const bool to_stdout = path == "-";
  int file = STDOUT_FILENO;
  if (!to_stdout) {
    TRY(make_room(path));
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
      return usage_error(
          fmt::format("cannot write {}: {}", printable(path.string()), std::strerror(errno)),
          "choose a folder that exists and that you may write to");
  }
  const bool compressed = path.string().ends_with(recording_format::kCompressedSuffix);
  RecordingWriter writer(std::make_unique<Output>(file, !to_stdout, compressed, path.string()),
                         options);
  TRY(writer.output_->add(header_line(machine, options)));
  TRY(writer.flush());
  return writer;
}

RecordingWriter::RecordingWriter(std::unique_ptr<Output> output, WriterOptions options)
    : output_(std::move(output)), options_(options) {}
RecordingWriter::RecordingWriter(RecordingWriter&&) noexcept = default;
RecordingWriter::~RecordingWriter() = default;

Status RecordingWriter::write(const Record& record) {
  return output_->add(record_line(record, options_));
}
Status RecordingWriter::flush() { return output_->flush(); }
Status RecordingWriter::close() { return output_->end(); }

}  // namespace lockstep
