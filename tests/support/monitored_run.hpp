// What the live screen would know after a recording was played up to a moment.
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/record.hpp"
#include "monitor/monitored.hpp"

namespace lockstep::testing {

// Judged as the real one is, at the same times of the recording. `until_ms`: the present.
std::shared_ptr<const Monitored> monitored_until(const std::filesystem::path& recording,
                                                 double until_ms);

// A recording of tests/screens.
std::filesystem::path screen_recording(const std::string& name);

// The verdict and findings of a timeline, as the monitor command has them made.
Report judged(const Timeline& timeline);

}  // namespace lockstep::testing
