// The report as JSON, version 1: grows, never breaks. Schema: docs/formats/report.schema.json.
#pragma once

#include "lockstep/renderer.hpp"

namespace lockstep {

class JsonRenderer : public Renderer {
 public:
  std::string render(const Report& report) const override;
};

}  // namespace lockstep
