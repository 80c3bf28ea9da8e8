// Data goes one way: what each layer may include, checked from the sources. docs/architecture.md
// says why.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/paths.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Where a layer's include may point, beside its own folder, base and the contracts.
struct Rule {
  std::set<std::string> layers;
  std::set<std::string> libraries;         // third party, in headers and sources
  std::set<std::string> source_libraries;  // third party, in .cpp files only
};

// A longer path is a stricter room within its layer.
const std::map<std::string, Rule> kRules = {
    {"include/lockstep", {{}, {}, {}}},
    {"src/base", {{}, {}, {"fmt"}}},
    {"src/recording", {{}, {}, {"fmt", "nlohmann", "simdjson.h", "zstd.h"}}},
    {"src/sources", {{"src/recording"}, {}, {"fmt"}}},
    {"src/sources/nvml", {{}, {"nvml.h"}, {"fmt"}}},
    {"src/sources/host", {{}, {}, {"fmt", "nlohmann"}}},
    {"src/sources/probe", {{"probes/wire", "src/kernels"}, {}, {}}},
    {"src/sources/ras", {{}, {}, {"fmt", "nlohmann"}}},
    {"src/sources/replay", {{"src/recording"}, {}, {"fmt"}}},
    {"src/sources/merged", {{"src/recording"}, {}, {"fmt"}}},
    {"src/sources/parsed", {{}, {}, {"fmt"}}},  // what the readers of other tools' logs share
    {"src/sources/csv", {{"src/sources/parsed"}, {}, {"fmt"}}},
    {"src/sources/dcgm", {{"src/sources/parsed"}, {}, {}}},
    {"src/sources/gpustat", {{"src/sources/parsed"}, {}, {"nlohmann"}}},
    {"src/sources/log", {{"src/sources/parsed", "src/messages"}, {}, {"fmt"}}},
    {"src/sources/nvidia_smi", {{"src/sources/parsed"}, {}, {}}},
    {"src/sources/flight_recorder", {{}, {}, {"fmt", "nlohmann"}}},
    {"src/sources/trace", {{"src/rows"}, {}, {"fmt", "nlohmann", "simdjson.h", "zlib.h"}}},
    {"src/sources/prometheus", {{"src/sources/parsed"}, {}, {"fmt", "httplib.h", "simdjson.h"}}},
    {"src/sources/wandb", {{"src/sources/parsed"}, {}, {"fmt", "nlohmann", "protozero"}}},
    {"src/messages", {{}, {}, {}}},
    {"src/timeline", {{}, {}, {}}},
    {"src/rows", {{}, {}, {}}},               // the profiler's rows in memory
    {"src/kernels", {{"src/rows"}, {}, {}}},  // what their names say
    {"src/traces",
     {{"src/kernels", "src/rows"}, {}, {}}},  // timeline and signals for the GPUs' own records
    {"src/signals", {{"src/model"}, {}, {}}},
    {"src/detectors", {{"src/messages"}, {}, {}}},
    {"src/advice", {{}, {}, {}}},
    {"src/report", {{}, {}, {}}},
    {"src/scaling", {{}, {}, {"fmt"}}},       // benchmarks: what is run, and what the runs come to
    {"src/render/words", {{}, {}, {"fmt"}}},  // sentences that all renderers for people share
    {"src/render/text", {{"src/render/words"}, {}, {"fmt"}}},
    {"src/render/markdown", {{"src/render/words"}, {}, {"fmt"}}},
    {"src/render/html", {{"src/render/words"}, {}, {"fmt"}}},
    {"src/render/words/flame_tree.hpp", {{}, {}, {}}},   // what a flame graph is drawn from
    {"src/render/words/stack_lines.hpp", {{}, {}, {}}},  // stacks summed up by line
    {"src/render/json",
     {{"src/rows", "src/render/words/flame_tree.hpp", "src/render/words/stack_lines.hpp"},
      {"nlohmann"},
      {}}},
    {"src/render/tui",
     {{"src/render/words", "src/timeline", "src/monitor/monitored.hpp"}, {"ftxui"}, {"fmt"}}},
    {"src/export",
     {{"src/timeline", "src/monitor/monitored.hpp"}, {}, {"fmt", "prometheus", "httplib.h"}}},
    // feeds the live screen
    {"src/monitor/monitored.hpp", {{"src/timeline"}, {}, {}}},  // what is known now
    {"src/monitor", {{"src/timeline", "src/report", "src/recording"}, {}, {"fmt"}}},
    {"src/capture", {{}, {}, {"fmt"}}},  // the daemon that PyTorch's profiler asks
    {"src/launch", {{"src/messages"}, {}, {"fmt", "nlohmann", "hwloc.h"}}},
    {"src/training", {{"src/model", "src/plan"}, {}, {"fmt", "nlohmann", "CLI"}}},
    {"src/model", {{}, {}, {}}},
    {"src/plan", {{"src/model"}, {}, {"fmt", "nlohmann"}}},
    {"src/fix", {{}, {}, {"fmt", "nlohmann"}}},
    {"src/fix/syntax", {{}, {}, {"tree_sitter"}}},  // the one room that knows the parser
    {"src/doctor",
     {{"src/sources", "src/timeline", "src/launch", "src/model"}, {}, {"fmt", "nlohmann"}}},
    // a run from its input to its report
    {"src/runs",
     {{"src/rows",         "src/recording",
       "src/sources",      "src/timeline",
       "src/traces",       "src/signals",
       "src/detectors",    "src/advice",
       "src/messages",     "src/report",
       "src/render/words", "src/render/text",
       "src/render/json",  "src/render/markdown",
       "src/render/html",  "src/render/tui",
       "src/monitor",      "src/launch",
       "src/capture",      "src/scaling",
       "src/model",        "src/plan",
       "src/fix",          "src/training"},
      {},
      {"fmt", "nlohmann"}}},
    {"src/commands",
     {{"src/rows",         "src/recording",
       "src/sources",      "src/timeline",
       "src/traces",       "src/signals",
       "src/detectors",    "src/advice",
       "src/messages",     "src/report",
       "src/render/words", "src/render/text",
       "src/render/json",  "src/render/markdown",
       "src/render/html",  "src/render/tui",
       "src/monitor",      "src/launch",
       "src/capture",      "src/scaling",
       "src/model",        "src/plan",
       "src/fix",          "src/training",
       "src/runs",         "src/export",
       "src/doctor"},
      {},
      {"fmt", "nlohmann", "CLI"}}},
    // the headers that show a library to their neighbours
    {"src/recording/json_fields.hpp", {{}, {"nlohmann"}, {}}},
    {"src/commands/cli11_line.hpp", {{"src/commands"}, {"CLI"}, {}}},
    {"probes/wire", {{}, {}, {}}},
    {"probes/cuda", {{"probes/wire"}, {}, {}}},
    {"probes/nccl", {{"probes/wire"}, {}, {}}},
    {"reference_trainer",
     {{"src/training", "src/model", "probes/wire"},
      {"ATen", "c10", "torch"},
      {"fmt", "nlohmann", "CLI"}}},
    {"src/virtual_nvml", {{"src/recording"}, {"nvml.h"}, {"nlohmann"}}},
};

const std::set<std::string> kThirdParty = {
    "fmt",     "nlohmann",  "simdjson.h", "zstd.h", "zlib.h",      "nvml.h", "CLI", "protozero",
    "hwloc.h", "httplib.h", "prometheus", "ftxui",  "tree_sitter", "ATen",   "c10", "torch"};

std::string rule_of(const std::string& path) {
  std::string best;
  for (const auto& [folder, rule] : kRules)
    if ((path == folder || path.starts_with(folder + "/")) && folder.size() > best.size())
      best = folder;
  return best;
}

struct Include {
  std::string text;
  bool quoted = false;
};
std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (std::smatch found; std::regex_search(line, found, kInclude))
      includes.push_back({found[2], found[1] == "\""});
  return includes;
}

// Why an include breaks the rules; empty: it does not.
std::string objection(const std::string& path, const Include& include) {
  const std::string folder = rule_of(path);
  if (folder.empty()) return path == "src/main.cpp" ? "" : "is in a folder without a rule";
  const Rule& rule = kRules.at(folder);
  if (!include.quoted) {
    const std::string library = include.text.substr(0, include.text.find('/'));
    if (!kThirdParty.contains(library)) return "";  // the system's
    const bool in_source = path.ends_with(".cpp") && rule.source_libraries.contains(library);
    return rule.libraries.contains(library) || in_source
               ? ""
               : "may not include the library " + include.text;
  }
  if (include.text.starts_with("lockstep/")) return "";
  const auto is_there = [&](const std::string& file) {
    return fs::exists(fs::path(testing::source_tree()) / file);
  };
  // C headers name their neighbours
  const std::string beside = path.substr(0, path.rfind('/') + 1) + include.text;
  const std::string target = is_there("src/" + include.text)            ? "src/" + include.text
                             : path.ends_with(".h") && is_there(beside) ? beside
                                                                        : include.text;
  if (!is_there(target)) return "includes " + include.text + ", which is not there";
  const std::string target_folder = rule_of(target);
  if (folder == "include/lockstep") return "is a contract and may include contracts only";
  if (target_folder == folder || target.starts_with("src/base/")) return "";
  // The room above its parts: sources/open_input may include each source, no source another.
  if (target_folder.starts_with(folder + "/")) return "";
  for (const std::string& allowed : rule.layers)
    if (target_folder == allowed || target_folder.starts_with(allowed + "/")) return "";
  return "may not include " + include.text;
}

std::vector<std::string> all_objections() {
  std::vector<std::string> objections;
  for (const char* tree : {"include", "src", "probes", "reference_trainer"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(testing::source_tree()) / tree)) {
      const std::string kind = entry.path().extension().string();
      if (kind != ".cpp" && kind != ".hpp" && kind != ".h") continue;
      const std::string path = fs::relative(entry.path(), testing::source_tree()).string();
      for (const Include& include : includes_of(entry.path()))
        if (const std::string why = objection(path, include); !why.empty())
          objections.push_back(path + " " + why);
    }
  return objections;
}

TEST(IncludeRules, AreKept) {
  for (const std::string& line : all_objections()) ADD_FAILURE() << line;
}

TEST(IncludeRules, WouldNoticeAShortcut) {
  EXPECT_NE(objection("src/signals/x.cpp", {"sources/open_input.hpp", true}), "");
  EXPECT_NE(objection("src/sources/host/x.cpp", {"sources/nvml/poller.hpp", true}), "")
      << "no source includes another";
  EXPECT_NE(objection("src/render/text/x.cpp", {"render/json/json_renderer.hpp", true}), "");
  EXPECT_NE(objection("src/timeline/x.cpp", {"fmt/format.h", false}), "");
  EXPECT_NE(objection("src/recording/x.hpp", {"simdjson.h", false}), "")
      << "third party stays out of headers";
  EXPECT_NE(objection("include/lockstep/x.hpp", {"base/text.hpp", true}), "");
  EXPECT_EQ(objection("src/sources/x.cpp", {"sources/nvml/poller.hpp", true}), "");
  EXPECT_EQ(objection("src/timeline/x.cpp", {"vector", false}), "");
}

}  // namespace
}  // namespace lockstep
