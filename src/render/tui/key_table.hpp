// The one table of keys: what each does, in the words of the help, and where it counts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "render/tui/key.hpp"

namespace lockstep {

enum class Action : std::uint8_t {
  quit,
  help,
  close,
  detail,
  next_panel,
  previous_panel,
  up,
  down,
  page_up,
  page_down,
  first,
  last,
  pause,
  cursor_left,
  cursor_right,
  view_left,
  view_right,
  zoom_in,
  zoom_out,
  mark,
  previous_mark,
  next_mark,
  next_quantity,
  previous_quantity,
  filter,
  sort_menu,
  sort_previous,
  sort_next,
  signal,
  copy_fix,
  plus,
  minus,
  record,
  refresh,
  setup,
  redraw,
  back,
  forward,
  far_back,
  far_forward,
  go_to,
  loop,
};

// Where a key has its meaning.
enum class KeyScope : std::uint8_t { always, live, replay };

struct KeyRow {
  Action action;
  std::array<Key, 3> keys;  // KeyCode::unknown: none
  std::string_view words;
  KeyScope scope;
};

std::span<const KeyRow> key_table();

// What a key means on the main screen; nothing: it means nothing.
std::optional<Action> action_of(const Key& key, bool replay);

}  // namespace lockstep
