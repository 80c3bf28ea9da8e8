// Turns a report into text for one kind of reader.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/report.hpp"

namespace lockstep {

enum class Colors : std::uint8_t { off, on };

class Renderer {
 public:
  virtual ~Renderer() = default;
  virtual std::string render(const Report& report) const = 0;
};

}  // namespace lockstep
