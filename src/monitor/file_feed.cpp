#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "monitor/feed_thread.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestWait = 100ms;              // between looks at requests
constexpr auto kFrame = 50ms;                     // a playing position moves at least so often
constexpr std::size_t kReadAtOnce = 500;          // records, between looks at requests
constexpr double kJudgeWhileSeekingMs = 10'000;   // verdicts of what is passed over, for the strip of patterns
constexpr double kBeforeEndMs = 1;
constexpr std::array<double, 11> kSpeeds = {0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128};

// Keeps a place in the file: all records up to it are shown. To go back the file is opened again and read up to the
// place, in constant memory; what is on the screen stays until that is done.
class FileFeed : public FeedThread {
 public:
  using FeedThread::FeedThread;

  void run() override {
    if (!read_ahead()) return;
    playback_.begin_ms = playback_.position_ms = ahead_ ? ahead_->t_ms : 0;
    take_due();
    show();
    moved_at_ = monotonic_now();
    while (!stopped()) {
      if (const auto request = next_request(pause_before_next())) answer(*request);
      if (failed_) return;
      move_position();
      if (playback_.position_ms > shown_ms_) {
        take_due();
        show();
      }
      scan_for_end();
    }
  }

 private:
  // Until the next record is due, or the next frame; requests come in between.
  std::chrono::nanoseconds pause_before_next() const {
    if (scanning_) return 0ns;
    if (playback_.paused || playback_.at_end) return kLongestWait;
    if (!ahead_) return kFrame;
    const double due_ms = (ahead_->t_ms - playback_.position_ms) / playback_.speed;
    return std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(static_cast<std::int64_t>(due_ms * 1e6)), 1ms, kFrame);
  }

  void move_position() {
    const auto now = monotonic_now();
    const double passed_ms = to_ms(now - moved_at_);
    moved_at_ = now;
    if (playback_.paused || playback_.at_end) return;
    playback_.position_ms += passed_ms * playback_.speed;
    if (ahead_ || !playback_.end_ms || playback_.position_ms < *playback_.end_ms) return;
    if (playback_.loops && options_.can_reopen) return seek(playback_.begin_ms);
    playback_.position_ms = *playback_.end_ms;
    playback_.at_end = true;
    show();
  }

  void answer(const FeedRequest& request) {
    if (std::holds_alternative<TogglePause>(request)) {
      move_position();
      // At the end there is nothing to pause: it begins again.
      if (playback_.at_end && options_.can_reopen) seek(playback_.begin_ms);
      else playback_.paused = !playback_.paused;
    } else if (const auto* speed = std::get_if<ChangeSpeed>(&request)) {
      move_position();
      playback_.speed = moved_along(kSpeeds, playback_.speed, speed->steps);
    } else if (std::holds_alternative<ToggleLoop>(request)) {
      playback_.loops = !playback_.loops;
      if (playback_.loops && playback_.at_end && options_.can_reopen) seek(playback_.begin_ms);
    } else if (const auto* by = std::get_if<SeekBy>(&request)) {
      move_position();
      seek(playback_.position_ms + by->ms);
    } else if (const auto* place = std::get_if<SeekTo>(&request)) {
      seek(place->t_ms);
    } else if (std::holds_alternative<JudgeNow>(request)) {
      if (!scene_->seen().history.empty()) judge();
    } else {
      tell("this is a recording already");
    }
    show();
  }

  // Reads one record ahead of the position. False: the input is broken, and the feed ends.
  bool read_ahead() {
    auto next = source_->next(kLongestWait);
    if (!next) {
      failed_ = true;
      fail(std::move(next).error());
      return false;
    }
    ahead_.reset();
    if (auto* record = std::get_if<Record>(&*next)) {
      newest_ms_ = std::max(newest_ms_, record->t_ms);
      ahead_ = std::move(*record);
      return true;
    }
    if (std::holds_alternative<NothingYet>(*next)) return true;  // no file says so
    playback_.end_ms = newest_ms_;
    const std::lock_guard lock(shared_->mutex);
    shared_->repair_note = source_->repair_note();
    return true;
  }

  // Everything up to the position goes to the scene.
  void take_due() {
    while (ahead_ && ahead_->t_ms <= playback_.position_ms) {
      add(std::move(*ahead_));
      if (!read_ahead()) return;
      judge_if_due();
    }
    shown_ms_ = playback_.position_ms;
  }

  void show() {
    if (!scene_is_shown_) {
      scene_->seen().playback = playback_;
      return show_scene();
    }
    update([&](Monitored& seen) { seen.playback = playback_; });
    announce();
  }

  bool reopen() {
    auto source = options_.open();
    if (!source) {
      tell(source.error());
      return false;
    }
    source_ = std::move(*source);
    scene_ = std::make_unique<MonitorScene>(*source_, options_.scene);
    scene_is_shown_ = false;
    newest_ms_ = 0;
    return read_ahead();
  }

  void seek(double t_ms) {
    const double target = std::clamp(t_ms, playback_.begin_ms, playback_.end_ms.value_or(t_ms));
    playback_.seeking = true;
    show();
    const bool back = target < playback_.position_ms;
    if (back && !options_.can_reopen) {
      tell("a pipe cannot be played backwards");
    } else if (!back || reopen()) {
      playback_.at_end = false;
      playback_.position_ms = target;
      pass_over(target);
    }
    playback_.seeking = false;
    shown_ms_ = playback_.position_ms;
    moved_at_ = monotonic_now();
    show();
  }

  void pass_over(double target) {
    double judged_ms = ahead_ ? ahead_->t_ms : target;
    while (ahead_ && ahead_->t_ms <= target && !stopped()) {
      for (std::size_t i = 0; i < kReadAtOnce && ahead_ && ahead_->t_ms <= target; ++i) {
        const double t_ms = ahead_->t_ms;
        add(std::move(*ahead_));
        if (!read_ahead()) return;
        if (t_ms - judged_ms < kJudgeWhileSeekingMs) continue;
        judged_ms = t_ms;
        judge();
      }
    }
    if (!ahead_ && target >= newest_ms_ - kBeforeEndMs) playback_.at_end = true;
    if (!scene_->seen().history.empty()) judge();
  }

  // Where the file ends, found by reading it beside the playing one, a little at a time.
  void scan_for_end() {
    if (playback_.end_ms || !options_.can_reopen) return;
    if (!scanning_ && !scanner_) {
      auto source = options_.open();
      if (!source) return;
      scanner_ = std::move(*source);
      scanning_ = true;
      scanned_ms_ = playback_.begin_ms;
    }
    for (std::size_t i = 0; scanning_ && i < kReadAtOnce; ++i) {
      auto next = scanner_->next(0ms);
      const auto* record = next ? std::get_if<Record>(&*next) : nullptr;
      if (record != nullptr) scanned_ms_ = std::max(scanned_ms_, record->t_ms);
      else scanning_ = false;
    }
    if (scanning_) return;
    scanner_.reset();
    playback_.end_ms = scanned_ms_;
    show();
  }

  Playback playback_;
  std::optional<Record> ahead_;  // read, and not yet its time
  double newest_ms_ = 0;         // of what was read
  double shown_ms_ = 0;
  std::chrono::nanoseconds moved_at_{};
  std::unique_ptr<Source> scanner_;
  bool scanning_ = false;
  double scanned_ms_ = 0;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<FeedThread> make_file_feed(FeedOptions options, std::shared_ptr<FeedState> shared, std::unique_ptr<Source> source) {
  return std::make_unique<FileFeed>(std::move(options), std::move(shared), std::move(source));
}

}  // namespace lockstep
