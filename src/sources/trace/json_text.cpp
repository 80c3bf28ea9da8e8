#include "sources/trace/json_text.hpp"

namespace lockstep {
namespace {

void append_code_point(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | (code >> 6U));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  } else {
    text += static_cast<char>(0xE0U | (code >> 12U));
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

}  // namespace

std::string unescaped(std::string_view written) {
  std::string text;
  text.reserve(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '\\' || i + 1 == written.size()) {
      text += written[i];
      continue;
    }
    switch (written[++i]) {
      case 'n': text += '\n'; break;
      case 't': text += '\t'; break;
      case 'r': text += '\r'; break;
      case 'b':
      case 'f': text += ' '; break;
      case 'u': {
        unsigned code = 0;
        std::size_t digits = 0;
        for (; digits < 4 && i + 1 < written.size(); ++digits, ++i) {
          const char c = written[i + 1];
          const int digit = c >= '0' && c <= '9'   ? c - '0'
                            : c >= 'a' && c <= 'f' ? c - 'a' + 10
                            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                   : -1;
          if (digit < 0) break;
          code = 16 * code + static_cast<unsigned>(digit);
        }
        if (code >= 0xD800 && code < 0xE000)
          text += '?';  // half of a pair
        else
          append_code_point(text, code);
        break;
      }
      default: text += written[i];
    }
  }
  return text;
}

}  // namespace lockstep
