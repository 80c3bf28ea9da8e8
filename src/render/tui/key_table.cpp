#include "render/tui/key_table.hpp"

namespace lockstep {
namespace {

constexpr Key kNoKey{};

constexpr std::array kRows = {
    KeyRow{Action::quit,
           {key('q'), key(KeyCode::f10), key(KeyCode::interrupt)},
           "quit",
           KeyScope::always},
    KeyRow{Action::help, {key('?'), key('h'), key(KeyCode::f1)}, "this help", KeyScope::always},
    KeyRow{Action::close,
           {key(KeyCode::escape), kNoKey, kNoKey},
           "close the topmost thing; never quits",
           KeyScope::always},
    KeyRow{Action::next_panel, {key(KeyCode::tab), kNoKey, kNoKey}, "next panel", KeyScope::always},
    KeyRow{Action::previous_panel,
           {key(KeyCode::back_tab), kNoKey, kNoKey},
           "previous panel",
           KeyScope::always},
    KeyRow{Action::up, {key(KeyCode::up), key('k'), kNoKey}, "up", KeyScope::always},
    KeyRow{Action::down, {key(KeyCode::down), key('j'), kNoKey}, "down", KeyScope::always},
    KeyRow{Action::page_up, {key(KeyCode::page_up), kNoKey, kNoKey}, "a page up", KeyScope::always},
    KeyRow{Action::page_down,
           {key(KeyCode::page_down), kNoKey, kNoKey},
           "a page down",
           KeyScope::always},
    KeyRow{Action::first, {key('g'), key(KeyCode::home), kNoKey}, "first", KeyScope::always},
    KeyRow{Action::last, {key('G'), key(KeyCode::end), kNoKey}, "last", KeyScope::always},
    KeyRow{Action::detail,
           {key(KeyCode::enter), kNoKey, kNoKey},
           "details of the GPU, rank or finding",
           KeyScope::always},
    KeyRow{Action::pause, {key(' '), kNoKey, kNoKey}, "pause, go on", KeyScope::always},
    KeyRow{Action::cursor_left,
           {key(KeyCode::left), kNoKey, kNoKey},
           "read all GPUs at one moment: earlier",
           KeyScope::always},
    KeyRow{Action::cursor_right,
           {key(KeyCode::right), kNoKey, kNoKey},
           "read all GPUs at one moment: later",
           KeyScope::always},
    KeyRow{Action::view_left,
           {shifted(KeyCode::left), key(','), kNoKey},
           "scroll back by half a screen",
           KeyScope::always},
    KeyRow{Action::view_right,
           {shifted(KeyCode::right), key('.'), kNoKey},
           "scroll on by half a screen",
           KeyScope::always},
    KeyRow{Action::zoom_in,
           {key('z'), kNoKey, kNoKey},
           "zoom in: less time a column",
           KeyScope::always},
    KeyRow{Action::zoom_out,
           {key('Z'), kNoKey, kNoKey},
           "zoom out: more time a column",
           KeyScope::always},
    KeyRow{Action::mark, {key('m'), kNoKey, kNoKey}, "mark this moment", KeyScope::always},
    KeyRow{Action::previous_mark,
           {key('N'), kNoKey, kNoKey},
           "go to the mark or event before",
           KeyScope::always},
    KeyRow{Action::next_mark,
           {key('n'), kNoKey, kNoKey},
           "go to the mark or event after",
           KeyScope::always},
    KeyRow{Action::next_quantity,
           {key('v'), kNoKey, kNoKey},
           "lanes show the next quantity",
           KeyScope::always},
    KeyRow{Action::previous_quantity,
           {key('V'), kNoKey, kNoKey},
           "lanes show the quantity before",
           KeyScope::always},
    KeyRow{Action::filter,
           {key('/'), kNoKey, kNoKey},
           "filter the ranks by a word; the findings, where those have the focus",
           KeyScope::always},
    KeyRow{
        Action::sort_menu, {key(KeyCode::f6), kNoKey, kNoKey}, "sort the ranks", KeyScope::always},
    KeyRow{Action::sort_previous,
           {key('<'), kNoKey, kNoKey},
           "sort by the column before",
           KeyScope::always},
    KeyRow{
        Action::sort_next, {key('>'), kNoKey, kNoKey}, "sort by the next column", KeyScope::always},
    KeyRow{Action::copy_fix,
           {key('y'), kNoKey, kNoKey},
           "copy the finding's fix to the clipboard",
           KeyScope::always},
    KeyRow{Action::setup,
           {key(KeyCode::f2), kNoKey, kNoKey},
           "setup, saved to the config file",
           KeyScope::always},
    KeyRow{Action::refresh,
           {key(KeyCode::f5), kNoKey, kNoKey},
           "judge and draw again now",
           KeyScope::always},
    KeyRow{Action::redraw,
           {key(KeyCode::redraw), kNoKey, kNoKey},
           "draw the whole screen anew",
           KeyScope::always},
    KeyRow{Action::signal,
           {key(KeyCode::f9), kNoKey, kNoKey},
           "send the process a signal, after asking",
           KeyScope::live},
    KeyRow{Action::record,
           {key('r'), kNoKey, kNoKey},
           "record from now on, with the past in memory",
           KeyScope::live},
    KeyRow{Action::plus, {key('+'), key('='), kNoKey}, "longer interval", KeyScope::live},
    KeyRow{Action::minus, {key('-'), kNoKey, kNoKey}, "shorter interval", KeyScope::live},
    KeyRow{Action::plus, {key('+'), key('='), kNoKey}, "faster", KeyScope::replay},
    KeyRow{Action::minus, {key('-'), kNoKey, kNoKey}, "slower", KeyScope::replay},
    KeyRow{Action::back, {key('['), kNoKey, kNoKey}, "back by 10 s", KeyScope::replay},
    KeyRow{Action::forward, {key(']'), kNoKey, kNoKey}, "forward by 10 s", KeyScope::replay},
    KeyRow{Action::far_back, {key('{'), kNoKey, kNoKey}, "back by a minute", KeyScope::replay},
    KeyRow{
        Action::far_forward, {key('}'), kNoKey, kNoKey}, "forward by a minute", KeyScope::replay},
    KeyRow{Action::go_to, {key('t'), kNoKey, kNoKey}, "go to a time: 1:30", KeyScope::replay},
    KeyRow{Action::loop, {key('L'), kNoKey, kNoKey}, "play in a loop", KeyScope::replay},
};

}  // namespace

std::span<const KeyRow> key_table() { return kRows; }

std::optional<Action> action_of(const Key& pressed, bool replay) {
  for (const KeyRow& row : kRows) {
    if (row.scope == KeyScope::live && replay) continue;
    if (row.scope == KeyScope::replay && !replay) continue;
    for (const Key& candidate : row.keys)
      if (candidate.code != KeyCode::unknown && candidate == pressed) return row.action;
  }
  return std::nullopt;
}

std::string name_of(const Key& pressed) {
  static constexpr std::array<std::string_view, 30> kNames = {
      "",      "Enter", "Esc", "Tab",  "Shift-Tab", "Backspace", "Del", "Up",     "Down",   "Left",
      "Right", "Home",  "End", "PgUp", "PgDn",      "F1",        "F2",  "F3",     "F4",     "F5",
      "F6",    "F7",    "F8",  "F9",   "F10",       "F11",       "F12", "Ctrl-C", "Ctrl-L", ""};
  if (pressed.code == KeyCode::character) {
    if (pressed.character == ' ') return "Space";
    return std::string(1, static_cast<char>(pressed.character));  // the table has ASCII only
  }
  const std::string_view name = kNames[static_cast<std::size_t>(pressed.code)];
  return pressed.shift ? "Shift-" + std::string(name) : std::string(name);
}

}  // namespace lockstep
