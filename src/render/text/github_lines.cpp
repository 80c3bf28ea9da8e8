#include "render/text/github_lines.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace lockstep {
namespace {

// GitHub's own escapes; a property may also hold no comma and no colon.
std::string escaped(std::string_view text, std::string_view also) {
  std::string result;
  for (const char c : text)
    if (c == '%' || c == '\n' || c == '\r' || also.find(c) != std::string_view::npos)
      result += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      result += c;
  return result;
}

}  // namespace

std::string GithubLines::render(const Report& report) const {
  std::string text;
  for (const Finding& finding : report.findings) {
    const FindingName& name = name_of(finding.code);
    const char* const level = finding.severity == Severity::critical  ? "error"
                              : finding.severity == Severity::warning ? "warning"
                                                                      : "notice";
    const std::string place =
        finding.where.empty()
            ? ""
            : fmt::format("file={},line={},", escaped(finding.where.front().file, ",:"),
                          finding.where.front().line);
    std::string message = finding.reason;
    if (!finding.fixes.empty())
      message += fmt::format("; fix: {}", finding.fixes.front().description);
    text += fmt::format("::{} {}title={}::{}\n", level, place,
                        escaped(fmt::format("{} {}", name.id, name.name), ",:"),
                        escaped(printable(message), ""));
  }
  return text;
}

}  // namespace lockstep
