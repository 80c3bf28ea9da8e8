#include "doctor/doctor_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/dynamic_library.hpp"
#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "base/time_limit.hpp"
#include "doctor/hardware_checks.hpp"
#include "doctor/node_checks.hpp"
#include "model/gpu_kind.hpp"
#include "sources/live_source.hpp"
#include "sources/nvml/driver_facts.hpp"
#include "timeline/timeline_builder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// two GPM samples a second apart, and the first plan of the schedule
constexpr auto kListenFor = 1300ms;

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
  if (const auto* live = dynamic_cast<const LiveSource*>(source->get()))
    heard.cost = live->sampling_cost();
  return heard;
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
    {"memory", "memory_used_bytes", kDriver,
     [](const GpuTrack& gpu) { return gpu.memory_used_bytes.size(); }},
    {"power", "power_mw", kDriver, [](const GpuTrack& gpu) { return gpu.power_mw.size(); }},
    {"20 ms power samples", "power_samples_mw",
     "turns shorter than 400 ms cannot be told from outside on this GPU: lockstep will say "
     "`unclear` there",
     [](const GpuTrack& gpu) { return gpu.power_samples_mw.size(); }},
    {"SM, tensor and DRAM activity (GPM)", "sm", "",
     [](const GpuTrack& gpu) { return gpu.sm.size(); }},
    {"clocks", "sm_clock_mhz", "", [](const GpuTrack& gpu) { return gpu.sm_clock_mhz.size(); }},
    {"throttle reasons", "limits", "", [](const GpuTrack& gpu) { return gpu.limits.size(); }},
    {"temperature", "temperature_c", "",
     [](const GpuTrack& gpu) { return gpu.temperature_c.size(); }},
    {"PCIe byte counters", "pcie_rx_bytes", "",
     [](const GpuTrack& gpu) { return gpu.pcie_rx_bytes.size(); }},
    {"NVLink byte counters", "nvlink_rx_bytes", "",
     [](const GpuTrack& gpu) { return gpu.nvlink_rx_bytes.size(); }},
};

std::string reason_for(const Heard& heard, std::string_view field) {
  for (const NotMeasured& entry : heard.not_measured)
    if (entry.signal.find(field) != std::string::npos) return entry.reason;
  return "no value came";
}

void add_signal_checks(Checks& checks, const Heard& heard) {
  for (const SignalQuestion& signal : kSignals) {
    std::size_t with_value = 0;
    for (const GpuTrack& gpu : heard.timeline.gpus) with_value += signal.count(gpu) > 0 ? 1U : 0U;
    const std::size_t all = heard.timeline.gpus.size();
    const bool needed = *signal.next != '\0';
    Check check{"signals", signal.name,
                with_value == all ? Answer::yes
                : needed          ? Answer::no
                                  : Answer::unknown,
                "", ""};
    check.detail = with_value == all ? "on every GPU"
                   : with_value > 0  ? fmt::format("on {} of {} GPUs: {}", with_value, all,
                                                   reason_for(heard, signal.field))
                                     : fmt::format("not here: {}", reason_for(heard, signal.field));
    if (check.answer == Answer::no) check.next = signal.next;
    checks.push_back(std::move(check));
  }
}

void add_cost_check(Checks& checks, const Heard& heard) {
  if (heard.cost.calls.empty()) return;
  std::vector<std::string> slowed;
  std::vector<std::string> dear;
  for (const CallCost& call : heard.cost.calls) {
    const auto name = std::string(kCallKindNames[static_cast<std::size_t>(call.kind)]);
    if (call.cost >= 100us) dear.push_back(fmt::format("{} {}", name, format_duration(call.cost)));
    if (call.slowed_down)
      slowed.push_back(fmt::format("{} every {}", name, format_duration(call.period)));
  }
  std::string detail =
      fmt::format("{:.2f} % of wall time in the driver", heard.cost.share_of_wall_time * 100);
  if (!dear.empty()) detail += fmt::format("; dearest calls: {}", join(dear, ", "));
  if (!slowed.empty()) detail += fmt::format("; slowed down: {}", join(slowed, ", "));
  constexpr double kBudget = 0.01;
  const bool kept = heard.cost.share_of_wall_time <= kBudget;
  checks.push_back({"signals", "watching costs under 1 %", kept ? Answer::yes : Answer::no, detail,
                    kept ? "" : "use a longer --interval"});
}

void add_process_checks(Checks& checks, const Heard& heard) {
  std::size_t seen = 0;
  std::size_t readable = 0;
  if (!heard.timeline.process_lists.empty())
    for (const ProcessSample& process : heard.timeline.process_lists.back().processes) {
      ++seen;
      readable += process.environment ? 1U : 0U;
    }
  std::string why;
  for (const NotMeasured& entry : heard.not_measured)
    if (entry.signal.starts_with("process"))
      why = fmt::format("{}: {}", entry.signal, entry.reason);
  if (seen == 0)
    checks.push_back(
        {"processes", "processes on the GPUs", Answer::unknown, "none at the moment", ""});
  else
    checks.push_back(
        {"processes", "processes on the GPUs can be read",
         readable == seen ? Answer::yes : Answer::no,
         fmt::format("{} of {}{}{}", readable, seen, why.empty() ? "" : "; ", why),
         readable == seen ? "" : "run lockstep as the user of the job, or on the host"});
  const bool inside = in_own_pid_namespace("/proc");
  checks.push_back({"processes", "all processes of the machine can be seen",
                    inside ? Answer::unknown : Answer::yes,
                    inside ? "a container's own PID namespace: the driver may speak of processes "
                             "that cannot be seen here (--pid=host shows them)"
                           : "the machine's own PID namespace",
                    ""});
}

void add_virtual_check(Checks& checks) {
  const auto path = virtual_library_path();
  const auto library = DynamicLibrary::open(path.string());
  const bool usable = library && library->symbol("nvmlInit_v2") != nullptr;
  checks.push_back({"virtual GPUs", "virtual GPUs can be used", usable ? Answer::yes : Answer::no,
                    usable ? "try: lockstep monitor virtual:2"
                           : (library ? "the library has no nvmlInit_v2" : library.error().what),
                    usable ? "" : "build them: cmake --build --preset release"});
}

void append(Checks& checks, Checks more) {
  checks.insert(checks.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

// Whose GPUs these are at the moment: a job's, which nobody disturbs for a measurement.
std::string users_of(const Heard& heard) {
  if (!heard.timeline.process_lists.empty() &&
      !heard.timeline.process_lists.back().processes.empty())
    return fmt::format("process {} holds a GPU",
                       heard.timeline.process_lists.back().processes.front().pid);
  for (const GpuTrack& gpu : heard.timeline.gpus)
    if (std::ranges::any_of(gpu.busy.values, [](double busy) { return busy > 0.05; }))
      return fmt::format("GPU {} is busy", gpu.info.index);
  return {};
}

// What a collective can reach between these GPUs; nothing: of a kind that is not known.
std::optional<double> link_speed(const DriverFacts& facts) {
  const GpuKind* const known =
      gpu_kind_of(facts.gpus.front().name, facts.gpus.front().memory_bytes);
  if (known == nullptr) return std::nullopt;
  GpuKind kind = *known;
  if (facts.gpus.front().nvlinks_up.value_or(0) == 0) kind.nvlink_bytes_s = 0;
  return reachable_link_bytes_s(kind);
}

}  // namespace

Checks run_checks(const DoctorOptions& options) {
  Checks checks;
  // Everything that may touch the driver runs on a thread of its own: a hung driver costs the
  // limit, not more.
  const auto limit =
      options.limit + std::chrono::duration_cast<std::chrono::milliseconds>(kListenFor);
  const auto heard = run_with_time_limit(
      limit, [input = options.input] { return std::make_shared<Heard>(listen(input)); });
  const bool answers = heard && !(*heard)->refused;
  const bool real = answers && options.input.empty();
  const auto facts =
      real ? run_with_time_limit(
                 options.limit,
                 [] { return std::make_shared<Result<DriverFacts>>(read_driver_facts("")); })
           : std::nullopt;
  const DriverFacts* const hardware = facts && **facts ? &***facts : nullptr;

  MachineState machine = read_machine_state(options.port);
  if (answers) machine.gpus = static_cast<int>((*heard)->timeline.gpus.size());
  if (hardware != nullptr)
    machine.peer_to_peer = std::ranges::any_of(
        hardware->pairs, [](const GpuPair& pair) { return pair.peer_to_peer.value_or(false); });
  append(checks, machine_checks(machine, options.port,
                                options.port_given ? PortAsked::by_the_user : PortAsked::by_habit));
  append(checks, ask_nodes(options.nodes, options.port, options.limit));

  if (!heard) {
    checks.push_back({"GPU", "the driver answers", Answer::no,
                      fmt::format("no answer within {}", format_duration(limit)),
                      "see `dmesg | grep -i nvrm`; a hung driver usually needs a reboot"});
  } else if ((*heard)->refused) {
    checks.push_back(
        {"GPU", "GPUs can be read", Answer::no, (*heard)->refused->what, (*heard)->refused->next});
  } else {
    const Timeline& timeline = (*heard)->timeline;
    std::vector<std::string> names;
    for (const GpuTrack& gpu : timeline.gpus)
      names.push_back(fmt::format("GPU {} {}", gpu.info.index, gpu.info.name.value_or("unknown")));
    checks.push_back({"GPU", "GPUs can be read", Answer::yes,
                      fmt::format("{}; {}", timeline.source_detail, join(names, ", ")), ""});
    if (hardware != nullptr) append(checks, hardware_checks(*hardware, read_kernel_log()));
    add_signal_checks(checks, **heard);
    add_cost_check(checks, **heard);
    add_process_checks(checks, **heard);
  }
  if (options.communication) {
    CommunicationOptions how = *options.communication;
    if (hardware != nullptr && !hardware->gpus.empty()) how.link_bytes_s = link_speed(*hardware);
    if (real) how.in_use = users_of(**heard);
    append(checks, communication_checks(how));
  }
  add_virtual_check(checks);
  return checks;
}

}  // namespace lockstep
