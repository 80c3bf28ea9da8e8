#include "signals/stack_profile.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "signals/stack_parts.hpp"

namespace lockstep {
namespace {

// A share of 20 % is told within 18 points of 20 stacks, within 8 of 100 (two standard errors).
constexpr int kFewestStacks = 20;

bool comes_before(const CodeFrame& one, const CodeFrame& other) {
  return std::tie(one.file, one.line, one.function) <
         std::tie(other.file, other.line, other.function);
}

struct ByFrames {
  bool operator()(const StackSample* one, const StackSample* other) const {
    if (one->call != other->call) return one->call < other->call;
    return std::ranges::lexicographical_compare(one->frames, other->frames, comes_before);
  }
};

struct OfProcess {
  std::map<const StackSample*, int, ByFrames> counts;
  int samples = 0;
};

}  // namespace

std::optional<StackProfile> stack_profile(const Timeline& timeline, const JobSignals& job) {
  std::map<int, OfProcess> processes;
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes) {
      if (std::ranges::find(job.pids, process.pid) == job.pids.end()) continue;
      for (const StackSample& stack : process.stacks) {
        const double t_ms = list.t_ms - stack.ago_ms;
        if (t_ms < job.from_ms || t_ms > job.to_ms || stack.frames.empty()) continue;
        OfProcess& own = processes[process.pid];
        own.counts[&stack] += stack.seen;
        own.samples += stack.seen;
      }
    }
  StackProfile profile;
  profile.processes = static_cast<int>(processes.size());
  std::map<const StackSample*, double, ByFrames> shares;
  for (const auto& [pid, own] : processes) {
    profile.samples += own.samples;
    for (const auto& [stack, count] : own.counts)
      shares[stack] += static_cast<double>(count) / own.samples / profile.processes;
  }
  if (profile.samples < kFewestStacks) return std::nullopt;
  for (const auto& [stack, share] : shares)
    profile.stacks.push_back(
        {part_of(*stack), place_of(*stack), {stack->frames.rbegin(), stack->frames.rend()}, share});
  std::ranges::stable_sort(profile.stacks, std::greater{}, &SeenStack::share);
  return profile;
}

}  // namespace lockstep
