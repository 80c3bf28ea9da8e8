// A project of a few files in a temporary folder, and what `lockstep fix` makes of it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fix/engine.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep::testing {

class FixProject {
 public:
  FixProject();
  // Of these files: name and text.
  explicit FixProject(const std::vector<std::pair<std::string, std::string>>& files);
  FixProject& file(const std::string& name, const std::string& text);
  FixProject& transformers(const std::string& version);  // the installed one
  FixProject& accelerate(const std::string& version);
  FixProject& wish(Wishes wishes);
  FixProject& filter(CodeFilter filter);
  FixProject& only(const std::string& name);  // this file is named, not the folder

  std::filesystem::path path(const std::string& name = "") const { return folder_.path() / name; }
  FixPlan plan() const;

  // "P101 train.py:3" for each finding, in order.
  std::vector<std::string> findings() const;
  // Whether there is such a finding: "P101 train.py".
  bool finds(const std::string& code_and_file) const;
  // The safety of the first group that has the code.
  std::optional<FixSafety> safety(FindingCode code) const;
  // A file's text after everything that is not manual was applied.
  std::string after(const std::string& name) const;
  std::vector<std::string> refusals() const;

  Project read() const;

 private:
  TemporaryFolder folder_;
  Versions versions_;
  Wishes wishes_;
  CodeFilter filter_;
  std::string only_;
};

// A script that trains with Trainer: the arguments of the load, of TrainingArguments, and lines
// before the training.
std::string trainer_script(const std::string& load_arguments, const std::string& training_arguments,
                           const std::string& more = "");

}  // namespace lockstep::testing
