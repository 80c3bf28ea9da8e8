#include "render/words/flame_tree.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

FlameFrame line_frame(const CodePlace& place, int line) {
  return {
      .name = file_name(place.file) + ":" + std::to_string(line), .file = place.file, .line = line};
}

// From the training loop inwards: its line, the user's functions, the line itself, and what is done
// there. A look names functions innermost first, `torch:linear<score`; a hook what it hooks.
std::vector<FlameFrame> path_to(const CodePlace& place) {
  std::vector<FlameFrame> path;
  std::vector<FlameFrame> below;  // of libraries, or what a hook hooks
  if (place.loop_line > 0 && place.loop_line != place.line)
    path.push_back(line_frame(place, place.loop_line));
  std::vector<std::string> functions;
  for (const std::string_view function : split(place.what, '<')) functions.emplace_back(function);
  std::ranges::reverse(functions);
  const bool is_a_look = functions.size() > 1 || place.loop_line > 0;
  for (std::string& function : functions) {
    if (function.empty()) continue;
    const bool of_a_library = function.find(':') != std::string::npos || !is_a_look;
    (of_a_library ? below : path).push_back({.name = std::move(function)});
  }
  if (place.line > 0) path.push_back(line_frame(place, place.line));
  std::ranges::move(below, std::back_inserter(path));
  return path;
}

void add(FlameFrame& to, std::vector<FlameFrame> path, StepPart part, double share) {
  FlameFrame* at = &to;
  for (FlameFrame& frame : path) {
    auto known = std::ranges::find(at->within, frame.name, &FlameFrame::name);
    if (known == at->within.end()) {
      frame.part = part;
      at->within.push_back(std::move(frame));
      known = std::prev(at->within.end());
    }
    known->share += share;
    at = &*known;
  }
}

void largest_first(FlameFrame& frame) {
  std::ranges::stable_sort(frame.within, std::ranges::greater(), &FlameFrame::share);
  for (FlameFrame& below : frame.within) largest_first(below);
}

}  // namespace

FlameGraph flame_graph(const StepSignals& steps) {
  constexpr double kLeast = 0.002;  // of the step: less is no picture
  FlameFrame whole{.name = "step", .share = 1};
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
    const auto part = static_cast<StepPart>(i);
    if (part == StepPart::collective_hidden || steps.share[i] < kLeast) continue;
    whole.within.push_back({.name = part_words(i), .part = part, .share = steps.share[i]});
    for (const PlaceSignals& place : steps.places)
      if (place.part == part && place.share >= kLeast)
        add(whole.within.back(), path_to(place.place), part, place.share);
  }
  largest_first(whole);
  return {std::move(whole), steps.mean_ms()};
}

FlameGraph flame_graph(const StackProfile& profile) {
  FlameFrame whole{.name = "main threads", .share = 1};
  for (const SeenStack& stack : profile.stacks) {
    std::vector<FlameFrame> path = {{.name = part_words(index_of(stack.part))}};
    for (const CodeFrame& frame : stack.frames)
      path.push_back(
          {.name = frame.function + " " + file_name(frame.file) + ":" + std::to_string(frame.line),
           .file = frame.file,
           .line = frame.line});
    add(whole, std::move(path), stack.part, stack.share);
  }
  largest_first(whole);
  return {std::move(whole), 0};
}

std::size_t depth_of(const FlameFrame& frame) {
  std::size_t deepest = 0;
  for (const FlameFrame& below : frame.within) deepest = std::max(deepest, depth_of(below));
  return deepest + 1;
}

}  // namespace lockstep
