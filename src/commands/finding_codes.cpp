#include "commands/finding_codes.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace lockstep {

Result<std::set<FindingCode>> codes_of(const std::vector<std::string>& words) {
  std::set<FindingCode> codes;
  std::vector<std::string> known;
  for (const FindingName& name : kFindingNames) {
    known.emplace_back(name.id);
    known.emplace_back(name.name);
  }
  for (const std::string& word : words)
    for (const std::string_view part : split(word, ',')) {
      if (const FindingName* const found = finding_named(part)) {
        codes.insert(found->code);
        continue;
      }
      // "D2", "X": a family, or a part of it
      bool is_family = false;
      for (const FindingName& name : kFindingNames)
        if (!part.empty() && name.id.starts_with(part)) {
          codes.insert(name.code);
          is_family = true;
        }
      if (is_family) continue;
      const auto near = nearest(part, known);
      return usage_error(fmt::format("'{}' is no finding's code", printable(part)),
                         near ? fmt::format("did you mean {}?", *near)
                              : "codes look like P101; lockstep explain lists them");
    }
  return codes;
}

}  // namespace lockstep
