#include "render/text/paint.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "render/text/table.hpp"

namespace lockstep {

std::string Painter::paint(const char* code, const std::string& text) const {
  return colors_ == Colors::on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  const std::string space(indent, ' ');
  std::string result;
  std::string line;
  for (const std::string_view word : split(text, ' ')) {
    if (!line.empty() && indent + display_width(line) + 1 + display_width(word) > width) {
      result += space + line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return line.empty() ? result : result + space + line + "\n";
}

namespace {

// Tabs and carriage returns stay, so that `lockstep fix . | patch -p1` finds its lines; nothing
// else that a terminal acts on.
std::string diff_line(std::string_view line) {
  const bool carriage_return = line.ends_with('\r');
  if (carriage_return) line.remove_suffix(1);
  std::vector<std::string> parts;
  for (const std::string_view part : split(line, '\t')) parts.push_back(printable(part));
  return join(parts, "\t") + (carriage_return ? "\r" : "");
}

}  // namespace

std::string diff_text(const std::string& diff, std::size_t indent, const Painter& paint) {
  const std::string space(indent, ' ');
  std::string_view lines = diff;
  if (lines.ends_with('\n')) lines.remove_suffix(1);
  std::string text;
  for (const std::string_view line : split(lines, '\n')) {
    const std::string shown = space + diff_line(line);
    const bool header = line.starts_with("+++") || line.starts_with("---");
    text += header                   ? paint.bold(shown)
            : line.starts_with("+")  ? paint.good(shown)
            : line.starts_with("-")  ? paint.bad(shown)
            : line.starts_with("@@") ? paint.faint(shown)
                                     : shown;
    text += "\n";
  }
  return text;
}

}  // namespace lockstep
