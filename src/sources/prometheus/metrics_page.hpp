// What an exporter answers under /metrics, kept as a text: one look at the GPUs of its machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where no metric that lockstep knows is in it.
std::optional<ParsedLog> parse_metrics_page(const std::vector<std::string>& lines);

}  // namespace lockstep
