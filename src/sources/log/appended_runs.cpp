#include "sources/log/appended_runs.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "sources/log/exceptions.hpp"

namespace lockstep {
namespace {

// Said once by a program that starts, before its ranks could fail.
bool starts_a_program(std::string_view line) {
  return holds_any(line, {"Setting ds_accelerator to", "nohup: ", "Setting OMP_NUM_THREADS",
                          "torch.distributed.launch is deprecated", "Starting elastic_operator"});
}

// Said early in a run: behind the end of a whole job it is the next one's.
bool is_said_early(std::string_view line) {
  return holds_any(line, {"Loading checkpoint shards:   0%", "Tracking run with wandb",
                          "0%|          | 0/", "Namespace("});
}

bool ends_a_job(std::string_view line) {
  return holds_any(line, {"ChildFailedError", "slurmstepd: error: *** ", "Sender: LSF System",
                          "exits with return code ="});
}

// "slurmstepd: error: *** JOB 263121 ON dgx-15 CANCELLED AT ...": 263121.
std::optional<std::int64_t> job_that_ended(std::string_view line) {
  constexpr std::string_view kJob = "slurmstepd: error: *** JOB ";
  const auto at = line.find(kJob);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + kJob.size());
  return parse_integer(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// One process alone: its exception is the end of all.
bool ends_a_process(std::span<const std::string> lines, std::size_t at) {
  return is_exception(lines[at]) && without_its_rank(lines[at]) == trim(lines[at]) &&
         has_a_traceback(lines, at);
}

enum class WhatEnded : std::uint8_t { nothing, process, job };

}  // namespace

LastRun last_run(std::span<const std::string> lines) {
  LastRun last;
  WhatEnded ended = WhatEnded::nothing;
  std::optional<std::int64_t> job;
  std::size_t behind_job = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const bool begins = (ended != WhatEnded::nothing && starts_a_program(line)) ||
                        (ended == WhatEnded::job && is_said_early(line));
    if (begins) {
      last = {i, last.runs + 1};
      ended = WhatEnded::nothing;
    }
    if (const auto number = job_that_ended(line)) {
      if (job && *number > *job && last.first_line < behind_job) last = {behind_job, last.runs + 1};
      job = number;
      behind_job = i + 1;
    }
    if (ends_a_job(line))
      ended = WhatEnded::job;
    else if (ended == WhatEnded::nothing && ends_a_process(lines, i))
      ended = WhatEnded::process;
  }
  return last;
}

}  // namespace lockstep
