#include "signals/looks_at_steps.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {
namespace {

constexpr int kLooksOfAPlace = 10;  // 3 of 10 that are asleep are one in 30 by chance at a tenth
// Who never does anything else is not the thread that trains: Ray and its like train in another.
constexpr double kOnlyWaits = 0.9;

struct LooksTally {
  MainThreadDoing sums;

  void add(ThreadDoing doing, double waits_when_it_could_run) {
    ++sums.looks;
    if (doing != ThreadDoing::run) {
      sums.blocked[index_of(doing)] += 1;
      return;
    }
    sums.waiting_for_a_core += waits_when_it_could_run;
    sums.running += 1 - waits_when_it_could_run;
  }
  std::optional<MainThreadDoing> shares() const {
    if (sums.looks < kLooksOfAPlace) return std::nullopt;
    MainThreadDoing result = sums;
    const double all = sums.looks;
    result.running /= all;
    result.waiting_for_a_core /= all;
    for (double& share : result.blocked) share /= all;
    return result;
  }
};

using Place = std::pair<StepPart, CodePlace>;

class RankLooks {
 public:
  explicit RankLooks(std::vector<const StepAt*> steps) : steps_(std::move(steps)) {
    std::ranges::sort(steps_, {}, &StepAt::t_ms);
  }

  void add(double t_ms, ThreadDoing doing, double waits_when_it_could_run) {
    const auto step = std::ranges::lower_bound(steps_, t_ms, {}, &StepAt::t_ms);
    if (step == steps_.end()) return;
    const double from_ms = (*step)->t_ms - (*step)->step.duration_ms;
    if (t_ms < from_ms) return;
    all_.add(doing, waits_when_it_could_run);
    const StepPiece* const piece = innermost_at(*(*step)->step.detail, t_ms - from_ms);
    if (piece == nullptr || piece->moment == PieceMoment::unknown) return;
    parts_[piece->part].add(doing, waits_when_it_could_run);
    if (piece->moment == PieceMoment::known)
      places_[{piece->part, *piece->place}].add(doing, waits_when_it_could_run);
  }

  bool trains() const {
    return all_.sums.blocked[index_of(ThreadDoing::lock)] < kOnlyWaits * all_.sums.looks;
  }
  const std::map<StepPart, LooksTally>& parts() const { return parts_; }
  const std::map<Place, LooksTally>& places() const { return places_; }

 private:
  static const StepPiece* innermost_at(const StepDetail& detail, double at_ms) {
    const StepPiece* found = nullptr;
    for (const StepPiece& piece : detail.pieces)
      if (piece.count == 1 && at_ms >= piece.from_ms && at_ms < piece.from_ms + piece.length_ms &&
          (found == nullptr || piece.length_ms <= found->length_ms))
        found = &piece;
    return found;
  }

  std::vector<const StepAt*> steps_;  // by their ends
  LooksTally all_;
  std::map<StepPart, LooksTally> parts_;
  std::map<Place, LooksTally> places_;
};

std::map<int, RankLooks> ranks_of(const Timeline& timeline, const StepSignals& signals) {
  std::map<int, std::vector<const StepAt*>> steps;
  for (const StepAt& entry : timeline.steps)
    if (entry.step.detail && entry.t_ms <= signals.last_step_ms &&
        entry.t_ms - entry.step.duration_ms >= signals.first_step_ms)
      steps[entry.step.rank].push_back(&entry);
  std::map<int, RankLooks> ranks;
  for (auto& [rank, own] : steps) ranks.emplace(rank, RankLooks(std::move(own)));
  return ranks;
}

// Of the moments at which a main thread could run, the share at which it had no core: the kernel
// counts how long it waited for one, a look says "run" of both.
double waits_when_it_could_run(const ProcessSample& process) {
  const auto could_run = static_cast<double>(std::ranges::count_if(
      process.looks, [](const HostLook& look) { return look.main == ThreadDoing::run; }));
  const double waits = process.cpu_wait.value_or(0) * static_cast<double>(process.looks.size());
  return could_run > 0 ? std::clamp(waits / could_run, 0.0, 1.0) : 0;
}

void add_to(LooksTally& tally, const LooksTally& other) {
  tally.sums.looks += other.sums.looks;
  tally.sums.running += other.sums.running;
  tally.sums.waiting_for_a_core += other.sums.waiting_for_a_core;
  for (std::size_t i = 0; i < tally.sums.blocked.size(); ++i)
    tally.sums.blocked[i] += other.sums.blocked[i];
}

}  // namespace

void add_main_thread(const Timeline& timeline, StepSignals& signals) {
  if (signals.places.empty()) return;
  std::map<int, int> rank_of_pid;  // of the processes that have a probe
  for (const FactAt& entry : timeline.facts) rank_of_pid[entry.fact.pid] = entry.fact.rank;
  std::map<int, RankLooks> ranks = ranks_of(timeline, signals);
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes) {
      const auto rank = rank_of_pid.find(process.pid);
      if (rank == rank_of_pid.end() || !ranks.contains(rank->second)) continue;
      const double waits = waits_when_it_could_run(process);
      for (const HostLook& look : process.looks)
        if (look.main) ranks.at(rank->second).add(list.t_ms - look.ago_ms, *look.main, waits);
    }
  std::map<StepPart, LooksTally> parts;
  std::map<Place, LooksTally> places;
  for (const auto& [rank, looks] : ranks) {
    if (!looks.trains()) continue;
    for (const auto& [part, tally] : looks.parts()) add_to(parts[part], tally);
    for (const auto& [place, tally] : looks.places()) add_to(places[place], tally);
  }
  for (const auto& [part, tally] : parts) signals.main_thread[index_of(part)] = tally.shares();
  for (PlaceSignals& place : signals.places)
    if (const auto found = places.find({place.part, place.place}); found != places.end())
      place.main_thread = found->second.shares();
}

}  // namespace lockstep
