// The report of `lockstep diagnose` for a person at a terminal: verdict, lanes, findings with cost
// and fix.
#pragma once

#include <cstddef>
#include <optional>

#include "lockstep/renderer.hpp"

namespace lockstep {

class DiagnosisText : public Renderer {
 public:
  explicit DiagnosisText(Colors colors = Colors::off,
                         std::optional<std::size_t> width = std::nullopt)
      : colors_(colors), width_(width) {}
  std::string render(const Report& report) const override;

 private:
  Colors colors_;
  std::optional<std::size_t> width_;  // of the terminal; nothing: 100
};

}  // namespace lockstep
