#include "doctor/doctor_checks.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/dynamic_library.hpp"
#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "base/time_limit.hpp"
#include "doctor/platform_notes.hpp"
#include "sources/live_source.hpp"
#include "timeline/timeline_builder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kListenFor = 1300ms;  // two GPM samples a second apart, and the first plan of the schedule

// What a short listen to the driver gave. Owned by the listener's thread until it is handed over.
struct Heard {
  std::optional<Error> refused;
  Timeline timeline;
  SamplingCost cost;
  std::vector<NotMeasured> not_measured;
};

Heard listen(const std::string& input) {
  Heard heard;
  auto source = open_source(input, {});
  if (!source) {
    heard.refused = std::move(source).error();
    return heard;
  }
  TimelineBuilder builder((*source)->machine(), (*source)->kind(), (*source)->detail());
  const auto until = monotonic_now() + kListenFor;
  while (monotonic_now() < until) {
    auto next = (*source)->next(50ms);
    if (!next || std::holds_alternative<EndOfInput>(*next)) break;
    if (const auto* record = std::get_if<Record>(&*next)) builder.add(*record);
  }
  (*source)->finish();  // the power samples that the driver has buffered meanwhile
  for (const auto last = monotonic_now() + 1s; monotonic_now() < last;) {
    auto next = (*source)->next(50ms);
    if (!next || std::holds_alternative<EndOfInput>(*next)) break;
    if (const auto* record = std::get_if<Record>(&*next)) builder.add(*record);
  }
  heard.timeline = builder.build();
  heard.not_measured = (*source)->not_measured();
  if (const auto* live = dynamic_cast<const LiveSource*>(source->get())) heard.cost = live->sampling_cost();
  return heard;
}

void add_machine_checks(std::vector<Check>& checks) {
  utsname system{};
  ::uname(&system);
  checks.push_back({"machine", "system", Answer::note, fmt::format("{} {} on {}", system.sysname, system.release, system.machine), ""});
  for (const std::string& note : platform_notes("/"))
    checks.push_back({"machine", "fully served by lockstep", Answer::no, note, "see docs/limits.md"});
}

struct SignalQuestion {
  const char* name;   // in words
  const char* field;  // in a recording
  const char* next;   // what its absence means; empty: it is nice to have, and nothing need be done
  std::size_t (*count)(const GpuTrack&);
};

constexpr const char* kDriver = "update the NVIDIA driver; `nvidia-smi -q` shows what it gives";
constexpr SignalQuestion kSignals[] = {
    {"utilization", "busy", kDriver, [](const GpuTrack& gpu) { return gpu.busy.size(); }},
    {"memory", "memory_used_bytes", kDriver, [](const GpuTrack& gpu) { return gpu.memory_used_bytes.size(); }},
    {"power", "power_mw", kDriver, [](const GpuTrack& gpu) { return gpu.power_mw.size(); }},
    {"20 ms power samples", "power_samples_mw",
     "turns shorter than 400 ms cannot be told from outside on this GPU: lockstep will say `unclear` there",
     [](const GpuTrack& gpu) { return gpu.power_samples_mw.size(); }},
    {"SM, tensor and DRAM activity (GPM)", "sm", "", [](const GpuTrack& gpu) { return gpu.sm.size(); }},
    {"clocks", "sm_clock_mhz", "", [](const GpuTrack& gpu) { return gpu.sm_clock_mhz.size(); }},
    {"throttle reasons", "limits", "", [](const GpuTrack& gpu) { return gpu.limits.size(); }},
    {"temperature", "temperature_c", "", [](const GpuTrack& gpu) { return gpu.temperature_c.size(); }},
    {"PCIe byte counters", "pcie_rx_bytes", "", [](const GpuTrack& gpu) { return gpu.pcie_rx_bytes.size(); }},
    {"NVLink byte counters", "nvlink_rx_bytes", "", [](const GpuTrack& gpu) { return gpu.nvlink_rx_bytes.size(); }},
};

std::string reason_for(const Heard& heard, std::string_view field) {
  for (const NotMeasured& entry : heard.not_measured)
    if (entry.signal.find(field) != std::string::npos) return entry.reason;
  return "no value came";
}

void add_signal_checks(std::vector<Check>& checks, const Heard& heard) {
  for (const SignalQuestion& signal : kSignals) {
    std::size_t with_value = 0;
    for (const GpuTrack& gpu : heard.timeline.gpus) with_value += signal.count(gpu) > 0 ? 1U : 0U;
    const std::size_t all = heard.timeline.gpus.size();
    const bool needed = *signal.next != '\0';
    Check check{"signals", signal.name, with_value == all ? Answer::yes : needed ? Answer::no : Answer::note, "", ""};
    check.detail = with_value == all ? "on every GPU"
                   : with_value > 0  ? fmt::format("on {} of {} GPUs: {}", with_value, all, reason_for(heard, signal.field))
                                     : fmt::format("not here: {}", reason_for(heard, signal.field));
    if (check.answer == Answer::no) check.next = signal.next;
    checks.push_back(std::move(check));
  }
}

void add_cost_check(std::vector<Check>& checks, const Heard& heard) {
  if (heard.cost.calls.empty()) return;
  std::vector<std::string> slowed;
  std::vector<std::string> dear;
  for (const CallCost& call : heard.cost.calls) {
    const auto name = std::string(kCallKindNames[static_cast<std::size_t>(call.kind)]);
    if (call.cost >= 100us) dear.push_back(fmt::format("{} {}", name, format_duration(call.cost)));
    if (call.slowed_down) slowed.push_back(fmt::format("{} every {}", name, format_duration(call.period)));
  }
  std::string detail = fmt::format("{:.2f} % of wall time in the driver", heard.cost.share_of_wall_time * 100);
  if (!dear.empty()) detail += fmt::format("; dearest calls: {}", join(dear, ", "));
  if (!slowed.empty()) detail += fmt::format("; slowed down: {}", join(slowed, ", "));
  constexpr double kBudget = 0.01;
  const bool kept = heard.cost.share_of_wall_time <= kBudget;
  checks.push_back({"signals", "watching costs under 1 %", kept ? Answer::yes : Answer::no, detail,
                    kept ? "" : "use a longer --interval"});
}

void add_process_checks(std::vector<Check>& checks, const Heard& heard) {
  std::size_t seen = 0;
  std::size_t readable = 0;
  if (!heard.timeline.process_lists.empty())
    for (const ProcessSample& process : heard.timeline.process_lists.back().processes) {
      ++seen;
      readable += process.environment ? 1U : 0U;
    }
  std::string why;
  for (const NotMeasured& entry : heard.not_measured)
    if (entry.signal.starts_with("process")) why = fmt::format("{}: {}", entry.signal, entry.reason);
  if (seen == 0)
    checks.push_back({"processes", "processes on the GPUs", Answer::note, "none at the moment", ""});
  else
    checks.push_back({"processes", "processes on the GPUs can be read", readable == seen ? Answer::yes : Answer::no,
                      fmt::format("{} of {}{}{}", readable, seen, why.empty() ? "" : "; ", why),
                      readable == seen ? "" : "run lockstep as the user of the job, or on the host"});
  const bool inside = in_own_pid_namespace("/proc");
  checks.push_back({"processes", "PID namespace", Answer::note,
                    inside ? "a container's own: the driver may speak of processes that cannot be seen here (--pid=host shows them)"
                           : "the machine's own",
                    ""});
}

void add_virtual_check(std::vector<Check>& checks) {
  const auto path = virtual_library_path();
  const auto library = DynamicLibrary::open(path.string());
  const bool usable = library && library->symbol("nvmlInit_v2") != nullptr;
  checks.push_back({"virtual GPUs", "virtual GPUs can be used", usable ? Answer::yes : Answer::no,
                    usable ? "try: lockstep monitor virtual:2" : (library ? "the library has no nvmlInit_v2" : library.error().what),
                    usable ? "" : "build them: cmake --build --preset release"});
}

}  // namespace

std::vector<Check> run_checks(const DoctorOptions& options) {
  std::vector<Check> checks;
  add_machine_checks(checks);

  // Everything that may touch the driver runs on a thread of its own: a hung driver costs the limit, not more.
  const auto limit = options.limit + std::chrono::duration_cast<std::chrono::milliseconds>(kListenFor);
  const auto heard = run_with_time_limit(limit, [input = options.input] { return std::make_shared<Heard>(listen(input)); });
  if (!heard) {
    checks.push_back({"GPU", "the driver answers", Answer::no, fmt::format("no answer within {}", format_duration(limit)),
                      "see `dmesg | grep -i nvrm`; a hung driver usually needs a reboot"});
  } else if ((*heard)->refused) {
    checks.push_back({"GPU", "GPUs can be read", Answer::no, (*heard)->refused->what, (*heard)->refused->next});
  } else {
    const Timeline& timeline = (*heard)->timeline;
    std::vector<std::string> names;
    for (const GpuTrack& gpu : timeline.gpus)
      names.push_back(fmt::format("GPU {} {}", gpu.info.index, gpu.info.name.value_or("unknown")));
    checks.push_back({"GPU", "GPUs can be read", Answer::yes, fmt::format("{}; {}", timeline.source_detail, join(names, ", ")), ""});
    add_signal_checks(checks, **heard);
    add_cost_check(checks, **heard);
    add_process_checks(checks, **heard);
  }
  add_virtual_check(checks);
  return checks;
}

}  // namespace lockstep
