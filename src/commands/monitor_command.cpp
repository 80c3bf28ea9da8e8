#include <fmt/format.h>

#include <memory>

#include "base/interrupt.hpp"
#include "commands/command_line.hpp"
#include "commands/observation.hpp"
#include "commands/watch.hpp"
#include "render/json/json_renderer.hpp"
#include "render/text/monitor_table.hpp"
#include "report/report_builder.hpp"
#include "signals/gpu_signals.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Long enough for one whole utilization window (200 ms) and two looks at the processes' CPU time.
constexpr auto kOnce = 300ms;
constexpr auto kProcessesDuringOnce = 150ms;

Result<int> monitor(const RawOptions& raw, bool once) {
  auto options = check(raw);
  if (!options) return std::move(options).error();
  if (!once && !options->quiet)
    fmt::print(stderr, "lockstep: the live screen is not part of this version: printing once (as with --once)\n");

  watch_for_interrupts();
  SourceOptions how = options->source_options();
  how.process_period = kProcessesDuringOnce;
  auto source = open_source(options->input, how);
  if (!source) return std::move(source).error();
  ObservationOptions how_long;
  how_long.duration = options->duration;
  if (!how_long.duration && is_live(**source)) how_long.duration = kOnce;
  how_long.pid = options->pid;
  auto timeline = observe(**source, how_long);
  if (!timeline) return std::move(timeline).error();
  if (const auto note = (*source)->repair_note(); note && !options->quiet) fmt::print(stderr, "lockstep: {}\n", *note);

  const Report report = build_report(*timeline, gpu_means(*timeline));
  std::unique_ptr<Renderer> renderer;
  if (options->format == Format::json) renderer = std::make_unique<JsonRenderer>();
  else renderer = std::make_unique<MonitorTable>(options->colors, options->output.empty() ? terminal_width() : std::nullopt);
  const std::string text = renderer->render(report);
  if (Status put = put_result(*options, text); !put) return std::move(put).error();
  return interrupted_by() != 0 ? exit_code::kInterrupted : exit_code::kDone;
}

}  // namespace

Run configure_monitor(CLI::App& app, RawOptions& raw) {
  auto once = std::make_shared<bool>(false);
  add_input_options(app, raw);
  app.add_option("--pid", raw.pid, "only this process, its children and their GPUs")->type_name("PID");
  app.add_flag("--once", *once, "print a plain table and end");
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [once, &raw] { return monitor(raw, *once); };
}

}  // namespace lockstep
