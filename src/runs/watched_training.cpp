#include "runs/watched_training.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/interrupt.hpp"
#include "base/median.hpp"
#include "base/text.hpp"
#include "launch/ranks/rank_environment.hpp"
#include "runs/judgement.hpp"
#include "runs/watched_command.hpp"
#include "signals/derive_signals.hpp"
#include "sources/open_input.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// 5 readings a second: on two cores, both of which train, watching must cost next to nothing.
constexpr auto kInterval = 200ms;
constexpr auto kLongestStart = 30s;
constexpr auto kLongestEnd = 40s;  // a launcher gives its ranks 30

// CPU time of the whole machine in seconds: what ran, and what a hypervisor took away.
double machine_cpu_s() {
  const auto text = read_small_file("/proc/stat");
  if (!text) return 0;
  const std::string line = text->substr(0, text->find('\n'));
  double ticks = 0;
  int place = 0;
  for (const std::string_view word : split(line, ' ')) {
    const auto value = parse_integer(word);
    if (!value) continue;
    // not idle, not waiting for a disk
    if (place != 3 && place != 4 && place < 8) ticks += static_cast<double>(*value);
    ++place;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double cpu_s(const rusage& usage) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// CPU time of this process and of all children that have ended.
double own_cpu_s() {
  rusage self{};
  rusage children{};
  ::getrusage(RUSAGE_SELF, &self);
  ::getrusage(RUSAGE_CHILDREN, &children);
  return cpu_s(self) + cpu_s(children);
}

void show_progress(const TrainingWatchOptions& options, double worked_s) {
  if (options.quiet || ::isatty(STDERR_FILENO) != 1) return;
  const double whole = to_ms(options.duration) / 1e3;
  say(fmt::format("\r\x1b[Ktraining and watching: {:.0f} of {:.0f} s", std::min(worked_s, whole),
                  whole));
}

// Tokens a second from a trainer's JSON lines: the median, without the first line, which holds the
// start.
double tokens_per_s_in(const std::string& json_lines) {
  std::vector<double> rates;
  for (const std::string_view line : split(json_lines, '\n')) {
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object() || parsed.contains("done") || !parsed.contains("tokens_per_s") ||
        !parsed["tokens_per_s"].is_number())
      continue;
    rates.push_back(parsed["tokens_per_s"].get<double>());
  }
  if (rates.size() > 2) rates.erase(rates.begin());
  return middle_value(std::move(rates));
}

}  // namespace

void train_apart(const std::string& scope) {
  const Variables around = own_variables();
  const Variables kept = without_launcher(around);
  for (const auto& [name, value] : around)
    if (!kept.contains(name)) ::unsetenv(name.c_str());
  ::setenv("LOCKSTEP_VIRTUAL_SCOPE", fmt::format("{}-{}", scope, ::getpid()).c_str(), 1);
}

Result<WatchedTraining> run_and_watch(std::string title, const std::vector<std::string>& command,
                                      const TrainingWatchOptions& options) {
  SourceOptions source_options;
  source_options.interval = kInterval;
  source_options.process_period = 1s;
  source_options.attention = Attention::close;
  auto source = TRY(open_source(options.input, source_options));

  const double machine_before = machine_cpu_s();
  const double own_before = own_cpu_s();
  const auto began = monotonic_now();
  auto watched = TRY(WatchedCommand::start({.command = command, .output = ChildOutput::to_file},
                                           std::move(source)));

  ObservationOptions how;
  // of real GPUs those that it holds, whichever it may see
  how.keep_free_gpus = !options.input.empty();
  how.stop = [&] { return monotonic_now() - began > options.duration + kLongestStart; };
  how.enough = [&](const Timeline& so_far) {
    const Signals signals = derive_signals(so_far);
    double worked_ms = 0;  // the start counts for nothing
    for (const JobSignals& job : signals.jobs)
      if (job.active) worked_ms = std::max(worked_ms, so_far.to_ms - job.from_ms);
    show_progress(options, worked_ms / 1e3);
    return worked_ms >= to_ms(options.duration);
  };
  auto timeline = watched.observe(how);
  if (!options.quiet && ::isatty(STDERR_FILENO) == 1) say("\r\x1b[K");
  watched.let_go();

  WatchedTraining run;
  ChildCommand& child = watched.child();
  run.failed = child.ended() && child.end()->exit_code != 0;
  child.end_within(kLongestEnd);
  run.interrupted = interrupted_by() != 0;
  const double wall_s = to_ms(monotonic_now() - began) / 1e3;
  run.other_cores =
      std::max(0.0, (machine_cpu_s() - machine_before) - (own_cpu_s() - own_before)) / wall_s;
  run.measured.title = std::move(title);
  run.measured.command = command;
  run.measured.tokens_per_s = tokens_per_s_in(child.output());
  if (run.interrupted || run.failed) return run;
  if (!timeline) return std::move(timeline).error();
  run.speed = speed_of(*timeline, wall_s);
  run.measured.report = report_of(*timeline, judge(*timeline));
  return run;
}

}  // namespace lockstep
