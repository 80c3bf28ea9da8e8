#include "runs/probed_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <thread>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "runs/judgement.hpp"
#include "runs/watched_command.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

std::string last_lines(const std::string& text) {
  constexpr std::size_t kLines = 15;
  const auto lines = split(trim(text), '\n');
  std::string tail;
  for (std::size_t i = lines.size() > kLines ? lines.size() - kLines : 0; i < lines.size(); ++i)
    tail += fmt::format("    {}\n", printable(std::string(lines[i])));
  return tail;
}

// The rank with the fewest: all of them have made as many.
std::int64_t steps_of_all(const Timeline& timeline) {
  std::map<int, std::int64_t> steps;
  for (const StepAt& entry : timeline.steps) ++steps[entry.step.rank];
  std::int64_t fewest = steps.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
  for (const auto& [rank, count] : steps) fewest = std::min(fewest, count);
  return fewest;
}

}  // namespace

Result<ProbedRun> run_probed(const std::vector<std::string>& command,
                             const ProbedRunOptions& options) {
  SourceOptions how_often;
  how_often.process_period = 1s;
  how_often.attention = Attention::close;
  auto gpus = open_source(options.input, how_often);
  WatchedCommandOptions what;
  what.command = command;
  what.output = ChildOutput::to_file;
  what.probes.python = true;
  what.probes.by_name = true;  // without it no step would ever be seen
  what.variables = options.variables;
  const auto begin = monotonic_now();
  auto watched = TRY(WatchedCommand::start(what, gpus ? std::move(*gpus) : nullptr));
  ObservationOptions how;
  how.without_gpus = true;
  how.keep_free_gpus = true;
  bool cut = false;
  how.enough = [&](const Timeline& so_far) {
    cut = (options.duration && monotonic_now() - begin > *options.duration) ||
          (options.steps && steps_of_all(so_far) >= *options.steps);
    return cut;
  };
  auto timeline = watched.observe(how);
  ChildCommand& child = watched.child();
  ProbedRun run;
  run.interrupted = interrupted_by() != 0;
  if (cut || run.interrupted) child.end_within(5s);
  const ChildEnd ended = child.wait();
  const double seconds = to_ms(monotonic_now() - begin) / 1000;
  run.speed.seconds = seconds;
  if (run.interrupted) return run;
  if (!cut && ended.exit_code != 0) {
    run.failure = fmt::format("the command {}; its last words:\n{}", in_words(ended),
                              last_lines(child.output()));
    return run;
  }
  if (!timeline) return run;  // no step and no GPU was seen: the time it took is all there is
  run.speed = speed_of(*timeline, seconds);
  run.report = report_of(*timeline, judge(*timeline));
  double busy = 0;
  for (const GpuReport& gpu : run.report.gpus) busy += gpu.busy.value_or(0);
  if (busy > 0.01) run.speed.gpu_work = busy;
  return run;
}

}  // namespace lockstep
