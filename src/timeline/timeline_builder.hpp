// Puts records on one clock: a series for each quantity of each GPU, with gaps marked and never
// filled.
#pragma once

#include <map>
#include <optional>

#include "lockstep/timeline.hpp"

namespace lockstep {

// A tick this many usual spacings late is a gap: jitter is 5 %, a loaded machine delays by one or
// two.
inline constexpr double kGapSpacings = 4;

class TimelineBuilder {
 public:
  TimelineBuilder(Machine machine, SourceKind kind, std::string detail);

  void add(const Record& record);
  // Whether a record of this time would be taken: a series must not run backwards, and thirty years
  // are no run.
  bool accepts(double t_ms) const;
  // The run goes on at least until here, though no record came: what a driver said before it fell
  // silent grows old.
  void advance_to(double t_ms);
  // Drops what lies before, for a watch without end: what is left is the timeline of a shorter run.
  // Who is lost stays told.
  void forget_before(double t_ms);
  // As it stands, nothing settled yet.
  const Timeline& so_far() const { return timeline_; }
  // The timeline so far. What was last read long before its end is marked stale.
  Timeline build() const;

 private:
  // What is known of a quantity beside its values.
  struct Asked {
    bool had_value = false;
    std::optional<ReadingState> failed_as;
    double last_ms = 0;
  };

  // Ticks that begin with the same GPU: of several machines each has a rhythm of its own.
  struct Rhythm {
    std::optional<double> last_ms;
    std::vector<double> recent_spacings_ms;
  };

  GpuTrack& track(int index);
  void add_tick(const GpuTick& tick, double t_ms);
  void add_sample(const GpuSample& sample, double t_ms);
  void note_gap(const GpuTick& tick, double t_ms);

  Timeline timeline_;
  std::map<std::pair<int, std::string>, Asked> asked_;
  std::optional<double> last_tick_ms_;  // of any machine
  std::map<int, Rhythm> rhythms_;       // by the first GPU of the tick
  bool any_ = false;
  double newest_ms_ = 0;  // of any record
};

}  // namespace lockstep
