#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "monitor/feed_thread.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestPause = 100ms;  // between looks at requests
constexpr auto kFrame = 50ms;          // a playing position moves at least so often
// of wall time: a program that was stopped does not jump ahead
constexpr double kLongestStepMs = 500;
constexpr std::size_t kReadAtOnce = 500;  // records, between looks at requests
// verdicts of what is passed over, for the past's sake
constexpr double kJudgeWhileSeekingMs = 10'000;
constexpr auto kJudgeAgainAfter = 250ms;  // of wall time, at any speed
constexpr std::array<double, 11> kSpeeds = {0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128};
// A log with a reading every half minute would be dull at its own pace: it starts at some readings
// a second.
constexpr double kDullSpacingMs = 1500;
constexpr double kReadingsPerSecond = 4;

// Keeps a place in the file: all records up to it are shown. To go back the file is opened again
// and read up to the place, in constant memory; what is on the screen stays until that is done.
// Requests are looked at all the while.
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
      catch_up();
      scan_for_end();
    }
  }

 private:
  bool is_behind() const { return ahead_ && ahead_->t_ms <= playback_.position_ms; }

  // Until the next record is due, or the next frame; requests come in between.
  std::chrono::nanoseconds pause_before_next() const {
    if (scanning_ || is_behind()) return 0ns;
    if (playback_.paused || playback_.at_end) return kLongestPause;
    if (!ahead_) return kFrame;
    const double due_ms = (ahead_->t_ms - playback_.position_ms) / playback_.speed;
    return std::clamp<std::chrono::nanoseconds>(
        std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(due_ms, 1e6) * 1e6)), 1ms,
        kFrame);
  }

  void move_position() {
    const auto now = monotonic_now();
    const double passed_ms = std::min(to_ms(now - moved_at_), kLongestStepMs);
    moved_at_ = now;
    if (playback_.at_end && playback_.loops && !playback_.paused && options_.can_reopen)
      return seek(playback_.begin_ms);
    // What is being gone to, or is more than a frame's worth behind, is caught up with first.
    if (playback_.paused || playback_.at_end || playback_.seeking || is_behind()) return;
    playback_.position_ms += passed_ms * playback_.speed;
    if (ahead_ || !playback_.end_ms || playback_.position_ms < *playback_.end_ms) return;
    playback_.position_ms = *playback_.end_ms;
    playback_.at_end = true;
    show();
  }

  // Everything up to the position goes to the scene, a batch at a time.
  void catch_up() {
    if (playback_.position_ms <= shown_ms_ && !is_behind() && !playback_.seeking) return;
    take_due();
    if (is_behind() || failed_) return;
    if (playback_.seeking) {
      playback_.seeking = false;
      playback_.at_end = !ahead_ && playback_.end_ms && playback_.position_ms >= *playback_.end_ms;
      if (!scene_->seen().history.empty()) judge();
      moved_at_ = monotonic_now();
    }
    shown_ms_ = playback_.position_ms;
    show();
  }

  void take_due() {
    for (std::size_t i = 0; i < kReadAtOnce && is_behind(); ++i) {
      const double t_ms = ahead_->t_ms;
      add(std::move(*ahead_));
      if (!read_ahead()) return;
      if (playback_.seeking
              ? t_ms - passed_judged_ms_ >= kJudgeWhileSeekingMs
              : monotonic_now() - judged_at_ >= kJudgeAgainAfter && scene_->is_judgement_due()) {
        passed_judged_ms_ = t_ms;
        if (!scene_->seen().history.empty()) judge();
        judged_at_ = monotonic_now();
      }
    }
  }

  void answer(const FeedRequest& request) {
    if (std::holds_alternative<TogglePause>(request)) {
      // At the end there is nothing to pause: it begins again.
      if (playback_.at_end && options_.can_reopen)
        seek(playback_.begin_ms);
      else
        playback_.paused = !playback_.paused;
    } else if (const auto* speed = std::get_if<ChangeSpeed>(&request)) {
      playback_.speed = moved_along(kSpeeds, playback_.speed, speed->steps);
      speed_was_chosen_ = true;
    } else if (std::holds_alternative<ToggleLoop>(request)) {
      playback_.loops = !playback_.loops;
    } else if (const auto* by = std::get_if<SeekBy>(&request)) {
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
    auto next = source_->next(kLongestPause);
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
    tell_of_repairs(*source_);
    return true;
  }

  // A cut or damaged file is played as far as it reads; the user is told once.
  void tell_of_repairs(const Source& source) {
    const auto note = source.repair_note();
    if (!note || std::exchange(told_of_repairs_, true)) return;
    tell(*note);
  }

  void show() {
    if (!scene_is_shown_) {
      // A scene on the way to its place is not shown; the one before it says where it goes.
      if (playback_.seeking && shown_before_) return show_seeking();
      scene_->seen().playback = playback_;
      shown_before_ = true;
      return show_scene();
    }
    update([&](Monitored& seen) { seen.playback = playback_; });
    announce();
  }

  void show_seeking() {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->seen->playback = playback_;
    }
    announce();
  }

  bool reopen() {
    auto source = options_.open();
    if (!source) {
      tell(source.error());
      return false;
    }
    auto scene = std::make_unique<MonitorScene>(**source, options_.scene);
    scene_ = std::move(scene);  // before the source that the old one looks at
    source_ = std::move(*source);
    scene_is_shown_ = false;
    newest_ms_ = 0;
    return read_ahead();
  }

  // Sets out for a place; catch_up gets there, and looks at further requests on the way.
  void seek(double t_ms) {
    double target = std::max(t_ms, playback_.begin_ms);
    if (playback_.end_ms) target = std::min(target, *playback_.end_ms);
    if (target < playback_.position_ms) {
      if (!options_.can_reopen) return tell("a pipe cannot be played backwards");
      if (!reopen()) return;
    }
    playback_.at_end = false;
    playback_.seeking = true;
    playback_.position_ms = target;
    passed_judged_ms_ = ahead_ ? ahead_->t_ms : target;
    show();
  }

  // Where the file ends, found by reading it beside the playing one, a little at a time.
  void scan_for_end() {
    if (playback_.end_ms || !options_.can_reopen || playback_.seeking) return;
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
      if (record == nullptr) {
        scanning_ = false;
        break;
      }
      scanned_ms_ = std::max(scanned_ms_, record->t_ms);
      scanned_ticks_ += std::holds_alternative<GpuTick>(record->content) ? 1U : 0U;
    }
    if (scanning_) return;
    tell_of_repairs(*scanner_);
    scanner_.reset();
    playback_.end_ms = scanned_ms_;
    const double spacing_ms = scanned_ticks_ > 1 ? (scanned_ms_ - playback_.begin_ms) /
                                                       static_cast<double>(scanned_ticks_ - 1)
                                                 : 0;
    if (spacing_ms > kDullSpacingMs && !speed_was_chosen_)
      playback_.speed = moved_along(kSpeeds, spacing_ms / 1000 * kReadingsPerSecond, 0);
    show();
  }

  Playback playback_;
  std::optional<Record> ahead_;  // read, and not yet its time
  double newest_ms_ = 0;         // of what was read
  double shown_ms_ = 0;
  double passed_judged_ms_ = 0;
  std::chrono::nanoseconds judged_at_{};
  std::chrono::nanoseconds moved_at_{};
  bool shown_before_ = false;
  bool speed_was_chosen_ = false;
  bool told_of_repairs_ = false;
  std::unique_ptr<Source> scanner_;
  bool scanning_ = false;
  double scanned_ms_ = 0;
  std::size_t scanned_ticks_ = 0;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<FeedThread> make_file_feed(FeedOptions options, std::shared_ptr<FeedState> shared,
                                           std::unique_ptr<Source> source) {
  return std::make_unique<FileFeed>(std::move(options), std::move(shared), std::move(source));
}

}  // namespace lockstep
