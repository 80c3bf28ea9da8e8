// Fields of a JSON object as the recording's readers take them: one of another type than expected
// is as if it were not there.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::json_fields {

using Json = nlohmann::ordered_json;

template <class T>
void take(const Json& json, const char* name, T& into) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) into = found->template get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) into = found->template get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!found->is_number_integer()) return;
    if (found->is_number_unsigned()) {
      if (const auto value = found->template get<std::uint64_t>(); std::in_range<T>(value))
        into = static_cast<T>(value);
    } else if (const auto value = found->template get<std::int64_t>(); std::in_range<T>(value)) {
      into = static_cast<T>(value);
    }
  } else {
    if (!found->is_number()) return;
    if (const auto value = found->template get<double>(); std::isfinite(value)) into = value;
  }
}

template <class T>
void take(const Json& json, const char* name, std::optional<T>& into) {
  T value{};
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return;
  take(json, name, value);
  into = value;
}

inline Json object_of(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

inline std::vector<Json> list_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  std::vector<Json> list;
  if (found == json.end() || !found->is_array()) return list;
  for (const Json& entry : *found)
    if (entry.is_object()) list.push_back(entry);
  return list;
}

}  // namespace lockstep::json_fields
