#include "training/train_flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

std::string type_name_of(const SettingRow& row) {
  if (row.choices.size() > 10) return "NAME";
  if (!row.choices.empty())
    return join(std::vector<std::string>(row.choices.begin(), row.choices.end()), "|");
  if (std::holds_alternative<std::chrono::nanoseconds TrainSettings::*>(row.member))
    return "DURATION";
  if (std::holds_alternative<std::string TrainSettings::*>(row.member)) return "TEXT";
  return std::holds_alternative<double TrainSettings::*>(row.member) ? "NUMBER" : "N";
}

// CLI11's complaint in our words.
Error explain_flags(const CLI::ParseError& problem, const CLI::App& app,
                    const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::ranges::find(known, name) != known.end()) continue;
    const auto near = nearest(name, known);
    return usage_error(fmt::format("unknown option '{}'", printable(name)),
                       near ? fmt::format("did you mean `{}`?", *near)
                            : std::string("see `lockstep-train --help`"));
  }
  return usage_error(printable(problem.what()), "see `lockstep train --help`");
}

}  // namespace

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  const TrainSettings defaults;
  for (const SettingRow& row : all_settings()) {
    const std::string name = row.name;
    const std::string value = setting_text(defaults, row);
    if (is_switch(row)) {
      // Two flags, of which help shows the one that changes something.
      for (const bool on : {true, false})
        app.add_flag_function(
               (on ? "--" : "--no-") + name,
               [&flags, name, on](std::int64_t) {
                 flags.typed.emplace_back(name, on ? "true" : "false");
               },
               value == "true" ? fmt::format("not: {} (default: yes)", row.help) : row.help)
            ->group(on == (value == "true") ? "" : row.group);
      continue;
    }
    app.add_option_function<std::string>(
           "--" + name,
           [&flags, name](const std::string& text) { flags.typed.emplace_back(name, text); },
           value.empty() || value == "0" ? row.help
                                         : fmt::format("{} (default: {})", row.help, value))
        ->type_name(type_name_of(row))
        // as argparse: a wrapper's flags, then the user's
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->group(row.group);
  }
  app.add_option("--config", flags.config,
                 "a JSON file with the same names as the flags; flags win")
      ->type_name("FILE");
  app.add_option("--preset", flags.preset, "published values: standard or fast")->type_name("NAME");
  app.add_flag("--print-config", flags.print_config, "print the settings as a config file and end");
}

Result<TrainSettings> settings_from(const TrainFlags& flags, std::vector<std::string>* given) {
  TrainSettings settings;
  std::vector<std::string> set;
  if (!flags.preset.empty()) {
    TRY(apply_preset(settings, flags.preset));
    for (const char* name : {"batch-size", "accumulation", "log-every", "workers", "pin-memory",
                             "find-unused", "save-total-limit"})
      set.emplace_back(name);
  }
  if (!flags.config.empty()) {
    const auto text = read_small_file(flags.config);
    if (!text)
      return usage_error(
          fmt::format("--config {}: {}", printable(flags.config), std::strerror(errno)),
          "make one: lockstep train --print-config > FILE");
    TRY(read_train_config(settings, *text, flags.config, set));
  }
  for (const auto& [name, text] : flags.typed) {
    if (Status done = set_setting(settings, name, text); !done)
      return usage_error("--" + done.error().what, done.error().next);
    set.push_back(name);
  }
  if (given != nullptr) *given = std::move(set);
  return settings;
}

Result<TrainLine> read_train_line(int argc, const char* const* argv) {
  CLI::App app{"lockstep-train trains a GPT on one device or many"};
  TrainLine line;
  add_train_flags(app, line.flags);
  app.add_flag("--list-faults", line.list_faults,
               "the faults that --fault knows: name, finding, who sees it, what it does");
  app.add_option("--selftest", line.self_test,
                 "check what ranks say to each other: collectives, gloo, nccl or ddp")
      ->type_name("NAME");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.help = app.help();
  } catch (const CLI::ParseError& problem) {
    return explain_flags(problem, app, {argv + 1, argv + argc});
  }
  return line;
}

}  // namespace lockstep
