#include "render/text/paint.hpp"

#include "base/text.hpp"
#include "render/text/table.hpp"

namespace lockstep {

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

}  // namespace lockstep
