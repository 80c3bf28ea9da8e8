// One rank's trace with everything that is made of it once.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "traces/gpu_time.hpp"
#include "traces/host_labels.hpp"
#include "traces/step_cut.hpp"
#include "traces/work_rows.hpp"

namespace lockstep {

struct RankView {
  const RankTrace* trace = nullptr;
  std::int64_t clock_offset_ns = 0;  // added to its times they are of one clock
  std::map<int, int> gpu_of_device;  // as the report numbers them
  std::vector<WorkRow> rows;         // all, by begin
  HostLabels labels;
  std::vector<HostStep> host_steps;
  std::vector<GpuStep> steps;
  std::vector<GpuPiece> pieces;

  RankView() = default;
  RankView(const RankTrace& of, std::int64_t offset)
      : trace(&of),
        clock_offset_ns(offset),
        rows(work_rows(of, Extent::everything)),
        labels(of),
        host_steps(cut_steps(of)),
        steps(gpu_steps(host_steps, rows)),
        pieces(gpu_pieces(of, rows, labels, host_steps)) {}

  std::int64_t begin_ns() const {
    return pieces.empty() ? 0 : pieces.front().begin_ns + clock_offset_ns;
  }
  std::int64_t end_ns() const {
    return pieces.empty() ? 0 : pieces.back().end_ns + clock_offset_ns;
  }
};

}  // namespace lockstep
