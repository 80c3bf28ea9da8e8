// Findings in code as SARIF 2.1.0, for code scanning pages and editors.
#pragma once

#include <string>

#include "lockstep/renderer.hpp"

namespace lockstep {

class SarifRenderer : public Renderer {
 public:
  explicit SarifRenderer(std::string version) : version_(std::move(version)) {}
  std::string render(const Report& report) const override;

 private:
  std::string version_;
};

}  // namespace lockstep
