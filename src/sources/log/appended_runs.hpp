// Several runs in one log: nohup.out and a scheduler's file are appended to.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lockstep {

struct LastRun {
  std::size_t first_line = 0;  // from 0
  std::size_t runs = 1;        // in the whole log
};

// Another run begins where a program started, or another job's number stands, behind the end of the
// one before. A launcher's restart of its ranks is the same run.
LastRun last_run(std::span<const std::string> lines);

}  // namespace lockstep
