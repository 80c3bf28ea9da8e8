#include "signals/step_places.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostSubjects = 4;

struct Sum {
  PlaceSignals signals;
  std::map<int, double> own_ms;  // by rank
  double hidden_ms = 0;
  double calls = 0;
  double bytes = 0;
  std::vector<double> step_ms;  // of each step that has it
};

}  // namespace

std::vector<PlaceSignals> places_of(const std::vector<const StepMark*>& steps) {
  std::map<std::pair<StepPart, CodePlace>, Sum> sums;
  std::map<int, double> whole_ms;
  std::map<int, double> steps_of;
  double whole = 0;
  for (const StepMark* const step : steps) {
    whole_ms[step->rank] += step->duration_ms;
    steps_of[step->rank] += 1;
    whole += step->duration_ms;
    std::map<Sum*, double> of_step;
    for (const StepPiece& piece : step->detail->pieces) {
      Sum& sum = sums[{piece.part, *piece.place}];
      sum.own_ms[step->rank] += piece.own_ms;
      sum.hidden_ms += piece.hidden_ms;
      sum.calls += static_cast<double>(piece.count);
      sum.bytes += static_cast<double>(piece.bytes);
      sum.signals.on_device = sum.signals.on_device || piece.on_device;
      sum.signals.pageable = sum.signals.pageable || piece.pageable;
      sum.signals.blocking = sum.signals.blocking || piece.blocking;
      auto& subjects = sum.signals.subjects;
      if (piece.subject != 0 && subjects.size() < kMostSubjects &&
          std::ranges::find(subjects, piece.subject) == subjects.end())
        subjects.push_back(piece.subject);
      of_step[&sum] += piece.own_ms;
    }
    for (const auto& [sum, own] : of_step) sum->step_ms.push_back(own);
  }
  std::vector<PlaceSignals> places;
  for (auto& [key, sum] : sums) {
    PlaceSignals place = std::move(sum.signals);
    place.part = key.first;
    place.place = key.second;
    double most = 0;
    for (const auto& [rank, own] : sum.own_ms) {
      place.share += own / whole_ms[rank] / static_cast<double>(whole_ms.size());
      most = std::max(most, own / whole_ms[rank]);
    }
    place.most_share = most;
    for (const auto& [rank, own] : sum.own_ms)
      if (own / whole_ms[rank] >= 0.1 * most) place.ranks.push_back(rank);
    double count = 0;  // steps of the ranks that have it
    for (const int rank : place.ranks) count += steps_of[rank];
    count = std::max(count, 1.0);
    place.hidden_share = sum.hidden_ms / whole;
    place.step_p50_ms = median_of(sum.step_ms).value_or(0);
    place.step_max_ms = quantile(sum.step_ms, 1).value_or(0);
    place.present = std::min(1.0, static_cast<double>(sum.step_ms.size()) / count);
    place.calls_a_step = sum.calls / count;
    place.bytes_a_step = sum.bytes / count;
    places.push_back(std::move(place));
  }
  std::ranges::stable_sort(
      places, [](const PlaceSignals& a, const PlaceSignals& b) { return a.share > b.share; });
  return places;
}

}  // namespace lockstep
