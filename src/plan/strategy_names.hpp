// Strategies by name, in one list for flags, reports and files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/setting.hpp"

namespace lockstep {

struct StrategyName {
  SplitStrategy strategy;
  std::string_view name;   // as typed and in JSON
  std::string_view words;  // for people
};
std::span<const StrategyName> strategy_names();
std::string_view name_of(SplitStrategy strategy);
std::string_view words_of(SplitStrategy strategy);
std::optional<SplitStrategy> strategy_named(std::string_view name);

// What lockstep-train can run.
std::vector<SplitStrategy> strategies_of_the_trainer();

std::string_view name_of(NumberFormat format);
std::string_view name_of(TrainingMethod method);

}  // namespace lockstep
