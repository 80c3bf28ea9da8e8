#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "advice/finding_pages.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

const FindingName* finding_asked_for(const std::string& word) {
  std::string upper = word;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const FindingName* const by_id = finding_named(upper);
  return by_id != nullptr ? by_id : finding_named(word);
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

std::string list_of_findings() {
  std::string text = "Findings (lockstep explain CODE):\n\n";
  for (const FindingName& row : kFindingNames)
    text += fmt::format("  {}  {:28}  {}\n", row.id, row.name, row.summary);
  return text;
}

Result<int> explain_code(const RawOptions& raw, const std::string& asked) {
  auto options = TRY(check(raw));
  if (asked.empty()) {
    TRY(put_result(options, list_of_findings()));
    return exit_code::kDone;
  }
  std::string lead;
  const FindingName* name = finding_asked_for(asked);
  if (name == nullptr)
    if (const auto matched = match_message(asked)) {
      const KnownMessage* const message = matched->message;
      name = &name_of(message->code);
      lead = fmt::format("This message {} {} {}.\n\ncause: {}\nfix: {}\n\n",
                         matched->sure ? "means" : "often means", name->id, name->name,
                         message->cause, message->fix);
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
    TRY(put_result(options, lead + painted(page.text, options.colors)));
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
