// The report of `lockstep fix` for a person: each patch with its reason, its safety, what it gains
// and changes, and its diff.
#pragma once

#include <cstddef>
#include <optional>

#include "lockstep/renderer.hpp"

namespace lockstep {

class FixText : public Renderer {
 public:
  explicit FixText(Colors colors = Colors::off, std::optional<std::size_t> width = std::nullopt)
      : colors_(colors), width_(width) {}
  std::string render(const Report& report) const override;

 private:
  Colors colors_;
  std::optional<std::size_t> width_;  // of the terminal; nothing: 100
};

}  // namespace lockstep
