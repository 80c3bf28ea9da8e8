// Any bytes as words from outside: what is printed is free of control characters, and no secret
// stays.
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/redact.hpp"
#include "base/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char letter : lockstep::printable(text))
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) std::abort();
  static_cast<void>(lockstep::parse_duration(text));
  static_cast<void>(lockstep::parse_index_list(text));
  // A plain word before each: after -c, code would follow.
  const auto redacted =
      lockstep::redact_command({"program", text, "a", "--token", text, "a", "--password=" + text});
  const std::string hidden = "\xE2\x80\xA6";
  if (redacted.back() != "--password=" + hidden) std::abort();
  return 0;
}
