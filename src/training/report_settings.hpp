// What a diagnosis says about training, as settings of the trainer.
#pragma once

#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "training/choose_training.hpp"

namespace lockstep {

// From a report's JSON: for each finding that a setting answers, the setting and the finding as its
// reason. `now`: the settings so far, which some answers double or halve.
Result<std::vector<Choice>> settings_in_report(const std::string& report_json,
                                               const TrainSettings& now);

}  // namespace lockstep
