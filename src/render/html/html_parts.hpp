// What lockstep's HTML pages are made of. A page stands alone: no scripts, nothing loaded from
// elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

std::string escaped(std::string_view text);
std::string page_start(std::string_view title);
std::string page_end();
std::string picture_html(const LanePicture& picture);
std::string finding_html(const Finding& finding, bool suspected);
std::string checklist_html(const std::vector<CheckItem>& items);
std::string gpus_html(const Report& report);

}  // namespace lockstep
