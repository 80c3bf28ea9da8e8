#include "launch/ranks/probe_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

fs::path library_folder() { return executable_folder().parent_path() / "lib" / "lockstep"; }

Error not_installed(const fs::path& path) {
  return {fmt::format("the probe is not installed: {} is missing", printable(path.string())),
          "build or install lockstep whole, or run without probes: --probe none"};
}

void put_first(Variables& variables, const char* name, const std::string& value) {
  std::string& current = variables[name];
  current = current.empty() ? value : value + ":" + current;
}

}  // namespace

Result<ProbeChoice> parse_probes(const std::string& text, const ProbeChoice& automatic) {
  if (text.empty() || text == "auto") return automatic;
  ProbeChoice probes{false, false, false, false, false, true};
  if (text == "none") return probes;
  const std::array<std::pair<std::string_view, bool*>, 5> known = {{{"host", &probes.host},
                                                                    {"python", &probes.python},
                                                                    {"cuda", &probes.cuda},
                                                                    {"nccl", &probes.nccl},
                                                                    {"ras", &probes.ras}}};
  for (std::string_view name : split(text, ',')) {
    if (name == "cuda=always") {
      probes.cuda_always = true;
      name = "cuda";
    }
    const auto found =
        std::ranges::find_if(known, [&](const auto& one) { return one.first == name; });
    if (found == known.end())
      return usage_error(fmt::format("--probe {} is unknown", printable(std::string(name))),
                         "use auto, none, or of host, python, cuda, nccl and ras those that you "
                         "want: --probe host,python; cuda=always for records of every step");
    *found->second = true;
  }
  return probes;
}

Result<ProbedVariables> with_probes(Variables around, const ProbeChoice& probes,
                                    const fs::path& folder) {
  ProbedVariables result{std::move(around), probes, {}};
  if (!probes.any_inside()) return result;
  Variables& variables = result.variables;
  std::optional<Error> missing;
  std::vector<std::string> names;
  // A probe whose file is there is switched on; one that was asked for by name and is not there is
  // an error.
  const auto switch_on = [&](bool& wanted, const char* name, const fs::path& file,
                             const auto& set) {
    if (!wanted) return;
    std::error_code ignored;
    wanted = fs::exists(library_folder() / file, ignored);
    if (!wanted && probes.by_name && !missing) missing = not_installed(library_folder() / file);
    if (!wanted && file.extension() == ".py")  // without it nothing is known of steps
      result.left_out.push_back(fmt::format("{}: {} is not there; install lockstep whole", name,
                                            (library_folder() / file).string()));
    if (!wanted) return;
    set((library_folder() / file).string());
    if (wanted) names.emplace_back(name);
  };
  switch_on(result.probes.python, "python", fs::path("python") / "sitecustomize.py",
            [&](const std::string& path) {
              put_first(variables, "PYTHONPATH", fs::path(path).parent_path().string());
            });
  switch_on(result.probes.host, "host", "liblockstep_host_probe.so",
            [&](const std::string& path) { put_first(variables, "LD_PRELOAD", path); });
  switch_on(result.probes.cuda, "cuda", "liblockstep_cuda_probe.so", [&](const std::string& path) {
    std::string& injected = variables["CUDA_INJECTION64_PATH"];
    if (injected.empty() || injected == path) {
      injected = path;
      if (probes.cuda_always) variables["LOCKSTEP_CUDA_PROBE"] = "always";
      return;
    }
    result.probes.cuda = false;
    result.left_out.emplace_back("cuda: CUDA_INJECTION64_PATH is set to another tool's library");
  });
  switch_on(result.probes.nccl, "nccl", "liblockstep_nccl_probe.so", [&](const std::string& path) {
    std::string& plugin = variables["NCCL_PROFILER_PLUGIN"];
    if (!plugin.empty() && plugin != path) variables["LOCKSTEP_NCCL_PROFILER_PLUGIN"] = plugin;
    plugin = path;
  });
  if (missing) return *missing;
  variables["LOCKSTEP_PROBE"] = join(names, ",");
  if (!folder.empty()) variables["LOCKSTEP_PROBE_FOLDER"] = folder.string();
  return result;
}

}  // namespace lockstep
