#include "commands/config_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/shared_options.hpp"

namespace lockstep {
namespace {

struct Key {
  const char* name;
  std::string RawOptions::* text;
};
constexpr std::array<Key, 5> kTextKeys = {{{"interval", &RawOptions::interval},
                                           {"duration", &RawOptions::duration},
                                           {"gpus", &RawOptions::gpus},
                                           {"format", &RawOptions::format},
                                           {"color", &RawOptions::color}}};
constexpr const char* kQuietKey = "quiet";

constexpr const char* kMonitorKey = "monitor";  // read by the live screen itself

std::filesystem::path default_path() {
  if (const char* const folder = std::getenv("XDG_CONFIG_HOME");
      folder != nullptr && *folder != '\0')
    return std::filesystem::path(folder) / "lockstep/config.json";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".config/lockstep/config.json";
  return {};
}

Error unknown_key(const std::string& file, const std::string& key) {
  std::vector<std::string> known = {kQuietKey, kMonitorKey};
  for (const Key& entry : kTextKeys) known.emplace_back(entry.name);
  const auto near = nearest(key, known);
  return usage_error(fmt::format("{}: unknown key '{}'", printable(file), printable(key)),
                     near ? fmt::format("did you mean '{}'?", *near)
                          : fmt::format("known keys: {}", join(known, ", ")));
}

}  // namespace

std::filesystem::path config_path(const RawOptions& raw) {
  return raw.config.empty() ? default_path() : std::filesystem::path(raw.config);
}

Status fill_from_config(RawOptions& raw) {
  const bool named = !raw.config.empty();
  const std::filesystem::path path = config_path(raw);
  const auto text = path.empty() ? std::nullopt : read_small_file(path);
  if (!text && named) {
    Error error = cannot_read(path, errno != 0 ? errno : ENOENT);
    error.kind = ErrorKind::usage;
    return error;
  }
  if (!text) return Done{};

  const auto parsed = nlohmann::json::parse(*text, nullptr, false);
  if (!parsed.is_object())
    return usage_error(fmt::format("{} is not a JSON object", printable(path.string())),
                       R"(write it like this: {"interval": "200ms", "color": "never"})");
  for (const auto& [key, value] : parsed.items()) {
    if (key == kQuietKey) {
      if (!value.is_boolean())
        return usage_error(
            fmt::format("{}: 'quiet' is not true or false", printable(path.string())),
            "write \"quiet\": true");
      raw.quiet = raw.quiet || value.get<bool>();
      continue;
    }
    if (key == kMonitorKey) {
      if (!value.is_object())
        return usage_error(fmt::format("{}: 'monitor' is not an object", printable(path.string())),
                           R"(write it like this: "monitor": {"lanes": "power"})");
      continue;
    }
    const Key* found = nullptr;
    for (const Key& entry : kTextKeys)
      if (key == entry.name) found = &entry;
    if (found == nullptr) return unknown_key(path.string(), key);
    if (!value.is_string())
      return usage_error(fmt::format("{}: '{}' is not a text", printable(path.string()), key),
                         fmt::format("write it in quotes, as after --{}", key));
    if (std::string& target = raw.*(found->text); target.empty()) target = value.get<std::string>();
  }
  return Done{};
}

}  // namespace lockstep
