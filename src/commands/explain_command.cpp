#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "advice/finding_pages.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "fix/rule.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

const FindingName* finding_named(const std::string& word) {
  std::string upper = word;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const FindingName& name : kFindingNames)
    if (upper == name.id || word == name.name) return &name;
  return nullptr;
}

// Headings in bold, and nothing else touched: the pages are written to be read as they are.
std::string painted(std::string_view page, Colors colors) {
  if (colors == Colors::off) return std::string(page);
  std::string text;
  for (const std::string_view line : split(page, '\n')) {
    const bool heading = line.starts_with("#");
    text += heading ? fmt::format("\x1b[1m{}\x1b[0m\n", line) : fmt::format("{}\n", line);
  }
  if (text.ends_with("\n\n")) text.pop_back();
  return text;
}

// Commands that a page names and this version does not have.
std::string note_on_commands(std::string_view page) {
  constexpr std::array<std::string_view, 9> kToCome = {
      "demo", "profile", "trace", "fix", "plan", "launch", "train", "bench", "export"};
  std::vector<std::string> missing;
  for (const std::string_view word : kToCome) {
    const bool known = std::any_of(all_commands().begin(), all_commands().end(),
                                   [&](const CommandRow& row) { return word == row.name; });
    if (!known && page.find(fmt::format("lockstep {}", word)) != std::string_view::npos)
      missing.push_back(fmt::format("`lockstep {}`", word));
  }
  return missing.empty() ? std::string()
                         : fmt::format("\nThis version has no {} yet.\n", join(missing, ", "));
}

// A page speaks of code that this version's rules do not know yet.
std::string note_on_rules(std::string_view page, FindingCode code) {
  const bool promised = page.find("- code: `lockstep fix`") != std::string_view::npos;
  return promised && !fix_looks_for(code)
             ? "\nThis version's `lockstep fix` does not look for this yet.\n"
             : "";
}

std::string list_of_findings() {
  std::string text = "Findings (lockstep explain CODE):\n\n";
  for (const FindingName& name : kFindingNames)
    text += fmt::format("  {}  {}\n", name.id, name.name);
  return text;
}

Result<int> explain_code(const RawOptions& raw, const std::string& asked) {
  auto options = TRY(check(raw));
  if (asked.empty()) {
    TRY(put_result(options, list_of_findings()));
    return exit_code::kDone;
  }
  std::string lead;
  const FindingName* name = finding_named(asked);
  if (name == nullptr)
    if (const KnownMessage* const message = match_message(asked)) {
      name = &name_of(message->code);
      lead = fmt::format("This message means {} {}.\n\ncause: {}\nfix: {}\n\n", name->id,
                         name->name, message->cause, message->fix);
    }
  if (name == nullptr) {
    std::vector<std::string> known;
    for (const FindingName& entry : kFindingNames) {
      known.emplace_back(entry.id);
      known.emplace_back(entry.name);
    }
    const auto near = nearest(asked, known);
    return usage_error(fmt::format("'{}' is no finding and no message that lockstep knows",
                                   printable(std::string_view(asked).substr(0, 80))),
                       near ? fmt::format("did you mean `lockstep explain {}`?", *near)
                            : "`lockstep explain` lists the findings");
  }
  for (const FindingPage& page : finding_pages()) {
    if (page.id != name->id) continue;
    TRY(put_result(options, lead + painted(page.text, options.colors) +
                                note_on_commands(page.text) +
                                note_on_rules(page.text, name->code)));
    return exit_code::kDone;
  }
  return Error{fmt::format("{} has no page in this build", name->id),
               "this is a fault of lockstep; please report it"};
}

}  // namespace

Run configure_explain(CLI::App& app, RawOptions& raw) {
  auto asked = std::make_shared<std::vector<std::string>>();
  app.add_option(
      "CODE", *asked,
      "a finding's code (P101), its name, or an error message in quotes; nothing: the list");
  app.add_option("-o,--output", raw.output,
                 "write the page to this file instead of standard output")
      ->type_name("FILE");
  app.add_option("--color", raw.color, "auto, always or never (NO_COLOR is honoured)")
      ->type_name("WHEN");
  add_common_options(app, raw);
  return [asked, &raw] { return explain_code(raw, join(*asked, " ")); };
}

}  // namespace lockstep
