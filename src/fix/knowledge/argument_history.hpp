// Which arguments each release of Transformers and Accelerate takes: arguments.json, made by
// scripts/knowledge.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fix/project/installed_versions.hpp"

namespace lockstep {

class ArgumentHistory {
 public:
  static const ArgumentHistory& of_transformers();
  static const ArgumentHistory& of_accelerate();

  explicit ArgumentHistory(std::string_view package);

  bool knows(std::string_view field) const { return fields_.contains(field); }
  bool has(const Version& version, std::string_view field) const;
  // Releases older than the oldest that was read tell nothing.
  bool covers(const Version& version) const { return !(version < oldest_); }
  const Version& newest() const { return newest_; }
  std::optional<Version> first_with(std::string_view field) const;
  // The release that took it away for good.
  std::optional<Version> removed_in(std::string_view field) const;
  std::vector<std::string> fields_of(const Version& version) const;
  // The releases that a requirement allows, or the one that is installed.
  std::vector<Version> allowed_by(const KnownVersion& known) const;

 private:
  struct Span {
    Version from;
    std::optional<Version> until;
  };
  std::map<std::string, std::vector<Span>, std::less<>> fields_;
  std::vector<Version> releases_;
  Version oldest_;
  Version newest_;
};

}  // namespace lockstep
