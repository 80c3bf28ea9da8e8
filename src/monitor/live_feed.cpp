#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "monitor/feed_thread.hpp"
#include "monitor/side_recording.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestWait = 50ms;  // between looks at requests and at a silent driver
constexpr auto kRareTicks = 250ms;
constexpr std::array<std::chrono::nanoseconds, 9> kIntervals = {20ms, 50ms, 100ms, 200ms, 500ms,
                                                                1s,   2s,   5s,    10s};

class LiveFeed : public FeedThread {
 public:
  using FeedThread::FeedThread;

  void run() override {
    update([&](Monitored& seen) { seen.interval = options_.interval; });
    show_scene();
    while (!stopped()) {
      while (auto request = next_request()) answer(*request);
      auto next = source_->next(kLongestWait);
      if (!next) {
        fail(std::move(next).error());
        break;
      }
      if (std::holds_alternative<EndOfInput>(*next)) break;
      auto* const record = std::get_if<Record>(&*next);
      const bool any = record != nullptr;
      const bool tick = any && std::holds_alternative<GpuTick>(record->content);
      if (any) take(std::move(*record));
      const auto silence = source_->silence();
      const bool was_silent = scene_->seen().silence.has_value();
      if (silence || was_silent) update([&](Monitored& seen) { seen.silence = silence; });
      // A verdict or a process list is seen with the next tick: one frame for all of them, unless
      // ticks are rare.
      if (tick || silence || was_silent || (any && scene_->seen().interval > kRareTicks))
        announce();
      if (any) judge_if_due();
    }
    if (const auto ongoing = recording_.ongoing()) finish_recording(*ongoing);
  }

 private:
  void finish_recording(const OngoingRecording& ongoing) {
    const Status status = recording_.end();
    if (!status)
      tell(status.error());
    else
      tell(fmt::format("recorded to {}", printable(ongoing.path)));
    update([&](Monitored& seen) { seen.recording = recording_.ongoing(); });
  }

  void take(Record record) {
    if (Status status = recording_.take(record); !status) tell(status.error());
    const auto cost = source_->cost();
    update([&](Monitored& seen) {
      seen.cost = cost;
      seen.recording = recording_.ongoing();
    });
    add(std::move(record));
  }

  void answer(const FeedRequest& request) {
    if (const auto* toggle = std::get_if<ToggleRecording>(&request))
      toggle_recording(toggle->path);
    else if (const auto* longer = std::get_if<ChangeInterval>(&request)) {
      const std::chrono::nanoseconds interval =
          moved_along(kIntervals, scene_->seen().interval, longer->steps);
      source_->set_interval(interval);
      update([&](Monitored& seen) { seen.interval = interval; });
      tell(fmt::format("reads every {}", format_duration(interval)));
    } else if (std::holds_alternative<JudgeNow>(request)) {
      scene_->judge_soon();
    }
    announce();
  }

  void toggle_recording(const std::string& path) {
    if (const auto ongoing = recording_.ongoing()) {
      finish_recording(*ongoing);
    } else if (Status status = recording_.start(path, source_->machine()); !status) {
      tell(status.error());
    } else {
      const double past_s = (scene_->seen().now_ms() - recording_.ongoing()->since_ms) / 1e3;
      tell(fmt::format("recording to {}, with the last {:.0f} s", printable(path), past_s));
    }
    update([&](Monitored& seen) { seen.recording = recording_.ongoing(); });
  }

  SideRecording recording_;
};

}  // namespace

std::unique_ptr<FeedThread> make_live_feed(FeedOptions options, std::shared_ptr<FeedState> shared,
                                           std::unique_ptr<Source> source) {
  return std::make_unique<LiveFeed>(std::move(options), std::move(shared), std::move(source));
}

}  // namespace lockstep
