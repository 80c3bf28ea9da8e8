#include "traces/host_timeline.hpp"

#include <algorithm>
#include <memory>

#include "traces/host_labels.hpp"
#include "traces/step_cut.hpp"
#include "traces/trace_units.hpp"

namespace lockstep {
namespace {

// Collectives of Gloo run on threads of their own: while one does and the training thread has
// nothing of its own, it waits.
std::vector<std::pair<std::int64_t, std::int64_t>> gloo_collectives(const RankTrace& trace) {
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (const HostRow& row : trace.host_rows)
    if (row.category == TraceCategory::annotation && trace.names[row.name].starts_with("gloo:"))
      result.emplace_back(row.start_ns, row.end_ns());
  std::ranges::sort(result);
  return result;
}

class StepMaker {
 public:
  explicit StepMaker(const RankTrace& trace)
      : trace_(trace),
        labels_(trace),
        collectives_(gloo_collectives(trace)),
        reductions_(begins_of_marks(trace, "gloo:all_reduce")),
        forwards_(begins_of_marks(trace, "DistributedDataParallel.forward")) {}

  StepMark mark_of(const HostStep& step, std::int64_t index) {
    StepMark mark;
    mark.rank = trace_.rank;
    mark.index = index;
    mark.duration_ms = static_cast<double>(step.end_ns - step.begin_ns) / kNsInMs;
    auto detail = std::make_shared<StepDetail>();
    labels_.each_piece(labels_.main_thread(), step.begin_ns, step.end_ns,
                       [&](std::int64_t from, std::int64_t to, const HostSegment& segment) {
                         if (segment.part != StepPart::other)
                           add(step, from, to, segment.part, segment.row, mark, *detail);
                         else
                           add_rest(step, from, to, mark, *detail);
                       });
    mark.detail = std::move(detail);
    if (const Passes passes = count_passes(forwards_, reductions_, step.begin_ns, step.end_ns);
        passes.all > 0) {
      mark.passes = passes.all;
      mark.synced_passes = passes.with_collectives;
    }
    return mark;
  }

 private:
  // Of time that no row explains, what a collective was under way for.
  void add_rest(const HostStep& step, std::int64_t from, std::int64_t to, StepMark& mark,
                StepDetail& detail) {
    auto at = std::ranges::upper_bound(collectives_, std::pair(from, INT64_MAX));
    if (at != collectives_.begin() && std::prev(at)->second > from) --at;
    for (; at != collectives_.end() && at->first < to; ++at) {
      const std::int64_t begin = std::max(from, at->first);
      const std::int64_t end = std::min(to, at->second);
      if (end <= begin) continue;
      add(step, from, begin, StepPart::other, kNoRow, mark, detail);
      add(step, begin, end, StepPart::collective_exposed, kNoRow, mark, detail);
      from = end;
    }
    add(step, from, to, StepPart::other, kNoRow, mark, detail);
  }

  void add(const HostStep& step, std::int64_t from, std::int64_t to, StepPart part,
           std::uint32_t row, StepMark& mark, StepDetail& detail) const {
    if (to <= from) return;
    const double length_ms = static_cast<double>(to - from) / kNsInMs;
    auto& span = mark.spans_ms[index_of(part)];
    span = span.value_or(0) + length_ms;
    if (!detail.pieces.empty() &&
        (detail.pieces.back().part == part || length_ms < kPieceWorthShowing * mark.duration_ms)) {
      detail.pieces.back().length_ms += length_ms;
      detail.pieces.back().own_ms += length_ms;
      return;
    }
    StepPiece piece;
    piece.part = part;
    piece.place = std::make_shared<const CodePlace>(CodePlace{"", 0, words_of(part, row), 0});
    piece.from_ms = static_cast<double>(from - step.begin_ns) / kNsInMs;
    piece.length_ms = piece.own_ms = length_ms;
    detail.pieces.push_back(std::move(piece));
  }

  std::string words_of(StepPart part, std::uint32_t row) const {
    if (row != kNoRow) return std::string(trace_.names[trace_.host_rows[row].name].substr(0, 80));
    if (part != StepPart::collective_exposed) return {};
    return forwards_.empty() ? "collective" : "gradient all-reduce";
  }

  const RankTrace& trace_;
  HostLabels labels_;
  std::vector<std::pair<std::int64_t, std::int64_t>> collectives_;
  std::vector<std::int64_t> reductions_;
  std::vector<std::int64_t> forwards_;
};

}  // namespace

Timeline host_timeline(const std::vector<RankTrace>& traces) {
  Timeline timeline;
  timeline.source_kind = SourceKind::trace;
  std::int64_t begin = INT64_MAX;
  std::vector<std::vector<HostStep>> steps;
  for (const RankTrace& trace : traces) {
    steps.push_back(cut_steps(trace));
    if (!steps.back().empty())
      begin = std::min(begin, steps.back().front().begin_ns + trace.base_unix_ns);
  }
  ProcessList processes;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    StepMaker maker(traces[i]);
    std::int64_t index = 0;
    for (const HostStep& step : steps[i]) {
      const double end_ms =
          static_cast<double>(step.end_ns + traces[i].base_unix_ns - begin) / kNsInMs;
      timeline.steps.push_back({end_ms, maker.mark_of(step, ++index)});
      timeline.to_ms = std::max(timeline.to_ms, end_ms);
    }
    ProcessSample process;
    process.rank = traces[i].rank;
    process.world_size = traces[i].world_size;
    if (!traces[i].threads.empty())
      process.pid = static_cast<int>(std::max<std::int64_t>(0, traces[i].threads.front().process));
    processes.processes.push_back(std::move(process));
  }
  std::ranges::stable_sort(timeline.steps,
                           [](const StepAt& a, const StepAt& b) { return a.t_ms < b.t_ms; });
  timeline.process_lists.push_back(std::move(processes));
  return timeline;
}

}  // namespace lockstep
