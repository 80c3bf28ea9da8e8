// All steps on one axis, as part of a page: a column for each, stacked from its parts.
#pragma once

#include <string>
#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep {

// Empty: there are too few steps for a picture.
std::string course_html(const std::vector<RankCourse>& course);

}  // namespace lockstep
