// Proof of patches: the user's command on the project as it is and as it would be, by turns,
// measured.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fix/engine.hpp"
#include "lockstep/report.hpp"
#include "lockstep/verification.hpp"
#include "runs/run_options.hpp"

namespace lockstep {

// A version of the project, and the command that starts it.
struct ProjectVersion {
  std::string title;
  Project project;
  std::vector<std::string> command;
};

// The user's command as a launch line of the project: what the rules do to launch lines, they do to
// it.
SourceFile::Facts command_as_file(const std::vector<std::string>& command,
                                  const std::filesystem::path& folder);
bool is_the_command(const SourceFile& file);

// The project as it is, then with everything that is wanted; or with one patch after the other.
std::vector<ProjectVersion> versions_to_measure(const Project& project, const Wishes& wishes,
                                                const CodeFilter& filter, Apply wanted, bool each,
                                                const std::vector<std::string>& command);

struct VerifyOptions {
  int rounds = 5;
  // end each run after so long; nothing: it runs to its end
  std::optional<std::chrono::nanoseconds> duration;
  std::string input;             // which GPUs to watch; empty: this machine's
  std::filesystem::path folder;  // where the command is to be run
  bool quiet = false;
};

struct Verified {
  Verification measured;
  Report last;          // of the last version's last run: its checklist
  std::string failure;  // the command failed: how, with its last words; empty: it did not
};
Result<Verified> verify(const std::vector<ProjectVersion>& versions, const VerifyOptions& options);

}  // namespace lockstep
