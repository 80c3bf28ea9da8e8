#include "runs/live_screen.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <utility>

#include "advice/finding_pages.hpp"
#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "render/tui/handle_input.hpp"
#include "render/tui/monitor_screen.hpp"
#include "render/tui/rank_rows.hpp"
#include "render/tui/screen_painter.hpp"
#include "render/tui/terminal/input_parser.hpp"
#include "render/tui/terminal/screen_writer.hpp"
#include "render/tui/terminal/terminal_session.hpp"
#include "runs/exit_code.hpp"
#include "runs/monitor_setup.hpp"
#include "runs/signal_target.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// before the screen is taken: an error is better told without it
constexpr auto kOpenWithin = 400ms;
constexpr auto kEscapeAlone = 40ms;  // then it was the key, not the start of an arrow
constexpr auto kMessageStands = 6s;
constexpr auto kLongestWait = 500ms;
constexpr auto kStopWithin = 120ms;  // of the 200 ms that quitting may take
// where a recording has to be closed first: nothing of it is to be lost
constexpr auto kCloseWithin = 5s;
constexpr double kFramesPerSecond = 10;
// a key is answered at once though a frame was drawn a moment ago
constexpr double kFramesAtOnce = 2;

// At most ten frames a second in the long run.
class FramePace {
 public:
  bool take(std::chrono::nanoseconds now) {
    fill(now);
    if (frames_ < 1) return false;
    frames_ -= 1;
    return true;
  }
  std::chrono::milliseconds until_next(std::chrono::nanoseconds now) {
    fill(now);
    return std::chrono::milliseconds(
        frames_ >= 1 ? 0 : 1 + static_cast<int>((1 - frames_) / kFramesPerSecond * 1000));
  }

 private:
  void fill(std::chrono::nanoseconds now) {
    frames_ = std::min(kFramesAtOnce, frames_ + to_ms(now - filled_) / 1e3 * kFramesPerSecond);
    filled_ = now;
  }
  double frames_ = kFramesAtOnce;
  std::chrono::nanoseconds filled_ = monotonic_now();
};

std::string_view page_of(FindingCode code) {
  for (const FindingPage& page : finding_pages())
    if (page.id == name_of(code).id) return page.text;
  return {};
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kLetters[group >> (18U - 6U * j) & 63U] : '=';
  }
  return text;
}

std::string recording_name() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("lockstep-{:%Y%m%d-%H%M%S}.jsonl.zst", local);
}

class LiveScreen {
 public:
  LiveScreen(MonitorFeed& feed, TerminalSession& terminal, const LiveScreenOptions& options)
      : feed_(feed),
        terminal_(terminal),
        options_(options),
        state_(options.start),
        saved_(options.start.setup) {}

  // Until the user quits, the time is over, or nothing comes any more.
  void run() {
    size_ = terminal_.size();
    const auto started = monotonic_now();
    while (!quit_ && interrupted_by() == 0) {
      if (options_.duration && monotonic_now() - started >= *options_.duration) return;
      if (feed_.failure()) return;
      if (due_ && pace_.take(monotonic_now())) draw();
      take(terminal_.wait(longest_wait(started)));
    }
  }

 private:
  std::chrono::milliseconds longest_wait(std::chrono::nanoseconds started) {
    auto wait = std::chrono::milliseconds(kLongestWait);
    const auto now = monotonic_now();
    if (due_) wait = std::min(wait, pace_.until_next(now));
    if (parser_.is_waiting()) wait = std::min(wait, std::chrono::milliseconds(kEscapeAlone));
    if (options_.duration)
      wait = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(*options_.duration -
                                                                              (now - started)),
                        0ms, wait);
    return wait;
  }

  void take(const TerminalSession::Woken& woken) {
    if (woken.stop_wanted) {
      terminal_.suspend();
      redraw_all();
    }
    if (woken.went_on) {
      terminal_.enter();
      redraw_all();
    }
    if (woken.resized || terminal_.size() != size_) {
      size_ = terminal_.size();
      redraw_all();
    }
    if (woken.other || !feed_.look([](const Monitored& seen) { return seen.open; })) due_ = true;
    const std::string bytes = woken.input ? terminal_.read() : std::string();
    if (woken.gone && bytes.empty()) quit_ = true;
    if (!bytes.empty()) typed_at_ = monotonic_now();
    if (!bytes.empty())
      for (const Input& input : parser_.take(bytes)) react(input);
    else if (parser_.is_waiting() && monotonic_now() - typed_at_ >= kEscapeAlone)
      for (const Input& input : parser_.give_up_waiting()) react(input);
    if (!state_.message.empty() && monotonic_now() - message_since_ > kMessageStands) {
      state_.message.clear();
      due_ = true;
    }
    take_note();
  }

  void react(const Input& input) {
    Reaction reaction = feed_.look([&](const Monitored& seen) {
      return handle(std::move(state_), input, {seen, layout_, recording_name()});
    });
    state_ = std::move(reaction.state);
    take_hold_of_target();
    message_since_ = monotonic_now();
    due_ = true;
    for (MonitorRequest& request : reaction.requests) {
      if (auto* of_feed = std::get_if<FeedRequest>(&request))
        feed_.request(std::move(*of_feed));
      else
        carry_out(std::get<ProgramRequest>(request));
    }
  }

  void carry_out(const ProgramRequest& request) {
    if (std::holds_alternative<QuitScreen>(request))
      quit_ = true;
    else if (const auto* signal = std::get_if<SendSignal>(&request))
      send(*signal);
    else if (const auto* copy = std::get_if<CopyText>(&request))
      terminal_.write(fmt::format("\x1b]52;c;{}\x07", base64(copy->text)));
    else if (std::holds_alternative<SaveSetup>(request))
      save();
    else
      redraw_all();
  }

  // From the question on it is this process that is meant, whatever becomes of its number.
  void take_hold_of_target() {
    const auto* menu = std::get_if<SignalMenu>(&state_.overlay);
    // kept until the answer is carried out
    if (menu == nullptr || (target_ && target_->pid() == menu->pid)) return;
    const ProcessTick shown = feed_.look([](const Monitored& seen) { return seen.processes; });
    // reads /proc: not under the feed's lock
    auto held = SignalTarget::take_hold(menu->pid, shown);
    if (!held) {
      state_.overlay = std::monostate{};
      state_.message = held.error().what;
      return;
    }
    target_.emplace(std::move(*held));
  }

  void send(const SendSignal& signal) {
    if (!target_ || target_->pid() != signal.pid) return;
    if (const Status sent = target_->send(signal.signal); sent)
      state_.message = fmt::format("sent {} to {}", signal.name, signal.pid);
    else
      state_.message = fmt::format("{} was not sent: {}", signal.name, sent.error().what);
    target_.reset();
  }

  void save() {
    if (state_.setup == saved_) return;
    if (options_.config.empty()) {
      state_.message = "the setup is not saved: neither XDG_CONFIG_HOME nor HOME is set";
      return;
    }
    if (Status status = save_monitor_setup(options_.config, state_.setup); !status) {
      state_.message = fmt::format("the setup is not saved: {}", status.error().what);
      return;
    }
    saved_ = state_.setup;
    state_.message = fmt::format("setup saved to {}", printable(options_.config.string()));
  }

  void redraw_all() {
    painter_.forget();
    writer_.forget();
    due_ = true;
  }

  // What the feed has to tell, such as a file that could not be written.
  void take_note() {
    feed_.look([&](const Monitored& seen) {
      if (const double newest = seen.events.empty() ? 0 : seen.events.back().t_ms;
          newest > told_event_ms_) {
        told_event_ms_ = newest;
        state_.message = event_words(seen.events.back().event);
        message_since_ = monotonic_now();
        due_ = true;
      }
      if (seen.notes == notes_) return;
      notes_ = seen.notes;
      state_.message = seen.note;
      message_since_ = monotonic_now();
      due_ = true;
    });
  }

  void draw() {
    due_ = false;
    MonitorState shown = state_;
    shown.waited_s = static_cast<int>(
        std::chrono::duration_cast<std::chrono::seconds>(monotonic_now() - started_).count());
    shown.setup.colors = shown.setup.colors && options_.colors;
    shown.setup.ascii = shown.setup.ascii || !options_.utf8;
    Frame frame = feed_.look(
        [&](const Monitored& seen) { return draw_monitor(seen, shown, size_, page_of); });
    layout_ = frame.layout;
    const auto painted = painter_.paint(std::move(frame));
    if (!terminal_.write(writer_.update(painted.cells, painted.changed))) quit_ = true;
  }

  MonitorFeed& feed_;
  TerminalSession& terminal_;
  const LiveScreenOptions& options_;
  MonitorState state_;
  MonitorSetup saved_;
  InputParser parser_;
  ScreenPainter painter_;
  ScreenWriter writer_;
  FramePace pace_;
  Layout layout_;
  Size size_;
  bool due_ = true;
  bool quit_ = false;
  std::uint64_t notes_ = 0;
  double told_event_ms_ = 0;
  std::chrono::nanoseconds started_ = monotonic_now();
  std::chrono::nanoseconds message_since_{};
  std::chrono::nanoseconds typed_at_{};
  // taken hold of when the question is asked, so that the answer is about it
  std::optional<SignalTarget> target_;
};

// Rings in the terminal's ear, as long as there is one.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    if (terminal_ != nullptr) terminal_->wake();
  }
  void hang_up(const TerminalSession* terminal) {
    const std::lock_guard lock(mutex_);
    terminal_ = terminal;
  }

 private:
  std::mutex mutex_;
  const TerminalSession* terminal_ = nullptr;
};

// Whatever ends the screen, the feed must not ring a terminal that is gone.
class BellAt {
 public:
  BellAt(std::shared_ptr<Bell> bell, const TerminalSession& terminal) : bell_(std::move(bell)) {
    bell_->hang_up(&terminal);
  }
  ~BellAt() { bell_->hang_up(nullptr); }
  BellAt(const BellAt&) = delete;
  BellAt& operator=(const BellAt&) = delete;

 private:
  std::shared_ptr<Bell> bell_;
};

// What became of a recording that was still being written.
void tell_of_recording(const MonitorFeed& feed) {
  feed.look(
      [](const Monitored& seen) { say(fmt::format("lockstep: {}\n", printable(seen.note))); });
}

}  // namespace

Result<int> run_live_screen(FeedOptions feed_options, const LiveScreenOptions& options) {
  const auto bell = std::make_shared<Bell>();
  feed_options.changed = [bell] { bell->ring(); };
  MonitorFeed feed(std::move(feed_options));
  feed.wait_until_open(kOpenWithin);
  if (auto failure = feed.failure()) return std::move(*failure);

  auto terminal = TRY(TerminalSession::open());
  {
    const BellAt rings(bell, *terminal);
    LiveScreen(feed, *terminal, options).run();
  }
  terminal->leave();
  const int code = interrupted_by() != 0 ? exit_code::kInterrupted : exit_code::kDone;
  const bool recording =
      feed.look([](const Monitored& seen) { return seen.recording.has_value(); });
  const bool stopped = feed.stop(recording ? std::chrono::milliseconds(kCloseWithin) : kStopWithin);
  if (recording) tell_of_recording(feed);
  auto failure = feed.failure();
  if (!stopped) {
    // A poller that is stuck in the driver cannot be joined, nor can whoever waits for it.
    if (failure) report_error(*failure);
    std::fflush(nullptr);
    ::_exit(failure ? exit_code::kCannotMeasure : code);
  }
  if (failure) return std::move(*failure);
  return code;
}

}  // namespace lockstep
