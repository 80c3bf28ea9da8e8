#include "fix/knowledge/argument_history.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep {

extern const std::string_view kArgumentsJson;  // written from arguments.json at build time

ArgumentHistory::ArgumentHistory(std::string_view package) {
  const auto table = nlohmann::json::parse(kArgumentsJson).at(std::string(package));
  oldest_ = *Version::parse(table.at("releases").front().get<std::string>());
  newest_ = *Version::parse(table.at("releases").back().get<std::string>());
  for (const auto& release : table.at("releases"))
    releases_.push_back(*Version::parse(release.get<std::string>()));
  for (const auto& [name, spans] : table.at("fields").items())
    for (const auto& span : spans)
      fields_[name].push_back(
          {*Version::parse(span.at(0).get<std::string>()),
           span.at(1).is_null() ? std::nullopt : Version::parse(span.at(1).get<std::string>())});
}

const ArgumentHistory& ArgumentHistory::of_transformers() {
  static const ArgumentHistory history("transformers");
  return history;
}

const ArgumentHistory& ArgumentHistory::of_accelerate() {
  static const ArgumentHistory history("accelerate");
  return history;
}

bool ArgumentHistory::has(const Version& version, std::string_view field) const {
  const auto found = fields_.find(field);
  return found != fields_.end() && std::ranges::any_of(found->second, [&](const Span& span) {
           return !(version < span.from) && (!span.until || version < *span.until);
         });
}

std::optional<Version> ArgumentHistory::first_with(std::string_view field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? std::nullopt : std::optional(found->second.front().from);
}

std::optional<Version> ArgumentHistory::removed_in(std::string_view field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? std::nullopt : found->second.back().until;
}

std::vector<Version> ArgumentHistory::allowed_by(const KnownVersion& known) const {
  if (known.exact) return {known.version};
  std::vector<Version> allowed;
  for (const Version& release : releases_)
    if (known.allows(release)) allowed.push_back(release);
  return allowed;
}

std::vector<std::string> ArgumentHistory::fields_of(const Version& version) const {
  std::vector<std::string> names;
  for (const auto& [name, spans] : fields_)
    if (has(version, name)) names.push_back(name);
  return names;
}

}  // namespace lockstep
