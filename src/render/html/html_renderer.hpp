// The report as one HTML file that needs nothing else: lanes, power and memory as SVG, findings,
// fixes; light and dark.
#pragma once

#include "lockstep/renderer.hpp"

namespace lockstep {

class HtmlRenderer : public Renderer {
 public:
  std::string render(const Report& report) const override;
};

}  // namespace lockstep
