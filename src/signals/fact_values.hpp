// The values of a probe's fact, as what they stand for.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/record.hpp"

namespace lockstep {

class FactValues {
 public:
  explicit FactValues(const ProbeFact& fact) : fact_(fact) {}

  std::optional<double> number(const char* name) const {
    const auto found = fact_.values.find(name);
    return found == fact_.values.end() ? std::nullopt : parse(found->second);
  }
  std::optional<int> integer(const char* name) const {
    const auto value = number(name);
    return value && *value > -2e9 && *value < 2e9 ? std::optional(static_cast<int>(*value))
                                                  : std::nullopt;
  }
  bool yes(const char* name) const { return number(name).value_or(0) > 0; }
  std::string word(const char* name) const {
    const auto found = fact_.values.find(name);
    return found == fact_.values.end() ? std::string() : found->second;
  }

 private:
  static std::optional<double> parse(std::string_view text) {
    double value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    return problem == std::errc() && end == text.data() + text.size() && std::isfinite(value)
               ? std::optional(value)
               : std::nullopt;
  }

  const ProbeFact& fact_;
};

}  // namespace lockstep
