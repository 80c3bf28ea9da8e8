// The file that --flame asks for.
#pragma once

#include <string>

#include "lockstep/report.hpp"
#include "lockstep/result.hpp"
#include "runs/run_options.hpp"

namespace lockstep {

// A flame graph's kind is its file's name: .svg, or .json for speedscope. Empty: none is wanted.
Status check_flame_file(const std::string& path);

// Of the report's steps, else of the stacks that were taken; `name` is what runs. Where there are
// neither, that is told.
Status write_flame_file(const RunOptions& options, const std::string& path, const Report& report,
                        const std::string& name);

}  // namespace lockstep
