// What a process's threads did at every moment, as parts of a training step.
//
// Rows nest: an operator within an optimizer's step within the profiler's step. The innermost row
// whose name says what it is for decides; operators inherit from what surrounds them, and on their
// own are the forward pass, or on autograd's threads the backward.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/record.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

inline constexpr std::uint32_t kNoRow = UINT32_MAX;

struct HostSegment {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  StepPart part = StepPart::other;
  std::uint32_t row = kNoRow;  // the row that decided
};

class HostLabels {
 public:
  HostLabels() = default;
  explicit HostLabels(const RankTrace& trace);

  std::uint32_t main_thread() const { return main_thread_; }
  bool has_threads() const { return !segments_.empty(); }

  // What the thread did then, or where it did nothing known the main thread; a segment of `other`
  // where neither did.
  HostSegment at(std::uint32_t thread, std::int64_t time_ns) const;

  // Calls visit(from, to, segment) for the pieces of [from, to), in order.
  template <class Visit>
  void each_piece(std::uint32_t thread, std::int64_t from, std::int64_t to, Visit visit) const {
    // most are: its segments are walked along, not looked up
    if (thread == main_thread_ && thread < segments_.size()) {
      auto next = first_ending_after(from);
      for (; next != segments_[thread].end() && next->begin_ns < to; ++next) {
        if (next->begin_ns > from)
          visit(from, next->begin_ns, HostSegment{from, next->begin_ns, StepPart::other, kNoRow});
        from = std::max(from, next->begin_ns);
        const std::int64_t until = std::min(next->end_ns, to);
        visit(from, until, *next);
        from = until;
      }
      if (from < to) visit(from, to, HostSegment{from, to, StepPart::other, kNoRow});
      return;
    }
    while (from < to) {
      const HostSegment segment = at(thread, from);
      const std::int64_t until = segment.end_ns > from && segment.end_ns < to ? segment.end_ns : to;
      visit(from, until, segment);
      from = until;
    }
  }

 private:
  std::vector<HostSegment>::const_iterator first_ending_after(std::int64_t time_ns) const;
  const HostSegment* covering(std::uint32_t thread, std::int64_t time_ns,
                              std::int64_t& next_begin) const;

  std::uint32_t main_thread_ = 0;
  std::vector<std::vector<HostSegment>> segments_;  // by thread, in order, apart
};

// The part that a row's name speaks of by itself; nothing: it inherits.
std::optional<StepPart> part_of_name(std::string_view name, TraceCategory category);

struct PythonLine {
  std::string file;
  int line = 0;
};
// Of a frame's name, "/home/x/train.py(31): main", where it is no library's.
std::optional<PythonLine> own_line(std::string_view frame);
// Of the user's own code around a row: from the Python rows of its thread, or from the call stack
// that it carries.
std::optional<PythonLine> python_line(const RankTrace& trace, std::uint32_t host_row);

}  // namespace lockstep
