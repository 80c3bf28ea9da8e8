// The report as Markdown, to paste into an issue or a chat.
#pragma once

#include "lockstep/renderer.hpp"

namespace lockstep {

class MarkdownRenderer : public Renderer {
 public:
  std::string render(const Report& report) const override;
};

}  // namespace lockstep
