// The report as JSON, version 1: grows, never breaks. Schema: docs/formats/report.schema.json.
#pragma once

#include <string>

#include "lockstep/before_after.hpp"
#include "lockstep/renderer.hpp"

namespace lockstep {

class JsonRenderer : public Renderer {
 public:
  std::string render(const Report& report) const override;
};

// Both runs of a demo:
// {"lockstep_demo":1,"speedup":…,"before":{"tokens_per_s":…,"command":[…],"report":{…}},"after":{…}}.
std::string before_after_json(const BeforeAfter& runs);

}  // namespace lockstep
