#include "commands/flame_file.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "render/html/flame_svg.hpp"
#include "render/json/speedscope.hpp"
#include "render/words/device_words.hpp"

namespace lockstep {
namespace {

bool is_speedscope(const std::string& path) { return path.ends_with(".json"); }

}  // namespace

Status check_flame_file(const std::string& path) {
  if (path.empty() || path.ends_with(".svg") || is_speedscope(path)) return Done{};
  return usage_error(fmt::format("--flame {}: neither .svg nor .json", path),
                     "a picture is .svg; .json is for https://www.speedscope.app");
}

Status write_flame_file(const RunOptions& options, const std::string& path, const Report& report,
                        const std::string& name) {
  if (path.empty()) return Done{};
  if (!report.steps && !report.stacks) {
    tell(options,
         fmt::format("{} is not written: neither steps nor Python stacks were seen", path));
    return Done{};
  }
  const FlameGraph graph =
      stacks_name_the_lines(report) ? flame_graph(*report.stacks) : flame_graph(*report.steps);
  return write_file_atomically(
      path, is_speedscope(path) ? speedscope_json(graph, name) : flame_svg(graph));
}

}  // namespace lockstep
