#include "signals/module_times.hpp"

#include <algorithm>
#include <map>

#include "signals/fact_values.hpp"

namespace lockstep {
namespace {

ModuleTime read(const ProbeFact& fact) {
  const FactValues values(fact);
  ModuleTime time;
  time.name = values.word("name");
  time.kind = values.word("kind");
  time.count = std::max(0, values.integer("count").value_or(0));
  time.forward_ms = std::max(0.0, values.number("forward_us").value_or(0)) / 1e3;
  time.backward_ms = std::max(0.0, values.number("backward_us").value_or(0)) / 1e3;
  time.on_gpu = values.yes("gpu");
  time.steps = std::max(0, values.integer("steps").value_or(0));
  return time;
}

}  // namespace

std::vector<ModuleTime> module_times(const std::vector<FactAt>& facts) {
  std::map<int, std::map<int, ModuleTime>> of_rank;  // by number, then by rank: the newest
  for (const FactAt& entry : facts)
    if (entry.fact.name == "module")
      if (const auto number = FactValues(entry.fact).integer("id"))
        of_rank[*number][entry.fact.rank] = read(entry.fact);
  std::vector<ModuleTime> times;
  for (const auto& [number, ranks] : of_rank) {
    ModuleTime mean = ranks.begin()->second;
    mean.forward_ms = mean.backward_ms = 0;
    for (const auto& [rank, time] : ranks) {
      mean.forward_ms += time.forward_ms / static_cast<double>(ranks.size());
      mean.backward_ms += time.backward_ms / static_cast<double>(ranks.size());
    }
    times.push_back(std::move(mean));
  }
  return times;
}

}  // namespace lockstep
