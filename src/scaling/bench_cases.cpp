#include "scaling/bench_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

// Data made before the first step and no loader at work, so that a core is enough for a virtual
// GPU; on GPUs two workers.
std::vector<std::string> trainer_words(const BenchRequest& request, std::int64_t batch,
                                       std::int64_t accumulation, int log_every) {
  std::vector<std::string> words = {request.trainer,
                                    "--device",
                                    request.on_gpus ? "cuda" : "cpu",
                                    "--model",
                                    request.model,
                                    "--batch-size",
                                    std::to_string(batch),
                                    "--accumulation",
                                    std::to_string(accumulation),
                                    "--steps",
                                    "1000000",
                                    "--dataset-size",
                                    std::to_string(kBenchSamples),
                                    "--log-every",
                                    std::to_string(log_every),
                                    "--log-format",
                                    "json"};
  if (!request.on_gpus) words.insert(words.end(), {"--preload", "--workers", "0"});
  return words;
}

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

BenchCase in_one_process(const BenchRequest& request, const std::string& way, int devices,
                         std::int64_t batch, std::int64_t accumulation = 1, int log_every = 10) {
  BenchCase bench;
  bench.title = bench.way = way;
  bench.devices = devices;
  bench.batch = batch;
  bench.accumulation = accumulation;
  bench.command = trainer_words(request, batch, accumulation, log_every);
  append(bench.command, {"--parallel", way, "--devices", std::to_string(devices)});
  return bench;
}

BenchCase in_ranks(const BenchRequest& request, int devices, std::int64_t batch,
                   std::int64_t accumulation = 1, int log_every = 10) {
  BenchCase bench;
  bench.title = "DDP";
  bench.way = "ddp";
  bench.devices = bench.ranks = devices;
  bench.batch = batch;
  bench.accumulation = accumulation;
  bench.command = {request.lockstep, "launch",           "--standalone",          "--no-checks",
                   "--quiet",        "--nproc-per-node", std::to_string(devices), "--no-python"};
  const auto words = trainer_words(request, batch, accumulation, log_every);
  bench.command.insert(bench.command.end(), words.begin(), words.end());
  append(bench.command, {"--parallel", "ddp"});
  return bench;
}

// The user's own: one process per device, however many there are.
BenchCase of_script(const BenchRequest& request, int devices) {
  BenchCase bench;
  bench.way = "script";
  bench.title = devices == 1 ? "1 device" : fmt::format("{} devices", devices);
  bench.devices = bench.ranks = devices;
  bench.growth = devices == 1 ? Growth::none : Growth::weak;
  bench.of_curve = true;
  bench.command = {request.lockstep, "launch",           "--standalone",
                   "--quiet",        "--nproc-per-node", std::to_string(devices)};
  if (!request.script.front().ends_with(".py") && !request.script.front().starts_with("-"))
    bench.command.emplace_back("--no-python");
  bench.command.insert(bench.command.end(), request.script.begin(), request.script.end());
  return bench;
}

bool is_wanted(const BenchRequest& request, const std::string& way) {
  return request.ways.empty() || std::ranges::find(request.ways, way) != request.ways.end();
}

void add_curve(const BenchRequest& request, std::vector<BenchCase>& cases) {
  for (const Growth growth : {Growth::weak, Growth::strong})
    for (const int devices : request.devices) {
      if (devices < 2) continue;
      const bool strong = growth == Growth::strong;
      if (strong && request.batch % devices != 0) continue;
      BenchCase bench =
          in_ranks(request, devices, strong ? request.batch / devices : request.batch);
      bench.title = strong ? "DDP, same batch in all" : "DDP";
      bench.growth = growth;
      bench.of_curve = true;
      cases.push_back(std::move(bench));
    }
}

// The same update in several passes: gradients exchanged once, or after each of them.
void add_accumulation(const BenchRequest& request, int devices, std::vector<BenchCase>& cases) {
  const std::int64_t batch = std::max<std::int64_t>(1, request.batch / request.accumulation);
  for (const bool each : {false, true}) {
    BenchCase bench = in_ranks(request, devices, batch, request.accumulation);
    bench.title = fmt::format("DDP, {} passes, {}", request.accumulation,
                              each ? "exchange after each" : "no_sync");
    if (each) append(bench.command, {"--fault", "sync-each-pass"});
    cases.push_back(std::move(bench));
  }
}

void add_buckets(const BenchRequest& request, int devices, std::vector<BenchCase>& cases) {
  for (const double megabytes : request.buckets_mb) {
    BenchCase bench = in_ranks(request, devices, request.batch);
    const std::string size = fmt::format("{}", megabytes);
    bench.title = fmt::format("DDP, buckets of {} MB", size);
    append(bench.command,
           {"--bucket-mb", size, "--first-bucket-mb", fmt::format("{}", std::min(1.0, megabytes))});
    cases.push_back(std::move(bench));
  }
}

struct Preset {
  const char* name;
  int devices;
  std::int64_t batch;
  std::int64_t accumulation;
  int log_every;
  double minutes;
};
constexpr Preset kPresets[] = {{"single", 1, 4, 4, 5, 16},
                               {"old DDP", 2, 2, 4, 1, 15},
                               {"standard", 2, 4, 2, 5, 12},
                               {"fast", 2, 8, 1, 10, 10}};

}  // namespace

Result<std::vector<BenchCase>> scaling_cases(const BenchRequest& request) {
  std::vector<BenchCase> cases;
  if (!request.script.empty()) {
    for (const int devices : request.devices) cases.push_back(of_script(request, devices));
    return cases;
  }
  cases.push_back(in_one_process(request, "single", 1, request.batch));
  for (const int devices : request.devices) {
    if (devices > 1 && is_wanted(request, "naive"))
      cases.push_back(in_one_process(request, "naive", devices, request.batch));
    if (devices > 1 && is_wanted(request, "data-parallel"))
      cases.push_back(in_one_process(request, "data-parallel", devices, request.batch));
  }
  if (is_wanted(request, "ddp")) add_curve(request, cases);
  const int most = request.devices.back();
  if (most > 1 && is_wanted(request, "accumulation")) {
    if (request.batch % request.accumulation != 0)
      return usage_error(
          fmt::format("--accumulation {}: a batch of {} cannot be divided into so many passes",
                      request.accumulation, request.batch),
          "use a divisor, or leave that way out with --ways");
    add_accumulation(request, most, cases);
  }
  if (most > 1 && is_wanted(request, "buckets")) add_buckets(request, most, cases);
  return cases;
}

std::vector<BenchCase> preset_cases(const BenchRequest& request) {
  std::vector<BenchCase> cases;
  for (const Preset& preset : kPresets) {
    BenchCase bench;
    if (!request.script.empty()) {
      bench = of_script(request, preset.devices);
      bench.of_curve = false;
      bench.batch = preset.batch;
      bench.accumulation = preset.accumulation;
      append(bench.command, {"--per_device_train_batch_size", std::to_string(preset.batch),
                             "--gradient_accumulation_steps", std::to_string(preset.accumulation),
                             "--logging_steps", std::to_string(preset.log_every)});
    } else {
      bench = preset.devices == 1 ? in_one_process(request, "single", 1, preset.batch,
                                                   preset.accumulation, preset.log_every)
                                  : in_ranks(request, preset.devices, preset.batch,
                                             preset.accumulation, preset.log_every);
    }
    bench.title = preset.name;
    bench.growth = Growth::none;
    bench.published_minutes = preset.minutes;
    cases.push_back(std::move(bench));
  }
  return cases;
}

}  // namespace lockstep
