#include "render/words/stack_lines.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace lockstep {

std::vector<StackLine> stack_lines(const StackProfile& profile) {
  std::map<std::pair<StepPart, CodePlace>, double> shares;
  for (const SeenStack& stack : profile.stacks) shares[{stack.part, stack.place}] += stack.share;
  std::vector<StackLine> lines;
  for (const auto& [where, share] : shares) lines.push_back({where.first, where.second, share});
  std::ranges::stable_sort(lines, std::greater{}, &StackLine::share);
  return lines;
}

}  // namespace lockstep
