#include "launch/probe_environment.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

fs::path library_folder() { return executable_folder().parent_path() / "lib" / "lockstep"; }

Error not_installed(const fs::path& path) {
  return {fmt::format("the probe is not installed: {} is missing", printable(path.string())), "build or install lockstep whole, or run without probes: --probe none"};
}

void put_first(Variables& variables, const char* name, const std::string& value) {
  std::string& current = variables[name];
  current = current.empty() ? value : value + ":" + current;
}

}  // namespace

Result<ProbeChoice> parse_probes(const std::string& text) {
  if (text.empty() || text == "auto") return ProbeChoice{};
  ProbeChoice probes{false, false, true};
  if (text == "none") return probes;
  for (const std::string_view name : split(text, ',')) {
    if (name == "python") probes.python = true;
    else if (name == "host") probes.host = true;
    else return usage_error(fmt::format("--probe {} is unknown", printable(std::string(name))), "use auto, none, or of host and python those that you want: --probe host,python");
  }
  return probes;
}

Result<Variables> with_probes(Variables around, const ProbeChoice& probes, const fs::path& folder) {
  if (!probes.any()) return around;
  std::error_code ignored;
  std::string names;
  if (probes.python) {
    const fs::path path = library_folder() / "python";
    const bool there = fs::exists(path / "sitecustomize.py", ignored);
    if (!there && probes.by_name) return not_installed(path);
    if (there) put_first(around, "PYTHONPATH", path.string());
    if (there) names = "python";
  }
  if (probes.host) {
    const fs::path path = library_folder() / "liblockstep_host_probe.so";
    const bool there = fs::exists(path, ignored);
    if (!there && probes.by_name) return not_installed(path);
    if (there) put_first(around, "LD_PRELOAD", path.string());
    if (there) names += names.empty() ? "host" : ",host";
  }
  around["LOCKSTEP_PROBE"] = names;
  if (!folder.empty()) around["LOCKSTEP_PROBE_FOLDER"] = folder.string();
  return around;
}

}  // namespace lockstep
