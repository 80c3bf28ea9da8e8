#include "traces/trace_timeline.hpp"

#include <algorithm>
#include <memory>

#include "traces/trace_units.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kBins = 960;  // eight for each column of a picture

Series<double> busy_series(const std::vector<WorkRow>& rows, int device, std::int64_t begin,
                           std::int64_t end, std::int64_t offset) {
  std::vector<double> busy(kBins);
  const double width = static_cast<double>(end - begin) / kBins;
  std::int64_t covered = INT64_MIN;
  for (const WorkRow& row : rows) {
    if (row.device != device) continue;
    const std::int64_t from = std::max(row.start_ns + offset, covered) - begin;
    const std::int64_t to = row.end_ns + offset - begin;
    covered = std::max(covered, row.end_ns + offset);
    if (to <= from || to <= 0) continue;
    auto bin = static_cast<std::size_t>(
        std::clamp(static_cast<double>(from) / width, 0.0, static_cast<double>(kBins - 1)));
    for (double at = static_cast<double>(std::max<std::int64_t>(0, from));
         at < static_cast<double>(to) && bin < kBins; ++bin) {
      const double until = std::min(static_cast<double>(to), static_cast<double>(bin + 1) * width);
      busy[bin] += std::max(0.0, until - at) / width;
      at = std::max(at, until);
    }
  }
  Series<double> series;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    series.t_ms.push_back(static_cast<double>(bin + 1) * width / kNsInMs);
    series.values.push_back(std::min(1.0, busy[bin]));
  }
  return series;
}

std::string words_of(const RankTrace& trace, const GpuPiece& piece) {
  if (piece.use != GpuUse::idle) return std::string(trace.names[piece.name].substr(0, 80));
  if (piece.host_row == kNoRow) return "GPU idle";
  return "GPU idle: " + std::string(trace.names[piece.name].substr(0, 70));
}

// Neighbours of one part become one piece; what is too short to be seen goes to its neighbour.
std::shared_ptr<const StepDetail> detail_of(const RankView& rank, const GpuStep& step,
                                            const std::vector<GpuPiece>& pieces) {
  auto detail = std::make_shared<StepDetail>();
  const double whole_ms = static_cast<double>(step.end_ns - step.begin_ns) / kNsInMs;
  for (const GpuPiece& piece : pieces) {
    const double from_ms = static_cast<double>(piece.begin_ns - step.begin_ns) / kNsInMs;
    const double length_ms = static_cast<double>(piece.end_ns - piece.begin_ns) / kNsInMs;
    if (!detail->pieces.empty()) {
      StepPiece& last = detail->pieces.back();
      const bool same = last.part == piece.part && last.on_device == (piece.use != GpuUse::idle);
      if (same || length_ms < kPieceWorthShowing * whole_ms) {
        last.length_ms += length_ms;
        last.own_ms += length_ms;
        continue;
      }
    }
    StepPiece shown;
    shown.part = piece.part;
    shown.place =
        std::make_shared<const CodePlace>(CodePlace{"", 0, words_of(*rank.trace, piece), 0});
    shown.from_ms = from_ms;
    shown.length_ms = length_ms;
    shown.own_ms = length_ms;
    shown.on_device = piece.use != GpuUse::idle;
    detail->pieces.push_back(std::move(shown));
  }
  return detail;
}

std::vector<GpuPiece> pieces_within(const std::vector<GpuPiece>& pieces, const GpuStep& step) {
  std::vector<GpuPiece> result;
  auto at = std::ranges::upper_bound(pieces, step.begin_ns, {}, &GpuPiece::end_ns);
  std::int64_t covered = step.begin_ns;
  for (; at != pieces.end() && at->begin_ns < step.end_ns; ++at) {
    GpuPiece piece = *at;
    piece.begin_ns = std::max(piece.begin_ns, step.begin_ns);
    piece.end_ns = std::min(piece.end_ns, step.end_ns);
    if (piece.begin_ns > covered)
      result.push_back({covered, piece.begin_ns, GpuUse::idle, StepPart::other, 0, kNoRow, true});
    covered = piece.end_ns;
    result.push_back(piece);
  }
  if (covered < step.end_ns)
    result.push_back({covered, step.end_ns, GpuUse::idle, StepPart::other, 0, kNoRow, true});
  return result;
}

std::int64_t within(const std::vector<GpuStretch>& stretches, const GpuStep& step) {
  std::int64_t sum = 0;
  auto at = std::ranges::upper_bound(stretches, step.begin_ns, {}, &GpuStretch::end_ns);
  for (; at != stretches.end() && at->begin_ns < step.end_ns; ++at)
    sum += std::min(at->end_ns, step.end_ns) - std::max(at->begin_ns, step.begin_ns);
  return sum;
}

// Before its first kernel and behind its last one the GPU was idle for what the host did.
std::vector<GpuPiece> with_reasons(const RankView& rank, const std::vector<GpuPiece>& pieces) {
  std::vector<GpuPiece> result;
  for (const GpuPiece& piece : pieces) {
    if (piece.use != GpuUse::idle || !piece.launched_late || piece.host_row != kNoRow ||
        piece.part != StepPart::other) {
      result.push_back(piece);
      continue;
    }
    rank.labels.each_piece(
        rank.labels.main_thread(), piece.begin_ns, piece.end_ns,
        [&](std::int64_t from, std::int64_t to, const HostSegment& segment) {
          result.push_back({from, to, GpuUse::idle, segment.part,
                            segment.row == kNoRow ? 0 : rank.trace->host_rows[segment.row].name,
                            segment.row, true});
        });
  }
  return result;
}

void add_steps(const RankView& rank, std::int64_t begin, Timeline& timeline) {
  const std::vector<GpuStretch> hidden_stretches = hidden_communication(rank.rows);
  // The probes' own steps count from 1, and so do these.
  const std::int64_t first = rank.steps.empty() || rank.steps.front().index > 0 ? 0 : 1;
  for (const GpuStep& step : rank.steps) {
    StepMark mark;
    mark.rank = rank.trace->rank;
    mark.index = step.index + first;
    mark.duration_ms = static_cast<double>(step.end_ns - step.begin_ns) / kNsInMs;
    std::vector<GpuPiece> pieces = pieces_within(rank.pieces, step);
    pieces = with_reasons(rank, pieces);
    for (const GpuPiece& piece : pieces) {
      auto& span = mark.spans_ms[index_of(piece.part)];
      span = span.value_or(0) + static_cast<double>(piece.end_ns - piece.begin_ns) / kNsInMs;
    }
    if (const std::int64_t hidden = within(hidden_stretches, step); hidden > 0)
      mark.spans_ms[index_of(StepPart::collective_hidden)] = static_cast<double>(hidden) / kNsInMs;
    mark.detail = detail_of(rank, step, pieces);
    timeline.steps.push_back(
        {static_cast<double>(step.end_ns + rank.clock_offset_ns - begin) / kNsInMs,
         std::move(mark)});
  }
}

}  // namespace

Timeline trace_timeline(const std::vector<RankView>& ranks) {
  Timeline timeline;
  timeline.source_kind = SourceKind::trace;
  std::int64_t begin = INT64_MAX;
  std::int64_t end = INT64_MIN;
  for (const RankView& rank : ranks) {
    if (rank.pieces.empty()) continue;
    begin = std::min(
        begin, rank.steps.empty()
                   ? rank.begin_ns()
                   : std::min(rank.begin_ns(), rank.steps.front().begin_ns + rank.clock_offset_ns));
    end = std::max(end, rank.end_ns());
  }
  if (begin >= end) return timeline;
  timeline.to_ms = static_cast<double>(end - begin) / kNsInMs;
  timeline.machine.started_unix_ns = begin;
  ProcessList processes;
  for (const RankView& rank : ranks) {
    ProcessSample process;
    process.rank = rank.trace->rank;
    process.world_size = rank.trace->world_size;
    if (rank.labels.main_thread() < rank.trace->threads.size())
      process.pid = static_cast<int>(rank.trace->threads[rank.labels.main_thread()].process);
    for (const auto& [device, gpu] : rank.gpu_of_device) {
      process.gpus.push_back({gpu, std::nullopt});
      GpuTrack track;
      for (const GpuInfo& info : rank.trace->devices)
        if (info.index == device) track.info = info;
      track.info.index = gpu;
      track.busy = busy_series(rank.rows, device, begin, end, rank.clock_offset_ns);
      track.info.busy_window_ms = timeline.to_ms / kBins;
      timeline.machine.gpus.push_back(track.info);
      timeline.gpus.push_back(std::move(track));
    }
    processes.processes.push_back(std::move(process));
    add_steps(rank, begin, timeline);
  }
  std::ranges::sort(timeline.gpus, [](const GpuTrack& a, const GpuTrack& b) {
    return a.info.index < b.info.index;
  });
  std::ranges::stable_sort(timeline.steps,
                           [](const StepAt& a, const StepAt& b) { return a.t_ms < b.t_ms; });
  timeline.process_lists.push_back(std::move(processes));
  return timeline;
}

}  // namespace lockstep
