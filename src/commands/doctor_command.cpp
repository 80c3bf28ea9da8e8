#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "doctor/doctor_checks.hpp"

namespace lockstep {
namespace {

const char* word_of(Answer answer) { return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "note"; }

std::string as_text(const std::vector<Check>& checks, Colors colors) {
  const auto painted = [&](const std::string& text, const char* code) {
    return colors == Colors::on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::string text;
  std::string group;
  for (const Check& check : checks) {
    if (check.group != group) text += fmt::format("{}{}\n", group.empty() ? "" : "\n", painted(check.group, "1"));
    group = check.group;
    const std::string word = check.answer == Answer::yes  ? painted("yes ", "32")
                             : check.answer == Answer::no ? painted("no  ", "33")
                                                          : "    ";
    text += fmt::format("  {}{}: {}\n", word, check.question, printable(check.detail));
    if (!check.next.empty()) text += fmt::format("      next: {}\n", check.next);
  }
  return text + "\nlockstep reads NVIDIA GPUs on Linux (x86_64 and aarch64). On Windows it runs inside WSL2 with fewer "
                "signals;\nmacOS has no NVIDIA driver: recordings and logs from a Linux machine can be read there in a Linux VM.\n";
}

std::string as_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks)
    list.push_back({{"group", check.group},
                    {"question", check.question},
                    {"answer", word_of(check.answer)},
                    {"detail", check.detail},
                    {"next", check.next.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(check.next)}});
  const nlohmann::ordered_json report = {{"lockstep_doctor", 1}, {"checks", list}};
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<int> doctor(const RawOptions& raw) {
  auto options = check(raw);
  if (!options) return std::move(options).error();
  if (!options->input.empty() && !options->input.starts_with("virtual:"))
    return usage_error(fmt::format("doctor looks at live GPUs, not at files: {}", printable(options->input)),
                       "run `lockstep doctor`, or `lockstep doctor virtual:2`");
  const std::vector<Check> checks = run_checks({.input = options->input});
  const std::string text = options->format == Format::json ? as_json(checks) : as_text(checks, options->colors);
  if (Status put = put_result(*options, text); !put) return std::move(put).error();
  for (const Check& check : checks)
    if (check.answer == Answer::no) return exit_code::kFindings;
  return exit_code::kDone;
}

}  // namespace

Run configure_doctor(CLI::App& app, RawOptions& raw) {
  app.add_option("INPUT", raw.input, "virtual:2 to check virtual GPUs instead of this machine's");
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [&raw] { return doctor(raw); };
}

}  // namespace lockstep
