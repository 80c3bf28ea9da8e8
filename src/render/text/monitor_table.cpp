#include "render/text/monitor_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "render/text/table.hpp"
#include "render/words/fleet_words.hpp"

namespace lockstep {
namespace {

constexpr const char* kNone = "-";        // not there on this GPU
constexpr const char* kFailed = "error";  // there, and the driver gave an error

// A reading in words. A value that has grown old keeps its figure, with a mark.
template <class T, class Format>
std::string shown(const Reading<T>& reading, Format format) {
  switch (reading.state()) {
    case ReadingState::value: return format(*reading.value());
    case ReadingState::stale: return format(*reading.last_value()) + "?";
    case ReadingState::error: return kFailed;
    case ReadingState::not_asked:
    case ReadingState::not_supported: return kNone;
  }
  return kNone;
}

std::string percent(double fraction) { return fmt::format("{:.0f} %", fraction * 100); }

std::string power(const GpuReport& gpu) {
  const auto watts = [](double milliwatts) { return fmt::format("{:.0f}", milliwatts / 1e3); };
  const std::string now = gpu.power_mw && gpu.latest.power_mw.state() == ReadingState::value
                              ? watts(*gpu.power_mw)
                              : shown(gpu.latest.power_mw, watts);
  if (now == kNone || now == kFailed) return now;
  return gpu.info.power_limit_mw ? fmt::format("{} / {} W", now, watts(*gpu.info.power_limit_mw))
                                 : now + " W";
}

std::string memory(const GpuReport& gpu) {
  const std::string used = shown(gpu.latest.memory_used_bytes, [](std::uint64_t bytes) {
    return format_bytes(static_cast<double>(bytes));
  });
  if (used == kNone || used == kFailed || !gpu.info.memory_total_bytes) return used;
  return fmt::format("{} / {}", used,
                     format_bytes(static_cast<double>(*gpu.info.memory_total_bytes)));
}

std::string limits(const GpuReport& gpu) {
  return shown(gpu.latest.limits, [](const ClockLimits& set) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kClockLimitNames.size(); ++i)
      if (set.has(static_cast<ClockLimit>(i))) names.emplace_back(kClockLimitNames[i]);
    return names.empty() ? std::string("none") : join(names, " ");
  });
}

// The mean over the run when there is one; the newest reading's state otherwise.
std::string busy(const GpuReport& gpu) {
  if (gpu.busy && gpu.latest.busy.state() == ReadingState::value) return percent(*gpu.busy);
  return shown(gpu.latest.busy, percent);
}

std::string gpu_name(const GpuReport& gpu) {
  std::string name = printable(gpu.info.name.value_or("unknown"));
  if (gpu.info.mig)
    name += fmt::format(" (MIG {} of GPU {})", gpu.info.mig->instance, gpu.info.mig->parent);
  if (gpu.lost) name += " (LOST)";
  return name;
}

std::string gpus_text(const Report& report, std::optional<std::size_t> width) {
  Table table({{"", Align::left},
               {"busy", Align::right},
               {"SM", Align::right},
               {"power", Align::right},
               {"memory", Align::right},
               {"temp", Align::right},
               {"clock", Align::right},
               {"name", Align::left},
               {"limits", Align::left}});
  for (const GpuReport& gpu : report.gpus) {
    table.add(
        {gpu_label(gpu.info), busy(gpu), shown(gpu.latest.sm, percent), power(gpu), memory(gpu),
         shown(gpu.latest.temperature_c,
               [](double celsius) { return fmt::format("{:.0f} C", celsius); }),
         shown(gpu.latest.sm_clock_mhz, [](double mhz) { return fmt::format("{:.0f} MHz", mhz); }),
         gpu_name(gpu), limits(gpu)});
  }
  return table.text(width);
}

std::string processes_text(const Report& report, std::optional<std::size_t> width) {
  if (report.processes.empty()) return "no process on a GPU\n";
  Table table({{"pid", Align::right},
               {"GPU", Align::left},
               {"rank", Align::left},
               {"launcher", Align::left},
               {"user", Align::left},
               {"CPU", Align::right},
               {"GPU memory", Align::right},
               {"loaders", Align::right},
               {"command", Align::left}});
  for (const ProcessSample& process : report.processes) {
    std::vector<std::string> gpus;
    std::optional<double> bytes;
    for (const ProcessOnGpu& gpu : process.gpus) {
      gpus.push_back(std::to_string(gpu.index));
      if (gpu.memory_bytes) bytes = bytes.value_or(0) + static_cast<double>(*gpu.memory_bytes);
    }
    std::vector<std::string> words;
    for (const std::string& word : process.command.value_or(std::vector<std::string>{}))
      words.push_back(printable(shell_quoted(word)));
    const std::string rank = !process.rank ? kNone
                             : process.world_size
                                 ? fmt::format("{} of {}", *process.rank, *process.world_size)
                                 : std::to_string(*process.rank);
    table.add({std::to_string(process.pid), join(gpus, ","), rank,
               printable(process.launcher.value_or(kNone)), printable(process.user.value_or(kNone)),
               process.cpu ? percent(*process.cpu) : kNone, bytes ? format_bytes(*bytes) : kNone,
               process.loader_workers ? std::to_string(*process.loader_workers) : kNone,
               words.empty() ? kNone : join(words, " ")});
  }
  return table.text(width);
}

std::string heading(const Report& report) {
  const std::size_t count = report.gpus.size();
  const bool virtual_gpus = is_virtual(report);
  return fmt::format(
      "{} {}GPU{} ({}), over {}\n", count, virtual_gpus ? "virtual " : "", count == 1 ? "" : "s",
      printable(report.source_detail),
      format_duration(std::chrono::nanoseconds(std::llround(report.duration_s * 1e9))));
}

std::string bold(const std::string& text, Colors colors) {
  return colors == Colors::on ? "\x1b[1m" + text + "\x1b[0m" : text;
}

}  // namespace

std::string MonitorTable::render(const Report& report) const {
  std::string text = bold(heading(report), colors_) + "\n";
  text += gpus_text(report, width_) + "\n";
  text += processes_text(report, width_);
  if (!report.events.empty()) text += "\n";
  for (const Event& event : report.events)
    text += fmt::format("event: {}{} {}\n", printable(event.kind.text()),
                        event.gpu ? fmt::format(" on GPU {}:", *event.gpu) : ":",
                        printable(event.detail));
  if (!report.not_measured.empty()) text += "\n";
  for (const NotMeasured& entry : report.not_measured)
    text += fmt::format("not measured: {}: {}\n", printable(entry.signal), printable(entry.reason));
  return text;
}

}  // namespace lockstep
