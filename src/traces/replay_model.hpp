// A captured run as a graph: the host's calls in order, the kernels they launched, and what each
// waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/record.hpp"
#include "lockstep/trace_signals.hpp"
#include "traces/host_labels.hpp"
#include "traces/work_rows.hpp"

namespace lockstep {

inline constexpr std::int32_t kNone = -1;

// A call into the driver.
struct HostItem {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t gap = 0;         // the host's own time before it
  std::int32_t beside = kNone;  // the call of another thread that it began during
  std::int64_t residual = 0;    // of a wait: from the kernel's end to the call's
  std::int32_t first_node = kNone;
  std::int32_t node_count = 0;
  std::int32_t waits_for = kNone;
  StepPart part = StepPart::other;
};

// Of a gap, the time that belongs to a part.
struct GapPiece {
  std::int32_t item;
  StepPart part;
  std::int64_t length;
};

// Something that a GPU did.
struct ReplayNode {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t latency = 0;  // from its launch, at least
  std::int64_t slack = 0;    // that nothing explains
  std::int32_t item = 0;
  std::int32_t stream_before = kNone;
  std::int32_t other_stream = kNone;  // the kernel that it waited for
  std::int32_t collective = kNone;
  KernelType type = KernelType::compute;
};

// One rank's part in a collective.
struct CollectiveMember {
  std::size_t rank;
  std::int32_t node;
};

struct RankModel {
  int rank = 0;
  std::vector<HostItem> items;
  std::vector<GapPiece> gap_pieces;
  std::vector<ReplayNode> nodes;  // by item, in it by begin
};

// One rank's rows and what they were labelled as; they must outlive the model's making.
struct RankRows {
  const RankTrace* trace;
  const std::vector<WorkRow>* rows;  // everything that was recorded
  const HostLabels* labels;
  std::int64_t clock_offset_ns;
};

// `node_of_row` gets the node of each of the trace's device rows, or kNone.
RankModel model_of(const RankRows& rank, std::vector<std::int32_t>& node_of_row);

}  // namespace lockstep
