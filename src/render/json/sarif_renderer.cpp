#include "render/json/sarif_renderer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"

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

// The hunks of a unified diff as SARIF's replacements: whole lines, from the file as it stands.
Json changes_of(std::string_view diff) {
  Json changes = Json::array();
  std::size_t from = 0;
  std::size_t count = 0;
  std::string fresh;
  bool in_hunk = false;
  const auto close_hunk = [&] {
    if (in_hunk)
      changes.back()["replacements"].push_back(
          {{"deletedRegion",
            {{"startLine", from}, {"startColumn", 1}, {"endLine", from + count}, {"endColumn", 1}}},
           {"insertedContent", {{"text", fresh}}}});
    fresh.clear();
    in_hunk = false;
  };
  const auto lines = split(diff, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.starts_with("--- ") && i + 1 < lines.size() && lines[i + 1].starts_with("+++ b/")) {
      close_hunk();
      changes.push_back(
          {{"artifactLocation",
            {{"uri", uri_of(std::string(lines[i + 1].substr(6)))}, {"uriBaseId", "ROOT"}}},
           {"replacements", Json::array()}});
      ++i;
    } else if (line.starts_with("@@ -") && !changes.empty()) {
      close_hunk();
      const std::string_view range = line.substr(4, line.find(' ', 4) - 4);
      const auto comma = range.find(',');
      from = parse_unsigned(range.substr(0, comma)).value_or(1);
      count =
          comma == std::string_view::npos ? 1 : parse_unsigned(range.substr(comma + 1)).value_or(1);
      in_hunk = true;
    } else if (in_hunk && (line.starts_with('+') || line.starts_with(' '))) {
      fresh += line.substr(1);
      fresh += '\n';
    }
  }
  close_hunk();
  return changes;
}

// The same for the same finding in another run, whatever lines came above it.
std::string fingerprint_of(const Finding& finding) {
  const std::string file = finding.where.empty() ? std::string() : finding.where.front().file;
  return hash_words(std::string(name_of(finding.code).id) + "\n" + file + "\n" + finding.reason);
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
                 {"locations", locations},
                 {"partialFingerprints", {{"lockstep/v1", fingerprint_of(finding)}}}};
  Json properties = Json::object();
  if (!finding.fixes.empty()) {
    const Fix& fix = finding.fixes.front();
    properties["safety"] = fix.safety == FixSafety::safe     ? "safe"
                           : fix.safety == FixSafety::unsafe ? "unsafe"
                                                             : "manual";
    if (fix.diff) {
      properties["diff"] = *fix.diff;
      result["fixes"] = {{{"description", {{"text", fix.description}}},
                          {"artifactChanges", changes_of(*fix.diff)}}};
    }
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
                     {"shortDescription", {{"text", name_of(code).summary}}},
                     {"fullDescription", {{"text", name_of(code).summary}}},
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
