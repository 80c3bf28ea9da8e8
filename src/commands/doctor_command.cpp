#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "doctor/doctor_checks.hpp"
#include "doctor/node_checks.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "runs/trainer_program.hpp"

namespace lockstep {
namespace {

const char* word_of(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "unknown";
}

// Groups in the order of their first check, each in one piece.
Checks by_group(const Checks& checks) {
  std::vector<std::string> groups;
  for (const Check& check : checks)
    if (std::ranges::find(groups, check.group) == groups.end()) groups.push_back(check.group);
  Checks ordered;
  for (const std::string& group : groups)
    std::ranges::copy_if(checks, std::back_inserter(ordered),
                         [&](const Check& check) { return check.group == group; });
  return ordered;
}

std::string as_text(const Checks& checks, Colors colors) {
  const auto painted = [&](const std::string& text, const char* code) {
    return colors == Colors::on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::string text;
  std::string group;
  for (const Check& check : checks) {
    if (check.group != group)
      text += fmt::format("{}{}\n", group.empty() ? "" : "\n", painted(check.group, "1"));
    group = check.group;
    const std::string word = check.answer == Answer::yes  ? painted("yes ", "32")
                             : check.answer == Answer::no ? painted("no  ", "33")
                                                          : painted("?   ", "2");
    text += fmt::format("  {}{}: {}\n", word, check.question, printable(check.detail));
    if (!check.next.empty()) text += fmt::format("      next: {}\n", check.next);
  }
  return text +
         "\nlockstep reads NVIDIA GPUs on Linux (x86_64 and aarch64). On Windows it runs inside "
         "WSL2 with fewer "
         "signals;\nmacOS has no NVIDIA driver: recordings and logs from a Linux machine can be "
         "read there in a Linux VM.\n";
}

std::string as_json(const Checks& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks)
    list.push_back({{"group", check.group},
                    {"question", check.question},
                    {"answer", word_of(check.answer)},
                    {"detail", check.detail},
                    {"next", check.next.empty() ? nlohmann::ordered_json(nullptr)
                                                : nlohmann::ordered_json(check.next)}});
  const nlohmann::ordered_json report = {{"lockstep_doctor", 1}, {"checks", list}};
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

struct DoctorWords {
  bool ddp = false;
  bool quick = false;
  std::string ranks;
  std::string nodes;
  std::string port;
  std::string answer;
};

Result<int> number_within(const std::string& text, const char* name, int least, int most,
                          int usual) {
  if (text.empty()) return usual;
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most)
    return usage_error(
        fmt::format("{} {} is no number from {} to {}", name, printable(text), least, most),
        fmt::format("give one: {} {}", name, usual > 0 ? usual : least));
  return static_cast<int>(*number);
}

Result<int> answer_others(const RunOptions& options, int port) {
  watch_for_interrupts();
  if (!options.quiet)
    say(
        fmt::format("lockstep: answering on port {}; ask from another machine: lockstep doctor "
                    "--nodes {} --port {}\n",
                    port, host_name(), port));
  const auto begun = monotonic_now();
  const Status answered = answer_nodes(
      port,
      [&] {
        return interrupted_by() != 0 ||
               (options.duration && monotonic_now() - begun >= *options.duration);
      },
      [&](const std::string& who) {
        if (!options.quiet) say(fmt::format("lockstep: {} asked\n", who));
      });
  if (!answered) return answered.error();
  return exit_code::kDone;  // it answers until it is stopped: that is no interruption
}

// The programs that are run: nothing where they are not wanted.
std::optional<CommunicationOptions> programs_to_run(const DoctorWords& words,
                                                    const RunOptions& options, int ranks) {
  if (words.quick && !words.ddp) return std::nullopt;
  CommunicationOptions programs;
  programs.launcher = (executable_folder() / "lockstep").string();
  auto trainer = trainer_program();
  if (trainer)
    programs.trainer = *trainer;
  else
    programs.why_no_trainer = trainer.error().what;
  programs.gpus = options.input.empty() && trainer ? train_machine().gpus : 0;
  programs.speed = !words.quick;
  programs.ddp = words.ddp;
  programs.ranks = ranks;
  return programs;
}

Result<int> doctor(const RawOptions& raw, const DoctorWords& words) {
  auto options = TRY(check(raw));
  if (!options.input.empty() && !options.input.starts_with("virtual:"))
    return usage_error(
        fmt::format("doctor looks at live GPUs, not at files: {}", printable(options.input)),
        "run `lockstep doctor`, or `lockstep doctor virtual:2`");
  auto port = TRY(number_within(words.port, "--port", 1, 65535, kUsualPort));
  auto ranks = TRY(number_within(words.ranks, "--ranks", 1, 64, 0));
  if (ranks > 0 && !words.ddp)
    return usage_error("--ranks is for --ddp", "lockstep doctor --ddp --ranks 4");
  if (!words.answer.empty()) {
    auto own = TRY(number_within(words.answer, "--answer", 1, 65535, kUsualPort));
    return answer_others(options, own);
  }
  DoctorOptions how;
  how.input = options.input;
  how.port = port;
  how.port_given = !words.port.empty();
  for (const std::string_view node : split(words.nodes, ','))
    if (!trim(node).empty()) how.nodes.emplace_back(trim(node));
  how.communication = programs_to_run(words, options, ranks);
  if (how.communication && !how.communication->trainer.empty() && !options.quiet &&
      ::isatty(STDERR_FILENO) == 1)
    say("lockstep: starting ranks that talk to each other, some seconds; --quick leaves them "
        "out\n");
  watch_for_interrupts();
  const Checks checks = by_group(run_checks(how));
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  const std::string text =
      options.format == Format::json ? as_json(checks) : as_text(checks, options.colors);
  TRY(put_result(options, text));
  for (const Check& check : checks)
    if (check.answer == Answer::no) return exit_code::kFindings;
  return exit_code::kDone;
}

}  // namespace

Run configure_doctor(CLI::App& app, RawOptions& raw) {
  auto words = std::make_shared<DoctorWords>();
  app.add_option("INPUT", raw.input, "virtual:2 to check virtual GPUs instead of this machine's");
  app.add_flag("--ddp", words->ddp,
               "run ranks through collectives, shards of data and a training step, with values "
               "that are checked");
  app.add_option("--ranks", words->ranks, "of --ddp (default: one a GPU, two at least)")
      ->type_name("N");
  app.add_flag("--quick", words->quick, "run no programs: leaves out NCCL's and Gloo's speed");
  app.add_option("--nodes", words->nodes, "other machines to be reached: node2,node3")
      ->type_name("LIST");
  app.add_option("--port", words->port, "that jobs meet on (default 29500)")->type_name("PORT");
  app.add_option("--answer", words->answer,
                 "answer other machines' --nodes on this port until Ctrl-C")
      ->type_name("PORT");
  app.add_option("--duration", raw.duration, "of --answer: how long")->type_name("DURATION");
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [words, &raw] { return doctor(raw, *words); };
}

}  // namespace lockstep
