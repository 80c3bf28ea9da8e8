// Colours and line breaks of the reports for people.
#pragma once

#include <string>

#include "lockstep/finding.hpp"
#include "lockstep/renderer.hpp"

namespace lockstep {

class Painter {
 public:
  explicit Painter(Colors colors) : colors_(colors) {}
  std::string bold(const std::string& text) const { return paint("1", text); }
  std::string faint(const std::string& text) const { return paint("2", text); }
  std::string of(Severity severity, const std::string& text) const {
    return paint(severity == Severity::critical  ? "1;31"
                 : severity == Severity::warning ? "33"
                                                 : "36",
                 text);
  }
  std::string good(const std::string& text) const { return paint("32", text); }
  std::string bad(const std::string& text) const { return paint("31", text); }

 private:
  std::string paint(const char* code, const std::string& text) const;
  Colors colors_;
};

// Words broken into lines of at most `width` columns, each after `indent` spaces.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

// A unified diff in its colours, each line after `indent` spaces.
std::string diff_text(const std::string& diff, std::size_t indent, const Painter& paint);

}  // namespace lockstep
