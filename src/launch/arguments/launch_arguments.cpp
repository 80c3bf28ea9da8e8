#include "launch/arguments/launch_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <csignal>
#include <cstring>

#include "base/text.hpp"
#include "launch/guard/signal_names.hpp"
#include "launch/ranks/probe_environment.hpp"

namespace lockstep {
namespace {

Result<int> whole_number(const std::string& text, int least, int most, const char* example) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most)
    return usage_error(
        fmt::format("'{}' is no whole number from {} to {}", printable(text), least, most),
        fmt::format("for example {}", example));
  return static_cast<int>(*number);
}

Status take_number(const std::string& text, int least, int most, const char* example, int& into) {
  auto number = TRY(whole_number(text, least, most, example));
  into = number;
  return Done{};
}

constexpr int kMostNodes = 100'000;
constexpr int kMostRanks = 4096;  // on one machine

Status set_nodes(const std::string& text, LaunchSettings& settings) {
  const auto parts = split(text, ':');
  if (parts.empty() || parts.size() > 2)
    return usage_error(fmt::format("'{}' is neither N nor MIN:MAX", printable(text)),
                       "for example --nnodes=2 or --nnodes=1:4");
  if (Status set =
          take_number(std::string(parts.front()), 1, kMostNodes, "--nnodes=2", settings.min_nodes);
      !set)
    return set;
  if (Status set =
          take_number(std::string(parts.back()), 1, kMostNodes, "--nnodes=2", settings.max_nodes);
      !set)
    return set;
  if (settings.min_nodes > settings.max_nodes)
    return usage_error(fmt::format("{} asks for more nodes at least than at most", printable(text)),
                       "the smaller number comes first: --nnodes=1:4");
  return Done{};
}

Status set_processes(const std::string& text, LaunchSettings& settings) {
  if (text != "gpu" && text != "cpu" && text != "auto") {
    int number = 0;
    if (text == "xpu")
      return usage_error("--nproc-per-node=xpu: Intel GPUs are not known to lockstep",
                         "give their number: --nproc-per-node=2");
    if (Status set =
            take_number(text, 1, kMostRanks, "--nproc-per-node=2, or gpu, cpu, auto", number);
        !set)
      return set;
  }
  settings.processes_per_node = text;
  return Done{};
}

Status set_backend(const std::string& text, LaunchSettings& settings) {
  if (text == "static")
    settings.backend = Backend::static_nodes;
  else if (text == "c10d")
    settings.backend = Backend::c10d;
  else
    return usage_error(fmt::format("the rendezvous backend '{}' is not known", printable(text)),
                       "use static or c10d; for etcd use torchrun");
  return Done{};
}

Status set_conf(const std::string& text, LaunchSettings& settings) {
  if (trim(text).empty()) return Done{};
  for (const std::string_view part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string_view key = trim(part.substr(0, equals));
    if (equals == std::string_view::npos || key.empty() || trim(part.substr(equals + 1)).empty())
      return usage_error(
          fmt::format("'{}' is not in the form key=value,key=value", printable(text)),
          "for example --rdzv-conf=join_timeout=600");
    settings.rendezvous_conf[std::string(key)] = trim(part.substr(equals + 1));
  }
  return Done{};
}

Result<Streams> streams_of(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3')
    return usage_error(
        fmt::format("'{}' is none of 0, 1 (stdout), 2 (stderr), 3 (both)", printable(text)),
        "for example -r 3, or -r 0:1,1:2 rank by rank");
  const int bits = text[0] - '0';
  return Streams{(bits & 1) != 0, (bits & 2) != 0};
}

Status set_streams(const std::string& text, RankStreams& into) {
  into = {};
  if (text.find(':') == std::string::npos) {
    auto streams = TRY(streams_of(text));
    into.of_all = streams;
    return Done{};
  }
  for (const std::string_view part : split(text, ',')) {
    const auto colon = part.find(':');
    const auto rank = parse_integer(part.substr(0, colon));
    auto streams =
        streams_of(colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1));
    if (!rank || *rank < 0 || *rank >= kMostRanks || !streams)
      return usage_error(
          fmt::format("'{}' is not in the form rank:streams,rank:streams", printable(text)),
          "for example -r 0:1,1:2 (1 stdout, 2 stderr, 3 both)");
    into.by_rank[static_cast<int>(*rank)] = *streams;
  }
  return Done{};
}

// Two commas stand for one that is meant.
std::vector<std::string> filters_of(const std::string& text) {
  std::vector<std::string> filters(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',')
      filters.back() += text[i];
    else if (i + 1 < text.size() && text[i + 1] == ',')
      filters.back() += text[++i];
    else
      filters.emplace_back();
  }
  return filters;
}

Status set_shown_ranks(const std::string& text, LaunchSettings& settings) {
  if (text.empty()) return Done{};
  for (const std::string_view part : split(text, ',')) {
    const auto rank = parse_integer(trim(part));
    if (!rank || *rank < 0)
      return usage_error(fmt::format("'{}' is no list of local ranks", printable(text)),
                         "for example --local-ranks-filter=0,1");
    settings.shown_ranks.insert(static_cast<int>(*rank));
  }
  return Done{};
}

Status set_monitor_interval(const std::string& text, LaunchSettings& settings) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(seconds) || seconds < 0 || seconds > 3600)
    return usage_error(
        fmt::format("--monitor-interval {} is no number of seconds", printable(text)),
        "for example --monitor-interval=0.1");
  settings.monitor_interval = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  return Done{};
}

Status set_signals(const std::string& text, LaunchSettings& settings) {
  for (const std::string_view name : split(text, ','))
    if (!signal_number(trim(name)) || signal_number(trim(name)) == SIGKILL)
      return usage_error(fmt::format("'{}' is no signal that can be handled", printable(name)),
                         "for example --signals-to-handle=SIGTERM,SIGINT");
  settings.signals_to_handle = text;
  return Done{};
}

Status set_grace(const std::string& text, LaunchSettings& settings) {
  auto grace = TRY(parse_duration(text));
  settings.grace = grace;
  return Done{};
}

Status set_numa_binding(const std::string& text, LaunchSettings& settings) {
  settings.bind_memory = false;
  if (text == "node")
    settings.binding = Binding::node;
  else if (text == "socket")
    settings.binding = Binding::socket;
  else if (text == "exclusive")
    settings.binding = Binding::cores;
  else if (text == "core-complex")
    settings.binding = Binding::core_complex;
  else
    return usage_error(fmt::format("--numa-binding {} is unknown", printable(text)),
                       "use node, socket, exclusive or core-complex");
  return Done{};
}

Status set_bind(const std::string& text, LaunchSettings& settings) {
  settings.bind_memory = text != "none";
  if (text == "none")
    settings.binding = Binding::none;
  else if (text == "numa")
    settings.binding = Binding::node;
  else if (text == "core")
    settings.binding = Binding::cores;
  else
    return usage_error(fmt::format("--bind {} is unknown", printable(text)),
                       "use none, numa or core");
  return Done{};
}

Status refuse_run_path(const std::string&, LaunchSettings&) {
  return usage_error(
      "--run-path runs the script inside the launcher's interpreter, and lockstep has none",
      "leave it out: each rank gets its own python");
}

Status refuse_logs_specs(const std::string& text, LaunchSettings&) {
  return usage_error(
      fmt::format(
          "--logs-specs={} names a Python class for torchrun to load, and lockstep loads no Python",
          printable(text)),
      "use --log-dir, --redirects, --tee and --local-ranks-filter, or torchrun");
}

Status note_event_log_handler(const std::string& text, LaunchSettings& settings) {
  if (text != "null")
    settings.notes.push_back(
        fmt::format("--event-log-handler={}: lockstep writes no torchelastic events; left aside",
                    printable(text)));
  return Done{};
}

Status note_start_method(const std::string& text, LaunchSettings& settings) {
  if (text != "spawn" && text != "fork" && text != "forkserver")
    return usage_error(fmt::format("--start-method {} is unknown", printable(text)),
                       "use spawn, fork or forkserver, or leave it out");
  settings.notes.push_back(
      "--start-method: ranks are started by fork and exec, as torchrun starts scripts too; left "
      "aside");
  return Done{};
}

template <bool LaunchSettings::* member>
Status set_switch(const std::string&, LaunchSettings& settings) {
  settings.*member = true;
  return Done{};
}

template <std::string LaunchSettings::* member>
Status set_text(const std::string& text, LaunchSettings& settings) {
  settings.*member = text;
  return Done{};
}

const LaunchFlag kFlags[] = {
    {"--standalone", "", "", "one machine, and a free port: no address to give", true,
     set_switch<&LaunchSettings::standalone>},
    {"--nproc-per-node", "", "N|gpu|cpu|auto", "ranks on this machine", true, set_processes},
    {"--nnodes", "", "N|MIN:MAX", "machines", true, set_nodes},
    {"--node-rank", "", "N", "which of the machines this is, from 0", true,
     [](const std::string& text, LaunchSettings& settings) {
       return take_number(text, 0, kMostNodes - 1, "--node-rank=1", settings.node_rank);
     }},
    {"--master-addr", "", "HOST", "address of machine 0", true,
     set_text<&LaunchSettings::master_address>},
    {"--master-port", "", "PORT", "port on machine 0", true,
     [](const std::string& text, LaunchSettings& settings) {
       return take_number(text, 0, 65535, "--master-port=29500 (0: a free one)",
                          settings.master_port);
     }},
    {"--local-addr", "", "HOST",
     "address of this machine, where its name does not resolve elsewhere", true,
     set_text<&LaunchSettings::local_address>},
    {"--rdzv-backend", "", "static|c10d", "how machines find each other", true, set_backend},
    {"--rdzv-endpoint", "", "HOST:PORT", "where they meet", true,
     set_text<&LaunchSettings::endpoint>},
    {"--rdzv-id", "", "ID", "the job's name", true, set_text<&LaunchSettings::run_id>},
    {"--rdzv-conf", "", "K=V,...", "join_timeout and the like", true, set_conf},
    {"--with-torchrun", "", "", "other machines run torchrun: meet them by torch's own rendezvous",
     false, set_switch<&LaunchSettings::with_torchrun>},
    {"--max-restarts", "", "N", "restarts of all ranks after a failure", true,
     [](const std::string& text, LaunchSettings& settings) {
       return take_number(text, 0, 1'000'000, "--max-restarts=3", settings.max_restarts);
     }},
    {"--monitor-interval", "", "SECONDS",
     "how often log files are looked at (ends of ranks are seen at once)", true,
     set_monitor_interval},
    {"--grace", "", "DURATION",
     "from the signal that asks ranks to end to the one that makes them: 30s", false, set_grace},
    {"--role", "", "NAME", "the ranks' role", true, set_text<&LaunchSettings::role>},
    {"--log-dir", "", "FOLDER", "where log files go", true, set_text<&LaunchSettings::log_folder>},
    {"--redirects", "-r", "STREAMS",
     "streams to files: 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by rank", true,
     [](const std::string& text, LaunchSettings& settings) {
       return set_streams(text, settings.redirects);
     }},
    {"--tee", "-t", "STREAMS",
     "streams to files and to the console, with the rank before each line", true,
     [](const std::string& text, LaunchSettings& settings) {
       return set_streams(text, settings.tee);
     }},
    {"--local-ranks-filter", "", "RANKS", "show only these on the console", true, set_shown_ranks},
    {"--duplicate-stdout-filters", "", "WORDS",
     "copy teed lines with one of these words to filtered_stdout.log", true,
     [](const std::string& text, LaunchSettings& settings) {
       settings.stdout_filters = filters_of(text);
       return Status(Done{});
     }},
    {"--duplicate-stderr-filters", "", "WORDS", "the same for stderr", true,
     [](const std::string& text, LaunchSettings& settings) {
       settings.stderr_filters = filters_of(text);
       return Status(Done{});
     }},
    {"--line-times", "", "", "the time before each teed line", false,
     set_switch<&LaunchSettings::line_times>},
    {"--fold", "", "", "one line where several ranks write the same", false,
     set_switch<&LaunchSettings::fold_lines>},
    {"--signals-to-handle", "", "NAMES", "signals that end the job, handed on to the ranks", true,
     set_signals},
    {"--virtual-local-rank", "", "", "each rank sees its GPU alone, as device 0", true,
     set_switch<&LaunchSettings::virtual_local_rank>},
    {"--bind", "", "none|numa|core",
     "processors and memory next to each rank's GPU: the whole node's, or a share of its cores",
     false, set_bind},
    {"--numa-binding", "", "MODE",
     "torchrun's own: node, socket, exclusive, core-complex; processors only", false,
     set_numa_binding},
    {"--module", "-m", "", "the script is a module: python -m", true,
     set_switch<&LaunchSettings::module>},
    {"--no-python", "", "", "run the script itself, not by python", true,
     set_switch<&LaunchSettings::no_python>},
    {"--pass-local-rank", "", "", "add --local-rank=N for scripts of torch.distributed.launch",
     false, set_switch<&LaunchSettings::pass_local_rank>},
    {"--watch", "", "", "say beside the job what its GPUs do, and print the report at its end",
     false, set_switch<&LaunchSettings::watch>},
    {"--nccl-debug", "", "", "NCCL's INFO log to one file a rank, and its essence at the end",
     false, set_switch<&LaunchSettings::nccl_debug>},
    {"--probe", "", "[PROBES]",
     "switch probes on in the ranks (auto, or of host, python, cuda and nccl those that you want): "
     "lockstep monitor then shows their steps",
     false, set_text<&LaunchSettings::probes>},
    {"--recommended", "", "", "add the settings that lockstep would choose, and say why", false,
     set_switch<&LaunchSettings::recommended>},
    {"--from", "", "REPORT", "add the settings that a report of lockstep diagnose --json asks for",
     false, set_text<&LaunchSettings::from_report>},
    {"--no-checks", "", "", "start without looking at GPUs, ports and memory first", false,
     [](const std::string&, LaunchSettings& settings) {
       settings.checks = false;
       return Status(Done{});
     }},
    {"--quiet", "", "", "no words but errors", false, set_switch<&LaunchSettings::quiet>},
    {"--start-method", "", "METHOD", "of no effect here", true, note_start_method},
    {"--event-log-handler", "", "NAME", "of no effect here", true, note_event_log_handler},
    {"--run-path", "", "", "refused: ranks are processes of their own", true, refuse_run_path},
    {"--logs-specs", "", "NAME", "refused: a Python class of torchrun's", false, refuse_logs_specs},
};

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// PET_NPROC_PER_NODE of --nproc-per-node.
std::string variable_of(const LaunchFlag& flag) {
  std::string name = "PET_";
  for (const char* c = flag.name + 2; *c != '\0'; ++c)
    name += *c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  return name;
}

Result<const LaunchFlag*> flag_named(const std::string& typed) {
  const std::string name = with_dashes(typed);
  std::vector<const LaunchFlag*> begins;
  std::vector<std::string> known;
  for (const LaunchFlag& flag : kFlags) {
    if (name == flag.name || (flag.short_name[0] != '\0' && name == flag.short_name)) return &flag;
    if (name.size() > 2 && std::string_view(flag.name).starts_with(name)) begins.push_back(&flag);
    known.emplace_back(flag.name);
  }
  if (begins.size() == 1) return begins.front();
  if (begins.size() > 1) {
    std::string names;
    for (const LaunchFlag* const flag : begins)
      names += (names.empty() ? "" : ", ") + std::string(flag->name);
    return usage_error(fmt::format("'{}' may mean {}", printable(typed), names),
                       "write more of it");
  }
  const auto near = nearest(name, known);
  return usage_error(
      fmt::format("'{}' is no flag of launch", printable(typed)),
      near ? fmt::format("did you mean {}? The script's own flags come after the script", *near)
           : "see lockstep help launch; the script's own flags come after the script");
}

Status apply(const LaunchFlag& flag, const std::string& value, LaunchSettings& settings) {
  settings.given.insert(flag.name);
  Status applied = flag.apply(value, settings);
  if (applied || applied.error().what.find(flag.name) != std::string::npos) return applied;
  Error problem = std::move(applied).error();
  problem.what = fmt::format("{}: {}", flag.name, problem.what);
  return problem;
}

Status read_environment(const ReadVariable& variable, LaunchSettings& settings) {
  for (const LaunchFlag& flag : kFlags) {
    if (!flag.from_environment) continue;
    const auto value = variable(variable_of(flag));
    if (!value) continue;
    const bool is_switch = flag.value_name[0] == '\0';
    if (is_switch) {
      const auto number = parse_integer(*value);
      if (!number)
        return usage_error(
            fmt::format("{}={} is neither 0 nor 1", variable_of(flag), printable(*value)),
            fmt::format("unset {}", variable_of(flag)));
      if (*number == 0) continue;
    }
    if (Status applied = apply(flag, *value, settings); !applied) {
      Error problem = std::move(applied).error();
      problem.what = fmt::format("{} (from {})", problem.what, variable_of(flag));
      return problem;
    }
  }
  return Done{};
}

// -r3 and -r=3 are -r with the value 3.
struct Typed {
  std::string name;
  std::optional<std::string> value;
};
Typed typed_of(const std::string& word) {
  if (word.starts_with("--")) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) return {word, std::nullopt};
    return {word.substr(0, equals), word.substr(equals + 1)};
  }
  if (word.size() > 2 && (word[1] == 'r' || word[1] == 't'))
    return {word.substr(0, 2), word.substr(word[2] == '=' ? 3 : 2)};
  return {word, std::nullopt};
}

Status check_together(LaunchSettings& settings) {
  if (settings.master_address.empty())
    return usage_error("--master-addr is empty",
                       "the address of machine 0: --master-addr=10.0.0.1");
  if (settings.script.empty())
    return usage_error("the script's name is empty",
                       "name it after the flags: lockstep launch --standalone train.py");
  for (const char* name : {"join_timeout", "timeout", "control_port"})
    if (const auto found = settings.rendezvous_conf.find(name);
        found != settings.rendezvous_conf.end())
      if (const auto number = parse_integer(found->second);
          !number || *number <= 0 || *number > 10'000'000)
        return usage_error(
            fmt::format("--rdzv-conf: {}={} is no number above 0", name, printable(found->second)),
            "for example --rdzv-conf=join_timeout=600");
  if (settings.standalone && settings.max_nodes > 1) {
    settings.notes.push_back(
        fmt::format("--standalone is one machine: --nnodes={} is left aside", settings.max_nodes));
    settings.min_nodes = settings.max_nodes = 1;
  }
  if (settings.module && settings.no_python)
    return usage_error("--module and --no-python at once",
                       "a module needs python: leave one of them out");
  if (settings.node_rank >= settings.max_nodes && !settings.standalone &&
      settings.backend == Backend::static_nodes)
    return usage_error(fmt::format("--node-rank={} with {} node{}", settings.node_rank,
                                   settings.max_nodes, settings.max_nodes == 1 ? "" : "s"),
                       "nodes are numbered from 0; give --nnodes on every node");
  if (settings.backend == Backend::static_nodes && !settings.standalone &&
      settings.min_nodes != settings.max_nodes)
    return usage_error("a range of nodes needs a rendezvous that counts them",
                       "add --rdzv-backend=c10d --rdzv-endpoint=HOST:29400");
  return Done{};
}

}  // namespace

std::span<const LaunchFlag> launch_flags() { return kFlags; }

Result<LaunchSettings> parse_launch_arguments(const std::vector<std::string>& words,
                                              const ReadVariable& variable) {
  LaunchSettings settings;
  TRY(read_environment(variable, settings));
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    Typed typed = typed_of(word);
    auto flag = TRY(flag_named(typed.name));
    const bool is_switch = flag->value_name[0] == '\0';
    if (is_switch && typed.value)
      return usage_error(fmt::format("{} takes no value", flag->name),
                         "leave out what follows the =");
    const bool has_next = at + 1 < words.size();
    // its value may be left out: the next word may be the script
    if (flag->value_name[0] == '[' && !typed.value) {
      typed.value = has_next && parse_probes(words[at + 1], kLightProbes) ? words[++at] : "auto";
    } else if (!is_switch && !typed.value) {
      if (!has_next ||
          (words[at + 1].size() > 1 && words[at + 1][0] == '-' && !parse_integer(words[at + 1])))
        return usage_error(fmt::format("{} needs a value", flag->name),
                           fmt::format("write {}={}", flag->name, flag->value_name));
      typed.value = words[++at];
    }
    TRY(apply(*flag, typed.value.value_or(""), settings));
  }
  if (at >= words.size())
    return usage_error(
        "no script to run",
        "name it after the flags: lockstep launch --standalone --nproc-per-node=2 train.py");
  settings.script = words[at];
  settings.script_arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                   words.end());
  TRY(check_together(settings));
  return settings;
}

}  // namespace lockstep
