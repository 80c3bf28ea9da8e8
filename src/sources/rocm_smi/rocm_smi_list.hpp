// rocm-smi's long form: "GPU[0]		: GPU use (%): 98", a section per quantity.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

std::optional<ParsedLog> parse_rocm_smi_list(const std::vector<std::string>& lines);

}  // namespace lockstep
