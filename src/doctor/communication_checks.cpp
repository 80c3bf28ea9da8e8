#include "doctor/communication_checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/output_file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "launch/ranks/rank_environment.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr const char* kGroup = "communication";
// 64 MiB reach 0.7 of what large messages do; half of the link is a fault somewhere
constexpr double kEnoughOfTheLink = 0.5;

// A job of its own, whose virtual GPUs are nobody else's.
std::vector<std::string> own_environment(bool with_gpus) {
  Variables variables = without_launcher(own_variables());
  variables.erase("NCCL_DEBUG");
  variables["LOCKSTEP_VIRTUAL_SCOPE"] = fmt::format("doctor-{}", ::getpid());
  if (!with_gpus) variables["CUDA_VISIBLE_DEVICES"] = "";
  return as_entries(variables);
}

struct ProgramEnd {
  std::optional<int> code;  // nothing: it took too long, and was ended
  std::string lines;        // of standard output
  std::string words;        // the last of standard error
};

ProgramEnd run_self_test(const CommunicationOptions& options, const std::string& name, int ranks,
                         bool on_gpus) {
  ProgramEnd end;
  const OutputFile file;
  if (file.descriptor() < 0) {
    end.code = -1;
    end.words = fmt::format("no file for its words can be made in /tmp: {}", std::strerror(errno));
    return end;
  }
  // The shell joins what both streams say, so that a failure's words are at hand; lines of ours are
  // told by their first letter.
  std::vector<std::string> words = {"/bin/sh",
                                    "-c",
                                    "exec \"$@\" 2>&1",
                                    "sh",
                                    options.launcher,
                                    "launch",
                                    "--standalone",
                                    "--no-checks",
                                    fmt::format("--nproc-per-node={}", ranks),
                                    "--no-python",
                                    options.trainer,
                                    "--selftest",
                                    name,
                                    "--device",
                                    on_gpus ? "cuda" : "cpu"};
  auto program =
      Subprocess::start(words, ChildOutput::to_file, file.descriptor(), own_environment(on_gpus));
  if (!program) {
    end.code = -1;
    end.words = program.error().what;
  } else {
    const auto until = monotonic_now() + options.limit;
    while (monotonic_now() < until && !end.code && interrupted_by() == 0) {
      if (const auto over = program->poll())
        end.code = over->exit_code;
      else
        std::this_thread::sleep_for(20ms);
    }
  }
  const std::string text = file.content();
  for (const std::string_view line : split(text, '\n')) {
    const auto brace = line.find("{\"selftest\"");
    if (brace != std::string_view::npos)
      end.lines += std::string(line.substr(brace)) + "\n";
    else if (line.find("error:") != std::string_view::npos && end.words.empty())
      end.words = std::string(trim(line));
  }
  return end;
}

std::string failure_words(const ProgramEnd& end, std::chrono::milliseconds limit) {
  if (!end.code) return fmt::format("no end within {}", format_duration(limit));
  return end.words.empty() ? fmt::format("ended with code {}", *end.code) : printable(end.words);
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string_view line : split(text, '\n')) {
    Json parsed = Json::parse(line, nullptr, false);
    if (parsed.is_object()) lines.push_back(std::move(parsed));
  }
  return lines;
}

std::string by_hand(const CommunicationOptions& options, const std::string& name, int ranks) {
  return fmt::format(
      "see all of it: lockstep launch --standalone --nproc-per-node={} --no-python {} --selftest "
      "{}",
      ranks, shell_quoted(options.trainer), name);
}

void add_run(const CommunicationOptions& options, const std::string& name, int ranks, bool on_gpus,
             const char* question, Checks& checks) {
  const ProgramEnd end = run_self_test(options, name, ranks, on_gpus);
  Checks told = name == "ddp" ? checks_of_ddp(end.lines)
                              : checks_of_bandwidth(end.lines, name,
                                                    on_gpus ? options.link_bytes_s : std::nullopt);
  if (!end.code || *end.code != 0 || told.empty())
    if (std::ranges::none_of(told, [](const Check& check) { return check.answer == Answer::no; }))
      told.push_back({kGroup, question, Answer::no, failure_words(end, options.limit),
                      by_hand(options, name, ranks)});
  checks.insert(checks.end(), std::make_move_iterator(told.begin()),
                std::make_move_iterator(told.end()));
}

// On GPUs where each rank has one, else on the processor.
Checks run_ddp(const CommunicationOptions& options, Checks checks) {
  const int ranks = options.ranks > 0 ? options.ranks : std::max(2, options.gpus);
  add_run(options, "ddp", ranks, options.gpus >= ranks && options.in_use.empty(),
          "ranks understand each other", checks);
  return checks;
}

}  // namespace

Checks checks_of_bandwidth(const std::string& lines, const std::string& backend,
                           std::optional<double> link_bytes_s) {
  Checks checks;
  bool right = true;
  double fastest = 0;
  double latency_s = 0;
  int ranks = 0;
  std::string version;
  for (const Json& line : lines_of(lines)) {
    if (line.contains("version") && line["version"].is_string())
      version = " " + line["version"].get<std::string>();
    if (line.value("check", "") != "all_reduce") continue;
    right = right && line.value("right", false);
    ranks = line.value("ranks", 0);
    fastest = std::max(fastest, line.value("bus_bytes_s", 0.0));
    if (latency_s == 0) latency_s = line.value("seconds", 0.0);
  }
  if (ranks == 0) return checks;
  const std::string name = backend == "nccl" ? "NCCL" : "Gloo";
  checks.push_back(
      {kGroup, fmt::format("{} sums up right", name), right ? Answer::yes : Answer::no,
       fmt::format("{}{}, {} rank{}, up to 64 MiB", name, version, ranks, ranks == 1 ? "" : "s"),
       right ? ""
             : "a sum that is wrong is a broken GPU, link or library: run it again, then with "
               "other GPUs (CUDA_VISIBLE_DEVICES)"});
  if (ranks < 2) {
    checks.push_back({kGroup, fmt::format("{} is as fast as the links", name), Answer::unknown,
                      "skipped: one GPU alone", ""});
    return checks;
  }
  const bool judged = link_bytes_s.has_value();
  const bool fast = !judged || fastest >= kEnoughOfTheLink * *link_bytes_s;
  std::string detail =
      fmt::format("{:.3g} GB/s on the bus with 64 MiB, {:.3g} ms for 4 KiB, {} ranks",
                  fastest / 1e9, latency_s * 1e3, ranks);
  if (judged) detail += fmt::format("; the links allow about {:.3g} GB/s", *link_bytes_s / 1e9);
  checks.push_back({kGroup,
                    judged ? fmt::format("{} is as fast as the links", name)
                           : fmt::format("{} speed between ranks", name),
                    fast ? Answer::yes : Answer::no, detail,
                    fast ? ""
                         : "see which path it takes: NCCL_DEBUG=INFO; `nvidia-smi topo -m`; "
                           "lockstep explain C405"});
  return checks;
}

Checks checks_of_ddp(const std::string& lines) {
  struct Row {
    const char* check;
    const char* question;
    const char* detail;
    const char* next;
  };
  constexpr Row kRows[] = {
      {"collectives", "ranks understand each other",
       "all-reduce, broadcast, gather and barrier with values that are known",
       "the library or the network changes values: run it again with "
       "TORCH_DISTRIBUTED_DEBUG=DETAIL"},
      {"shards", "every sample goes to one rank",
       "shards are disjoint and complete in two epochs, in another order each",
       "a fault of lockstep-train; please report it"},
      {"step", "weights are equal after a step",
       "other weights and samples on each rank before; after it the same weights, by the mean of "
       "all gradients",
       "gradients are not averaged right: the backend or the GPUs' memory is broken"},
  };
  Checks checks;
  for (const Json& line : lines_of(lines))
    for (const Row& row : kRows)
      if (line.value("check", "") == row.check) {
        const bool right = line.value("right", false);
        checks.push_back({kGroup, row.question, right ? Answer::yes : Answer::no,
                          fmt::format("{} ranks: {}", line.value("ranks", 0), row.detail),
                          right ? "" : row.next});
      }
  return checks;
}

Checks communication_checks(const CommunicationOptions& options) {
  Checks checks;
  if (options.trainer.empty()) {
    checks.push_back({kGroup, "ranks understand each other", Answer::unknown,
                      "skipped: " + options.why_no_trainer, ""});
    return checks;
  }
  if (!options.speed) return options.ddp ? run_ddp(options, checks) : checks;
  if (!options.in_use.empty())
    checks.push_back({kGroup, "NCCL is as fast as the links", Answer::unknown,
                      fmt::format("skipped: {}; ask again when they are free", options.in_use),
                      ""});
  else if (options.gpus == 0)
    checks.push_back({kGroup, "NCCL is as fast as the links", Answer::unknown,
                      "skipped: no GPU that lockstep-train could use", ""});
  else
    add_run(options, "nccl", options.gpus, true, "NCCL sums up right", checks);
  add_run(options, "gloo", 2, false, "Gloo sums up right", checks);
  return options.ddp ? run_ddp(options, std::move(checks)) : checks;
}

}  // namespace lockstep
