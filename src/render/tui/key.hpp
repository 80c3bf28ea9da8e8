// What comes from the keyboard and the mouse, freed from how terminals spell it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace lockstep {

enum class KeyCode : std::uint8_t {
  character,
  enter,
  escape,
  tab,
  back_tab,
  backspace,
  remove,
  up,
  down,
  left,
  right,
  home,
  end,
  page_up,
  page_down,
  f1,
  f2,
  f3,
  f4,
  f5,
  f6,
  f7,
  f8,
  f9,
  f10,
  f11,
  f12,
  interrupt /* Ctrl-C */,
  redraw /* Ctrl-L */,
  unknown
};

struct Key {
  KeyCode code = KeyCode::unknown;
  char32_t character = 0;
  bool shift = false;

  bool operator==(const Key&) const = default;
};

constexpr Key key(char32_t character) { return {KeyCode::character, character, false}; }
constexpr Key key(KeyCode code) { return {code, 0, false}; }
constexpr Key shifted(KeyCode code) { return {code, 0, true}; }

// "q", "Space", "F10", "Shift-Left": as the help names it.
std::string name_of(const Key& key);

enum class MouseAction : std::uint8_t { press, wheel_up, wheel_down };

struct Mouse {
  MouseAction action = MouseAction::press;
  int x = 0;  // from 0, like y
  int y = 0;

  bool operator==(const Mouse&) const = default;
};

using Input = std::variant<Key, Mouse>;

}  // namespace lockstep
