#include "commands/command_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <optional>

#include "base/text.hpp"
#include "commands/cli11_line.hpp"
#include "commands/version.hpp"
#include "sources/nvml/poller.hpp"

namespace lockstep {
namespace {

Run configure_help(CLI::App& app, RawOptions&) {
  auto topic = std::make_shared<std::string>();
  app.add_option("COMMAND", *topic, "the command to explain");
  return [topic]() -> Result<int> {
    const auto line = make_command_line();
    if (topic->empty()) {
      fmt::print("{}", line->app.help());
      return exit_code::kDone;
    }
    std::vector<std::string> names;
    for (const auto& [command, run] : line->runs) {
      names.push_back(command->get_name());
      if (command->get_name() != *topic) continue;
      fmt::print("{}", command->help("lockstep"));
      return exit_code::kDone;
    }
    const auto near = nearest(*topic, names);
    return usage_error(
        fmt::format("no command '{}'", printable(*topic)),
        near ? fmt::format("did you mean `lockstep help {}`?", *near) : "see `lockstep help`");
  };
}

constexpr std::array kCommands = {
    CommandRow{
        "demo", "see it work: train the wrong way, diagnose, fix, train again, compare",
        "Trains a small GPT split over two GPUs that take turns (virtual ones where there are no "
        "two real ones), diagnoses it live, "
        "applies the fix (one process per GPU, by lockstep launch), trains again, and prints both "
        "side by side with the measured "
        "speedup. Writes one HTML page with both. Ends with 1 when the second run is not healthy.",
        Takes::options, configure_demo},
    CommandRow{
        "monitor", "watch the GPUs, ranks and findings live, or replay a recording",
        "The live screen: all GPUs as lanes on one time axis, what each is doing, the verdict, the "
        "ranks and the "
        "findings with their fixes. Plays a recording with the same screen. Press ? for its keys. "
        "With --once, or "
        "where there is no terminal, prints a plain table (or, with --json, a report) and ends.",
        Takes::options, configure_monitor},
    CommandRow{"record", "write a recording of GPUs and processes to a file",
               "Writes what the GPUs and their processes do, line by line, until the duration is "
               "over, the command "
               "after -- ends, or Ctrl-C. A file cut at any point can still be read.",
               Takes::options_and_command, configure_record},
    CommandRow{
        "diagnose", "say what the GPUs do together, what it costs, and how to fix it",
        "Watches the GPUs and their processes (or reads a recording, a log, or the profiler's "
        "traces of one or all ranks), then prints a verdict and the findings with "
        "evidence, cost and fix. Live it stops as soon as it is sure, after --duration at the "
        "latest. Ends with 1 "
        "when there are findings. A command after -- is started, watched once its GPUs work, and "
        "left running.",
        Takes::options_and_command, configure_diagnose},
    CommandRow{"profile", "say where each training step's time goes, by part and by line",
               "Runs a command (python, torchrun, lockstep launch, accelerate) with probes that "
               "its environment switches on, in all ranks, and prints "
               "the parts of a step, the lines of your code that they come from, and the findings "
               "with their fixes. No code is changed. With --steps or "
               "--duration the measuring ends early and the command goes on. --probe none leaves "
               "the job untouched. With --pid a job that runs already is profiled as it is: by its "
               "GPUs, its threads, py-spy's stacks, and a trace where it was started with "
               "KINETO_USE_DAEMON=1.",
               Takes::options_and_command, configure_profile},
    CommandRow{"trace",
               "ask running PyTorch processes for a trace, all ranks at once, and analyse it",
               "Acts as the daemon that PyTorch's profiler asks, for processes that were started "
               "with KINETO_USE_DAEMON=1 (lockstep launch --probe and "
               "lockstep profile see to that): all ranks start at the same moment, the files are "
               "brought to a folder, and the report is that of "
               "lockstep diagnose. No code is changed. Steps aside where another daemon answers.",
               Takes::options, configure_trace},
    CommandRow{"export", "serve signals, verdict and findings to Prometheus",
               "Watches like lockstep monitor and answers GET /metrics in Prometheus's text format "
               "and GET /-/ready, on loopback unless --listen says otherwise. "
               "A scrape takes what is known and never waits for the driver. Every metric starts "
               "with lockstep_; docs/fleet has a dashboard and alert rules.",
               Takes::options, configure_export},
    CommandRow{"doctor", "say what can be measured here, and what to do about each no",
               "Checks the machine and its container, limits, names, ports and clock, variables "
               "that do harm, the driver, modes and links of the GPUs, each signal and its cost, "
               "and lets ranks talk over Gloo and NCCL. Other machines with --nodes, all of "
               "data-parallel training with --ddp. Each answer is yes, no or unknown, with what "
               "was seen; ends with 1 when one is no.",
               Takes::options, configure_doctor},
    CommandRow{
        "explain", "explain a finding or an error message",
        "Prints the page of a finding: what it is, its cause, how it is known, what it may be "
        "confused with, the fix and "
        "an example. An error message in quotes finds its finding. Without a code prints the list.",
        Takes::options, configure_explain},
    CommandRow{
        "fix", "patch scripts, launch lines and configurations so that all GPUs work",
        "Reads a project as it is (Python, shell, sbatch, Makefiles, YAML, JSON), finds what holds "
        "the GPUs back, and shows each "
        "patch as a diff with its reason, its safety and its effect. Writes only with --apply, all "
        "files of a patch or none; "
        "--undo takes it back exactly. `# lockstep: ignore[CODE]` on a line keeps it as it is.",
        Takes::options_and_command, configure_fix},
    CommandRow{"plan", "choose the strategy and settings that fit a machine and a model",
               "From the machine (this one, or any: --gpus 8xH100-80GB --nodes 4) and the model (a "
               "name, a size, its files) chooses how GPUs share the work, "
               "the batch, and the settings around it; predicts memory, time of a step and speedup "
               "with an error range; and writes the files that start it. "
               "A script after -- is put into them. Ends with 1 when the model fits nowhere: by "
               "how much, and what would do.",
               Takes::options_and_command, configure_plan},
    CommandRow{"launch", "start the ranks of a training script, as torchrun does",
               "Starts one process a rank with torchrun's flags, environment and log files, in "
               "milliseconds. All ranks end together "
               "when one fails; the first failure is named with its reason, and its exit code is "
               "the launcher's. Nothing is left "
               "behind, whoever is killed.",
               Takes::its_own_words, configure_launch},
    CommandRow{"train", "train the reference model with settings that fit this machine",
               "Chooses what is left open (devices, how they share the work, batch, precision, "
               "workers, buckets), says each choice and "
               "its reason, and starts one lockstep-train a device, as lockstep launch does. A "
               "config file has the same names as the flags.",
               Takes::options, configure_train},
    CommandRow{"bench", "measure how training grows with devices, or the published presets",
               "bench scaling trains on 1, 2, 4 ... devices, alone, split, as DataParallel and as "
               "DDP, with several bucket sizes and passes, by turns, and prints speed, speedup, "
               "efficiency and where the time goes; "
               "fits what more devices would bring, and shows what guides published beside it. "
               "bench presets measures four published settings. A script after -- is measured "
               "instead of lockstep-train, on as many devices.",
               Takes::options_and_command, configure_bench},
    CommandRow{"help", "explain a command", "Prints the options of a command.", Takes::options,
               configure_help},
    CommandRow{"completions", "print completions for bash, zsh or fish",
               "Prints a completion script for your shell, made from this very table of commands.",
               Takes::options, configure_completions},
    CommandRow{"man", "print the manual page",
               "Prints the manual page in roff: lockstep man | man -l -", Takes::options,
               configure_man},
};

// Options and commands known at this point of the line, for "did you mean".
std::vector<std::string> known_words(const CLI::App& app, bool options) {
  std::vector<std::string> words;
  if (options) {
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  } else {
    for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
  }
  return words;
}

// CLI11's complaint in our words, with the nearest known word.
Error explain(const CLI::ParseError& problem, const CommandLine& line,
              const std::vector<std::string>& words) {
  const CLI::App* active = &line.app;
  for (const auto& [command, run] : line.runs)
    if (command->parsed()) active = command;
  const std::string help = active == &line.app
                               ? "see `lockstep help`"
                               : fmt::format("see `lockstep help {}`", active->get_name());
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    const bool is_option = name.starts_with("-") && name.size() > 1;
    if (!is_option && (active != &line.app)) continue;
    const auto known = known_words(*active, is_option);
    if (std::ranges::find(known, name) != known.end()) continue;
    if (is_option && name.size() == 2) continue;
    if (problem.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError) &&
        problem.get_exit_code() != static_cast<int>(CLI::ExitCodes::RequiredError))
      continue;
    const auto near = nearest(name, known);
    return usage_error(
        fmt::format("unknown {} '{}'", is_option ? "option" : "command", printable(name)),
        near ? fmt::format("did you mean `{}`? {}", *near, help) : help);
  }
  return usage_error(printable(problem.what()), help);
}

int finish(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  // A thread that is stuck in the driver cannot be joined; leaving through exit() would wait for
  // it.
  if (Poller::any_left_behind()) ::_exit(code);
  return code;
}

// What stands after the first --, and the words before it.
std::optional<std::vector<std::string>> split_off_command(std::vector<std::string>& words) {
  const auto separator = std::ranges::find(words, "--");
  if (separator == words.end()) return std::nullopt;
  std::vector<std::string> command(separator + 1, words.end());
  words.erase(separator, words.end());
  return command;
}

const CommandRow* row_named(const std::string& name) {
  for (const CommandRow& row : kCommands)
    if (name == row.name) return &row;
  return nullptr;
}

bool asks_for_help(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size() && words[i].starts_with("-"); ++i)
    if (words[i] == "-h" || words[i] == "--help") return true;
  return false;
}

Result<int> dispatch(std::vector<std::string> words) {
  const auto line = make_command_line();
  if (const CommandRow* const row = words.empty() ? nullptr : row_named(words.front());
      row != nullptr && row->takes == Takes::its_own_words && !asks_for_help(words)) {
    line->raw.command.assign(words.begin() + 1, words.end());
    for (const auto& [sub, run] : line->runs)
      if (sub->get_name() == words.front()) return run();
  }
  const auto command = split_off_command(words);
  // CLI11 takes them from the back
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    line->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* topic = &line->app;
    for (const auto& [sub, run] : line->runs)
      if (sub->parsed()) topic = sub;
    fmt::print("{}", topic == &line->app ? topic->help() : topic->help("lockstep"));
    return exit_code::kDone;
  } catch (const CLI::ParseError& problem) {
    return explain(problem, *line, words);
  }
  if (line->version) {
    fmt::print("{}", version_text());
    return exit_code::kDone;
  }
  for (const auto& [sub, run] : line->runs) {
    if (!sub->parsed()) continue;
    if (command && row_named(sub->get_name())->takes != Takes::options_and_command)
      return usage_error(fmt::format("`lockstep {}` takes no command after --", sub->get_name()),
                         fmt::format("see `lockstep help {}`", sub->get_name()));
    if (command && command->empty())
      return usage_error("no command after --", "write it: -- python train.py");
    line->raw.command = command.value_or(std::vector<std::string>{});
    return run();
  }
  fmt::print("{}", line->app.help());
  return exit_code::kUsage;
}

}  // namespace

std::span<const CommandRow> all_commands() { return kCommands; }

std::unique_ptr<CommandLine> make_command_line() {
  auto line = std::make_unique<CommandLine>();
  line->app.name("lockstep");
  line->app.set_help_flag("-h,--help", "print this help");
  line->app.add_flag("--version", line->version,
                     "print the version, the commit and what is built in");
  line->app.require_subcommand(0, 1);
  line->app.footer(
      "Exit codes: 0 done, 1 findings, 2 usage, 3 could not measure, 4 the command failed, 130 "
      "interrupted.");
  for (const CommandRow& row : kCommands) {
    CLI::App* const sub = line->app.add_subcommand(row.name, row.summary);
    sub->footer(row.description);
    sub->set_help_flag("-h,--help", "print this help");
    line->runs.emplace_back(sub, row.configure(*sub, line->raw));
  }
  return line;
}

int run_command_line(int argc, char** argv) {
  try {
    Result<int> result = dispatch(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    return finish(result ? *result : report_error(result.error()));
  } catch (const std::exception& problem) {
    say(
        fmt::format("lockstep: error: {}\n  next: this is a fault of lockstep; please report it "
                    "with the command line\n",
                    printable(problem.what())));
    return finish(exit_code::kCannotMeasure);
  }
}

}  // namespace lockstep
