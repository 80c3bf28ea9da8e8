// wandb-events.jsonl: the system metrics that older releases of Weights & Biases write as text, an
// object per line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

std::optional<ParsedLog> parse_wandb_events(const std::vector<std::string>& lines);

}  // namespace lockstep
