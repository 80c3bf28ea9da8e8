// The detectors of the catalogue, and what all of them find together.
#pragma once

#include <span>
#include <vector>

#include "lockstep/detector.hpp"

namespace lockstep {

// Those of the catalogue, in its order.
std::span<const Detector> all_detectors();

// What every detector found, in the order of the catalogue; what each costs is not settled yet.
std::vector<Finding> inspect_all(const Seen& seen);

void costliest_first(std::vector<Finding>& findings);

std::vector<Finding> find_logged_messages(const Seen& seen);  // any code: in no row of the table

// One function per row of the catalogue: std::vector<Finding> find_taking_turns(const Seen& seen).
// Where a row says `none`, nothing is looked for.
#define FINDING(code, id, name, summary, known_by, kind, part, detector, rules, advice) \
  std::vector<Finding> detector(const Seen& seen);
#include "lockstep/finding_catalogue.def"
#undef FINDING

}  // namespace lockstep
