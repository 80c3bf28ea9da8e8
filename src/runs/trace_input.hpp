// Traces as an input: opened, checked, analysed and judged.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/timeline.hpp"
#include "rows/rank_trace.hpp"
#include "runs/judgement.hpp"

namespace lockstep {

// Whose definitions and rounding the trace's numbers follow.
enum class TraceRules : std::uint8_t { exact, hta };

struct JudgedTraces {
  std::vector<RankTrace> traces;  // by rank
  Timeline timeline;
  std::vector<std::int64_t> clock_offsets_ns;
  Judged run;
  std::vector<std::string> notes;  // for the user, once
};

struct TraceQuestion {
  TraceRules rules = TraceRules::exact;
  std::map<std::string, int> ranks;  // of files that do not say themselves which they are of
  // steps of the training thread are an answer where nothing of a GPU is there
  bool without_gpu = false;
};

// An error where one cannot be read, or none has a row of a GPU.
Result<JudgedTraces> judge_traces(const std::vector<std::string>& paths,
                                  const TraceQuestion& question);

}  // namespace lockstep
