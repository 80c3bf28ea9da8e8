#include "launch/arguments/launch_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "launch/arguments/launch_arguments.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> words_of(const json& fix) {
  std::vector<std::string> words;
  if (const auto command = fix.find("command"); command != fix.end() && command->is_array())
    for (const json& word : *command)
      if (word.is_string()) words.push_back(word.get<std::string>());
  return words;
}

bool is_variable(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

void add_fix(const json& fix, const std::string& finding, std::vector<LaunchAdvice>& advice) {
  using Kind = LaunchAdvice::Kind;
  const auto words = words_of(fix);
  const std::string reason = fmt::format("{}: {}", finding, text_of(fix, "description"));
  if (text_of(fix, "kind") == "environment") {
    if (words.size() == 2 && words[0] == "unset" && is_variable(words[1]))
      advice.push_back({Kind::unset_variable, words[1], {}, reason});
    for (const std::string& word : words)
      if (const auto equals = word.find('=');
          equals != std::string::npos && is_variable(std::string_view(word).substr(0, equals)))
        advice.push_back(
            {Kind::set_variable, word.substr(0, equals), word.substr(equals + 1), reason});
  }
  if (text_of(fix, "kind") != "command" || words.empty() || words[0] != "torchrun") return;
  for (const std::string& word : words)
    for (const char* flag : {"--nproc_per_node=", "--nproc-per-node="})
      if (word.starts_with(flag))
        advice.push_back(
            {Kind::flag, "--nproc-per-node", word.substr(std::string_view(flag).size()), reason});
}

}  // namespace

Result<std::vector<LaunchAdvice>> advice_in_report(const std::string& report_json) {
  const json report = json::parse(report_json, nullptr, false);
  if (!report.is_object() || !report.contains("lockstep_report"))
    return Error{"--from: this is no report of lockstep",
                 "make one: lockstep diagnose --json -o report.json"};
  std::vector<LaunchAdvice> advice;
  const auto findings = report.find("findings");
  if (findings == report.end() || !findings->is_array()) return advice;
  for (const json& finding : *findings) {
    if (!finding.is_object()) continue;
    const std::string name =
        fmt::format("{} {}", text_of(finding, "code"), text_of(finding, "name"));
    if (const auto fixes = finding.find("fixes"); fixes != finding.end() && fixes->is_array())
      for (const json& fix : *fixes)
        if (fix.is_object()) add_fix(fix, name, advice);
  }
  return advice;
}

std::vector<std::string> take_advice(const std::vector<LaunchAdvice>& advice,
                                     LaunchSettings& settings) {
  std::vector<std::string> words;
  std::set<std::string> taken;
  for (const LaunchAdvice& item : advice) {
    // the first of two: findings come by what they cost
    if (!taken.insert(item.name).second) continue;
    switch (item.kind) {
      case LaunchAdvice::Kind::set_variable:
        settings.set_variables[item.name] = item.value;
        words.push_back(fmt::format("{}={}: {}", item.name, item.value, item.reason));
        break;
      case LaunchAdvice::Kind::unset_variable:
        settings.unset_variables.insert(item.name);
        words.push_back(fmt::format("without {}: {}", item.name, item.reason));
        break;
      case LaunchAdvice::Kind::flag: {
        if (settings.given.contains(item.name)) break;
        const auto flag = std::ranges::find(launch_flags(), item.name, &LaunchFlag::name);
        if (flag == launch_flags().end() || !flag->apply(item.value, settings)) break;
        words.push_back(fmt::format("{}{}{}: {}", item.name, item.value.empty() ? "" : "=",
                                    item.value, item.reason));
        break;
      }
    }
  }
  return words;
}

}  // namespace lockstep
