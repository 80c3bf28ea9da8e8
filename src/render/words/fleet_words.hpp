// Words for reports over several machines: where a finding is, and which jobs there are.
#pragma once

#include <optional>
#include <string>

#include "lockstep/report.hpp"
#include "render/words/trace_words.hpp"

namespace lockstep {

// "node3 GPU 0 to 7"; on one machine "GPU 0, 1 (rank 3)".
std::string where_words(const Finding& finding);
// A GPU that it is about, or where none is known the one rank.
bool has_a_place(const Finding& finding);

// "node3 GPU 4" where several machines were watched, else "GPU 4".
std::string gpu_label(const GpuInfo& gpu);

// The same in few columns: "node3:4", "…-pool-node-17:4", "GPU 4".
std::string short_gpu_label(const GpuInfo& gpu);

bool has_several_machines(const Report& report);

// The jobs of several machines, those with findings first; nothing where one machine was watched.
std::optional<WordTable> job_table(const Report& report);

// How the clocks of machines whose recordings were put together lie apart; nothing where there is
// one.
std::optional<WordTable> clock_table(const Report& report);

}  // namespace lockstep
