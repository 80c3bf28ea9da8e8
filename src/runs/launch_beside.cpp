#include "runs/launch_beside.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <cstdlib>
#include <map>

#include "base/proc.hpp"
#include "base/text.hpp"
#include "launch/arguments/checks.hpp"
#include "render/text/diagnosis_text.hpp"
#include "runs/judgement.hpp"
#include "runs/observation.hpp"
#include "sources/open_input.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// The virtual GPUs that ranks were told of, else this machine's.
std::string input_of_ranks() {
  const char* const gpus = std::getenv("LOCKSTEP_VIRTUAL");
  return gpus == nullptr ? std::string() : fmt::format("virtual:{}", gpus);
}

// L802: other people's processes on the GPUs that ranks are about to use.
void say_who_holds_gpus(int guard) {
  SourceOptions options;
  options.process_period = 200ms;
  auto source = open_source(input_of_ranks(), options);
  if (!source) return;  // without a driver there is nothing to hold
  auto timeline = observe(**source, {.duration = 500ms});
  if (!timeline || timeline->process_lists.empty()) return;
  constexpr std::uint64_t kWorthAWord = 256ULL << 20U;  // a screen's compositor is no neighbour
  std::map<int, std::vector<std::string>> holders;
  for (const ProcessSample& process : timeline->process_lists.front().processes) {
    if (is_or_stands_below(process.pid, guard)) continue;
    for (const ProcessOnGpu& use : process.gpus) {
      if (use.memory_bytes.value_or(kWorthAWord) < kWorthAWord) continue;
      holders[use.index].push_back(
          fmt::format("process {} ({}{})", process.pid,
                      process.command ? printable(join(*process.command, " ").substr(0, 80)) : "?",
                      use.memory_bytes ? ", " + format_bytes(static_cast<double>(*use.memory_bytes))
                                       : std::string()));
    }
  }
  for (const auto& [gpu, who] : holders) {
    const CheckNote note{FindingCode::gpu_held_by_others,
                         fmt::format("GPU {} is held by {}", gpu, join(who, ", ")),
                         "wait for it, end it, or choose other GPUs: CUDA_VISIBLE_DEVICES=2,3"};
    say(fmt::format("lockstep: {}\n  next: {}\n", in_words(note), note.next));
  }
}

bool is_readable(int descriptor) {
  pollfd watched{descriptor, POLLIN, 0};
  return ::poll(&watched, 1, 0) != 0;
}

// The verdict whenever it changes, and the report when the ranks have ended.
void watch_ranks(int guard, int ended) {
  SourceOptions options;
  options.process_period = 1s;
  options.attention = Attention::close;
  auto source = open_source(input_of_ranks(), options);
  if (!source) {
    say(fmt::format("lockstep: --watch: {}\n  next: {}\n", source.error().what,
                    source.error().next));
    return;
  }
  std::string said;
  ObservationOptions how;
  how.pid = guard;
  how.keep_free_gpus = true;
  how.review_every = 2s;
  how.stop = [ended] { return is_readable(ended); };
  how.enough = [&said](const Timeline& so_far) {
    const Judged judged = judge(so_far);
    const Verdict& verdict = judged.diagnosis.verdict;
    const std::string pattern(kPatternNames[static_cast<std::size_t>(verdict.pattern)]);
    std::string worst;
    if (!judged.diagnosis.findings.empty()) {
      const Finding& finding = judged.diagnosis.findings.front();
      worst = fmt::format("; {} {} costs {:.0f} %", name_of(finding.code).id,
                          name_of(finding.code).name, finding.lost_throughput * 100);
    }
    const std::string words =
        pattern + (worst.empty() ? "" : worst.substr(0, worst.find(" costs")));
    if (words == said) return false;
    said = words;
    say(fmt::format("lockstep: {}: {} ({:.0f} % sure){}\n", pattern, printable(verdict.sentence),
                    verdict.confidence * 100, worst));
    return false;
  };
  auto timeline = observe(**source, how);
  if (!timeline) {
    say(fmt::format("lockstep: --watch: {}\n  next: {}\n", timeline.error().what,
                    timeline.error().next));
    return;
  }
  say(fmt::format(
      "\n{}",
      DiagnosisText(Colors::off, std::nullopt).render(report_of(*timeline, judge(*timeline)))));
}

}  // namespace

Beside beside_the_ranks(bool watch, bool quiet) {
  Beside beside;
  if (!quiet) beside.look_at_gpus = say_who_holds_gpus;
  if (watch) beside.watch = watch_ranks;
  return beside;
}

}  // namespace lockstep
