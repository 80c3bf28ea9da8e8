#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "advice/launch_table.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "capture/resting_daemon.hpp"
#include "commands/command_line.hpp"
#include "launch/arguments/launch_advice.hpp"
#include "launch/arguments/launch_arguments.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "launch/launcher.hpp"
#include "launch/ranks/probe_environment.hpp"
#include "plan/choose_settings.hpp"
#include "runs/launch_beside.hpp"

namespace lockstep {
namespace {

int memory_nodes() {
  std::error_code problem;
  int nodes = 0;
  for (std::filesystem::directory_iterator entry("/sys/devices/system/node", problem), end;
       !problem && entry != end; entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("node") && parse_integer(std::string_view(name).substr(4))) ++nodes;
  }
  return std::max(1, nodes);
}

LaunchSituation situation_of(const LaunchSettings& settings) {
  LaunchSituation situation;
  situation.environment = own_variables();
  situation.gpus = visible_gpus(situation.environment).value_or(0);
  situation.ranks =
      static_cast<int>(parse_integer(settings.processes_per_node).value_or(situation.gpus));
  situation.one_machine = settings.max_nodes == 1;
  for (const char* flag :
       {"--standalone", "--master-addr", "--master-port", "--rdzv-backend", "--rdzv-endpoint"})
    situation.meeting_given = situation.meeting_given || settings.given.contains(flag);
  situation.memory_nodes = memory_nodes();
  return situation;
}

// --from, then --recommended; each setting is told with its reason.
Status take_all_advice(LaunchSettings& settings) {
  std::vector<LaunchAdvice> advice;
  if (!settings.from_report.empty()) {
    const auto text = read_small_file(settings.from_report, std::size_t{64} << 20U);
    if (!text) return cannot_read(settings.from_report, errno);
    auto found = advice_in_report(*text);
    if (!found) {
      Error problem = std::move(found).error();
      problem.what += fmt::format(": {}", printable(settings.from_report));
      return problem;
    }
    advice = std::move(*found);
  }
  if (settings.recommended) {
    const LaunchSituation situation = situation_of(settings);
    const auto more = recommended_launch(situation);
    advice.insert(advice.end(), more.begin(), more.end());
    if (!situation.environment.contains("OMP_NUM_THREADS") && situation.gpus > 0)
      for (LaunchAdvice& item :
           planned_launch(usable_cores(), situation.ranks > 1 ? situation.ranks : situation.gpus))
        advice.push_back(std::move(item));
  }
  const auto words = take_advice(advice, settings);
  if (settings.quiet || (settings.from_report.empty() && !settings.recommended)) return Done{};
  for (const std::string& word : words) say(fmt::format("lockstep: {}\n", printable(word)));
  if (words.empty())
    say(fmt::format("lockstep: nothing to add: the settings are as they should be\n"));
  return Done{};
}

// Rings go to the runtime folder, where monitor and diagnose look; the profiler asks there too, for
// `lockstep trace`.
Status switch_probes_on(LaunchSettings& settings, RestingDaemon& resting) {
  if (settings.probes.empty()) return Done{};
  auto choice = TRY(parse_probes(settings.probes, kLightProbes));
  auto probed = TRY(with_probes(own_variables(), choice, {}));
  for (const std::string& why : probed.left_out)
    say(fmt::format("lockstep: a probe is left out: {}\n", why));
  for (const char* name :
       {"PYTHONPATH", "LD_PRELOAD", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN",
        "LOCKSTEP_NCCL_PROFILER_PLUGIN", "LOCKSTEP_PROBE"})
    if (const auto found = probed.variables.find(name); found != probed.variables.end())
      settings.set_variables[name] = found->second;
  // CUPTI has one user
  if (probed.probes.python && !probed.probes.cuda) resting = RestingDaemon::start();
  for (const auto& [name, value] : resting.variables()) settings.set_variables[name] = value;
  return Done{};
}

}  // namespace

// The words are read by torchrun's rules, not by CLI11's: the options here are for help,
// completions and the man page.
Run configure_launch(CLI::App& app, RawOptions& raw) {
  for (const LaunchFlag& flag : launch_flags()) {
    const std::string names =
        flag.short_name[0] == '\0' ? flag.name : std::string(flag.short_name) + "," + flag.name;
    if (flag.value_name[0] == '\0')
      app.add_flag(names, flag.help);
    else
      app.add_option(names, flag.help)
          ->type_name(flag.value_name)
          ->expected(flag.value_name[0] == '[' ? 0 : 1, 1);
  }
  app.add_option("SCRIPT", "what each rank runs; what follows is its own")->type_name("");
  return [&raw]() -> Result<int> {
    auto settings = parse_launch_arguments(
        raw.command, [](const std::string& name) -> std::optional<std::string> {
          const char* const value = std::getenv(name.c_str());
          return value == nullptr ? std::nullopt : std::optional<std::string>(value);
        });
    if (!settings) return std::move(settings).error();
    TRY(take_all_advice(*settings));
    RestingDaemon resting;
    TRY(switch_probes_on(*settings, resting));
    const Beside beside = beside_the_ranks(settings->watch, settings->quiet || !settings->checks);
    return run_launch(std::move(*settings), beside);
  };
}

}  // namespace lockstep
