#include "render/tui/handle_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "render/tui/key_table.hpp"
#include "render/tui/rank_rows.hpp"
#include "render/tui/setup_rows.hpp"
#include "render/tui/time_moves.hpp"
#include "render/tui/time_view.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr std::array kSignals = {
    SignalRow{SIGTERM, "SIGTERM", "asks it to end"},
    SignalRow{SIGINT, "SIGINT", "as Ctrl-C does"},
    SignalRow{SIGSTOP, "SIGSTOP", "halts it"},
    SignalRow{SIGCONT, "SIGCONT", "lets it go on"},
    SignalRow{SIGUSR1, "SIGUSR1", "whatever the program does on it"},
    SignalRow{SIGUSR2, "SIGUSR2", "whatever the program does on it"},
    SignalRow{SIGKILL, "SIGKILL", "ends it at once; nothing is saved"}};

// One key at a time, with everything it may need at hand.
class Handler {
 public:
  Handler(MonitorState state, const Situation& situation)
      : state_(std::move(state)), situation_(situation), seen_(situation.seen) {}

  Reaction take(const Input& input) {
    state_.message.clear();
    if (const auto* mouse = std::get_if<Mouse>(&input))
      take_mouse(*mouse);
    else
      take_key(std::get<Key>(input));
    return {std::move(state_), std::move(requests_)};
  }

 private:
  void ask(FeedRequest request) { requests_.emplace_back(std::move(request)); }
  void ask(ProgramRequest request) { requests_.emplace_back(std::move(request)); }
  int lane_columns() const { return situation_.layout.lane_columns; }
  TimeView view() const { return time_view(seen_, state_, lane_columns()); }

  void take_key(const Key& pressed) {
    if (pressed.code == KeyCode::interrupt) return ask(ProgramRequest(QuitScreen{}));
    if (pressed.code == KeyCode::redraw) return ask(ProgramRequest(RedrawAll{}));
    if (auto* prompt = std::get_if<TextPrompt>(&state_.overlay))
      return take_prompt(*prompt, pressed);
    const auto action = action_of(pressed, !seen_.live());
    if (pressed.code == KeyCode::f10 ||
        (action == Action::quit && !std::holds_alternative<SignalMenu>(state_.overlay)))
      return ask(ProgramRequest(QuitScreen{}));
    if (auto* menu = std::get_if<SignalMenu>(&state_.overlay))
      return take_signal_menu(*menu, pressed);
    if (!action && !seen_.live() && action_of(pressed, false))
      state_.message = "that key is for live watching; this is a recording";
    if (!action) return;
    if (auto* help = std::get_if<HelpView>(&state_.overlay))
      return scroll_or_close(help->scroll, *action, Action::help);
    if (auto* detail = std::get_if<DetailView>(&state_.overlay))
      return take_detail(*detail, *action);
    if (auto* sort = std::get_if<SortMenu>(&state_.overlay)) return take_sort_menu(*sort, *action);
    if (auto* setup = std::get_if<SetupView>(&state_.overlay)) return take_setup(*setup, *action);
    take_action(*action);
  }

  void scroll_by(int& scroll, int by) const {
    scroll = std::clamp(scroll + by, 0, situation_.layout.last_scroll);
  }

  void scroll_or_close(int& scroll, Action action, Action opener) {
    const int page = std::max(1, situation_.layout.rows - 4);
    switch (action) {
      case Action::up: return scroll_by(scroll, -1);
      case Action::down: return scroll_by(scroll, 1);
      case Action::page_up: return scroll_by(scroll, -page);
      case Action::page_down:
      case Action::pause: return scroll_by(scroll, page);
      case Action::first: return scroll_by(scroll, -scroll);
      case Action::last: return scroll_by(scroll, situation_.layout.last_scroll);
      default: break;
    }
    if (action == Action::close || action == opener || action == Action::detail)
      state_.overlay = std::monostate{};
  }

  void take_detail(DetailView& detail, Action action) {
    if (action == Action::copy_fix) return copy_fix();
    // the next thing of its kind
    if (action == Action::next_panel || action == Action::previous_panel) {
      const Panel of = detail.of;
      state_.focus = of;
      move_selection(action == Action::next_panel ? 1 : -1);
      state_.overlay = DetailView{of, 0};
      return;
    }
    if (action == Action::signal) {
      if (detail.of == Panel::ranks) return open_signal_menu();
      return;
    }
    scroll_or_close(detail.scroll, action, Action::detail);
  }

  // Text: letters go to it, Enter takes it, Esc drops it.
  void take_prompt(TextPrompt& prompt, const Key& pressed) {
    switch (pressed.code) {
      case KeyCode::escape:
        if (prompt.what == TextPrompt::For::filter) state_.filter.clear();
        state_.overlay = std::monostate{};
        return;
      case KeyCode::enter: {
        const TextPrompt done = prompt;
        state_.overlay = std::monostate{};
        if (done.what == TextPrompt::For::go_to) go_to(done.text);
        return;
      }
      case KeyCode::backspace:
        while (!prompt.text.empty() &&
               (static_cast<unsigned char>(prompt.text.back()) & 0xC0U) == 0x80U)
          prompt.text.pop_back();
        if (!prompt.text.empty()) prompt.text.pop_back();
        break;
      case KeyCode::character: append_utf8(prompt.text, pressed.character); break;
      default: break;
    }
    if (prompt.what == TextPrompt::For::filter) state_.filter = prompt.text;
  }

  static void append_utf8(std::string& text, char32_t letter) {
    const auto put = [&](char32_t byte) {
      text += static_cast<char>(static_cast<unsigned char>(byte));
    };
    if (text.size() > 200 || letter < 0x20) return;
    if (letter < 0x80) return put(letter);
    if (letter < 0x800) {
      put(0xC0U | letter >> 6U);
    } else if (letter < 0x10000) {
      put(0xE0U | letter >> 12U);
      put(0x80U | (letter >> 6U & 0x3FU));
    } else {
      put(0xF0U | letter >> 18U);
      put(0x80U | (letter >> 12U & 0x3FU));
      put(0x80U | (letter >> 6U & 0x3FU));
    }
    put(0x80U | (letter & 0x3FU));
  }

  void take_sort_menu(SortMenu& menu, Action action) {
    constexpr int kLast = static_cast<int>(kRankOrderNames.size()) - 1;
    switch (action) {
      case Action::up: menu.selected = std::max(0, menu.selected - 1); return;
      case Action::down: menu.selected = std::min(kLast, menu.selected + 1); return;
      case Action::first: menu.selected = 0; return;
      case Action::last: menu.selected = kLast; return;
      case Action::detail:
        state_.order = static_cast<RankOrder>(menu.selected);
        state_.overlay = std::monostate{};
        return;
      case Action::close:
      case Action::sort_menu: state_.overlay = std::monostate{}; return;
      default: return;
    }
  }

  void take_setup(SetupView& view, Action action) {
    switch (action) {
      case Action::up: view.selected = std::max(0, view.selected - 1); return;
      case Action::down:
        view.selected =
            std::min(static_cast<int>(setup_rows(state_.setup).size()) - 1, view.selected + 1);
        return;
      case Action::pause:
      case Action::detail:
      case Action::cursor_right: return change_setup(state_.setup, view.selected, 1);
      case Action::cursor_left: return change_setup(state_.setup, view.selected, -1);
      case Action::close:
      case Action::setup:
        state_.overlay = std::monostate{};
        ask(ProgramRequest(SaveSetup{}));
        return;
      default: return;
    }
  }

  void take_signal_menu(SignalMenu& menu, const Key& pressed) {
    const bool yes = pressed == key('y') || pressed == key('Y');
    if (menu.asked) {
      if (yes) {
        const SignalRow& row = kSignals[static_cast<std::size_t>(menu.selected)];
        ask(ProgramRequest(SendSignal{menu.pid, row.number, std::string(row.name)}));
      } else {
        state_.message = "no signal was sent";
      }
      state_.overlay = std::monostate{};
      return;
    }
    if (pressed == key(KeyCode::enter))
      menu.asked = true;
    else if (pressed == key(KeyCode::up) || pressed == key('k'))
      menu.selected = std::max(0, menu.selected - 1);
    else if (pressed == key(KeyCode::down) || pressed == key('j'))
      menu.selected = std::min(static_cast<int>(kSignals.size()) - 1, menu.selected + 1);
    else if (pressed == key(KeyCode::escape) || pressed == key(KeyCode::f9) || pressed == key('q'))
      state_.overlay = std::monostate{};
  }

  void open_signal_menu() {
    if (state_.read_only) {
      state_.message = "signals are off: started with --read-only";
      return;
    }
    if (!seen_.local_pids) {
      state_.message = "these processes are not of this machine: no signal would reach them";
      return;
    }
    const auto rows = ranks();
    if (rows.empty()) {
      state_.message = "no process to send a signal to";
      return;
    }
    const RankRow& row = rows[static_cast<std::size_t>(selected_rank_row(rows, state_))];
    if (row.kind == RankRow::Kind::launcher) {
      if (!row.launcher_pid) {
        state_.message = "the launcher's pid is not known";
        return;
      }
      state_.overlay = SignalMenu{*row.launcher_pid,
                                  printable(fmt::format("launcher {} of {} rank{}", row.launcher,
                                                        row.ranks, row.ranks == 1 ? "" : "s")),
                                  0, false};
      return;
    }
    if (!row.process->command) {
      state_.message =
          fmt::format("process {} could not be read: it may be another one than the driver means",
                      row.process->pid);
      return;
    }
    state_.overlay = SignalMenu{row.process->pid,
                                row.process->rank ? fmt::format("{}, {}", rank_name(*row.process),
                                                                short_command_of(*row.process))
                                                  : short_command_of(*row.process),
                                0, false};
  }

  void close_topmost() {
    if (!state_.filter.empty())
      state_.filter.clear();
    else if (state_.cursor_ms)
      state_.cursor_ms.reset();
    else if (state_.right_ms || (state_.paused && seen_.live())) {
      state_.right_ms.reset();
      state_.paused = false;
    }
  }

  void take_action(Action action) {
    switch (action) {
      case Action::quit: return ask(ProgramRequest(QuitScreen{}));
      case Action::help: state_.overlay = HelpView{}; return;
      case Action::close: return close_topmost();
      case Action::detail: return open_detail();
      case Action::next_panel: return focus_next(1);
      case Action::previous_panel: return focus_next(-1);
      case Action::up: return move_selection(-1);
      case Action::down: return move_selection(1);
      case Action::page_up: return move_selection(-page_of(state_.focus));
      case Action::page_down: return move_selection(page_of(state_.focus));
      case Action::first: return move_selection(-(1 << 20));
      case Action::last: return move_selection(1 << 20);
      case Action::pause: return pause();
      case Action::cursor_left: return move_cursor(state_, seen_, lane_columns(), -1);
      case Action::cursor_right: return move_cursor(state_, seen_, lane_columns(), 1);
      case Action::view_left:
        return scroll_view(state_, seen_, lane_columns(), -std::max(1, lane_columns() / 2));
      case Action::view_right:
        return scroll_view(state_, seen_, lane_columns(), std::max(1, lane_columns() / 2));
      case Action::zoom_in: return zoom_in(state_, seen_, lane_columns());
      case Action::zoom_out: return zoom_out(state_, seen_, lane_columns());
      case Action::mark: return mark_moment(state_, seen_);
      case Action::previous_mark: return go_to_mark(state_, seen_, lane_columns(), -1);
      case Action::next_mark: return go_to_mark(state_, seen_, lane_columns(), 1);
      case Action::next_quantity: return show_quantity(1);
      case Action::previous_quantity: return show_quantity(-1);
      case Action::filter:
        state_.filter_of = state_.focus == Panel::findings ? Panel::findings : Panel::ranks;
        state_.overlay = TextPrompt{TextPrompt::For::filter, state_.filter};
        return;
      case Action::sort_menu: state_.overlay = SortMenu{static_cast<int>(state_.order)}; return;
      case Action::sort_previous: return sort_by(-1);
      case Action::sort_next: return sort_by(1);
      case Action::signal: return open_signal_menu();
      case Action::copy_fix: return copy_fix();
      case Action::plus:
        return ask(seen_.live() ? FeedRequest(ChangeInterval{1}) : FeedRequest(ChangeSpeed{1}));
      case Action::minus:
        return ask(seen_.live() ? FeedRequest(ChangeInterval{-1}) : FeedRequest(ChangeSpeed{-1}));
      case Action::record: return ask(FeedRequest(ToggleRecording{situation_.recording_path}));
      case Action::refresh: ask(FeedRequest(JudgeNow{})); return ask(ProgramRequest(RedrawAll{}));
      case Action::setup: state_.overlay = SetupView{}; return;
      case Action::redraw: return ask(ProgramRequest(RedrawAll{}));
      case Action::back: return seek_by(-10'000);
      case Action::forward: return seek_by(10'000);
      case Action::far_back: return seek_by(-60'000);
      case Action::far_forward: return seek_by(60'000);
      case Action::go_to: state_.overlay = TextPrompt{TextPrompt::For::go_to, ""}; return;
      case Action::loop: return ask(FeedRequest(ToggleLoop{}));
    }
  }

  std::vector<RankRow> ranks() const {
    return rank_rows(seen_, state_,
                     situation_.layout.fold_workers ? Workers::folded : Workers::shown);
  }

  int count_of(Panel panel) const {
    switch (panel) {
      case Panel::gpus: return static_cast<int>(seen_.gpus.size());
      case Panel::steps: return step_rows(seen_);
      case Panel::ranks: return static_cast<int>(ranks().size());
      case Panel::findings: return static_cast<int>(finding_rows(seen_, state_).size());
    }
    return 0;
  }
  int page_of(Panel panel) const {
    return std::max(1, situation_.layout.of(panel).height - (panel == Panel::gpus ? 0 : 1));
  }

  void move_selection(int by) {
    const int last = std::max(0, count_of(state_.focus) - 1);
    if (state_.focus == Panel::ranks) {
      const auto rows = ranks();
      return select_rank(rows, std::clamp(selected_rank_row(rows, state_) + by, 0, last));
    }
    int& selected = state_.selected[static_cast<std::size_t>(state_.focus)];
    selected = std::clamp(std::clamp(selected, 0, last) + by, 0, last);
  }

  void select_rank(const std::vector<RankRow>& rows, int row) {
    state_.selected[static_cast<std::size_t>(Panel::ranks)] = row;
    state_.rank_pid.reset();
    if (row < static_cast<int>(rows.size()) &&
        rows[static_cast<std::size_t>(row)].kind == RankRow::Kind::process)
      state_.rank_pid = rows[static_cast<std::size_t>(row)].process->pid;
  }

  void focus_next(int by) {
    int next = static_cast<int>(state_.focus);
    for (std::size_t tries = 0; tries < kPanels; ++tries) {
      next = (next + by + static_cast<int>(kPanels)) % static_cast<int>(kPanels);
      const auto panel = static_cast<Panel>(next);
      const bool hidden =
          (panel == Panel::steps && (!state_.setup.show_steps || step_rows(seen_) == 0)) ||
          (panel == Panel::ranks && !state_.setup.show_ranks) ||
          (panel == Panel::findings && !state_.setup.show_findings);
      if (!hidden) break;
    }
    state_.focus = static_cast<Panel>(next);
  }

  void open_detail() {
    if (count_of(state_.focus) == 0) {
      state_.message = "nothing here to look at";
      return;
    }
    state_.overlay = DetailView{state_.focus, 0};
  }

  // Live: the picture stands still while the watch goes on behind it. A file stops playing.
  void pause() {
    if (seen_.playback) return ask(FeedRequest(TogglePause{}));
    hold_or_follow(state_, seen_);
  }

  void show_quantity(int by) {
    change_setup(state_.setup, kLanesRow, by);
    const Quantity shown = state_.setup.lanes;
    const double now = seen_.history.newest_ms();
    const bool read = std::ranges::any_of(seen_.gpus, [&](const GpuNow& gpu) {
      return seen_.history.cell(gpu.info.index, shown, now - 10'000, now + 1).value.has_value();
    });
    state_.message =
        fmt::format("lanes show {}{}", kQuantityNames[static_cast<std::size_t>(shown)],
                    read ? "" : ", which is not measured here (Enter on a GPU says why)");
  }

  void sort_by(int by) {
    constexpr int kCount = static_cast<int>(kRankOrderNames.size());
    state_.order = static_cast<RankOrder>((static_cast<int>(state_.order) + by + kCount) % kCount);
    state_.message =
        fmt::format("ranks sorted by {}", kRankOrderNames[static_cast<std::size_t>(state_.order)]);
  }

  void copy_fix() {
    const auto rows = finding_rows(seen_, state_);
    if (rows.empty()) {
      state_.message = "no finding, so nothing to copy";
      return;
    }
    const int selected = std::clamp(state_.selected[static_cast<std::size_t>(Panel::findings)], 0,
                                    static_cast<int>(rows.size()) - 1);
    const std::string words = fix_words(*rows[static_cast<std::size_t>(selected)].finding);
    if (words.empty()) {
      state_.message = "this finding has no fix to copy";
      return;
    }
    ask(ProgramRequest(CopyText{words}));
    state_.message = fmt::format("copied, where the terminal allows it: {}", words);
  }

  void seek_by(double ms) {
    state_.right_ms.reset();
    state_.cursor_ms.reset();
    ask(FeedRequest(SeekBy{ms}));
  }

  void go_to(const std::string& text) {
    const auto t_ms = parse_time_code(text);
    if (!t_ms) {
      state_.message = fmt::format("'{}' is no time: write 1:30, 90s or 1:02:03", printable(text));
      return;
    }
    if (!seen_.playback) return;
    state_.right_ms.reset();
    state_.cursor_ms.reset();
    ask(FeedRequest(SeekTo{seen_.playback->begin_ms + *t_ms}));
  }

  void take_mouse(const Mouse& mouse) {
    const Layout& layout = situation_.layout;
    if (!std::holds_alternative<std::monostate>(state_.overlay)) return take_mouse_over(mouse);
    for (const Panel panel : {Panel::gpus, Panel::steps, Panel::ranks, Panel::findings}) {
      const Band& band = layout.of(panel);
      if (!band.contains(mouse.y)) continue;
      if (mouse.action != MouseAction::press) {
        const int by = mouse.action == MouseAction::wheel_up ? -1 : 1;
        if (panel == Panel::gpus && mouse.x >= layout.lane_x &&
            mouse.x < layout.lane_x + layout.lane_columns)
          return by < 0 ? zoom_in(state_, seen_, lane_columns())
                        : zoom_out(state_, seen_, lane_columns());
        state_.focus = panel;
        return move_selection(by);
      }
      return click(panel, mouse, band);
    }
    if (layout.footer.contains(mouse.y) && mouse.action == MouseAction::press)
      state_.overlay = HelpView{};
  }

  void take_mouse_over(const Mouse& mouse) {
    if (mouse.action == MouseAction::press) {
      if (!std::holds_alternative<SignalMenu>(state_.overlay) &&
          !std::holds_alternative<TextPrompt>(state_.overlay)) {
        if (std::holds_alternative<SetupView>(state_.overlay)) ask(ProgramRequest(SaveSetup{}));
        state_.overlay = std::monostate{};
      }
      return;
    }
    const int by = mouse.action == MouseAction::wheel_up ? -3 : 3;
    if (auto* help = std::get_if<HelpView>(&state_.overlay)) scroll_by(help->scroll, by);
    if (auto* detail = std::get_if<DetailView>(&state_.overlay)) scroll_by(detail->scroll, by);
  }

  // A click selects; one on what is selected opens its details; one on a lane reads all GPUs at
  // that moment.
  void click(Panel panel, const Mouse& mouse, const Band& band) {
    const Layout& layout = situation_.layout;
    const bool was_focused = state_.focus == panel;
    state_.focus = panel;
    if (panel == Panel::gpus) {
      state_.selected[0] = std::clamp(layout.first_gpu + (mouse.y - band.y) / layout.lane_rows, 0,
                                      std::max(0, count_of(panel) - 1));
      const int column = mouse.x - layout.lane_x;
      if (column >= 0 && column < layout.lane_columns) {
        const TimeView now = view();
        state_.cursor_ms = now.start_of(column) + now.column_ms / 2;
        if (!state_.right_ms) state_.right_ms = now.right_ms - now.column_ms / 2;
      }
      return;
    }
    const int row = mouse.y - band.y - 1;
    if (row < 0) return;
    if (panel == Panel::ranks) {
      const auto rows = ranks();
      const int before = selected_rank_row(rows, state_);
      const int now = first_shown(before, static_cast<int>(rows.size()), band.height - 1) + row;
      if (now >= static_cast<int>(rows.size())) return;
      if (was_focused && now == before) return open_detail();
      return select_rank(rows, now);
    }
    int& selected = state_.selected[static_cast<std::size_t>(panel)];
    const int now = panel == Panel::findings
                        ? finding_at(row, band)
                        : first_shown(selected, count_of(panel), band.height - 1) + row;
    if (now < 0 || now >= count_of(panel)) return;
    if (was_focused && now == selected) return open_detail();
    selected = now;
  }

  int finding_at(int row, const Band& band) const {
    const int count = count_of(Panel::findings);
    const int each = rows_a_finding(count, band);
    const int selected = std::clamp(state_.selected[static_cast<std::size_t>(Panel::findings)], 0,
                                    std::max(0, count - 1));
    return first_shown(selected, count, (band.height - 1) / each) + row / each;
  }

  MonitorState state_;
  const Situation& situation_;
  const Monitored& seen_;
  std::vector<MonitorRequest> requests_;
};

}  // namespace

Reaction handle(MonitorState state, const Input& input, const Situation& situation) {
  return Handler(std::move(state), situation).take(input);
}

std::span<const SignalRow> offered_signals() { return kSignals; }

}  // namespace lockstep
