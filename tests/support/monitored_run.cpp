#include "support/monitored_run.hpp"

#include <stdexcept>

#include "advice/advice_table.hpp"
#include "detectors/diagnosis.hpp"
#include "monitor/monitor_scene.hpp"
#include "report/report_builder.hpp"
#include "signals/derive_signals.hpp"
#include "sources/replay/replay_source.hpp"
#include "support/paths.hpp"

namespace lockstep::testing {

Report judged(const Timeline& timeline) {
  const Signals signals = derive_signals(timeline);
  Diagnosis diagnosis = diagnose(signals);
  add_advice(diagnosis, signals);
  return build_report(timeline, signals, diagnosis);
}

std::shared_ptr<const Monitored> monitored_until(const std::filesystem::path& recording,
                                                 double until_ms) {
  auto reader = RecordingReader::open(recording);
  if (!reader) throw std::runtime_error(reader.error().what);
  ReplaySource source(std::move(*reader), recording.filename().string(), {});
  MonitorScene scene(source, {.judge = judged});
  Playback playback;
  double begin_ms = -1;
  while (true) {
    auto next = source.next(std::chrono::milliseconds(0));
    auto* const record = std::get_if<Record>(&*next);
    if (record == nullptr || record->t_ms > until_ms) break;
    if (begin_ms < 0) begin_ms = record->t_ms;
    scene.add(std::move(*record));
    if (scene.is_judgement_due())
      scene.take_verdict(judged(scene.to_be_judged({})), std::chrono::nanoseconds(0));
  }
  playback.begin_ms = begin_ms;
  playback.position_ms = until_ms;
  playback.end_ms = 60'000;
  scene.seen().playback = playback;
  return scene.shared();
}

std::filesystem::path screen_recording(const std::string& name) {
  return std::filesystem::path(source_tree()) / "tests/screens" / (name + ".jsonl.zst");
}

}  // namespace lockstep::testing
