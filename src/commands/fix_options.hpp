// What people type behind `lockstep fix`, and what their project says beside it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fix/engine.hpp"

namespace lockstep {

// As typed, beside the shared options.
struct FixOptions {
  std::vector<std::string> paths;
  std::string stdin_name;  // of what comes through standard input, as PATH "-"
  bool apply = false;
  std::string apply_words;  // behind --apply: "3,5", or a path
  std::set<int> numbers;
  bool interactive = false;
  bool unsafe = false;
  bool safe = false;
  bool diff = false;
  std::vector<std::string> exclude;
  std::string baseline;
  std::string write_baseline;
  bool undo = false;
  bool check = false;
  std::vector<std::string> select;
  std::vector<std::string> ignore;
  std::string format;
  std::string from;
  std::string preset;
  std::string global_batch;
  std::string gpus;
  std::vector<std::string> assume;
  bool verify = false;
  bool each = false;
  std::string rounds;
  std::string watch;
};

Result<Wishes> checked_wishes(const FixOptions& typed);
Result<std::optional<Versions>> checked_versions(const FixOptions& typed);
// What is typed comes before what the project says, except for exclude, which adds up.
Status take_settings(FixOptions& typed, CodeFilter& filter);
// `--apply 3,5 PATH`, and `--apply PATH`.
Status settle_apply(FixOptions& typed);

}  // namespace lockstep
