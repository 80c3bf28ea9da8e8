// Keys as state in, state out.
#include "render/tui/handle_input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "render/tui/key_table.hpp"
#include "render/tui/monitor_screen.hpp"
#include "render/tui/rank_rows.hpp"
#include "render/tui/time_view.hpp"
#include "support/monitored_run.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::monitored_until;
using testing::screen_recording;

class Keys : public ::testing::Test {
 protected:
  Keys() : seen_(*monitored_until(screen_recording("straggler"), 8000)) {
    seen_.playback.reset();
    seen_.local_pids = true;
  }

  // Presses keys one after the other; what was asked for is kept.
  void press(std::initializer_list<Key> keys) {
    for (const Key& pressed : keys) {
      Reaction reaction = handle(std::move(state_), pressed, situation());
      state_ = std::move(reaction.state);
      for (MonitorRequest& request : reaction.requests) requests_.push_back(std::move(request));
    }
  }
  void type(std::string_view text) {
    for (const char letter : text) press({key(static_cast<char32_t>(letter))});
  }
  void click(int x, int y, MouseAction action = MouseAction::press) {
    state_ = handle(std::move(state_), Mouse{action, x, y}, situation()).state;
  }
  // As the last frame lay.
  Situation situation() {
    return {seen_, draw_monitor(seen_, state_, {120, 40}).layout, "run.jsonl.zst"};
  }
  template <class Request>
  const Request* asked() const {
    for (const MonitorRequest& request : requests_) {
      if (const auto* of_feed = std::get_if<FeedRequest>(&request))
        if constexpr (std::is_constructible_v<FeedRequest, Request>)
          if (const auto* found = std::get_if<Request>(of_feed)) return found;
      if (const auto* of_program = std::get_if<ProgramRequest>(&request))
        if constexpr (std::is_constructible_v<ProgramRequest, Request>)
          if (const auto* found = std::get_if<Request>(of_program)) return found;
    }
    return nullptr;
  }
  void replay() {
    Playback playback;
    playback.position_ms = 8000;
    playback.end_ms = 30'000;
    seen_.playback = playback;
  }

  Monitored seen_;
  MonitorState state_;
  std::vector<MonitorRequest> requests_;
};

TEST_F(Keys, ThreeOfThemQuit) {
  for (const Key& quits : {key('q'), key(KeyCode::f10), key(KeyCode::interrupt)}) {
    requests_.clear();
    press({quits});
    EXPECT_NE(asked<QuitScreen>(), nullptr) << name_of(quits);
  }
}

TEST_F(Keys, EscClosesTheTopmostThingAndNeverQuits) {
  press({key(KeyCode::left), key('/')});
  type("rank 3");
  press({key(KeyCode::enter), key('?')});

  press({key(KeyCode::escape)});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay)) << "first the help";
  EXPECT_FALSE(state_.filter.empty());
  press({key(KeyCode::escape)});
  EXPECT_TRUE(state_.filter.empty()) << "then the filter";
  press({key(KeyCode::escape)});
  EXPECT_FALSE(state_.cursor_ms) << "then the cursor";
  press({key(KeyCode::escape)});
  EXPECT_FALSE(state_.right_ms) << "then the past";
  for (int i = 0; i < 10; ++i) press({key(KeyCode::escape)});
  EXPECT_EQ(asked<QuitScreen>(), nullptr);
}

TEST_F(Keys, HelpOpensAndClosesWithTheSameKeys) {
  for (const Key& opens : {key('?'), key('h'), key(KeyCode::f1)}) {
    press({opens});
    EXPECT_TRUE(std::holds_alternative<HelpView>(state_.overlay));
    press({opens});
    EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  }
}

TEST_F(Keys, NoKeyHasTwoMeanings) {
  for (const bool replay : {false, true}) {
    std::set<std::string> names;
    for (const KeyRow& row : key_table()) {
      if (row.scope == (replay ? KeyScope::live : KeyScope::replay)) continue;
      for (const Key& entry : row.keys)
        if (entry.code != KeyCode::unknown) {
          EXPECT_TRUE(names.insert(name_of(entry)).second) << name_of(entry);
        }
    }
  }
}

TEST_F(Keys, PauseHoldsThePictureWhileTheWatchGoesOn) {
  press({key(' ')});
  ASSERT_TRUE(state_.right_ms);
  EXPECT_DOUBLE_EQ(*state_.right_ms, seen_.now_ms());

  press({key(' ')});

  EXPECT_FALSE(state_.right_ms);
}

TEST_F(Keys, TheCursorStartsAtThePresentAndMovesByColumns) {
  press({key(KeyCode::left)});
  const double first = *state_.cursor_ms;
  press({key(KeyCode::left), key(KeyCode::left)});

  EXPECT_NEAR(first, seen_.now_ms(), 200);
  EXPECT_NEAR(first - *state_.cursor_ms, 2 * state_.setup.column_ms, 1e-6);
  for (int i = 0; i < 1000; ++i) press({key(KeyCode::left)});
  EXPECT_GE(*state_.cursor_ms, seen_.history.oldest_ms())
      << "there is nothing before the beginning";
}

TEST_F(Keys, ZoomKeepsTheCursorWhereItIs) {
  for (int i = 0; i < 10; ++i) press({key(KeyCode::left)});
  const auto column = [&] {
    const Situation now = situation();
    return time_view(seen_, state_, now.layout.lane_columns).column_of(*state_.cursor_ms);
  };
  const int before = column();
  press({key('z')});

  EXPECT_NEAR(column(), before, 1);
  EXPECT_DOUBLE_EQ(state_.setup.column_ms, 100);
  for (int i = 0; i < 30; ++i) press({key('Z')});
  EXPECT_DOUBLE_EQ(state_.setup.column_ms, kColumnMs.back());
  for (int i = 0; i < 30; ++i) press({key('z')});
  EXPECT_DOUBLE_EQ(state_.setup.column_ms, kColumnMs.front());
}

TEST_F(Keys, TabGoesRoundThePanelsThatAreThere) {
  std::vector<Panel> order;
  for (int i = 0; i < 3; ++i) {
    press({key(KeyCode::tab)});
    order.push_back(state_.focus);
  }
  EXPECT_EQ(order, (std::vector<Panel>{Panel::ranks, Panel::findings, Panel::gpus}))
      << "no steps were marked, so no steps panel";
  press({key(KeyCode::back_tab)});
  EXPECT_EQ(state_.focus, Panel::findings);
}

TEST_F(Keys, TheSelectionStopsAtBothEnds) {
  press({key('k')});
  EXPECT_EQ(state_.selected[0], 0);
  for (int i = 0; i < 100; ++i) press({key('j')});
  EXPECT_EQ(state_.selected[0], 7);
  press({key('g')});
  EXPECT_EQ(state_.selected[0], 0);
  press({key('G')});
  EXPECT_EQ(state_.selected[0], 7);
}

TEST_F(Keys, TheSelectedRankStaysSelectedWhenTheOrderChanges) {
  press({key(KeyCode::tab), key('j'), key('j')});
  const auto selected_pid = [&] {
    const auto rows = rank_rows(seen_, state_, Workers::folded);
    return rows[static_cast<std::size_t>(selected_rank_row(rows, state_))].process->pid;
  };
  state_.rank_pid = rank_rows(seen_, state_, Workers::folded)[3].process->pid;
  const int pid = selected_pid();
  press({key('>'), key('>'), key('<')});

  EXPECT_EQ(selected_pid(), pid);
}

TEST_F(Keys, SortingGoesRoundAndByMenu) {
  press({key('>')});
  EXPECT_EQ(state_.order, RankOrder::rank);
  press({key('<'), key('<')});
  EXPECT_EQ(state_.order, RankOrder::cpu);
  press({key(KeyCode::f6), key(KeyCode::home), key('j'), key('j'), key(KeyCode::enter)});
  EXPECT_EQ(state_.order, RankOrder::gpu);
}

TEST_F(Keys, TheFilterTakesLettersThatAreKeysElsewhere) {
  press({key('/')});
  type("q?h3");
  EXPECT_EQ(asked<QuitScreen>(), nullptr);
  EXPECT_EQ(state_.filter, "q?h3");
  press({key(KeyCode::backspace), key(KeyCode::backspace), key(KeyCode::backspace),
         key(KeyCode::backspace)});
  type("rank 3 of");
  press({key(KeyCode::enter)});

  const auto rows = rank_rows(seen_, state_, Workers::folded);
  ASSERT_EQ(rows.size(), 2U) << "the launcher and its rank";
  EXPECT_EQ(rows[1].process->rank, 3);
}

TEST_F(Keys, AFilterInTheFindingsIsForFindings) {
  press({key(KeyCode::tab), key(KeyCode::tab), key('/')});
  type("P101");

  EXPECT_TRUE(finding_rows(seen_, state_).empty());
  EXPECT_EQ(rank_rows(seen_, state_, Workers::folded).size(), 9U);
}

TEST_F(Keys, ASignalNeedsAChoiceAndAYes) {
  press({key(KeyCode::tab), key('j'), key(KeyCode::f9), key(KeyCode::enter)});
  EXPECT_EQ(asked<SendSignal>(), nullptr) << "only asked so far";
  press({key('y')});

  const SendSignal* const signal = asked<SendSignal>();
  ASSERT_NE(signal, nullptr);
  EXPECT_EQ(signal->signal, SIGTERM);
  EXPECT_EQ(signal->pid, rank_rows(seen_, state_, Workers::folded)[1].process->pid);
}

TEST_F(Keys, AnythingButYesSendsNothing) {
  for (const Key& no : {key('n'), key(KeyCode::enter), key(KeyCode::escape), key(' '), key('q')}) {
    press({key(KeyCode::tab), key(KeyCode::f9), key(KeyCode::enter), no});
    EXPECT_EQ(asked<SendSignal>(), nullptr) << name_of(no);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  }
  EXPECT_EQ(asked<QuitScreen>(), nullptr) << "q closes the question first";
}

TEST_F(Keys, NoSignalIsSentToProcessesOfAnotherMachineNorToOneThatCouldNotBeRead) {
  seen_.local_pids = false;
  press({key(KeyCode::tab), key('j'), key(KeyCode::f9)});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  EXPECT_THAT(state_.message, HasSubstr("not of this machine"));

  seen_.local_pids = true;
  for (ProcessSample& process : seen_.processes) process.command.reset();
  press({key(KeyCode::f9)});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  EXPECT_THAT(state_.message, HasSubstr("could not be read"));
}

TEST_F(Keys, AWindowScrollsToItsEndAndAtOnceBack) {
  press({key(KeyCode::tab), key(KeyCode::tab), key(KeyCode::enter), key('G')});
  const int last = std::get<DetailView>(state_.overlay).scroll;
  for (int i = 0; i < 50; ++i) press({key('j'), key(KeyCode::page_down)});
  EXPECT_EQ(std::get<DetailView>(state_.overlay).scroll, last) << "no further than there is text";
  press({key('?')});
  press({key(KeyCode::escape), key('?')});
  press({key('G'), key('k')});
  EXPECT_EQ(std::get<HelpView>(state_.overlay).scroll,
            std::max(0, situation().layout.last_scroll - 1));
}

TEST_F(Keys, PauseKeepsThePlaceThatWasScrolledTo) {
  press({key(','), key(',')});
  const double before = *state_.right_ms;
  press({key(' ')});

  EXPECT_DOUBLE_EQ(*state_.right_ms, before);
}

TEST_F(Keys, AFindingWithoutAFixCopiesNothing) {
  Report report = *seen_.report;
  for (Finding& finding : report.findings) finding.fixes.clear();
  seen_.report = std::make_shared<const Report>(report);
  press({key('y')});

  EXPECT_EQ(asked<CopyText>(), nullptr);
  EXPECT_THAT(state_.message, HasSubstr("no fix"));
}

TEST_F(Keys, ReadOnlySendsNoSignal) {
  state_.read_only = true;
  press({key(KeyCode::tab), key('j'), key(KeyCode::f9)});

  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  EXPECT_THAT(state_.message, HasSubstr("--read-only"));
}

TEST_F(Keys, ARecordingHasNoProcessesToSignalAndIsNotRecorded) {
  replay();
  press({key(KeyCode::tab), key('j'), key(KeyCode::f9), key('r')});

  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  EXPECT_EQ(asked<ToggleRecording>(), nullptr);
  EXPECT_THAT(state_.message, HasSubstr("recording"));
}

TEST_F(Keys, PlusAndMinusAreTheIntervalLiveAndTheSpeedInReplay) {
  press({key('+')});
  ASSERT_NE(asked<ChangeInterval>(), nullptr);
  EXPECT_EQ(asked<ChangeInterval>()->steps, 1);

  requests_.clear();
  replay();
  press({key('-')});
  ASSERT_NE(asked<ChangeSpeed>(), nullptr);
  EXPECT_EQ(asked<ChangeSpeed>()->steps, -1);
}

TEST_F(Keys, ReplaySeeksPausesAndLoops) {
  replay();
  press({key('[')});
  EXPECT_DOUBLE_EQ(asked<SeekBy>()->ms, -10'000);
  requests_.clear();
  press({key('}')});
  EXPECT_DOUBLE_EQ(asked<SeekBy>()->ms, 60'000);
  press({key(' '), key('L')});
  EXPECT_NE(asked<TogglePause>(), nullptr);
  EXPECT_NE(asked<ToggleLoop>(), nullptr);
}

TEST_F(Keys, GoToTakesATimeAndSaysWhatIsNone) {
  replay();
  press({key('t')});
  type("1:30");
  press({key(KeyCode::enter)});
  EXPECT_DOUBLE_EQ(asked<SeekTo>()->t_ms, 90'000);

  requests_.clear();
  press({key('t')});
  type("soon");
  press({key(KeyCode::enter)});
  EXPECT_EQ(asked<SeekTo>(), nullptr);
  EXPECT_THAT(state_.message, HasSubstr("'soon' is no time"));
}

TEST_F(Keys, MarksAreGoneToInOrder) {
  press({key(KeyCode::left), key('m')});
  const double first = *state_.cursor_ms;
  for (int i = 0; i < 10; ++i) press({key(KeyCode::left)});
  press({key('m')});
  const double second = *state_.cursor_ms;
  press({key('n')});
  EXPECT_DOUBLE_EQ(*state_.cursor_ms, first);
  press({key('N')});
  EXPECT_DOUBLE_EQ(*state_.cursor_ms, second);
}

TEST_F(Keys, TheFixIsCopied) {
  press({key('y')});
  ASSERT_NE(asked<CopyText>(), nullptr);
  EXPECT_FALSE(asked<CopyText>()->text.empty());
}

TEST_F(Keys, SetupChangesAtOnceAndIsSavedWhenItCloses) {
  press({key(KeyCode::f2), key(' ')});
  EXPECT_EQ(state_.setup.lanes, Quantity::sm);
  EXPECT_EQ(asked<SaveSetup>(), nullptr);
  press({key('j'), key('j'), key('j'), key(KeyCode::enter), key(KeyCode::escape)});

  EXPECT_FALSE(state_.setup.show_ranks);
  EXPECT_NE(asked<SaveSetup>(), nullptr);
}

TEST_F(Keys, AClickOnALaneReadsAllGpusAtThatMoment) {
  const Situation now = situation();
  click(now.layout.lane_x + 30, now.layout.lanes.y);

  ASSERT_TRUE(state_.cursor_ms);
  EXPECT_EQ(time_view(seen_, state_, now.layout.lane_columns).column_of(*state_.cursor_ms), 30);
}

TEST_F(Keys, AClickSelectsAndASecondOneOpens) {
  const Band band = situation().layout.of(Panel::findings);
  click(5, band.y + 1);
  EXPECT_EQ(state_.focus, Panel::findings);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay));
  click(5, band.y + 1);
  EXPECT_TRUE(std::holds_alternative<DetailView>(state_.overlay));
  click(5, 5);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state_.overlay)) << "a click closes it";
}

TEST_F(Keys, TheWheelZoomsTheLanesAndScrollsThePanels) {
  const Situation now = situation();
  click(now.layout.lane_x + 3, now.layout.lanes.y, MouseAction::wheel_up);
  EXPECT_DOUBLE_EQ(state_.setup.column_ms, 100);
  click(3, now.layout.of(Panel::ranks).y + 1, MouseAction::wheel_down);
  EXPECT_EQ(state_.focus, Panel::ranks);
}

TEST_F(Keys, EnterOpensTheDetailsOfWhatIsSelected) {
  press({key(KeyCode::enter)});
  EXPECT_EQ(std::get<DetailView>(state_.overlay).of, Panel::gpus);
  press({key(KeyCode::escape), key(KeyCode::tab), key(KeyCode::enter)});
  EXPECT_EQ(std::get<DetailView>(state_.overlay).of, Panel::ranks);
}

TEST_F(Keys, NothingBreaksWhereNothingIsKnown) {
  seen_ = Monitored();
  for (const KeyRow& row : key_table())
    for (const Key& entry : row.keys)
      if (entry.code != KeyCode::unknown)
        press({entry, key(KeyCode::enter), key(KeyCode::escape), key(KeyCode::escape)});
  for (int y = 0; y < 40; ++y) click(y, y);
}

}  // namespace
}  // namespace lockstep
