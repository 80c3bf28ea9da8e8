// The renderer that the user asked for, and the paths as the user knows them: what diagnose and
// profile have in common.
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/report.hpp"
#include "runs/run_options.hpp"

namespace lockstep {

std::unique_ptr<Renderer> renderer_for(const RunOptions& options);

// Files below a folder are named from there: train.py, not /home/me/train.py.
void shorten_paths(Report& report, const std::filesystem::path& folder);

}  // namespace lockstep
