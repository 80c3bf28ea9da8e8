// Findings in code as GitHub's workflow commands, which its pages show beside the lines.
#pragma once

#include "lockstep/renderer.hpp"

namespace lockstep {

class GithubLines : public Renderer {
 public:
  std::string render(const Report& report) const override;
};

}  // namespace lockstep
