#include "render/tui/terminal/input_parser.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kLongestSequence = 32;  // a longer one is no key of any terminal

struct Parsed {
  std::size_t bytes = 0;  // 0: not whole yet
  std::optional<Input> input;
};

struct FinalLetter {
  char letter;
  KeyCode code;
};
// ESC [ letter and ESC O letter: cursor keys, and F1 to F4 of xterm.
constexpr std::array<FinalLetter, 10> kFinalLetters = {{{'A', KeyCode::up},
                                                        {'B', KeyCode::down},
                                                        {'C', KeyCode::right},
                                                        {'D', KeyCode::left},
                                                        {'H', KeyCode::home},
                                                        {'F', KeyCode::end},
                                                        {'P', KeyCode::f1},
                                                        {'Q', KeyCode::f2},
                                                        {'R', KeyCode::f3},
                                                        {'S', KeyCode::f4}}};
struct TildeNumber {
  int number;
  KeyCode code;
};
// ESC [ number ~: the keys of the VT220, as xterm, rxvt and the Linux console number them.
constexpr std::array<TildeNumber, 20> kTildeNumbers = {
    {{1, KeyCode::home},    {2, KeyCode::unknown},   {3, KeyCode::remove}, {4, KeyCode::end},
     {5, KeyCode::page_up}, {6, KeyCode::page_down}, {7, KeyCode::home},   {8, KeyCode::end},
     {11, KeyCode::f1},     {12, KeyCode::f2},       {13, KeyCode::f3},    {14, KeyCode::f4},
     {15, KeyCode::f5},     {17, KeyCode::f6},       {18, KeyCode::f7},    {19, KeyCode::f8},
     {20, KeyCode::f9},     {21, KeyCode::f10},      {23, KeyCode::f11},   {24, KeyCode::f12}}};

std::optional<KeyCode> code_of_letter(char letter) {
  for (const FinalLetter& row : kFinalLetters)
    if (row.letter == letter) return row.code;
  return std::nullopt;
}

// Up to four numbers parted by semicolons; 0 where there is none.
std::array<int, 4> numbers_in(std::string_view text) {
  std::array<int, 4> numbers{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (int& number : numbers) {
    at = std::from_chars(at, end, number).ptr;
    while (at != end && *at != ';') ++at;
    if (at == end) break;
    ++at;
  }
  return numbers;
}

bool has_shift(int modifier) { return modifier > 1 && ((modifier - 1) & 1) != 0; }

// ESC [ < button ; column ; row M, as mode 1006 sends it; m is the release.
std::optional<Input> mouse_of(std::string_view parameters, char final) {
  const auto [button, column, row, unused] = numbers_in(parameters);
  if (final != 'M' || column < 1 || row < 1) return std::nullopt;
  const int kind = button & ~(4 | 8 | 16);  // without Shift, Alt, Ctrl
  if (kind == 0) return Mouse{MouseAction::press, column - 1, row - 1};
  if (kind == 64) return Mouse{MouseAction::wheel_up, column - 1, row - 1};
  if (kind == 65) return Mouse{MouseAction::wheel_down, column - 1, row - 1};
  return std::nullopt;
}

std::optional<Input> key_of_sequence(std::string_view parameters, char final) {
  if (final == 'Z') return key(KeyCode::back_tab);
  const auto [first, second, third, fourth] = numbers_in(parameters);
  if (final == '~') {
    for (const TildeNumber& row : kTildeNumbers)
      if (row.number == first && row.code != KeyCode::unknown)
        return Key{row.code, 0, has_shift(second)};
    return std::nullopt;
  }
  const auto code = code_of_letter(final);
  if (!code) return std::nullopt;
  return Key{*code, 0, has_shift(second)};
}

// ESC [ ...
Parsed parse_control_sequence(std::string_view bytes) {
  if (bytes.size() >= 3 && bytes[2] == '[') {  // the Linux console's F1 to F5: ESC [ [ A
    if (bytes.size() < 4) return {};
    const int number = bytes[3] - 'A';
    if (number < 0 || number > 4) return {4, std::nullopt};
    return {4, key(static_cast<KeyCode>(static_cast<int>(KeyCode::f1) + number))};
  }
  std::size_t end = 2;
  while (end < bytes.size() && (bytes[end] < 0x40 || bytes[end] > 0x7E)) ++end;
  if (end == bytes.size())
    return bytes.size() > kLongestSequence ? Parsed{bytes.size(), std::nullopt} : Parsed{};
  const std::string_view parameters = bytes.substr(2, end - 2);
  const char final = bytes[end];
  // the old mouse: three bytes follow; never asked for, but not to be taken for keys
  if (final == 'M' && parameters.empty()) {
    return bytes.size() < end + 4 ? Parsed{} : Parsed{end + 4, std::nullopt};
  }
  if (!parameters.empty() && parameters.front() == '<')
    return {end + 1, mouse_of(parameters.substr(1), final)};
  return {end + 1, key_of_sequence(parameters, final)};
}

Parsed parse_escape(std::string_view bytes) {
  if (bytes.size() < 2) return {};
  if (bytes[1] == '[') return bytes.size() < 3 ? Parsed{} : parse_control_sequence(bytes);
  if (bytes[1] == 'O') {
    if (bytes.size() < 3) return {};
    const auto code = code_of_letter(bytes[2]);
    return {3, code ? std::optional<Input>(key(*code)) : std::nullopt};
  }
  // Alt and a letter looks the same; no key here has Alt, but Esc may be typed fast
  return {1, key(KeyCode::escape)};
}

Parsed parse_control_byte(unsigned char byte) {
  switch (byte) {
    case '\r':
    case '\n': return {1, key(KeyCode::enter)};
    case '\t': return {1, key(KeyCode::tab)};
    case 0x7F:
    case 0x08: return {1, key(KeyCode::backspace)};
    case 0x03: return {1, key(KeyCode::interrupt)};
    case 0x0C: return {1, key(KeyCode::redraw)};
    default: return {1, std::nullopt};
  }
}

// One letter of UTF-8. Bytes that are none are passed over.
Parsed parse_letter(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {1, key(static_cast<char32_t>(first))};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4) return {1, std::nullopt};
  char32_t letter = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return {};
    const auto next = static_cast<unsigned char>(bytes[i]);
    if ((next & 0xC0U) != 0x80U) return {i, std::nullopt};
    letter = letter << 6U | (next & 0x3FU);
  }
  return {length, key(letter)};
}

Parsed parse_one(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first == 0x1B) return parse_escape(bytes);
  if (first < 0x20 || first == 0x7F) return parse_control_byte(first);
  return parse_letter(bytes);
}

}  // namespace

std::vector<Input> InputParser::take(std::string_view bytes) {
  pending_ += bytes;
  std::vector<Input> inputs;
  std::string_view left = pending_;
  while (!left.empty()) {
    const Parsed parsed = parse_one(left);
    if (parsed.bytes == 0) break;
    if (parsed.input) inputs.push_back(*parsed.input);
    left.remove_prefix(parsed.bytes);
  }
  pending_ = std::string(left);
  return inputs;
}

std::vector<Input> InputParser::give_up_waiting() {
  const std::string bytes = std::exchange(pending_, {});
  if (bytes.empty() || bytes[0] != '\x1b') return {};
  std::vector<Input> inputs = {key(KeyCode::escape)};
  for (Input& input : take(std::string_view(bytes).substr(1))) inputs.push_back(input);
  return inputs;
}

}  // namespace lockstep
