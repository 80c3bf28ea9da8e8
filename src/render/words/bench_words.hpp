// The sentences of a benchmark, the same in the terminal and on a page.
#pragma once

#include <string>
#include <vector>

#include "lockstep/bench.hpp"

namespace lockstep {

// "12,345", "1.90"
std::string speed_words(double speed);
// "2 x 8 x 4": devices, batch, passes; "2" where the batch is the script's own.
std::string batch_words(const BenchCase& what);
// "98 97 %"
std::string busy_words(const BenchRow& row);
// "backward 55 %, forward 30 %, exchange 8 %": the largest parts.
std::string parts_words(const BenchRow& row, std::size_t most);
std::string heading_words(const BenchReport& report);
// What the fit says, and what guides published beside what was measured.
std::vector<std::string> fit_words(const BenchReport& report);
std::vector<std::string> published_words(const BenchReport& report);
// An epoch as presets would take it, where the first takes as long as was published.
std::string minutes_words(double minutes);

}  // namespace lockstep
