#include "traces/own_code.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "traces/host_labels.hpp"
#include "traces/trace_units.hpp"

namespace lockstep {
namespace {

// Whose function of the user's own is running, moment by moment.
class OwnFunctions {
 public:
  OwnFunctions(const RankTrace& trace, std::uint32_t thread) {
    for (const HostRow& row : trace.host_rows)
      if (row.category == TraceCategory::python && row.thread == thread && row.duration_ns > 0 &&
          own_line(trace.names[row.name]))
        rows_.push_back(&row);
    std::ranges::stable_sort(rows_, [](const HostRow* a, const HostRow* b) {
      return a->start_ns != b->start_ns ? a->start_ns < b->start_ns
                                        : a->duration_ns > b->duration_ns;
    });
  }
  bool any() const { return !rows_.empty(); }

  // Calls visit(length_ns, name) for what lies in [from, to). Stretches must come in order.
  template <class Visit>
  void each(std::int64_t from, std::int64_t to, Visit visit) {
    while (from < to) {
      while (next_ < rows_.size() && rows_[next_]->start_ns <= from)
        open_.push_back(rows_[next_++]);
      while (!open_.empty() && open_.back()->end_ns() <= from) open_.pop_back();
      std::int64_t until = to;
      if (next_ < rows_.size()) until = std::min(until, rows_[next_]->start_ns);
      if (!open_.empty()) {
        until = std::min(until, open_.back()->end_ns());
        visit(until - from, open_.back()->name);
      }
      from = until;
    }
  }

 private:
  std::vector<const HostRow*> rows_;
  std::vector<const HostRow*> open_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<TraceCode> own_code(const RankTrace& trace, std::uint32_t thread,
                                const std::vector<GpuPiece>& pieces, int steps) {
  OwnFunctions functions(trace, thread);
  if (!functions.any()) return {};
  std::map<NameTable::Id, std::int64_t> idle_ns;
  for (const GpuPiece& piece : pieces)
    if (piece.use == GpuUse::idle && piece.part == StepPart::other && piece.launched_late)
      functions.each(piece.begin_ns, piece.end_ns,
                     [&](std::int64_t length, NameTable::Id name) { idle_ns[name] += length; });
  std::vector<TraceCode> code;
  for (const auto& [name, length] : idle_ns) {
    auto line = own_line(trace.names[name]);
    code.push_back({std::move(line->file), line->line,
                    static_cast<double>(length) / kNsInMs / std::max(1, steps)});
  }
  std::ranges::stable_sort(code, std::greater{}, &TraceCode::idle_ms_a_step);
  return code;
}

}  // namespace lockstep
