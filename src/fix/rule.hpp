// What a rule sees, and what it says. A rule is one file and one row in rules/all_rules.cpp.
//
// To add one: write its physics at its head, let it stay silent where it is not sure (a wrong patch
// loses the user), name what an edit may change in the results, and give it a positive, a near miss
// and a must-not-touch test.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fix/edit.hpp"
#include "fix/facts/launches.hpp"
#include "fix/facts/training_code.hpp"
#include "fix/facts/training_loop.hpp"
#include "fix/project/project.hpp"
#include "lockstep/advice.hpp"
#include "lockstep/finding.hpp"

namespace lockstep {

struct Change {
  FileId file = 0;
  std::vector<Edit> edits;
};

// One way out of a finding.
struct Way {
  FixKind kind = FixKind::edit;
  FixSafety safety = FixSafety::manual;
  std::string description;
  std::string effect;
  std::string changes;  // what may differ in the results
  std::vector<Change> files;
  std::vector<std::string> command;
};

struct CodeFinding {
  FindingCode code = FindingCode::taking_turns;
  std::string_view rule;  // that found it; the engine fills it in
  Severity severity = Severity::warning;
  double confidence = 0.9;
  std::string reason;
  std::vector<Place> where;  // the first is where it is ignored by a comment
  std::vector<Way> ways;     // the first is the one that is applied; the others are shown
  // findings of one name are applied together or not at all; empty: on its own
  std::string group;
};

// What the user asked for beyond the paths.
enum class GlobalBatch : std::uint8_t { grow, keep };
enum class Preset : std::uint8_t { none, standard, fast };
struct Wishes {
  GlobalBatch batch = GlobalBatch::grow;
  Preset preset = Preset::none;
  std::optional<int> gpus;  // how many there are, where no line says so
  // Of a job that runs: its report says how to start it from now on.
  bool launch_is_told = false;
  // B502 or B506, where a run showed it or the user says so
  std::optional<FindingCode> short_of_memory;
};

// A script with what it trains with and how it is started.
struct ScriptFacts {
  TrainingCode code;
  std::vector<Launch> launches;
  // Of scripts with a training loop of their own.
  std::shared_ptr<const ValueOrigins> origins;
  std::vector<TrainingLoop> loops;
  std::vector<TrainingLoop> spread_loops;

  // Both kinds, for rules that ask what a loop goes over.
  std::vector<const TrainingLoop*> all_loops() const;

  bool is_launched_distributed() const;
};
// What a script's code says; its launch lines are the caller's.
ScriptFacts script_facts(const Project& project, FileId script);

struct RuleInput {
  const Project& project;
  const Wishes& wishes;
  const std::map<FileId, ScriptFacts>& scripts;
};

using InspectScript = void (*)(const RuleInput& input, const ScriptFacts& script,
                               std::vector<CodeFinding>& findings);
using InspectFile = void (*)(const RuleInput& input, FileId file,
                             std::vector<CodeFinding>& findings);

struct Rule {
  std::string_view name;
  InspectScript on_script = nullptr;
  InspectFile on_file = nullptr;       // of settings and launch lines
  InspectFile on_lightning = nullptr;  // of Python that speaks of Lightning
};
std::span<const Rule> all_rules();
// Whether a row of the catalogue says that this rule finds it.
bool names_rule(const FindingName& row, std::string_view rule);

// All edits of some ways, in order, by file.
std::map<FileId, std::vector<Edit>> edits_of(const std::vector<const Way*>& ways);
// Whether one of the script's launch lines is to start several processes from now on.
bool changes_launch_line(const RuleInput& input, const ScriptFacts& script);
// The group of everything that makes a script run as one process per GPU.
std::string launch_group(FileId script);
// Whether a launch line shards the model: the deepspeed launcher, or an Accelerate file with
// DeepSpeed or FSDP. DDP is not what wraps it then.
bool is_sharded_by_launch(const Project& project, const ScriptFacts& script);
// "train.py:12"
std::string place_words(const Project& project, const Place& place);
// Whether a module's name, imported at the head of the file, means the module at this place: no
// function or line around takes the name for itself.
bool can_import(const PythonModule& module, std::string_view name, Node at);
// Whether a file is pinned to a release of the package before this one, or to one that nobody
// knows.
bool is_older(const Project& project, FileId file, std::string_view package,
              std::string_view least);
// The edit that makes a module known, unless it is: import os.
std::vector<Edit> needed_import(const PythonModule& module, std::string_view name);

}  // namespace lockstep
