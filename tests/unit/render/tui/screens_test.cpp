// Golden screens: recordings of tests/screens, played to a fixed moment, drawn at fixed sizes.
// LOCKSTEP_UPDATE_GOLDEN=1 writes them anew; look at what changed before you keep it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "render/tui/handle_input.hpp"
#include "render/tui/monitor_screen.hpp"
#include "render/tui/screen_painter.hpp"
#include "render/tui/terminal/screen_writer.hpp"
#include "support/golden.hpp"
#include "support/monitored_run.hpp"
#include "support/paths.hpp"
#include "support/screen_text.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::monitored_until;
using testing::painted;
using testing::screen_recording;

void expect_screen_file(const std::string& name, const std::string& text) {
  testing::expect_golden(fs::path(testing::source_tree()) / "tests/screens" / (name + ".txt"),
                         text);
}

MonitorState after_keys(const Monitored& seen, Size size, const std::vector<Key>& keys) {
  MonitorState state;
  for (const Key& pressed : keys)
    state = handle(std::move(state), pressed,
                   {seen, layout_of(seen, state, size.columns, size.rows), "run.jsonl.zst"})
                .state;
  return state;
}

void expect_screen(const std::string& name, const std::string& recording, double until_ms,
                   Size size, const std::vector<Key>& keys = {},
                   const std::function<void(Monitored&)>& change = {}) {
  Monitored seen = *monitored_until(screen_recording(recording), until_ms);
  if (change) change(seen);
  const auto explain = [](FindingCode) {
    return std::string_view("# A page\n\nIts lines were broken\nfor another width.\n");
  };
  const ftxui::Screen screen =
      painted(draw_monitor(seen, after_keys(seen, size, keys), size, explain));
  expect_screen_file(name, testing::text_of(screen) + "---- tones\n" + testing::tones_of(screen));
}

constexpr Size kSmall{40, 12};
constexpr Size kUsual{80, 24};
constexpr Size kLarge{120, 40};

TEST(Screen, ShowsTurnsSideBySide) {
  expect_screen("turns-80x24", "turns", 8000, kUsual);
  expect_screen("turns-120x40", "turns", 8000, kLarge);
  expect_screen("turns-40x12", "turns", 8000, kSmall);
}
TEST(Screen, ShowsEightRanksAndTheLateOne) {
  expect_screen("straggler-80x24", "straggler", 8000, kUsual);
  expect_screen("straggler-120x40", "straggler", 8000, kLarge);
  expect_screen("straggler-40x12", "straggler", 8000, kSmall);
}
TEST(Screen, KeepsTheRowOfALostGpu) { expect_screen("lost-80x24", "lost", 12'000, kUsual); }
TEST(Screen, ShowsWaitingForData) { expect_screen("starved-80x24", "starved", 8000, kUsual); }
TEST(Screen, ShowsHeat) { expect_screen("hot-80x24", "hot", 8000, kUsual); }
TEST(Screen, ShowsWhereStepsGo) {
  expect_screen("steps-80x24", "steps", 8000, kUsual);
  expect_screen("steps-detail-80x24", "steps", 8000, kUsual,
                {key(KeyCode::tab), key('j'), key('j'), key(KeyCode::enter)});
}
TEST(Screen, ShowsPowerByTwentyMilliseconds) {
  expect_screen("power-120x40", "turns", 8000, kLarge,
                {key('v'), key('v'), key('v'), key('z'), key('z'), key('z')});
}
TEST(Screen, ReadsAllGpusAtTheCursor) {
  expect_screen("cursor-80x24", "turns", 8000, kUsual,
                {key(KeyCode::left), key(KeyCode::left), key(KeyCode::left), key(KeyCode::left),
                 key(KeyCode::left), key('m')});
}
TEST(Screen, ShowsAGpuInDetail) {
  expect_screen("gpu-detail-80x24", "lost", 12'000, kUsual,
                {key('j'), key('j'), key(KeyCode::enter)});
}
TEST(Screen, ShowsARankInDetail) {
  expect_screen("rank-detail-80x24", "straggler", 8000, kUsual,
                {key(KeyCode::tab), key('j'), key(KeyCode::enter)});
}
TEST(Screen, ShowsAFindingWithItsEvidenceAndPage) {
  expect_screen("finding-detail-80x24", "turns", 8000, kUsual,
                {key(KeyCode::tab), key(KeyCode::tab), key(KeyCode::enter)});
}
TEST(Screen, HelpNamesEveryKey) {
  expect_screen("help-120x40", "turns", 8000, {120, 48}, {key('?')});
  expect_screen("help-live-80x24", "turns", 8000, kUsual, {key('?')},
                [](Monitored& seen) { seen.playback.reset(); });
}
TEST(Screen, AsksBeforeASignal) {
  Monitored seen = *monitored_until(screen_recording("straggler"), 8000);
  seen.playback.reset();
  seen.local_pids = true;
  const ftxui::Screen screen = painted(
      draw_monitor(seen,
                   after_keys(seen, kUsual,
                              {key(KeyCode::tab), key('j'), key(KeyCode::f9), key(KeyCode::enter)}),
                   kUsual));
  expect_screen_file("signal-80x24", testing::text_of(screen));
}
TEST(Screen, SaysWhenTheDriverIsSilent) {
  expect_screen("silent-80x24", "straggler", 8000, kUsual, {}, [](Monitored& seen) {
    seen.playback.reset();
    seen.silence = Source::Silence{std::chrono::milliseconds(12'300), "busy"};
  });
}
TEST(Screen, SaysWhenTheDriverHasNotAnsweredYet) {
  const ftxui::Screen screen = painted(draw_monitor(Monitored(), {}, kUsual));
  expect_screen_file("opening-80x24", testing::text_of(screen));
}

TEST(Screen, WithoutColoursSaysTheSameInWords) {
  Monitored seen = *monitored_until(screen_recording("lost"), 12'000);
  MonitorState state;
  const std::string in_colour = testing::text_of(painted(draw_monitor(seen, state, kUsual)));
  state.setup.colors = false;
  const ftxui::Screen plain = painted(draw_monitor(seen, state, kUsual));

  EXPECT_EQ(testing::text_of(plain), in_colour);
  for (int y = 0; y < plain.dimy(); ++y)
    for (int x = 0; x < plain.dimx(); ++x)
      ASSERT_EQ(plain.PixelAt(x, y).foreground_color, ftxui::Color(ftxui::Color::Default));
}

TEST(Screen, InAsciiEveryCellIsAscii) {
  for (const auto& keys :
       {std::vector<Key>{}, std::vector<Key>{key('?')}, std::vector<Key>{key(KeyCode::f2)}}) {
    Monitored seen = *monitored_until(screen_recording("straggler"), 8000);
    MonitorState state = after_keys(seen, kUsual, keys);
    state.setup.ascii = true;
    const std::string text = testing::text_of(painted(draw_monitor(seen, state, kUsual)));
    for (const char letter : text) ASSERT_LT(static_cast<unsigned char>(letter), 0x80) << text;
    EXPECT_EQ(text.find('?') == std::string::npos || keys.size() == 1 ||
                  text.find("? help") != std::string::npos,
              true)
        << "a glyph without a letter of its own\n"
        << text;
  }
}

// Command lines may hold letters of two columns, and windows cut them in half.
TEST(Screen, WideLettersEndInNoLoopNorShiftTheRest) {
  Monitored seen = *monitored_until(screen_recording("straggler"), 8000);
  seen.playback.reset();
  seen.local_pids = true;
  for (ProcessSample& process : seen.processes)
    process.command = {
        "python", "\xE8\xA8\x93\xE7\xB7\xB4\xE8\xA8\x93\xE7\xB7\xB4/\xE8\xA8\x93\xE7\xB7\xB4.py",
        "e\xCC\x81"};
  for (const bool ascii : {false, true})
    for (int columns = 60; columns < 80; ++columns) {
      ScreenPainter painter;
      ScreenWriter writer;
      MonitorState state;
      for (const Key& pressed :
           {key(KeyCode::tab), key('j'), key(KeyCode::f9), key(KeyCode::escape), key(KeyCode::f2),
            key(KeyCode::escape), key(KeyCode::f6)}) {
        state = handle(std::move(state), pressed, {seen, layout_of(seen, state, columns, 30), ""})
                    .state;
        state.setup.ascii = ascii;
        const Frame frame = draw_monitor(seen, state, {columns, 30});
        for (const Line& line : frame.rows) ASSERT_LE(line.width(), columns);
        const auto painted = painter.paint(frame);
        writer.update(painted.cells, painted.changed);
        writer.forget();
        writer.update(painted.cells, painted.changed);
      }
    }
}

// The painter touches only what changed: the cells must be those of a whole new picture all the
// same.
TEST(Screen, ManyFramesOneAfterTheOtherAreAsIfEachWereTheFirst) {
  ScreenPainter painter;
  MonitorState state;
  const std::vector<Key> keys = {key(KeyCode::left), key('z'),
                                 key('?'),           key(KeyCode::escape),
                                 key(KeyCode::tab),  key('j'),
                                 key(KeyCode::f2),   key(KeyCode::escape),
                                 key('v'),           key(KeyCode::escape)};
  for (int i = 0; i < 60; ++i) {
    const Monitored seen =
        *monitored_until(screen_recording(i % 20 < 10 ? "turns" : "lost"), 2000 + i * 130);
    const Size size = i % 30 < 20 ? kUsual : Size{100, 30};
    state = handle(std::move(state), keys[static_cast<std::size_t>(i) % keys.size()],
                   {seen, layout_of(seen, state, size.columns, size.rows), ""})
                .state;
    const Frame frame = draw_monitor(seen, state, size);
    const ftxui::Screen fresh = painted(frame);

    const ftxui::Screen& kept = painter.paint(frame).cells;

    ASSERT_EQ(testing::text_of(kept), testing::text_of(fresh)) << "frame " << i;
    ASSERT_EQ(testing::tones_of(kept), testing::tones_of(fresh)) << "frame " << i;
  }
}

}  // namespace
}  // namespace lockstep
