// JSON values that several of the writers make.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

// To 1/steps; null where there is no number.
inline nlohmann::ordered_json rounded(double value, double steps) {
  using Json = nlohmann::ordered_json;
  return std::isfinite(value) ? Json(std::round(value * steps) / steps) : Json(nullptr);
}

// Metadata of a Chrome trace: the name of a process or of a thread.
inline nlohmann::ordered_json named(const char* what, int rank, std::int64_t row,
                                    const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

}  // namespace lockstep
