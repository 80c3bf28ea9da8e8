// What detectors ask of the steps that probes saw: which lines, on which ranks, how much.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "detectors/finding_tools.hpp"

namespace lockstep {

// Enough steps, with the lines that they come from.
inline bool is_probed(const JobSignals& job) {
  return job.steps && job.steps->count >= 5 && !job.steps->places.empty();
}

// Enough steps, and how the training is set up: by a probe, or by a program that tells it itself
// (then no lines are known).
inline bool is_told(const JobSignals& job) {
  return job.steps && job.steps->count >= 5 && job.settings;
}
// Whether gradients are averaged over ranks.
inline bool exchanges(const JobSignals& job) {
  return job.steps->synced_passes_a_step > 0 ||
         (job.steps->places.empty() && job.settings->backend);
}
// Passes an update, of a program whose steps are passes: those without an optimizer part belong to
// the one with it.
inline double passes_of_an_update(const JobSignals& job) {
  return job.steps->passes_a_step > 0 ? job.steps->passes_a_step
                                      : 1 / std::max(0.001, 1 - job.steps->steps_without_optimizer);
}

// What even the fastest waits for: where one rank spends the time the others wait for it.
inline double share_of_slowest(const JobSignals& job, StepPart part) {
  double most = 0;
  for (const RankSteps& rank : job.steps->ranks) most = std::max(most, rank.share[index_of(part)]);
  return most;
}

inline constexpr std::int64_t kFewestRecordedSteps = 5;

inline double idle_while_launching(const RankDevices& rank) {
  double idle = 0;
  for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
    idle += rank.idle[index_of(part)];
  return idle;
}

// A GPU that computes loses nothing, whatever the host does meanwhile. By its own records where
// they are.
inline double most_that_can_be_lost(const JobSignals& job) {
  if (!job.steps || !job.steps->devices) return 1;
  double most = 0;
  for (const RankDevices& rank : job.steps->devices->ranks)
    if (const DeviceUse* const use = rank.main()) most = std::max(most, 1 - use->computes);
  return most;
}

// The rank whose GPU rests least while its host launches kernels, by the GPUs' own records: the
// others also wait for each other. Null: there are no records.
inline const RankDevices* least_launch_bound(const JobSignals& job) {
  if (!job.steps || !job.steps->devices || job.steps->devices->steps < kFewestRecordedSteps)
    return nullptr;
  const auto& ranks = job.steps->devices->ranks;
  const auto least = std::ranges::min_element(ranks, {}, idle_while_launching);
  return least == ranks.end() || least->main() == nullptr ? nullptr : &*least;
}

// The places of a part, costliest first, that make up the most of it.
inline std::vector<const PlaceSignals*> main_places(const JobSignals& job, StepPart part) {
  constexpr double kPartOfTheCostliest = 0.2;
  std::vector<const PlaceSignals*> places;
  for (const PlaceSignals& place : job.steps->places)
    if (place.part == part && !place.place.file.empty() &&
        (places.empty() || place.most_share >= kPartOfTheCostliest * places.front()->most_share))
      places.push_back(&place);
  return places;
}

// The line itself, and the line of the training loop that leads there.
inline void name_line(Finding& finding, const CodePlace& place) {
  const auto add = [&](int line) {
    const bool known = std::ranges::any_of(finding.where, [&](const SourceLine& other) {
      return other.file == place.file && other.line == line;
    });
    if (line > 0 && !known) finding.where.push_back({place.file, line});
  };
  add(place.line);
  add(place.loop_line);
}

// Where and on which ranks, for a finding that probes made.
inline void name_places(Finding& finding, const JobSignals& job,
                        const std::vector<const PlaceSignals*>& places) {
  constexpr std::size_t kMostLines = 4;
  finding.rung = 1;
  for (const PlaceSignals* const place : places)
    if (finding.where.size() < kMostLines) name_line(finding, place->place);
  if (!places.empty() && places.front()->ranks.size() < job.steps->ranks.size())
    finding.ranks = places.front()->ranks;
}

// The loader that the training loop waits for: the one behind the costliest wait, on its rank.
inline const LoaderSetting* training_loader(const JobSignals& job) {
  if (!job.settings) return nullptr;
  if (job.steps->places.empty())
    return job.settings->loaders.empty() ? nullptr : &job.settings->loaders.front();
  for (const PlaceSignals& place : job.steps->places) {
    if (place.part != StepPart::data_wait) continue;
    for (const LoaderSetting& loader : job.settings->loaders)
      if (std::ranges::find(place.subjects, loader.id) != place.subjects.end()) return &loader;
  }
  return nullptr;
}

// A fault in how data are dealt out: whatever it costs, on all ranks, where the loop takes its
// batches.
inline void blame_the_loader(Finding& finding, const JobSignals& job) {
  finding.is_fault = true;
  name_places(finding, job, main_places(job, StepPart::data_wait));
  finding.ranks.clear();
}

// Of the waiting for data, what hides behind the GPU's work costs nothing.
inline double exposed_data_wait(const JobSignals& job) {
  return std::max(
      0.0, share_of_slowest(job, StepPart::data_wait) - job.steps->hidden_data_wait.value_or(0));
}

}  // namespace lockstep
