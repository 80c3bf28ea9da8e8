#include "runs/watch.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/interrupt.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestPull = 250ms;  // between looks at the clock, Ctrl-C and the command
constexpr auto kLastWords = 1s;       // for a live source's final reading

// After the watch: what a live source still had to say.
Status drain(Source& source, const std::function<Status(const Record&)>& take) {
  source.finish();
  const auto until = monotonic_now() + kLastWords;
  while (monotonic_now() < until && !source.silence()) {
    auto next = TRY(source.next(kLongestPull));
    if (std::holds_alternative<EndOfInput>(next)) break;
    if (const auto* record = std::get_if<Record>(&next))
      if (Status status = take(*record); !status) return status;
  }
  return Done{};
}

}  // namespace

Result<WatchResult> watch(Source& source, const WatchOptions& options,
                          const std::function<Status(const Record&)>& take) {
  const bool live = source.facts().live;
  const auto started = monotonic_now();
  std::optional<double> first_ms;
  while (interrupted_by() == 0 && !(options.stop && options.stop())) {
    std::chrono::nanoseconds wait = kLongestPull;
    if (live && options.duration) {
      const auto left = *options.duration - (monotonic_now() - started);
      if (left <= 0ns) break;
      wait = std::min(wait, left);
    }
    auto next = TRY(
        source.next(std::max(std::chrono::duration_cast<std::chrono::milliseconds>(wait), 1ms)));
    if (std::holds_alternative<EndOfInput>(next)) break;
    const auto* record = std::get_if<Record>(&next);
    if (record == nullptr) continue;
    if (!first_ms) first_ms = record->t_ms;
    if (!live && options.duration && record->t_ms - *first_ms > to_ms(*options.duration)) break;
    TRY(take(*record));
  }
  WatchResult result;
  result.interrupted = interrupted_by() != 0;
  if (live) TRY(drain(source, take));
  result.silence = source.silence();
  return result;
}

}  // namespace lockstep
