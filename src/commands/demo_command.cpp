#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "render/html/html_before_after.hpp"
#include "render/json/json_renderer.hpp"
#include "render/text/before_after_text.hpp"
#include "render/text/diagnosis_text.hpp"
#include "render/words/words.hpp"
#include "runs/observation.hpp"
#include "runs/trainer_program.hpp"
#include "runs/watched_training.hpp"
#include "scaling/summarise.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kTrainFor = 15s;
constexpr int kDevices = 2;
constexpr double kExpectedSpeedup = 1.8;  // what published guides promise for two GPUs

// What both runs train: all data made before the first step and no loader at work, so that two
// cores are enough for two virtual GPUs. A step of a third to half a second shows the turns at 5
// readings a second.
std::vector<std::string> training(const std::string& program, bool on_gpus) {
  if (on_gpus)
    return {program,        "--device",    "cuda",    "--model",      "gpt2",
            "--batch-size", "8",           "--steps", "1000000",      "--dataset-size",
            "65536",        "--log-every", "5",       "--log-format", "json"};
  return {program,        "--device",
          "cpu",          "--model",
          "tiny",         "--batch-size",
          "16",           "--steps",
          "1000000",      "--dataset-size",
          "16384",        "--preload",
          "--workers",    "0",
          "--log-every",  "4",
          "--log-format", "json"};
}

// How the planner would run the same training on both devices: what the fix is.
std::string planned_parallel(bool on_gpus) {
  TrainSettings settings;
  settings.device = on_gpus ? "cuda" : "cpu";
  settings.model = on_gpus ? "gpt2" : "tiny";
  settings.batch_size = on_gpus ? 8 : 16;
  settings.devices = kDevices;
  const auto choice =
      choose_training(settings, {"device", "model", "batch-size", "devices"}, train_machine());
  return choice ? choice->settings.parallel : "ddp";
}

std::vector<std::string> with(std::vector<std::string> words,
                              std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
  return words;
}

// Others that took CPU time, or too few cores: why a speedup on virtual GPUs is not what it should
// be.
std::optional<std::string> disturbance(const WatchedTraining& before, const WatchedTraining& after,
                                       bool on_gpus) {
  if (on_gpus) return std::nullopt;
  const int cores = usable_cores();
  if (cores < kDevices)
    return fmt::format(
        "this machine lends {} core, and two virtual GPUs need two: the speedup cannot be shown "
        "here",
        cores);
  const double most = std::max(before.other_cores, after.other_cores);
  const double speedup = before.measured.tokens_per_s > 0
                             ? after.measured.tokens_per_s / before.measured.tokens_per_s
                             : 0;
  if (speedup >= kExpectedSpeedup || most < kDisturbingShareOfCores * kDevices) return std::nullopt;
  return fmt::format(
      "the machine is too busy to show it: other processes took {:.1f} of {} cores while this ran; "
      "try again when it is quiet",
      most, cores);
}

struct DemoOptions {
  std::string page = "lockstep-demo.html";
};

Result<int> end_early(const WatchedTraining& run) {
  if (run.interrupted) return exit_code::kInterrupted;
  say("lockstep: the training failed; its own words are above\n");
  return exit_code::kCommandFailed;
}

Result<int> run_demo(const RawOptions& raw, const DemoOptions& typed) {
  auto options = TRY(check(raw, Formats::text_and_json));
  auto program = TRY(trainer_program());
  const std::string folder = std::filesystem::path(typed.page).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    return usage_error(fmt::format("the page {} cannot be written: {}", printable(typed.page),
                                   std::strerror(errno)),
                       "give another place: -o /tmp/demo.html");
  watch_for_interrupts();
  train_apart("demo");

  const bool on_gpus = train_machine().gpus >= kDevices;
  TrainingWatchOptions how;
  how.input = on_gpus ? "" : fmt::format("virtual:{}", kDevices);
  how.duration = options.duration.value_or(kTrainFor);
  how.quiet = options.quiet;
  const auto words = [&](const std::string& line) {
    if (!options.quiet) say(line + "\n");
  };

  if (!on_gpus && usable_cores() < kDevices)
    words(
        "lockstep: this machine lends one core, and two virtual GPUs need two: the speedup cannot "
        "be shown here");

  const auto wrong = with(training(program, on_gpus),
                          {"--parallel", "naive", "--devices", std::to_string(kDevices)});
  words(
      fmt::format("1/3  the wrong way: one process, the model split over two {}GPUs, as "
                  "device_map=\"auto\" and plain python give it",
                  on_gpus ? "" : "virtual "));
  words("     $ " + command_words(as_typed(wrong)));
  auto before = TRY(run_and_watch("before: naive split", wrong, how));
  if (before.interrupted || before.failed) return end_early(before);
  const bool as_json = options.format == Format::json;
  const DiagnosisText report_text(options.colors, terminal_width());
  if (!as_json) fmt::print("{}\n", report_text.render(before.measured.report));
  std::fflush(stdout);

  const std::string lockstep = (executable_folder() / "lockstep").string();
  const auto trained = with(training(program, on_gpus), {"--parallel", planned_parallel(on_gpus)});
  auto right = std::vector<std::string>{
      lockstep,  "launch",           "--standalone",           "--recommended", "--no-checks",
      "--quiet", "--nproc-per-node", std::to_string(kDevices), "--no-python"};
  right.insert(right.end(), trained.begin(), trained.end());
  words(
      "2/3  the fix: one process per GPU, each with the whole model and its own part of the data "
      "(DDP), by lockstep launch");
  words("     $ " + command_words(as_typed(right)));
  auto after = TRY(run_and_watch("after: DDP by lockstep launch", right, how));
  if (after.interrupted || after.failed) return end_early(after);

  BeforeAfter both{before.measured, after.measured, disturbance(before, after, on_gpus)};
  both.before.command = as_typed(both.before.command);
  both.after.command = as_typed(both.after.command);
  words("3/3  before and after");
  fmt::print("{}", as_json ? before_after_json(both)
                           : "\n" + before_after_text(both, options.colors, terminal_width()));
  TRY(write_file_atomically(typed.page, before_after_html(both)));
  words(fmt::format("\nboth runs on one page: {}", printable(typed.page)));
  const bool healthy = both.after.report.findings.empty() && both.after.report.verdict &&
                       both.after.report.verdict->pattern == Pattern::in_step;
  if (!healthy && both.disturbed_by)
    words("the second run's report is left out: it would speak of the disturbance");
  else if (!healthy && !as_json)
    fmt::print("\nthe second run is not healthy:\n\n{}", report_text.render(both.after.report));
  return healthy ? exit_code::kDone : exit_code::kFindings;
}

}  // namespace

Run configure_demo(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<DemoOptions>();
  app.add_option("-o,--output", typed->page, "the HTML page")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--duration", raw.duration, "how long each run is watched (default: 15s)")
      ->type_name("DURATION");
  app.add_option("--format", raw.format, "text or json")->type_name("FORMAT");
  app.add_flag("--json", raw.json, "short for --format json");
  app.add_option("--color", raw.color, "auto, always or never (NO_COLOR is honoured)")
      ->type_name("WHEN");
  add_common_options(app, raw);
  return [typed, &raw] { return run_demo(raw, *typed); };
}

}  // namespace lockstep
