#include "render/json/sarif_renderer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

const char* level_of(Severity severity) {
  return severity == Severity::critical  ? "error"
         : severity == Severity::warning ? "warning"
                                         : "note";
}

// A path as a URI: what is not plain is percent-encoded.
std::string uri_of(const std::string& path) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string uri;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '/' || c == '.' || c == '-' || c == '_' || c == '~') {
      uri += c;
    } else {
      uri += '%';
      uri += kHex[byte >> 4U];
      uri += kHex[byte & 15U];
    }
  }
  return uri;
}

Json result_of(const Finding& finding) {
  const FindingName& name = name_of(finding.code);
  std::string message = finding.reason;
  if (!finding.fixes.empty()) message += ". Fix: " + finding.fixes.front().description;
  Json locations = Json::array();
  for (const SourceLine& line : finding.where)
    locations.push_back(
        {{"physicalLocation",
          {{"artifactLocation", {{"uri", uri_of(line.file)}, {"uriBaseId", "ROOT"}}},
           {"region", {{"startLine", line.line}}}}}});
  Json result = {{"ruleId", name.id},
                 {"level", level_of(finding.severity)},
                 {"message", {{"text", message}}},
                 {"locations", locations}};
  Json properties = Json::object();
  if (!finding.fixes.empty()) {
    const Fix& fix = finding.fixes.front();
    properties["safety"] = fix.safety == FixSafety::safe     ? "safe"
                           : fix.safety == FixSafety::unsafe ? "unsafe"
                                                             : "manual";
    if (fix.diff) properties["diff"] = *fix.diff;
    if (!fix.changes.empty()) properties["changes"] = fix.changes;
  }
  if (!properties.empty()) result["properties"] = properties;
  return result;
}

}  // namespace

std::string SarifRenderer::render(const Report& report) const {
  std::set<FindingCode> codes;
  Json results = Json::array();
  for (const Finding& finding : report.findings) {
    codes.insert(finding.code);
    results.push_back(result_of(finding));
  }
  Json rules = Json::array();
  for (const FindingCode code : codes)
    rules.push_back({{"id", name_of(code).id},
                     {"name", name_of(code).name},
                     {"shortDescription", {{"text", name_of(code).name}}},
                     {"help", {{"text", "lockstep explain " + std::string(name_of(code).id)}}}});
  std::string root = report.source_detail;
  if (!root.ends_with('/')) root += '/';
  const Json log = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs",
       {{{"tool", {{"driver", {{"name", "lockstep"}, {"version", version_}, {"rules", rules}}}}},
         {"originalUriBaseIds", {{"ROOT", {{"uri", "file://" + uri_of(root)}}}}},
         {"results", results}}}}};
  return log.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
