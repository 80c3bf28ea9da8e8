#include "runs/monitor_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.hpp"
#include "base/text.hpp"
#include "render/tui/time_view.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPart = "monitor";

struct Switch {
  const char* name;
  bool MonitorSetup::* value;
};
constexpr std::array<Switch, 5> kSwitches = {{{"steps", &MonitorSetup::show_steps},
                                              {"ranks", &MonitorSetup::show_ranks},
                                              {"findings", &MonitorSetup::show_findings},
                                              {"colors", &MonitorSetup::colors},
                                              {"ascii", &MonitorSetup::ascii}}};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return result;
}

Error wrong(const std::filesystem::path& file, const std::string& key, const std::string& next) {
  return usage_error(
      fmt::format("{}: 'monitor.{}' cannot be used", printable(file.string()), printable(key)),
      next);
}

Status take(const std::filesystem::path& file, const std::string& key, const Json& value,
            MonitorSetup& setup) {
  for (const Switch& row : kSwitches)
    if (key == row.name) {
      if (!value.is_boolean()) return wrong(file, key, "write true or false");
      setup.*(row.value) = value.get<bool>();
      return Done{};
    }
  if (key == "lanes") {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kQuantities; ++i) {
      names.push_back(lower(kQuantityNames[i]));
      if (value.is_string() && lower(value.get<std::string>()) == names.back()) {
        setup.lanes = static_cast<Quantity>(i);
        return Done{};
      }
    }
    return wrong(file, key, "use one of " + join(names, ", "));
  }
  if (key == "column") {
    auto duration = value.is_string() ? parse_duration(value.get<std::string>())
                                      : Result<std::chrono::nanoseconds>(Error{});
    const double ms = duration ? static_cast<double>(duration->count()) / 1e6 : 0;
    if (ms < kColumnMs.front() || ms > kColumnMs.back())
      return wrong(file, key, "write a time from 20ms to 5m, such as \"200ms\"");
    setup.column_ms = ms;
    return Done{};
  }
  std::vector<std::string> known = {"lanes", "column"};
  for (const Switch& row : kSwitches) known.emplace_back(row.name);
  const auto near = nearest(key, known);
  return usage_error(
      fmt::format("{}: unknown key 'monitor.{}'", printable(file.string()), printable(key)),
      near ? fmt::format("did you mean '{}'?", *near) : "known keys: " + join(known, ", "));
}

}  // namespace

Result<MonitorSetup> load_monitor_setup(const std::filesystem::path& config) {
  MonitorSetup setup;
  const auto text = config.empty() ? std::nullopt : read_small_file(config);
  if (!text) return setup;
  const auto parsed = Json::parse(*text, nullptr, false);
  // what is wrong with the rest is told elsewhere
  if (!parsed.is_object() || !parsed.contains(kPart)) return setup;
  for (const auto& [key, value] : parsed[kPart].items()) TRY(take(config, key, value, setup));
  return setup;
}

Status save_monitor_setup(const std::filesystem::path& config, const MonitorSetup& setup) {
  Json content = Json::object();
  const auto text = read_small_file(config);
  std::error_code unknown;
  if (!text && std::filesystem::exists(config, unknown))
    return cannot_read(config, errno != 0 ? errno : EACCES);
  if (text) {
    content = Json::parse(*text, nullptr, false);
    if (!content.is_object())
      return Error{fmt::format("{} is not a JSON object", printable(config.string())),
                   "mend or remove it"};
  }
  Json part = Json::object();
  part["lanes"] = lower(kQuantityNames[static_cast<std::size_t>(setup.lanes)]);
  part["column"] = fmt::format("{:.0f}ms", setup.column_ms);
  for (const Switch& row : kSwitches) part[row.name] = setup.*(row.value);
  content[kPart] = std::move(part);
  std::error_code problem;
  std::filesystem::create_directories(config.parent_path(), problem);
  return write_file_atomically(config, content.dump(2) + "\n");
}

}  // namespace lockstep
