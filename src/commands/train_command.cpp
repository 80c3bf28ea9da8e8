#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "launch/launcher.hpp"
#include "runs/launch_beside.hpp"
#include "runs/trainer_program.hpp"
#include "training/choose_training.hpp"
#include "training/report_settings.hpp"
#include "training/train_flags.hpp"

namespace lockstep {
namespace {

struct TrainOptions {
  TrainFlags flags;
  std::string from;
  int max_restarts = 0;
  bool quiet = false;
};

// What a diagnosis suggested, where the user has said nothing else.
Status take_settings_of(const std::string& file, TrainSettings& settings,
                        std::set<std::string>& given, std::vector<Choice>& told) {
  const auto text = read_small_file(file, std::size_t{64} << 20U);
  if (!text)
    return usage_error(fmt::format("--from {}: {}", printable(file), std::strerror(errno)),
                       "make a report: lockstep diagnose --json -o report.json");
  auto choices = settings_in_report(*text, settings);
  if (!choices)
    return Error{fmt::format("{}: {}", choices.error().what, printable(file)),
                 choices.error().next};
  for (Choice& choice : *choices) {
    if (given.contains(choice.setting)) continue;
    if (Status set = set_setting(settings, choice.setting, choice.value); !set) continue;
    given.insert(choice.setting);
    told.push_back(std::move(choice));
  }
  if (told.empty()) say("lockstep: the report suggests no setting of the trainer\n");
  return Done{};
}

void tell_choices(const std::vector<Choice>& choices) {
  for (const Choice& choice : choices)
    say(fmt::format("lockstep: {} {}: {}\n", choice.setting, choice.value, choice.why));
}

LaunchSettings launch_of(const std::string& program, const TrainingChoice& choice,
                         const TrainOptions& typed) {
  LaunchSettings launch;
  launch.standalone = true;
  launch.processes_per_node = std::to_string(choice.ranks);
  launch.max_restarts = typed.max_restarts;
  launch.no_python = true;
  launch.script = program;
  launch.script_arguments = flags_of(choice.settings);
  launch.quiet = typed.quiet;
  launch.checks = choice.settings.device == "cuda";  // virtual GPUs need none of them
  return launch;
}

Result<int> run_train(const TrainOptions& typed) {
  std::vector<std::string> names;
  auto settings = TRY(settings_from(typed.flags, &names));
  std::set<std::string> given(names.begin(), names.end());
  std::vector<Choice> told;
  if (!typed.from.empty()) TRY(take_settings_of(typed.from, settings, given, told));
  if (settings.data != "synthetic" && !std::filesystem::exists(settings.data))
    return usage_error(fmt::format("--data {}: no such file", printable(settings.data)),
                       "give a text file, a token file, or leave it out for synthetic data");
  auto choice = TRY(choose_training(settings, given, train_machine()));
  if (typed.flags.print_config) {
    fmt::print("{}", train_config_text(choice.settings));
    return exit_code::kDone;
  }
  auto program = TRY(trainer_program());
  told.insert(told.end(), choice.choices.begin(), choice.choices.end());
  if (!typed.quiet) tell_choices(told);
  if (typed.max_restarts > 0 && choice.settings.checkpoint_dir.empty())
    say("lockstep: --max-restarts without --checkpoint-dir: a restart begins anew\n");
  const LaunchSettings launch = launch_of(program, choice, typed);
  auto code = run_launch(launch, beside_the_ranks(false, launch.quiet || !launch.checks));
  if (!code) return code;
  if (*code == 128 + SIGINT || *code == 128 + SIGTERM || *code == 128 + SIGHUP) {
    say(fmt::format("lockstep: ended by signal {}\n", *code - 128));
    return exit_code::kInterrupted;
  }
  return *code == 0 ? exit_code::kDone : exit_code::kCommandFailed;
}

}  // namespace

Run configure_train(CLI::App& app, RawOptions&) {
  auto typed = std::make_shared<TrainOptions>();
  add_train_flags(app, typed->flags);
  app.add_option("--from", typed->from,
                 "a report of lockstep diagnose: what it suggests is set, each with its reason")
      ->type_name("REPORT");
  app.add_option("--max-restarts", typed->max_restarts,
                 "start failed ranks again so often, from the last checkpoint")
      ->type_name("N");
  app.add_flag("--quiet", typed->quiet, "do not tell what was chosen and why");
  return [typed] { return run_train(*typed); };
}

}  // namespace lockstep
