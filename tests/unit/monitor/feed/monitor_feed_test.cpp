// The thread behind the live screen, on files and on scripted sources. Waits are for a condition,
// with a limit that only a failure reaches.
#include "monitor/monitor_feed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "sources/replay/replay_source.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::plateau;
using testing::recording_text;
using testing::two_gpu_machine;

constexpr auto kLimit = 20s;

// What a judgement says is other tests' business, and so are its layers: the thread sanitizer's
// build, which is about the feed's threads, does without them.
Report judged(const Timeline&) { return {}; }

template <class Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

FeedOptions playing(const std::string& text) {
  FeedOptions options;
  options.open = [text]() -> Result<std::unique_ptr<Source>> {
    auto reader = RecordingReader::over(text, "run.jsonl");
    if (!reader) return std::move(reader).error();
    return std::unique_ptr<Source>(
        std::make_unique<ReplaySource>(std::move(*reader), "run.jsonl", std::vector<int>{}));
  };
  options.can_reopen = true;
  options.scene.judge = judged;
  return options;
}

std::string minute_of_two_gpus() {
  return recording_text(two_gpu_machine(), plateau({0.9, 0.9}, 60));
}

double position(const MonitorFeed& feed) {
  return feed.look(
      [](const Monitored& seen) { return seen.playback ? seen.playback->position_ms : -1; });
}
bool is_seeking(const MonitorFeed& feed) {
  return feed.look([](const Monitored& seen) { return seen.playback && seen.playback->seeking; });
}

TEST(FileFeed, PlaysInRealTimeAndFindsTheEnd) {
  MonitorFeed feed(playing(minute_of_two_gpus()));

  EXPECT_TRUE(eventually([&] { return position(feed) > 300; }));
  EXPECT_TRUE(eventually([&] {
    return feed.look(
        [](const Monitored& seen) { return seen.playback && seen.playback->end_ms.has_value(); });
  }));
  feed.look([](const Monitored& seen) {
    EXPECT_NEAR(*seen.playback->end_ms, 59'900, 200);
    EXPECT_LE(seen.history.newest_ms(), seen.playback->position_ms)
        << "nothing of the future is shown";
  });
}

TEST(FileFeed, StandsStillWhilePaused) {
  MonitorFeed feed(playing(minute_of_two_gpus()));
  ASSERT_TRUE(feed.wait_until_open(5000ms));
  feed.request(TogglePause{});
  ASSERT_TRUE(eventually(
      [&] { return feed.look([](const Monitored& seen) { return seen.playback->paused; }); }));
  const double before = position(feed);
  std::this_thread::sleep_for(100ms);

  EXPECT_DOUBLE_EQ(position(feed), before);
}

TEST(FileFeed, SeeksForwardsAndBackAndShowsWhatWasThen) {
  MonitorFeed feed(playing(minute_of_two_gpus()));
  ASSERT_TRUE(feed.wait_until_open(5000ms));
  feed.request(TogglePause{});
  feed.request(SeekTo{40'000});
  ASSERT_TRUE(eventually([&] { return position(feed) == 40'000 && !is_seeking(feed); }));
  feed.look([](const Monitored& seen) {
    EXPECT_NEAR(seen.history.newest_ms(), 40'000, 200);
    EXPECT_TRUE(seen.report) << "a place that was gone to is judged";
  });

  feed.request(SeekTo{10'000});
  ASSERT_TRUE(eventually([&] { return position(feed) == 10'000 && !is_seeking(feed); }));

  feed.look([](const Monitored& seen) {
    EXPECT_NEAR(seen.history.newest_ms(), 10'000, 200);
    EXPECT_TRUE(seen.playback->paused);
  });
}

TEST(FileFeed, APlaceOutsideTheFileIsItsEndOrItsBeginning) {
  MonitorFeed feed(playing(minute_of_two_gpus()));
  ASSERT_TRUE(eventually([&] {
    return feed.look(
        [](const Monitored& seen) { return seen.playback && seen.playback->end_ms.has_value(); });
  }));
  feed.request(SeekTo{1e9});
  ASSERT_TRUE(eventually(
      [&] { return feed.look([](const Monitored& seen) { return seen.playback->at_end; }); }));
  EXPECT_NEAR(position(feed), 59'900, 200);

  feed.request(SeekTo{-5});
  ASSERT_TRUE(eventually([&] { return position(feed) < 1000 && !is_seeking(feed); }));
}

TEST(FileFeed, KeysThatComeFasterThanTheyAreAnsweredAddUp) {
  MonitorFeed feed(playing(minute_of_two_gpus()));
  ASSERT_TRUE(feed.wait_until_open(5000ms));
  feed.request(TogglePause{});
  for (int i = 0; i < 3; ++i) feed.request(ChangeSpeed{1});
  for (int i = 0; i < 2; ++i) feed.request(SeekBy{10'000});
  ASSERT_TRUE(eventually([&] { return position(feed) > 19'000 && !is_seeking(feed); }));

  EXPECT_NEAR(position(feed), 20'000, 1000);
  feed.look([](const Monitored& seen) { EXPECT_DOUBLE_EQ(seen.playback->speed, 8); });
}

TEST(FileFeed, APlaceBeforeTheBeginningIsTheBeginningThoughTheEndIsNotKnownYet) {
  FeedOptions options = playing(minute_of_two_gpus());
  options.can_reopen = false;  // then nobody looks for the end
  MonitorFeed feed(std::move(options));
  ASSERT_TRUE(feed.wait_until_open(5000ms));
  feed.request(SeekBy{-10'000});
  feed.request(TogglePause{});
  ASSERT_TRUE(eventually(
      [&] { return feed.look([](const Monitored& seen) { return seen.playback->paused; }); }));

  EXPECT_GE(position(feed), 0);
}

TEST(FileFeed, ALoopGoesOnAfterASeekToTheEnd) {
  MonitorFeed feed(playing(minute_of_two_gpus()));
  ASSERT_TRUE(eventually([&] {
    return feed.look(
        [](const Monitored& seen) { return seen.playback && seen.playback->end_ms.has_value(); });
  }));
  feed.request(TogglePause{});  // so that the end is there to be seen
  feed.request(ToggleLoop{});
  feed.request(SeekTo{1e9});
  ASSERT_TRUE(eventually([&] { return position(feed) > 50'000; }));
  feed.request(TogglePause{});

  EXPECT_TRUE(eventually([&] { return position(feed) < 10'000; }));
}

TEST(FileFeed, ADamagedFileIsPlayedAndTold) {
  std::string text = minute_of_two_gpus();
  text.resize(text.size() - 30);
  MonitorFeed feed(playing(text));

  ASSERT_TRUE(
      eventually([&] { return feed.look([](const Monitored& seen) { return seen.notes > 0; }); }));
  feed.look([](const Monitored& seen) { EXPECT_THAT(seen.note, HasSubstr("the rest was read")); });
}

TEST(FileFeed, ALogWithRareReadingsStartsFaster) {
  std::vector<Record> rare;
  for (int i = 0; i < 100; ++i) {
    rare.push_back(plateau({0.9, 0.9}, 0.1).front());
    rare.back().t_ms = i * 15'000.0;
  }
  MonitorFeed feed(playing(recording_text(two_gpu_machine(), rare)));

  EXPECT_TRUE(eventually([&] {
    return feed.look(
        [](const Monitored& seen) { return seen.playback && seen.playback->speed == 64; });
  }));
}

TEST(FileFeed, WhatIsThrownEndsTheFeedWithAnErrorAndNotTheProgram) {
  FeedOptions options = playing(minute_of_two_gpus());
  options.scene.judge = [](const Timeline&) -> Report { throw std::runtime_error("no memory"); };
  MonitorFeed feed(std::move(options));
  feed.request(SeekTo{30'000});

  ASSERT_TRUE(eventually([&] { return feed.failure().has_value(); }));
  EXPECT_EQ(feed.failure()->what, "no memory");
}

TEST(FileFeed, StopsAtTheEndOrBeginsAgain) {
  MonitorFeed feed(playing(recording_text(two_gpu_machine(), plateau({0.9, 0.9}, 2))));
  feed.request(ChangeSpeed{6});
  ASSERT_TRUE(eventually([&] {
    return feed.look([](const Monitored& seen) { return seen.playback && seen.playback->at_end; });
  }));

  feed.request(ToggleLoop{});
  EXPECT_TRUE(eventually(
      [&] { return feed.look([](const Monitored& seen) { return !seen.playback->at_end; }); }));
}

TEST(FileFeed, APipeIsNotPlayedBackwards) {
  FeedOptions options = playing(minute_of_two_gpus());
  options.can_reopen = false;
  MonitorFeed feed(std::move(options));
  ASSERT_TRUE(feed.wait_until_open(5000ms));
  feed.request(SeekTo{30'000});
  ASSERT_TRUE(eventually([&] { return position(feed) >= 30'000; }));
  feed.request(SeekTo{1000});

  ASSERT_TRUE(
      eventually([&] { return feed.look([](const Monitored& seen) { return seen.notes > 0; }); }));
  feed.look([](const Monitored& seen) { EXPECT_THAT(seen.note, HasSubstr("backwards")); });
  EXPECT_GE(position(feed), 30'000);
}

TEST(FileFeed, AFileThatCannotBeOpenedIsAnError) {
  FeedOptions options = playing("");
  options.open = []() -> Result<std::unique_ptr<Source>> {
    return Error{"no such file", "look again"};
  };
  MonitorFeed feed(std::move(options));

  EXPECT_TRUE(feed.wait_until_open(5000ms));
  ASSERT_TRUE(feed.failure());
  EXPECT_EQ(feed.failure()->what, "no such file");
}

// A live source whose records are pushed by the test.
class ScriptedSource : public Source {
 public:
  struct Script {
    std::mutex mutex;
    std::deque<Record> records;
    std::optional<Silence> silence;
    std::chrono::nanoseconds interval{};
    // next() does not come back: not even then may the screen wait
    std::atomic<bool> stuck = false;
  };
  explicit ScriptedSource(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  SourceKind kind() const override { return SourceKind::nvml; }
  std::string detail() const override { return "scripted"; }
  SourceFacts facts() const override { return {.live = true}; }
  const Machine& machine() const override { return machine_; }
  Result<NextRecord> next(std::chrono::milliseconds) override {
    while (script_->stuck) std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(script_->mutex);
    if (script_->records.empty()) return NextRecord(NothingYet{});
    Record record = std::move(script_->records.front());
    script_->records.pop_front();
    return NextRecord(std::move(record));
  }
  std::vector<NotMeasured> not_measured() const override { return {}; }
  std::optional<Silence> silence() const override {
    const std::lock_guard lock(script_->mutex);
    return script_->silence;
  }
  void set_interval(std::chrono::nanoseconds interval) override {
    const std::lock_guard lock(script_->mutex);
    script_->interval = interval;
  }

 private:
  std::shared_ptr<Script> script_;
  Machine machine_ = two_gpu_machine();
};

struct LiveFeed : ::testing::Test {
  std::shared_ptr<ScriptedSource::Script> script = std::make_shared<ScriptedSource::Script>();

  std::unique_ptr<MonitorFeed> start() {
    FeedOptions options;
    options.open = [script = script]() -> Result<std::unique_ptr<Source>> {
      return std::unique_ptr<Source>(std::make_unique<ScriptedSource>(script));
    };
    options.interval = 100ms;
    options.scene.judge = judged;
    auto feed = std::make_unique<MonitorFeed>(std::move(options));
    EXPECT_TRUE(feed->wait_until_open(5000ms));
    return feed;
  }
  void push(std::vector<Record> records) {
    const std::lock_guard lock(script->mutex);
    for (Record& record : records) script->records.push_back(std::move(record));
  }
};

TEST_F(LiveFeed, ShowsWhatComesAndJudgesIt) {
  const auto feed = start();
  push(plateau({0.9, 0.9}, 5));

  EXPECT_TRUE(eventually([&] {
    return feed->look([](const Monitored& seen) {
      return seen.report != nullptr && seen.history.newest_ms() > 4800;
    });
  }));
}

TEST_F(LiveFeed, SaysThatTheDriverIsSilentAndThatItSpeaksAgain) {
  const auto feed = start();
  {
    const std::lock_guard lock(script->mutex);
    script->silence = Source::Silence{5000ms, "busy"};
  }
  ASSERT_TRUE(eventually(
      [&] { return feed->look([](const Monitored& seen) { return seen.silence.has_value(); }); }));
  {
    const std::lock_guard lock(script->mutex);
    script->silence.reset();
  }
  EXPECT_TRUE(
      eventually([&] { return feed->look([](const Monitored& seen) { return !seen.silence; }); }));
}

TEST_F(LiveFeed, AStuckSourceIsLeftBehindAndTheScreenStillLooks) {
  const auto feed = start();
  push(plateau({0.5, 0.5}, 1));
  ASSERT_TRUE(eventually(
      [&] { return feed->look([](const Monitored& seen) { return !seen.history.empty(); }); }));
  script->stuck = true;
  std::this_thread::sleep_for(20ms);

  EXPECT_FALSE(feed->look([](const Monitored& seen) { return seen.history.empty(); }));
  EXPECT_FALSE(feed->stop(50ms)) << "told that it was left behind";
  script->stuck = false;  // let the thread end before the test does
  std::this_thread::sleep_for(50ms);
}

TEST_F(LiveFeed, PassesTheIntervalOn) {
  const auto feed = start();
  feed->request(ChangeInterval{1});
  feed->request(ChangeInterval{1});

  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(script->mutex);
    return script->interval == 500ms;
  }));
}

TEST_F(LiveFeed, ARecordingHasThePastInItAndIsWhole) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder / "late.jsonl").string();
  auto feed = start();
  push(plateau({0.9, 0.9}, 5));
  ASSERT_TRUE(eventually([&] {
    return feed->look([](const Monitored& seen) { return seen.history.newest_ms() > 4800; });
  }));
  feed->request(ToggleRecording{path});
  ASSERT_TRUE(eventually([&] {
    return feed->look([](const Monitored& seen) { return seen.recording.has_value(); });
  }));
  std::vector<Record> later = plateau({0.9, 0.9}, 1);
  for (Record& record : later) record.t_ms += 5000;
  push(std::move(later));
  ASSERT_TRUE(eventually([&] {
    return feed->look([](const Monitored& seen) { return seen.history.newest_ms() > 5800; });
  }));
  EXPECT_TRUE(feed->stop(5000ms)) << "stopping closes the file";

  auto reader = RecordingReader::open(path);
  ASSERT_TRUE(reader);
  const auto records = testing::all_records(*reader);
  EXPECT_FALSE(reader->losses().any());
  EXPECT_DOUBLE_EQ(records.front().t_ms, 0) << "from before the key was pressed";
  EXPECT_GT(records.back().t_ms, 5800);
}

TEST_F(LiveFeed, AFileThatCannotBeWrittenIsTold) {
  const auto feed = start();
  feed->request(ToggleRecording{"/nowhere/at/all.jsonl"});

  ASSERT_TRUE(
      eventually([&] { return feed->look([](const Monitored& seen) { return seen.notes > 0; }); }));
  feed->look([](const Monitored& seen) {
    EXPECT_THAT(seen.note, HasSubstr("/nowhere/at/all.jsonl"));
    EXPECT_FALSE(seen.recording);
  });
}

}  // namespace
}  // namespace lockstep
