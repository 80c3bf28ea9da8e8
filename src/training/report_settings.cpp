#include "training/report_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

// A finding, the setting that answers it, and the setting's new value.
struct Answer {
  const char* code;
  const char* setting;
  std::string (*value)(const TrainSettings& now);
};

std::string at_least(std::int64_t now, std::int64_t least) {
  return std::to_string(std::max(now, least));
}
std::string yes(const TrainSettings&) { return "true"; }
std::string no(const TrainSettings&) { return "false"; }

const Answer kAnswers[] = {
    {"P101", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"P102", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"P103", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"P105", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"P106", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"X701", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"D201", "workers", [](const TrainSettings& now) { return at_least(now.workers, 4); }},
    {"D202", "workers", [](const TrainSettings& now) { return at_least(now.workers, 4); }},
    {"D203", "pin-memory", yes},
    {"D204", "parallel", [](const TrainSettings&) -> std::string { return "ddp"; }},
    {"S301", "log-every", [](const TrainSettings& now) { return at_least(now.log_every, 10); }},
    {"S302", "log-every", [](const TrainSettings& now) { return at_least(now.log_every, 10); }},
    {"S303", "save-every",
     [](const TrainSettings& now) { return std::to_string(now.save_every * 10); }},
    {"S305", "batch-size",
     [](const TrainSettings& now) { return std::to_string(now.batch_size * 2); }},
    {"C402", "batch-size",
     [](const TrainSettings& now) { return std::to_string(now.batch_size * 2); }},
    {"C404", "find-unused", no},
    {"C409", "log-every", [](const TrainSettings& now) { return at_least(now.log_every, 10); }},
    {"B501", "batch-size",
     [](const TrainSettings& now) { return std::to_string(now.batch_size * 2); }},
    {"B502", "activation-checkpointing", yes},
    {"B503", "precision", [](const TrainSettings&) -> std::string { return "bf16"; }},
    {"B504", "accumulation",
     [](const TrainSettings& now) {
       return std::to_string(std::max<std::int64_t>(1, now.accumulation / 2));
     }},
    {"B506", "activation-checkpointing", yes},
    {"X706", "drop-last", yes},
    {"X707", "save-total-limit",
     [](const TrainSettings& now) {
       return std::to_string(std::max<std::int64_t>(1, now.save_total_limit));
     }},
};

std::string text_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<std::vector<Choice>> settings_in_report(const std::string& report_json,
                                               const TrainSettings& now) {
  const auto report = nlohmann::json::parse(report_json, nullptr, false);
  if (!report.is_object() || !report.contains("lockstep_report"))
    return Error{"--from: this is no report of lockstep",
                 "make one: lockstep diagnose --json -o report.json"};
  std::vector<Choice> choices;
  const auto findings = report.find("findings");
  if (findings == report.end() || !findings->is_array()) return choices;
  for (const auto& finding : *findings) {
    if (!finding.is_object()) continue;
    const std::string code = text_of(finding, "code");
    for (const Answer& answer : kAnswers) {
      if (code != answer.code) continue;
      // The first of two: findings come by what they cost.
      if (std::ranges::any_of(choices,
                              [&](const Choice& made) { return made.setting == answer.setting; }))
        continue;
      choices.push_back({answer.setting, answer.value(now),
                         fmt::format("{} {} in the report", code, text_of(finding, "name"))});
    }
  }
  return choices;
}

}  // namespace lockstep
