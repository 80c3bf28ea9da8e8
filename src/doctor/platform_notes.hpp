// What kind of machine this is, as far as lockstep's reach depends on it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// Plain sentences about what cannot be served here: WSL2, AMD and Intel GPUs, Apple silicon. Empty
// on an ordinary Linux machine. `root` is / but for tests.
std::vector<std::string> platform_notes(const std::filesystem::path& root);

}  // namespace lockstep
