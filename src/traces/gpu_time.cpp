#include "traces/gpu_time.hpp"

#include <algorithm>

#include "traces/trace_units.hpp"

namespace lockstep {
namespace {

// between a launch and its kernel's begin on an idle GPU: 5 to 10 us, seldom more
constexpr std::int64_t kLaunchTakesNs = 30'000;

// Between two operators of an eager loop lie tens of microseconds of Python: so long without any is
// code of the loop's own, whatever came before it.
constexpr std::int64_t kOwnCodeNs = 1'000'000;

// So little between two operators is Python on its way to the next launch.
constexpr std::int64_t kBetweenOperatorsNs = 100'000;

// The GPU's time without holes: computing first, then collectives, then copies.
class Cover {
 public:
  Cover(const std::vector<WorkRow>& rows, KernelType type) {
    for (const WorkRow& row : rows) {
      if ((row.type == KernelType::other ? KernelType::compute : row.type) != type ||
          row.end_ns <= covered_)
        continue;
      const std::int64_t begin = pieces_.empty() ? row.start_ns : std::max(row.start_ns, covered_);
      pieces_.push_back({begin, row.end_ns, &row});
      covered_ = row.end_ns;
    }
  }

  struct Piece {
    std::int64_t begin;
    std::int64_t end;
    const WorkRow* row;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;
  std::int64_t covered_ = INT64_MIN;
};

StepPart part_of_launch(const WorkRow& row, const HostLabels& labels, const HostRow* launch) {
  if (launch == nullptr) return StepPart::other;
  const StepPart part = labels.at(launch->thread, launch->start_ns).part;
  // What a loader, a log or a wait launches is work of the step all the same.
  const bool of_step = part == StepPart::forward || part == StepPart::backward ||
                       part == StepPart::optimizer || part == StepPart::evaluation;
  return of_step ? part : row.type == KernelType::memory ? StepPart::copy : StepPart::forward;
}

bool has_a_reason(StepPart part) {
  return part == StepPart::data_wait || part == StepPart::logging || part == StepPart::checkpoint ||
         part == StepPart::evaluation || part == StepPart::gc;
}

class PieceMaker {
 public:
  PieceMaker(const RankTrace& trace, const HostLabels& labels, std::vector<GpuPiece>& pieces)
      : trace_(trace), labels_(labels), pieces_(pieces) {}

  void busy(std::int64_t begin, std::int64_t end, GpuUse use, const WorkRow& row,
            const HostRow* launch) {
    StepPart part = part_of_launch(row, labels_, launch);
    if (use == GpuUse::communicates) part = StepPart::collective_exposed;
    if (use == GpuUse::copies) part = StepPart::copy;
    add({begin, end, use, part, row.name, kNoRow, false});
  }

  // [begin, end) before `next` began.
  void idle(std::int64_t begin, std::int64_t end, const HostRow* launch) {
    if (launch == nullptr) {
      add({begin, end, GpuUse::idle, StepPart::other, 0, kNoRow, false});
      return;
    }
    const std::int64_t launched = std::min(launch->start_ns, end);
    if (launched <= begin) {  // launched in time
      const bool is_latency = end - begin < kLaunchTakesNs;
      add({begin, end, GpuUse::idle,
           is_latency ? labels_.at(launch->thread, launch->start_ns).part : StepPart::other, 0,
           kNoRow, false});
      return;
    }
    // The GPU ran empty while the host waited for it: the operators that the host then has to catch
    // up with are the wait's doing. A loader, a log or a save behind it is a reason of its own.
    const HostSegment first = labels_.at(launch->thread, begin - kClockSlackNs);
    const bool waited = first.part == StepPart::sync || first.part == StepPart::copy;
    const HostSegment launching = labels_.at(launch->thread, launched);
    const auto because_of = [&](const HostSegment& segment,
                                std::int64_t length) -> const HostSegment& {
      const bool own_code = segment.part == StepPart::other && length >= kOwnCodeNs;
      if (waited && !own_code && !has_a_reason(segment.part)) return first;
      return segment.part == StepPart::other && length < kBetweenOperatorsNs ? launching : segment;
    };
    labels_.each_piece(launch->thread, begin, launched,
                       [&](std::int64_t from, std::int64_t to, const HostSegment& segment) {
                         add(idle_piece(from, to, because_of(segment, to - from)));
                       });
    add(idle_piece(launched, end, because_of(launching, 0)));
  }

 private:
  GpuPiece idle_piece(std::int64_t from, std::int64_t to, const HostSegment& segment) const {
    return {from,
            to,
            GpuUse::idle,
            segment.part,
            segment.row == kNoRow ? 0 : trace_.host_rows[segment.row].name,
            segment.row,
            true};
  }

  void add(const GpuPiece& piece) {
    if (piece.end_ns <= piece.begin_ns) return;
    if (!pieces_.empty()) {
      GpuPiece& last = pieces_.back();
      if (last.end_ns == piece.begin_ns && last.use == piece.use && last.part == piece.part &&
          last.name == piece.name && last.host_row == piece.host_row &&
          last.launched_late == piece.launched_late) {
        last.end_ns = piece.end_ns;
        return;
      }
    }
    pieces_.push_back(piece);
  }

  const RankTrace& trace_;
  const HostLabels& labels_;
  std::vector<GpuPiece>& pieces_;
};

// Of one step alone, what comes before its first kernel is a part of it as of any other, unless
// that kernel stood in a queue: behind work of the step before, which no profiler wrote down.
std::int64_t first_moment(const std::vector<WorkRow>& rows, const std::vector<HostStep>& steps) {
  const WorkRow& first = rows.front();
  const bool stood_in_a_queue =
      first.launch == nullptr || first.start_ns - first.launch->start_ns > kLaunchTakesNs;
  return steps.size() == 1 && !stood_in_a_queue ? std::min(first.start_ns, steps.front().begin_ns)
                                                : first.start_ns;
}

}  // namespace

std::vector<GpuPiece> gpu_pieces(const RankTrace& trace, const std::vector<WorkRow>& rows,
                                 const HostLabels& labels, const std::vector<HostStep>& steps) {
  std::vector<GpuPiece> result;
  if (rows.empty()) return result;
  const Cover compute(rows, KernelType::compute);
  const Cover communication(rows, KernelType::communication);
  const Cover memory(rows, KernelType::memory);
  struct PieceSource {
    const std::vector<Cover::Piece>& pieces;
    GpuUse use;
    std::size_t at = 0;
  };
  std::array<PieceSource, 3> sources = {PieceSource{compute.pieces(), GpuUse::computes},
                                        PieceSource{communication.pieces(), GpuUse::communicates},
                                        PieceSource{memory.pieces(), GpuUse::copies}};
  PieceMaker maker(trace, labels, result);
  std::int64_t now = first_moment(rows, steps);
  while (true) {
    const WorkRow* running = nullptr;
    GpuUse use = GpuUse::idle;
    std::int64_t until = INT64_MAX;
    const WorkRow* next = nullptr;
    for (PieceSource& source : sources) {
      while (source.at < source.pieces.size() && source.pieces[source.at].end <= now) ++source.at;
      if (source.at == source.pieces.size()) continue;
      const Cover::Piece& piece = source.pieces[source.at];
      if (piece.begin > now) {
        if (piece.begin < until && running == nullptr) next = piece.row;
        until = std::min(until, piece.begin);
      } else if (running == nullptr) {
        running = piece.row;
        use = source.use;
        until = std::min(until, piece.end);
      } else {
        until = std::min(until, std::max(piece.end, now + 1));
      }
    }
    if (until == INT64_MAX) break;
    const WorkRow* const row = running != nullptr ? running : next;
    const HostRow* const launch = row->launch;
    if (running != nullptr)
      maker.busy(now, until, use, *running, launch);
    else
      maker.idle(now, until, launch);
    now = until;
  }
  return result;
}

std::vector<GpuStep> gpu_steps(const std::vector<HostStep>& steps,
                               const std::vector<WorkRow>& rows) {
  std::vector<GpuStep> result;
  if (steps.empty() || rows.empty()) return result;
  std::vector<std::int64_t> ends(steps.size(), INT64_MIN);
  std::vector<std::int64_t> begins(steps.size(), INT64_MAX);  // of its first kernel
  std::int64_t first = INT64_MAX;
  for (const WorkRow& row : rows) {
    const std::int64_t launched = row.launched_ns.value_or(row.start_ns);
    const auto behind = std::ranges::upper_bound(steps, launched, {}, &HostStep::begin_ns);
    if (behind == steps.begin()) continue;
    const auto place = static_cast<std::size_t>(std::prev(behind) - steps.begin());
    if (launched >= steps[place].end_ns && place + 1 == steps.size()) continue;
    ends[place] = std::max(ends[place], row.end_ns);
    begins[place] = std::min(begins[place], row.start_ns);
    first = std::min(first, row.start_ns);
  }
  std::int64_t begin = std::min(steps.front().begin_ns, first);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // Where the GPU is done before the host is, the step lasts until the host ends it, or the next
    // one's kernels begin.
    const std::int64_t next = i + 1 < steps.size() ? begins[i + 1] : INT64_MAX;
    const std::int64_t end = std::max(ends[i], std::min(steps[i].end_ns, next));
    if (end <= begin) continue;
    result.push_back({steps[i].index, begin, end});
    begin = end;
  }
  return result;
}

std::vector<GpuStretch> hidden_communication(const std::vector<WorkRow>& rows) {
  const Cover compute(rows, KernelType::compute);
  const Cover communication(rows, KernelType::communication);
  std::vector<GpuStretch> result;
  std::size_t at = 0;
  for (const Cover::Piece& collective : communication.pieces()) {
    while (at < compute.pieces().size() && compute.pieces()[at].end <= collective.begin) ++at;
    for (std::size_t i = at;
         i < compute.pieces().size() && compute.pieces()[i].begin < collective.end; ++i)
      result.push_back({std::max(collective.begin, compute.pieces()[i].begin),
                        std::min(collective.end, compute.pieces()[i].end)});
  }
  return result;
}

}  // namespace lockstep
