#include <fmt/format.h>

#include <string>

#include "commands/cli11_line.hpp"
#include "commands/version.hpp"

namespace lockstep {
namespace {

// roff takes a leading dot or quote as a request, and a plain dash as a hyphen.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\')
      safe += "\\e";
    else if (letter == '-')
      safe += "\\-";
    else
      safe += letter;
  }
  if (!safe.empty() && (safe.front() == '.' || safe.front() == '\'')) safe.insert(0, "\\&");
  return safe;
}

std::string option_names(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames())
    names += (names.empty() ? "--" : ", --") + name;
  if (names.empty()) return option.get_name(true);  // a positional one
  const bool takes_value = option.get_items_expected_max() > 0;
  return takes_value ? names + " " + option.get_type_name() : names;
}

std::string man_page() {
  const auto line = make_command_line();
  std::string page = fmt::format(
      ".TH LOCKSTEP 1 \"\" \"lockstep {}\" \"User Commands\"\n"
      ".SH NAME\nlockstep \\- tells you why your GPUs are not busy\n"
      ".SH SYNOPSIS\n.B lockstep\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fIINPUT\\fR] [\\-\\- "
      "\\fICMD\\fR...]\n"
      ".SH DESCRIPTION\nlockstep watches GPUs and the processes on them from outside, with no "
      "change to any program.\n"
      "An \\fIINPUT\\fR is known by its content: nothing for this machine\\(aqs GPUs, "
      "\\fBvirtual:2\\fR for two virtual\n"
      "GPUs (CPU threads named vgpu0 and vgpu1), \\fBvirtual:FILE\\fR to play a recording, or a "
      "recording.\n"
      "Durations carry a unit: 100ms, 10s, 5m.\n.SH COMMANDS\n",
      version_number());
  for (const CommandRow& row : all_commands()) {
    page += fmt::format(".SS lockstep {}\n{}\n", row.name, roff(row.description));
    for (const CLI::Option* option : line->app.get_subcommand(row.name)->get_options())
      page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(option_names(*option)),
                          roff(option->get_description()));
  }
  page +=
      ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nfindings\n.TP\n2\nusage\n.TP\n3\ncould not measure: "
      "no NVML, no GPU, unreadable "
      "input\n.TP\n4\nthe command after \\-\\- failed\n.TP\n130\ninterrupted\n"
      ".SH FILES\n\\fI$XDG_CONFIG_HOME/lockstep/config.json\\fR: defaults for interval, duration, "
      "gpus, format, color, quiet\n"
      ".SH ENVIRONMENT\n.TP\nNO_COLOR\nno colours\n.TP\nLOCKSTEP_VIRTUAL_SCOPE\nonly processes "
      "with the same value count as "
      "work of virtual GPUs\n";
  return page;
}

}  // namespace

Run configure_man(CLI::App&, RawOptions&) {
  return []() -> Result<int> {
    fmt::print("{}", man_page());
    return exit_code::kDone;
  };
}

}  // namespace lockstep
