#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "commands/watch.hpp"
#include "render/json/json_renderer.hpp"
#include "render/text/monitor_table.hpp"
#include "report/report_builder.hpp"
#include "signals/busy_fraction.hpp"
#include "timeline/timeline_builder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Long enough for one whole utilization window (200 ms) and two looks at the processes' CPU time.
constexpr auto kOnce = 300ms;
constexpr auto kProcessesDuringOnce = 150ms;

std::optional<std::size_t> terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return std::nullopt;
  return size.ws_col;
}

Result<Timeline> look_once(Source& source, const SharedOptions& options) {
  const bool finite = source.kind() == SourceKind::recording;
  const WatchOptions how{options.duration ? options.duration : finite ? std::nullopt : std::optional<std::chrono::nanoseconds>(kOnce), {}};
  TimelineBuilder builder(source.machine(), source.kind(), source.detail());
  bool any_gpu = false;
  auto watched = watch(source, how, [&](const Record& record) -> Status {
    const auto* tick = std::get_if<GpuTick>(&record.content);
    any_gpu = any_gpu || (tick != nullptr && !tick->empty());
    builder.add(record);
    return Done{};
  });
  if (!watched) return std::move(watched).error();
  if (watched->silence && !any_gpu)
    return Error{fmt::format("the driver has not answered '{}' for {}", watched->silence->call,
                             format_duration(watched->silence->since)),
                 "see `dmesg | grep -i nvrm`; a hung driver usually needs a reboot"};
  if (!any_gpu)
    return Error{fmt::format("{} holds no reading of any GPU", printable(source.detail())),
                 "record longer: lockstep record -o FILE --duration 10s"};
  if (!finite) builder.advance_to(to_ms(unix_now() - std::chrono::nanoseconds(source.machine().started_unix_ns)));
  Timeline timeline = builder.build();
  timeline.not_measured = source.not_measured();
  if (watched->silence)
    timeline.not_measured.push_back({"all", fmt::format("the driver stopped answering '{}' {} ago", watched->silence->call,
                                                        format_duration(watched->silence->since))});
  return timeline;
}

// Whether a process is `ancestor` or stands below it. Pids of a recording mean nothing on this machine: there only
// the parents that were recorded count.
bool is_or_descends_from(const ProcessSample& process, int ancestor, bool of_this_machine) {
  std::optional<int> pid = process.pid;
  std::optional<int> parent = process.parent_pid;
  for (int depth = 0; pid && depth < 64; ++depth) {
    if (*pid == ancestor) return true;
    pid = parent;
    parent = pid && of_this_machine ? parent_of(*pid) : std::nullopt;
  }
  return false;
}

// A driver's, and those of virtual:2; not a recording's, played (virtual:FILE) or read.
bool pids_are_of_this_machine(const Report& report) {
  constexpr std::string_view kVirtual = "virtual:";
  const std::string_view detail = report.source_detail;
  return report.source_kind == SourceKind::nvml ||
         (detail.starts_with(kVirtual) && parse_integer(detail.substr(kVirtual.size())));
}

// Only the process, what it started, and the GPUs that those hold.
Status keep_only(int pid, Report& report) {
  const bool of_this_machine = pids_are_of_this_machine(report);
  std::erase_if(report.processes, [&](const ProcessSample& process) {
    return !is_or_descends_from(process, pid, of_this_machine);
  });
  if (report.processes.empty())
    return Error{fmt::format("process {} and its children hold no GPU", pid),
                 "see which do: lockstep monitor --once"};
  std::erase_if(report.gpus, [&](const GpuReport& gpu) {
    return std::none_of(report.processes.begin(), report.processes.end(), [&](const ProcessSample& process) {
      return std::any_of(process.gpus.begin(), process.gpus.end(),
                         [&](const ProcessOnGpu& use) { return use.index == gpu.info.index; });
    });
  });
  return Done{};
}

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
  auto timeline = look_once(**source, *options);
  if (!timeline) return std::move(timeline).error();
  if (const auto note = (*source)->repair_note(); note && !options->quiet) fmt::print(stderr, "lockstep: {}\n", *note);

  Report report = build_report(*timeline, gpu_means(*timeline));
  if (options->pid)
    if (Status kept = keep_only(*options->pid, report); !kept) return std::move(kept).error();
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
