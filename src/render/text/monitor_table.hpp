// The plain table of `lockstep monitor --once`: a row a GPU, a row a process, and what could not be
// measured.
#pragma once

#include <cstddef>
#include <optional>

#include "lockstep/renderer.hpp"

namespace lockstep {

class MonitorTable : public Renderer {
 public:
  explicit MonitorTable(Colors colors = Colors::off,
                        std::optional<std::size_t> width = std::nullopt)
      : colors_(colors), width_(width) {}
  std::string render(const Report& report) const override;

 private:
  Colors colors_;
  std::optional<std::size_t> width_;  // of the terminal; nothing: as wide as it takes
};

}  // namespace lockstep
