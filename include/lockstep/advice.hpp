// What to change about a finding, and how safe the change is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class FixKind : std::uint8_t { command, edit, environment, advice };
enum class FixSafety : std::uint8_t {
  safe,    // the meaning of the program is unchanged
  unsafe,  // results may change
  manual,  // shown, never applied
};

struct Fix {
  FixKind kind = FixKind::advice;
  FixSafety safety = FixSafety::manual;
  std::string description;
  std::vector<std::string> command;
  std::optional<std::string> diff;  // unified; its names start from `root`
  std::string root;                 // a folder; empty: where lockstep runs
  std::string effect;               // what is gained: "both GPUs work at once"
  std::string changes;              // what may differ in the results; empty: nothing does
  // edits that belong together, applied all or none; findings of a report share it
  std::optional<int> group;
};

}  // namespace lockstep
