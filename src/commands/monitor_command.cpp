#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/interrupt.hpp"
#include "commands/command_line.hpp"
#include "commands/config_file.hpp"
#include "render/json/json_renderer.hpp"
#include "render/text/monitor_table.hpp"
#include "render/tui/terminal/terminal_session.hpp"
#include "report/report_builder.hpp"
#include "runs/judgement.hpp"
#include "runs/live_screen.hpp"
#include "runs/monitor_setup.hpp"
#include "runs/observation.hpp"
#include "runs/watch.hpp"
#include "signals/gpu_signals.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Long enough for one whole utilization window (200 ms) and two looks at the processes' CPU time.
constexpr auto kOnce = 300ms;
constexpr auto kProcessesDuringOnce = 150ms;

// As typed, beside the shared options.
struct MonitorOptions {
  bool once = false;
  bool read_only = false;
};

Result<int> print_once(const RunOptions& options) {
  SourceOptions how = options.source_options();
  how.process_period = kProcessesDuringOnce;
  auto source = TRY(open_source(options.input, how));
  ObservationOptions how_long;
  how_long.duration = options.duration;
  if (!how_long.duration && source->facts().live) how_long.duration = kOnce;
  how_long.pid = options.pid;
  auto timeline = TRY(observe(*source, how_long));
  if (const auto note = source->repair_note(); note && !options.quiet)
    fmt::print(stderr, "lockstep: {}\n", *note);

  const Report report = build_report(timeline, gpu_means(timeline));
  std::unique_ptr<Renderer> renderer;
  if (options.format == Format::json)
    renderer = std::make_unique<JsonRenderer>();
  else
    renderer = std::make_unique<MonitorTable>(
        options.colors, options.output.empty() ? terminal_width() : std::nullopt);
  const std::string text = renderer->render(report);
  TRY(put_result(options, text));
  return interrupted_by() != 0 ? exit_code::kInterrupted : exit_code::kDone;
}

Result<int> show_live(const RawOptions& raw, const RunOptions& options,
                      const MonitorOptions& typed) {
  LiveScreenOptions screen;
  screen.config = config_path(raw);
  auto setup = TRY(load_monitor_setup(screen.config));
  screen.start.setup = setup;
  screen.start.read_only = typed.read_only;
  screen.duration = options.duration;
  screen.colors = options.colors == Colors::on;
  screen.utf8 = terminal_has_utf8();

  FeedOptions feed;
  SourceOptions how = options.source_options();
  how.prometheus.after = AfterWindow::follow;
  feed.open = [input = options.input, how] { return open_source(input, how); };
  std::error_code unknown;
  feed.can_reopen = std::filesystem::is_regular_file(options.input, unknown);
  feed.interval = options.interval;
  feed.scene.judge = [](const Timeline& timeline) { return report_of(timeline, judge(timeline)); };
  if (options.pid)
    feed.scene.wanted = [pid = *options.pid](const ProcessSample& process, const Source& source) {
      return is_or_descends_from(process, pid, source);
    };
  return run_live_screen(std::move(feed), screen);
}

Result<int> monitor(const RawOptions& raw, const MonitorOptions& typed) {
  auto options = TRY(check(raw));
  watch_for_interrupts();
  if (typed.once || options.format == Format::json || !options.output.empty())
    return print_once(options);
  if (const auto reason = why_no_screen()) {
    if (!options.quiet) fmt::print(stderr, "lockstep: printing once: {}\n", *reason);
    return print_once(options);
  }
  return show_live(raw, options, typed);
}

}  // namespace

Run configure_monitor(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<MonitorOptions>();
  add_input_options(app, raw);
  app.add_option("--pid", raw.pid, "only this process, its children and their GPUs")
      ->type_name("PID");
  app.add_flag("--once", typed->once, "print a plain table and end");
  app.add_flag("--read-only", typed->read_only, "no key of the live screen sends a signal");
  add_prometheus_options(app, raw);
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [typed, &raw] { return monitor(raw, *typed); };
}

}  // namespace lockstep
