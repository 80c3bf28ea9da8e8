// What the user has chosen on the screen: where he looks, what is open, what he typed. Nothing
// about GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "timeline/history.hpp"

namespace lockstep {

enum class Panel : std::uint8_t { gpus, steps, ranks, findings };
inline constexpr std::size_t kPanels = 4;

enum class RankOrder : std::uint8_t { tree, rank, gpu, user, pid, memory, cpu };
inline constexpr std::array<std::string_view, 7> kRankOrderNames = {"tree", "rank",   "GPU", "user",
                                                                    "pid",  "memory", "CPU"};

// Kept in the config file, under "monitor".
struct MonitorSetup {
  Quantity lanes = Quantity::busy;
  double column_ms = 200;  // the driver's own window of `busy`: finer columns show no more of it
  bool show_steps = true;
  bool show_ranks = true;
  bool show_findings = true;
  bool colors = true;
  bool ascii = false;

  bool operator==(const MonitorSetup&) const = default;
};

// Things that lie over the screen, one at a time.
struct HelpView {
  int scroll = 0;
};
struct DetailView {
  Panel of = Panel::gpus;
  int scroll = 0;
};
struct TextPrompt {
  enum class For : std::uint8_t { filter, go_to } what = For::filter;
  std::string text;
};
struct SortMenu {
  int selected = 0;
};
struct SetupView {
  int selected = 0;
};
struct SignalMenu {
  int pid = 0;
  std::string of;  // "rank 0, python train.py": what the user sees before he agrees
  int selected = 0;
  bool asked = false;  // the last question is on the screen
};
using Overlay =
    std::variant<std::monostate, HelpView, DetailView, TextPrompt, SortMenu, SetupView, SignalMenu>;

struct MonitorState {
  MonitorSetup setup;
  bool read_only = false;

  Panel focus = Panel::gpus;
  std::array<int, kPanels> selected{};  // a row of each panel; ranks go by pid
  std::optional<int> rank_pid;          // the selected process, wherever it is sorted to
  RankOrder order = RankOrder::tree;
  std::string filter;
  Panel filter_of = Panel::ranks;  // or findings

  // the user chose the column; else it widens where readings are rarer than columns
  bool zoomed = false;
  bool paused = false;             // live: the picture stands, the watch goes on
  std::optional<double> right_ms;  // the right edge where it does not follow the present
  std::optional<double> cursor_ms;
  std::vector<double> marks;  // in order of time

  Overlay overlay;
  int waited_s = 0;     // for a driver that has not answered yet
  std::string message;  // the last line, until the next key
};

}  // namespace lockstep
