#include "sources/open_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/rank_of_file.hpp"
#include "base/text.hpp"
#include "lockstep/virtual_driver.hpp"
#include "recording/reader.hpp"
#include "sources/csv/csv_log.hpp"
#include "sources/flight_recorder/flight_dump.hpp"
#include "sources/host/host_reader.hpp"
#include "sources/live_source.hpp"
#include "sources/log/training_log.hpp"
#include "sources/log_text.hpp"
#include "sources/merged/merged_recordings.hpp"
#include "sources/other_tools.hpp"
#include "sources/parsed/parsed_log.hpp"
#include "sources/prometheus/prometheus_source.hpp"
#include "sources/replay/replay_source.hpp"
#include "sources/trace/trace_bytes.hpp"
#include "sources/trace/trace_reader.hpp"
#include "sources/wandb/wandb_file.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kVirtualPrefix = "virtual:";

// Of one core.
double stack_budget_of(Attention attention) {
  switch (attention) {
    case Attention::sparing: return 0;
    case Attention::usual: return 0.01;
    case Attention::close: return 0.03;
    case Attention::closest: return 0.1;
  }
  return 0;
}

// Processes of this machine.
class HostDescriber : public ProcessDescriber {
 public:
  HostDescriber(PidOrigin origin, Attention attention)
      : host_({.root = "/",
               .pid_origin = origin,
               .look_budget = attention == Attention::sparing ? 0.002 : 0.01,
               .stack_budget = stack_budget_of(attention)}) {}
  void describe(ProcessTick& processes, double t_ms) override {
    host_.describe(processes, std::chrono::nanoseconds(static_cast<std::int64_t>(t_ms * 1e6)));
  }
  std::chrono::nanoseconds look(double t_ms) override {
    const auto now = std::chrono::nanoseconds(static_cast<std::int64_t>(t_ms * 1e6));
    host_.look(now);
    return std::max(host_.next_look() - now,
                    std::chrono::nanoseconds(std::chrono::milliseconds(5)));
  }
  bool local_pids() const override { return true; }
  std::vector<NotMeasured> not_measured() const override { return host_.not_measured(); }

 private:
  HostReader host_;
};

// Processes of a played recording: their pids mean nothing on this machine, so the recording tells
// of them.
class PlayedDescriber : public ProcessDescriber {
 public:
  PlayedDescriber(RecordingReader reader, std::chrono::nanoseconds start)
      : reader_(std::move(reader)), start_(start) {}

  void describe(ProcessTick& processes, double) override {
    const double played_ms = to_ms(monotonic_now() - start_);
    while (true) {
      if (!upcoming_) upcoming_ = reader_.next();
      if (!upcoming_ || upcoming_->t_ms > played_ms) break;
      if (const auto* tick = std::get_if<ProcessTick>(&upcoming_->content)) known_ = *tick;
      upcoming_.reset();
    }
    for (ProcessSample& process : processes)
      for (const ProcessSample& recorded : known_)
        if (recorded.pid == process.pid) {
          auto gpus = std::move(process.gpus);
          process = recorded;
          process.gpus = std::move(gpus);
        }
  }
  bool local_pids() const override { return false; }
  std::vector<NotMeasured> not_measured() const override { return {}; }

 private:
  RecordingReader reader_;
  std::chrono::nanoseconds start_;
  std::optional<Record> upcoming_;
  ProcessTick known_;
};

Result<std::unique_ptr<Source>> start_live(PollerOptions poller_options,
                                           std::unique_ptr<ProcessDescriber> describer,
                                           SourceKind kind, const std::string& detail) {
  auto poller = TRY(Poller::start(std::move(poller_options)));
  const std::string driver = poller->machine().driver.value_or("unknown");
  const std::string words =
      kind == SourceKind::nvml ? fmt::format("NVIDIA driver {}", driver) : detail;
  return std::unique_ptr<Source>(
      std::make_unique<LiveSource>(std::move(poller), std::move(describer), kind, words));
}

PollerOptions poller_options(const SourceOptions& options) {
  PollerOptions result;
  result.schedule.interval = options.interval;
  result.schedule.process_period = options.process_period;
  result.schedule.seed = static_cast<std::uint32_t>(unix_now().count());
  result.session.gpus = options.gpus;
  // 0.25 to 0.67 ms a GPU on an H200
  if (options.attention == Attention::sparing) result.schedule.gpm_period = std::chrono::seconds(5);
  if (options.attention == Attention::close || options.attention == Attention::closest) {
    result.schedule.gpm_period = std::chrono::milliseconds(100);
    result.schedule.power_samples_period = std::chrono::milliseconds(500);
    result.schedule.byte_counters_period = std::chrono::milliseconds(200);
    result.schedule.budget = 0.03;
  }
  return result;
}

// The moment at which the recording starts to play: the user's, else now.
std::chrono::nanoseconds play_start() {
  const char* const given = std::getenv("LOCKSTEP_VIRTUAL_START_NS");
  if (const auto start = parse_integer(given != nullptr ? given : ""))
    return std::chrono::nanoseconds(*start);
  const auto now = monotonic_now();
  ::setenv("LOCKSTEP_VIRTUAL_START_NS", std::to_string(now.count()).c_str(), 1);
  return now;
}

Result<std::unique_ptr<Source>> open_virtual(const std::string& description,
                                             const SourceOptions& options) {
  PollerOptions virtual_options = poller_options(options);
  virtual_options.session.library = virtual_library_path().string();
  if (!std::filesystem::exists(virtual_options.session.library))
    return Error{
        fmt::format("the virtual NVML library is missing: {}", virtual_options.session.library),
        "build it: cmake --build --preset release"};

  std::unique_ptr<ProcessDescriber> describer;
  // "2", or "2xRTX-4090": the library knows the models
  const auto times = description.find_first_of("xX");
  if (const auto count = parse_integer(std::string_view(description).substr(0, times))) {
    if (*count < 1 || *count > 64)
      return usage_error(fmt::format("virtual:{} asks for {} virtual GPUs", description, *count),
                         "choose from 1 to 64: virtual:2");
    const std::string_view model = times == std::string::npos
                                       ? kVirtualModels.front()
                                       : std::string_view(description).substr(times + 1);
    if (std::ranges::find(kVirtualModels, model) == kVirtualModels.end())
      return usage_error(fmt::format("there is no virtual GPU like {}", printable(model)),
                         fmt::format("choose from {}: virtual:2x{}",
                                     fmt::join(kVirtualModels, ", "), kVirtualModels.back()));
    describer = std::make_unique<HostDescriber>(PidOrigin::this_machine, options.attention);
  } else {
    if (description.empty())
      return usage_error("virtual: names neither a number nor a file", "try virtual:2");
    if (!std::filesystem::exists(description))
      return usage_error(fmt::format("virtual:{} is neither a number of GPUs nor a recording that "
                                     "is there",
                                     printable(description)),
                         "try virtual:2, or virtual:run.jsonl");
    auto reader = TRY(RecordingReader::open(description));
    describer = std::make_unique<PlayedDescriber>(std::move(reader), play_start());
  }
  // The library reads these when it is initialised, on the poller's thread, which starts after
  // this.
  ::setenv("LOCKSTEP_VIRTUAL", description.c_str(), 1);
  return start_live(std::move(virtual_options), std::move(describer), SourceKind::virtual_gpus,
                    fmt::format("virtual:{}", description));
}

// The first line that says something: no blanks, no fence of Markdown.
std::string first_words(const std::vector<std::string>& lines) {
  const auto first = std::ranges::find_if(lines, [](const std::string& line) {
    return !trim(line).empty() && !trim(line).starts_with("```");
  });
  return first == lines.end() ? std::string() : shortened(trim(*first), 40);
}

Result<std::unique_ptr<Source>> open_log(const std::string& path, LineStream stream,
                                         const SourceOptions& options) {
  const auto [lines, text, cut] = read_log(stream);
  if (trim(text).empty() && stream.overlong_lines() == 0)
    return Error{fmt::format("{} is empty", printable(path)),
                 "make a recording: lockstep record -o FILE --duration 10s"};
  auto log = parse_other_tools_log(lines, text);
  if (!log && names_no_gpu(lines))
    return Error{
        fmt::format("the rows of {} name neither a GPU nor a time: they may be one look at "
                    "several GPUs, or several looks at one",
                    printable(path)),
        "log with both: nvidia-smi --query-gpu=timestamp,index,utilization.gpu,"
        "memory.used,power.draw --format=csv -l 1"};
  if (!log)
    return Error{
        fmt::format(
            "{} is no input that lockstep knows: no readings of GPUs, and no message that it "
            "knows (it starts with '{}')",
            printable(path), printable(first_words(lines))),
        "give a recording (lockstep record -o FILE), a profiler's trace, a log of nvidia-smi, "
        "gpustat or W&B, CSV with time, gpu and util columns, or a "
        "training log; without an input it looks at this machine's GPUs"};
  if (cut) log->notes.push_back("only the first 96 MiB were read");
  for (const int wanted : options.gpus)
    if (std::ranges::none_of(log->machine.gpus,
                             [&](const GpuInfo& gpu) { return gpu.index == wanted; }))
      return usage_error(fmt::format("GPU {} of --gpus is not in {}", wanted, printable(path)),
                         "leave --gpus out to see which are");
  return std::unique_ptr<Source>(
      std::make_unique<ParsedSource>(std::move(*log), path, options.gpus));
}

Result<std::unique_ptr<Source>> open_wandb(const std::string& path, const SourceOptions& options) {
  const auto bytes = read_small_file(path, std::size_t{1} << 30U);
  auto log = bytes ? parse_wandb_file(*bytes) : std::nullopt;
  if (!log)
    return Error{
        fmt::format("{} is a Weights & Biases run file without any GPU metrics", printable(path)),
        "the run was too short for a first sample (15 to 30 s), or ran without a GPU"};
  if (bytes->size() == std::size_t{1} << 30U) log->notes.push_back("only the first GiB was read");
  return std::unique_ptr<Source>(
      std::make_unique<ParsedSource>(std::move(*log), path, options.gpus));
}

Result<std::unique_ptr<Source>> open_file(const std::string& path, const SourceOptions& options) {
  auto lines = TRY(LineStream::open(path));
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    const auto start = read_small_file(path, 16);
    if (start && looks_like_wandb(*start)) return open_wandb(path, options);
    if (start && from_utf16(*start))
      if (const auto bytes = read_small_file(path, 2 * kLargestLog))
        lines = LineStream::over(*from_utf16(*bytes));
  }
  if (looks_like_trace(first_bytes(path, 64U << 10U)))
    return Error{
        fmt::format("{} is a profiler's trace, which is no recording of GPUs", printable(path)),
        fmt::format("lockstep diagnose {}", printable(path))};
  if (looks_like_recording(lines)) {
    auto reader = TRY(RecordingReader::from(std::move(lines), path));
    for (const int wanted : options.gpus)
      if (std::ranges::none_of(reader.machine().gpus,
                               [&](const GpuInfo& gpu) { return gpu.index == wanted; }))
        return usage_error(fmt::format("GPU {} of --gpus is not in {}", wanted, printable(path)),
                           "leave --gpus out to see which are");
    return std::unique_ptr<Source>(
        std::make_unique<ReplaySource>(std::move(reader), path, options.gpus));
  }
  return open_log(path, std::move(lines), options);
}

bool is_live_name(const std::string& name) {
  return name.empty() || name.starts_with(kVirtualPrefix);
}

bool is_regular(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);  // what is taken from a pipe is gone
}

bool is_flight_dump(const std::string& path) {
  if (!is_regular(path)) return false;
  const auto start = read_small_file(path, 1U << 16U);
  return start && looks_like_flight_dump(*start);
}

bool is_recording_file(const std::string& path) {
  return is_regular(path) && looks_like_recording(path);
}

Status none_given_twice(const std::vector<std::string>& paths, const char* next) {
  for (std::size_t i = 0; i < paths.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::error_code ignored;
      if (std::filesystem::equivalent(paths[i], paths[j], ignored))
        return usage_error(fmt::format("{} is given twice", printable(paths[i])), next);
    }
  return Done{};
}

Status all_exist(std::span<const std::string> paths) {
  for (const std::string& path : paths)
    if (!std::filesystem::exists(path)) return cannot_read(path, ENOENT);
  return Done{};
}

// The first is a trace: so are the others, or it is a mistake.
Result<OpenedInput> open_traces(const std::vector<std::string>& paths) {
  for (const std::string& path : std::span(paths).subspan(1)) {
    if (!std::filesystem::exists(path)) return cannot_read(path, ENOENT);
    if (!is_trace_file(path))
      return usage_error(
          fmt::format("{} is no trace as {} is", printable(path), printable(paths.front())),
          "give the traces of one run's ranks, or one other input");
  }
  TRY(none_given_twice(paths, "give one file a rank"));
  return OpenedInput(TraceFiles{paths});
}

// What the ranks of one run printed, a file each. Nothing where one of them holds readings.
Result<std::unique_ptr<Source>> open_rank_logs(const std::vector<std::string>& paths) {
  std::vector<LogText> texts;
  for (const std::string& path : paths) {
    auto stream = TRY(LineStream::open(path));
    texts.push_back(read_log(stream));
    if (parse_other_tools_readings(texts.back().lines, texts.back().text))
      return std::unique_ptr<Source>();
  }
  std::vector<OutputLog> logs;
  for (std::size_t i = 0; i < paths.size(); ++i)
    logs.push_back({paths[i], rank_of_file(paths[i]), texts[i].lines});
  auto log = parse_training_logs(logs);
  if (!log)
    return Error{fmt::format("none of {} and the {} given with it holds an error message that "
                             "lockstep knows",
                             printable(paths.front()),
                             paths.size() == 2 ? std::string("other file")
                                               : fmt::format("{} files", paths.size() - 1)),
                 "give what the ranks of one run printed, a file a rank, or one other input"};
  if (std::ranges::any_of(texts, &LogText::cut))
    log->notes.push_back("only the first 96 MiB of a file were read");
  return std::unique_ptr<Source>(std::make_unique<ParsedSource>(
      std::move(*log), fmt::format("{} logs: {}", paths.size(), paths.front()),
      std::vector<int>{}));
}

// Of several machines, or of several ranks of one.
Result<OpenedInput> open_several(const std::vector<std::string>& paths,
                                 const SourceOptions& options) {
  TRY(all_exist(std::span(paths).subspan(1)));
  if (std::ranges::all_of(paths, is_regular) && std::ranges::none_of(paths, is_recording_file)) {
    TRY(none_given_twice(paths, "give each log once"));
    auto logs = TRY(open_rank_logs(paths));
    if (logs) return OpenedInput(std::move(logs));
  }
  if (!std::ranges::all_of(paths, is_recording_file))
    return usage_error(fmt::format("one input at a time: '{}' is a second, and only recordings, "
                                   "traces or what a run's ranks printed are read together",
                                   printable(paths[1])),
                       "compare two runs: lockstep diagnose RUN --against OTHER; or diagnose one "
                       "after the other");
  if (!options.gpus.empty())
    return usage_error("--gpus counts the GPUs of one machine, and these are recordings of several",
                       "leave it out, or diagnose one recording");
  TRY(none_given_twice(paths, "give each recording once"));
  return OpenedInput(TRY(open_merged_recordings(paths)));
}

}  // namespace

bool is_trace_file(const std::string& path) {
  constexpr std::size_t kLongestHeader = 4U << 20U;  // deviceProperties and the like come first
  const std::string start = first_bytes(path, 4096);
  const std::string_view words = trim(start);
  if (!words.starts_with('{') && !words.starts_with('[') && !words.starts_with("\xEF\xBB\xBF"))
    return false;
  return looks_like_trace(start) || looks_like_trace(first_bytes(path, kLongestHeader));
}

Result<OpenedInput> open_input(const std::vector<std::string>& names,
                               const SourceOptions& options) {
  const std::string first = names.empty() ? std::string() : names.front();
  const bool alone = names.size() < 2;
  if (is_live_name(first)) {
    if (!alone)
      return usage_error(fmt::format("'{}' beside live GPUs", printable(names[1])),
                         "give files alone, or --against FILE to compare with");
    return OpenedInput(TRY(open_source(first, options)));
  }
  if (is_flight_dump(first)) return OpenedInput(FlightDumpFiles{names});
  if (is_trace_file(first)) return open_traces(names);
  if (!alone) return open_several(names, options);
  return OpenedInput(TRY(open_source(first, options)));
}

std::filesystem::path virtual_library_path() {
  return executable_folder().parent_path() / "lib/lockstep/virtual/libnvidia-ml.so.1";
}

Result<std::unique_ptr<Source>> open_source(const std::string& input,
                                            const SourceOptions& options) {
  if (input.empty())
    return start_live(poller_options(options),
                      std::make_unique<HostDescriber>(PidOrigin::driver, options.attention),
                      SourceKind::nvml, "");
  if (input.starts_with(kVirtualPrefix))
    return open_virtual(input.substr(kVirtualPrefix.size()), options);
  if (looks_like_url(input)) return open_prometheus(input, options.prometheus, options.gpus);
  return open_file(input, options);
}

}  // namespace lockstep
