#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "render/html/html_bench.hpp"
#include "render/json/bench_json.hpp"
#include "render/text/bench_text.hpp"
#include "runs/bench_run.hpp"
#include "runs/observation.hpp"
#include "runs/trainer_program.hpp"
#include "runs/watched_training.hpp"
#include "scaling/bench_cases.hpp"
#include "scaling/summarise.hpp"
#include "training/model_shapes.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

struct BenchFlags {
  std::string kind;
  std::string devices;
  std::string ways;
  std::string model;
  std::string buckets;
  std::int64_t batch = 0;
  std::int64_t accumulation = 4;
  std::int64_t steps = 50;
  int rounds = 3;
  std::vector<std::string> files;
};

using FileWriter = std::string (*)(const BenchReport&);

// What a file's name asks for.
FileWriter writer_of(const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending == ".html") return bench_html;
  if (ending == ".svg") return bench_svg;
  if (ending == ".csv") return bench_csv;
  if (ending == ".json") return bench_json;
  return nullptr;
}

Result<std::vector<int>> devices_asked(const std::string& typed, int there_are) {
  std::vector<int> devices;
  if (typed.empty()) {
    constexpr int kMost = 8;
    for (int count = 1; count <= std::min(kMost, std::max(1, there_are)); count *= 2)
      devices.push_back(count);
    return devices;
  }
  constexpr std::int64_t kMost = 1024;
  for (const std::string_view word : split(typed, ',')) {
    const auto count = parse_integer(trim(word));
    if (!count || *count < 1 || *count > kMost)
      return usage_error(fmt::format("--devices {}: '{}' is no number of devices", printable(typed),
                                     printable(word)),
                         "write them with commas: --devices 1,2,4");
    devices.push_back(static_cast<int>(*count));
  }
  devices.push_back(1);  // what everything is compared with
  std::ranges::sort(devices);
  const auto doubles = std::ranges::unique(devices);
  devices.erase(doubles.begin(), doubles.end());
  return devices;
}

Result<std::vector<double>> buckets_asked(const std::string& typed) {
  std::vector<double> buckets;
  for (const std::string_view word : split(typed, ',')) {
    double size = 0;
    const std::string_view digits = trim(word);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || size <= 0 ||
        size > 10'000)
      return usage_error(
          fmt::format("--buckets {}: '{}' is no size", printable(typed), printable(word)),
          "write megabytes with commas: --buckets 0.25,1,25");
    buckets.push_back(size);
  }
  return buckets;
}

Result<std::vector<std::string>> ways_asked(const std::string& typed) {
  std::vector<std::string> ways;
  if (typed.empty()) return ways;
  const std::vector<std::string> known(std::begin(kBenchWays), std::end(kBenchWays));
  for (const std::string_view word : split(typed, ',')) {
    const std::string way(trim(word));
    if (std::ranges::find(known, way) == known.end()) {
      const auto near = nearest(way, known);
      return usage_error(fmt::format("--ways {}: no way '{}'", printable(typed), printable(way)),
                         near ? fmt::format("did you mean {}?", *near)
                              : fmt::format("one of {}", join(known, ", ")));
    }
    ways.push_back(way);
  }
  return ways;
}

struct BenchPlan {
  BenchRequest request;
  BenchRunOptions how;
  BenchReport report;
  double tokens_of_sample = 0;   // 0: rows, or a script's
  std::set<std::size_t> failed;  // rows whose command failed
};

// The machine and what is to be measured on it.
Result<BenchPlan> plan_of(const RunOptions& options, const BenchFlags& flags) {
  BenchPlan plan;
  const TrainMachine machine = train_machine();
  BenchRequest& request = plan.request;
  request.script = options.command;
  request.lockstep = (executable_folder() / "lockstep").string();
  const int visible = visible_gpus(own_variables()).value_or(0);
  request.on_gpus = request.script.empty() ? machine.gpus > 0 : visible > 0;
  plan.report.cores = machine.cores;
  plan.report.on_cores = !request.on_gpus;
  plan.report.is_virtual = !request.on_gpus && request.script.empty();
  plan.report.devices = !request.on_gpus ? (request.script.empty() ? "virtual GPU" : "rank")
                        : machine.gpu_name.empty() ? "GPU"
                                                   : machine.gpu_name;
  plan.report.kind = flags.kind == "presets" ? BenchKind::presets : BenchKind::scaling;
  plan.report.rounds = flags.rounds;
  const int gpus = request.script.empty() ? machine.gpus : visible;
  const int there_are = request.on_gpus ? gpus : machine.cores;
  auto devices = TRY(devices_asked(flags.devices, there_are));
  request.devices = devices;
  const int needed = plan.report.kind == BenchKind::presets ? 2 : request.devices.back();
  if (request.on_gpus && needed > gpus) {
    const std::string has = fmt::format("{} {} is to be seen here, and {} are asked for", gpus,
                                        gpus == 1 ? "GPU" : "GPUs", needed);
    return Error{has, plan.report.kind == BenchKind::presets
                          ? "three of the four presets need two GPUs; CUDA_VISIBLE_DEVICES='' "
                            "lockstep bench presets shows them on virtual ones"
                          : fmt::format("use --devices {}", gpus)};
  }
  plan.how = {request.on_gpus,
              options.duration.value_or(plan.report.kind == BenchKind::presets ? 10s : 6s),
              flags.steps, std::nullopt, options.quiet};
  if (!request.script.empty()) {
    if (!flags.model.empty() || !flags.ways.empty() || !flags.buckets.empty() || flags.batch > 0)
      return usage_error("--model, --ways, --buckets and --batch-size are of lockstep-train",
                         "leave them out: a script is run as it is, on each number of devices");
    plan.how.longest = options.duration;
    const bool module = request.script.front() == "-m" && request.script.size() > 1;
    plan.report.subject = module
                              ? request.script[1]
                              : std::filesystem::path(request.script.front()).filename().string();
    return plan;
  }
  auto program = TRY(trainer_program());
  request.trainer = program;
  request.model = !flags.model.empty() ? flags.model : request.on_gpus ? "gpt2" : "tiny";
  request.batch = flags.batch > 0 ? flags.batch : 16;
  request.accumulation = flags.accumulation;
  auto ways = TRY(ways_asked(flags.ways));
  request.ways = ways;
  auto buckets = TRY(buckets_asked(
      flags.buckets.empty() ? (request.on_gpus ? "1,25,100" : "0.1,1,25") : flags.buckets));
  request.buckets_mb = buckets;
  TrainSettings settings;
  TRY(set_setting(settings, "model", request.model));
  auto shape = TRY(shape_of(settings));
  plan.tokens_of_sample = static_cast<double>(shape.sequence_length);
  plan.report.subject = fmt::format("lockstep-train, {}", request.model);
  plan.report.unit = shape.kind == ModelKind::gpt ? "tokens/s" : "samples/s";
  return plan;
}

Result<std::vector<BenchCase>> cases_of(const BenchPlan& plan) {
  if (plan.report.kind == BenchKind::presets) return preset_cases(plan.request);
  return scaling_cases(plan.request);
}

// A script that divides its batch among the ranks shows how the same work gets shorter; one that
// does not, how more of it is done.
void tell_growth(BenchReport& report, const std::vector<std::vector<RunSpeed>>& speeds) {
  const auto batch_of = [&](std::size_t row) {
    return speeds[row].front().samples_per_s.value_or(0) /
           speeds[row].front().batches_per_s.value_or(1);
  };
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    BenchCase& what = report.rows[i].what;
    if (what.batch == 0) what.batch = std::llround(batch_of(i));
    if (what.growth == Growth::weak &&
        std::abs(batch_of(i) * what.devices - batch_of(0)) < 0.1 * batch_of(0)) {
      what.growth = Growth::strong;
      what.title += ", same batch in all";
    }
  }
}

// Speeds of scripts in the best unit that all runs have.
void take_basis(BenchReport& report, const std::vector<std::vector<RunSpeed>>& speeds) {
  const SpeedBasis basis = common_basis(speeds);
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    for (std::size_t round = 0; round < speeds[i].size(); ++round)
      report.rows[i].rounds[round].speed = speed_by(basis, speeds[i][round]);
  switch (basis) {
    case SpeedBasis::samples: report.unit = "samples/s"; break;
    case SpeedBasis::batches: report.unit = "batches/s"; break;
    case SpeedBasis::gpu_work: report.unit = "GPUs busy"; break;
    case SpeedBasis::whole_run: report.unit = "runs/s"; break;
  }
  if (basis == SpeedBasis::samples) tell_growth(report, speeds);
  report.has_steps = basis == SpeedBasis::samples || basis == SpeedBasis::batches;
  if (basis == SpeedBasis::batches)
    report.notes.emplace_back(
        "batches were counted, since their sizes are not known: of a script that divides its batch "
        "among the ranks each does less, and the speedups here are too large");
  if (basis == SpeedBasis::gpu_work)
    report.notes.emplace_back(
        "no step was seen: the GPUs' busy time stands for the work, which waiting in an exchange "
        "is not");
  if (basis == SpeedBasis::whole_run)
    report.notes.emplace_back(
        "no step was seen: whole runs were timed, with their start; a script that does as much in "
        "all on every number of devices is meant");
}

void tell(const BenchPlan& plan, const BenchCase& what, int round, const BenchRun& run) {
  const double speed =
      plan.request.script.empty()
          ? run.round.speed * (plan.tokens_of_sample > 1 ? plan.tokens_of_sample : 1)
          : run.speed.samples_per_s.value_or(run.speed.batches_per_s.value_or(0));
  const std::string unit = !plan.report.unit.empty() ? plan.report.unit
                           : run.speed.samples_per_s ? "samples/s"
                           : run.speed.batches_per_s ? "batches/s"
                                                     : "";
  say(fmt::format("round {} of {}: {} on {}: {}\n", round + 1, plan.report.rounds, what.title,
                  what.devices,
                  unit.empty() ? fmt::format("{:.1f} s", run.speed.seconds)
                               : fmt::format("{:.0f} {}", speed, unit)));
}

// All cases round by round, so that whatever the machine does besides meets all of them. What it
// ends with where it ends early.
Result<std::optional<int>> measure(BenchPlan& plan, std::vector<std::vector<RunSpeed>>& speeds) {
  for (int round = 0; round < plan.report.rounds; ++round)
    for (std::size_t i = 0; i < plan.report.rows.size(); ++i) {
      if (plan.failed.contains(i)) continue;
      BenchRow& row = plan.report.rows[i];
      auto run = TRY(plan.request.script.empty() ? run_trainer(row.what, plan.how)
                                                 : run_script(row.what, plan.how));
      if (run.interrupted) return std::optional<int>(exit_code::kInterrupted);
      if (!run.failure.empty()) {
        say(fmt::format("lockstep: {} on {}: {}\n  next: run it alone: {}\n", row.what.title,
                        row.what.devices, std::string(trim(run.failure)),
                        join(redact_command(as_typed(row.what.command)), " ")));
        // nothing to compare the others with
        if (i == 0) return std::optional<int>(exit_code::kCommandFailed);
        plan.failed.insert(i);
        continue;
      }
      if (!plan.how.quiet) tell(plan, row.what, round, run);
      BenchRound measured = run.round;
      if (plan.request.script.empty()) {
        measured.epoch_s = static_cast<double>(kBenchSamples) / measured.speed;
        if (plan.tokens_of_sample > 1) measured.speed *= plan.tokens_of_sample;
      }
      speeds[i].push_back(run.speed);
      row.rounds.push_back(std::move(measured));
    }
  return std::optional<int>();
}

Status check_files(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (writer_of(file) == nullptr)
      return usage_error(fmt::format("-o {}: the name does not say what to write", printable(file)),
                         "end it with .html, .svg, .csv or .json");
    const std::string folder = std::filesystem::path(file).parent_path().string();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
      return usage_error(fmt::format("-o {}: its folder cannot be written", printable(file)),
                         "give another place, or make the folder");
  }
  return Done{};
}

Result<int> run_bench(const RawOptions& raw, const BenchFlags& flags) {
  auto options = TRY(check(raw, Formats::text_and_json));
  TRY(check_files(flags.files));
  auto plan = TRY(plan_of(options, flags));
  auto cases = TRY(cases_of(plan));
  watch_for_interrupts();
  train_apart("bench");
  for (BenchCase& what : cases) {
    plan.report.rows.emplace_back();
    plan.report.rows.back().what = std::move(what);
  }
  const int most =
      std::ranges::max_element(plan.report.rows, [](const BenchRow& a, const BenchRow& b) {
        return a.what.devices < b.what.devices;
      })->what.devices;
  if (plan.report.on_cores && most > plan.report.cores && !options.quiet)
    say(fmt::format(
        "lockstep: {} {}s on {} {}: those rows share cores, and show nothing about scaling\n", most,
        plan.report.devices, plan.report.cores, plan.report.cores == 1 ? "core" : "cores"));
  if (most == 1 && !options.quiet)
    say(fmt::format(
        "lockstep: there is one device here: nothing to compare with{}\n",
        plan.report.on_cores
            ? ""
            : "; CUDA_VISIBLE_DEVICES='' lockstep bench scaling shows it on virtual GPUs"));

  std::vector<std::vector<RunSpeed>> speeds(plan.report.rows.size());
  auto early = TRY(measure(plan, speeds));
  if (early) return *early;
  for (auto row = plan.failed.rbegin(); row != plan.failed.rend(); ++row) {
    plan.report.notes.push_back(fmt::format("left out, since its command failed: {} on {}",
                                            plan.report.rows[*row].what.title,
                                            plan.report.rows[*row].what.devices));
    plan.report.rows.erase(plan.report.rows.begin() + static_cast<std::ptrdiff_t>(*row));
    speeds.erase(speeds.begin() + static_cast<std::ptrdiff_t>(*row));
  }
  if (!plan.request.script.empty()) take_basis(plan.report, speeds);
  for (BenchRow& row : plan.report.rows)
    row.what.command = redact_command(as_typed(row.what.command));
  summarise(plan.report);
  fmt::print("{}", options.format == Format::json
                       ? bench_json(plan.report)
                       : bench_text(plan.report, options.colors, terminal_width()));
  for (const std::string& file : flags.files) {
    TRY(write_file_atomically(file, writer_of(file)(plan.report)));
    if (!options.quiet) say(fmt::format("written: {}\n", printable(file)));
  }
  return plan.failed.empty() ? exit_code::kDone : exit_code::kCommandFailed;
}

}  // namespace

Run configure_bench(CLI::App& app, RawOptions& raw) {
  auto flags = std::make_shared<BenchFlags>();
  app.add_option("KIND", flags->kind, "scaling, or presets")
      ->type_name("")
      ->required()
      ->check(CLI::IsMember({"scaling", "presets"}));
  app.add_option("--devices", flags->devices,
                 "how many to try: 1,2,4 (as many as there are, up to 8)")
      ->type_name("N,N...");
  app.add_option("--ways", flags->ways,
                 "of naive, data-parallel, ddp, accumulation, buckets only these, beside single")
      ->type_name("WAY,WAY...");
  app.add_option("--rounds", flags->rounds, "how often each is measured, by turns (3)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--duration", raw.duration, "of training in each round (6s; presets 10s)")
      ->type_name("DURATION");
  app.add_option("--steps", flags->steps, "of a script in each round (50)")
      ->type_name("N")
      ->check(CLI::Range(15, 1'000'000));
  app.add_option("--model", flags->model, "of lockstep-train (tiny on virtual GPUs, gpt2 on GPUs)")
      ->type_name("NAME");
  app.add_option("--batch-size", flags->batch, "samples of one device alone (16)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--accumulation", flags->accumulation,
                 "passes of an update, with and without no_sync (4)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--buckets", flags->buckets,
                 "sizes of DDP's buckets to try, in MB (0.1,1,25; on GPUs 1,25,100)")
      ->type_name("MB,MB...");
  app.add_option("-o,--output", flags->files,
                 "write this file, too: .html, .svg, .csv or .json; may be given again")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_format_options(app, raw);
  add_common_options(app, raw);
  return [flags, &raw] { return run_bench(raw, *flags); };
}

}  // namespace lockstep
