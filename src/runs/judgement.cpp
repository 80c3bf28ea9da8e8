#include "runs/judgement.hpp"

#include "advice/advice_table.hpp"
#include "detectors/diagnosis.hpp"
#include "report/report_builder.hpp"
#include "runs/observation.hpp"
#include "signals/derive_signals.hpp"

namespace lockstep {

Judged judge(const Timeline& timeline) {
  Judged judged;
  judged.signals = derive_signals(timeline);
  judged.diagnosis = diagnose(judged.signals);
  add_advice(judged.diagnosis, judged.signals);
  return judged;
}

Result<Judged> judge_file(const std::string& path, const SourceOptions& options,
                          const std::string& next) {
  auto source = TRY(open_source(path, options));
  if (source->facts().live) return usage_error("--against needs a file", next);
  auto timeline = TRY(observe(*source, {}));
  return judge(timeline);
}

Report report_of(const Timeline& timeline, const Judged& run) {
  return build_report(timeline, run.signals, run.diagnosis);
}

}  // namespace lockstep
