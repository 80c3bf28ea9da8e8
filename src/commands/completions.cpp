#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "commands/cli11_line.hpp"

namespace lockstep {
namespace {

struct CompletedOption {
  std::string name;  // with dashes
  std::string help;
};
struct CompletedCommand {
  std::string name;
  std::string help;
  std::vector<CompletedOption> options;
};

std::vector<CompletedCommand> completed_commands() {
  const auto line = make_command_line();
  std::vector<CompletedCommand> commands;
  for (const CommandRow& row : all_commands()) {
    CompletedCommand command{row.name, row.summary, {}};
    const CLI::App* const app = line->app.get_subcommand(row.name);
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames())
        command.options.push_back({"--" + name, option->get_description()});
      for (const std::string& name : option->get_snames())
        command.options.push_back({"-" + name, option->get_description()});
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string names_of(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> names;
  for (const CompletedCommand& command : commands) names.push_back(command.name);
  return join(names, " ");
}

std::string names_of(const CompletedCommand& command) {
  std::vector<std::string> names;
  for (const CompletedOption& option : command.options) names.push_back(option.name);
  return join(names, " ");
}

std::string bash(const std::vector<CompletedCommand>& commands) {
  std::string cases;
  for (const CompletedCommand& command : commands)
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name, names_of(command));
  return fmt::format(R"(# bash completion for lockstep: source <(lockstep completions bash)
_lockstep() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [[ $COMP_CWORD -eq 1 ]]; then
    words="{} --help --version"
  else
    case "${{COMP_WORDS[1]}}" in
{}    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current != -* && $COMP_CWORD -gt 1 ]] && COMPREPLY+=($(compgen -f -- "$current"))
  return 0
}}
complete -o filenames -F _lockstep lockstep
)",
                     names_of(commands), cases);
}

// A word inside single quotes of a zsh specification: brackets and colons would end it.
std::string zsh_quoted(const std::string& text) {
  std::string quoted;
  for (const char letter : text) {
    if (letter == '\'')
      quoted += "'\\''";
    else if (letter == '[' || letter == ']' || letter == ':')
      quoted += std::string("\\") + letter;
    else
      quoted += letter;
  }
  return quoted;
}

std::string zsh(const std::vector<CompletedCommand>& commands) {
  std::string list;
  std::string cases;
  for (const CompletedCommand& command : commands) {
    list += fmt::format("    '{}:{}'\n", command.name, zsh_quoted(command.help));
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const CompletedOption& option : command.options)
      cases += fmt::format(" \\\n        '{}[{}]'", option.name, zsh_quoted(option.help));
    cases += " \\\n        '*:file:_files'\n      ;;\n";
  }
  return fmt::format(R"(#compdef lockstep
# zsh completion for lockstep: lockstep completions zsh > "${{fpath[1]}}/_lockstep"
_lockstep() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command="${{words[2]}}"
  shift words; (( CURRENT-- ))
  case "$command" in
{}  esac
}}
compdef _lockstep lockstep
)",
                     list, cases);
}

std::string fish_quoted(const std::string& text) {
  std::string quoted;
  for (const char letter : text)
    quoted +=
        letter == '\'' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
  return quoted;
}

std::string fish(const std::vector<CompletedCommand>& commands) {
  std::string text = "# fish completion for lockstep: lockstep completions fish | source\n";
  for (const CompletedCommand& command : commands) {
    text += fmt::format("complete -c lockstep -n __fish_use_subcommand -a {} -d '{}'\n",
                        command.name, fish_quoted(command.help));
    for (const CompletedOption& option : command.options) {
      const bool is_long = option.name.starts_with("--");
      text += fmt::format(
          "complete -c lockstep -n '__fish_seen_subcommand_from {}' -{} {} -d '{}'\n", command.name,
          is_long ? 'l' : 's', option.name.substr(is_long ? 2 : 1), fish_quoted(option.help));
    }
  }
  return text;
}

}  // namespace

Run configure_completions(CLI::App& app, RawOptions&) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required();
  return [shell]() -> Result<int> {
    const auto commands = completed_commands();
    if (*shell == "bash")
      fmt::print("{}", bash(commands));
    else if (*shell == "zsh")
      fmt::print("{}", zsh(commands));
    else if (*shell == "fish")
      fmt::print("{}", fish(commands));
    else
      return usage_error(fmt::format("no completions for '{}'", printable(*shell)),
                         "choose bash, zsh or fish");
    return exit_code::kDone;
  };
}

}  // namespace lockstep
