// One file of a project: its text as it is on disk, its kind, and its syntax tree, made when first
// asked for.
//
// The text never changes; a patched file is another SourceFile. Safe to ask from several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "fix/project/notebook.hpp"
#include "fix/python/python_module.hpp"
#include "fix/shell/launch_lines.hpp"
#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

// a notebook that was read is Python
enum class FileKind : std::uint8_t { python, shell, makefile, dockerfile, yaml, json, notebook };

class SourceFile {
 public:
  struct Facts {
    std::string name;            // as shown: from the folder that was named
    std::filesystem::path path;  // where it is written back
    FileKind kind = FileKind::python;
    std::string text;
    std::string refusal;  // why it is never edited; empty: it may be
    // false: read to understand its neighbours, neither reported nor edited
    bool asked_for = true;
    std::shared_ptr<const Notebook> notebook = {};  // whose code the text is
  };
  explicit SourceFile(Facts facts) : facts_(std::move(facts)) {}

  const std::string& name() const { return facts_.name; }
  const std::filesystem::path& path() const { return facts_.path; }
  FileKind kind() const { return facts_.kind; }
  const std::string& text() const { return facts_.text; }
  const std::string& refusal() const { return facts_.refusal; }
  // Why the parser could not read it; empty: it could, or nobody has asked yet.
  std::string why_not_read() const;
  bool asked_for() const { return facts_.asked_for; }
  bool is_notebook() const { return facts_.notebook != nullptr; }
  // What belongs on the disk: of a notebook its cells with this code. Nothing where it cannot be
  // put back into them.
  std::optional<std::string> disk_text() const {
    return is_notebook() ? facts_.notebook->with_code(facts_.text) : facts_.text;
  }
  // What this file's text would be, had it this on the disk; nothing where that is no notebook.
  std::optional<std::string> text_of_disk(std::string disk_text) const;
  // Where a byte stands, for a reader: the file and its line, or the notebook's cell and its line
  // in that.
  struct Spot {
    std::string name;
    int line = 0;
  };
  Spot spot(std::size_t offset) const;
  Facts with_text(std::string text) const {
    Facts other = facts_;
    other.text = std::move(text);
    return other;
  }

  // Nothing for a broken notebook, and for a text that no parser could make sense of.
  const SyntaxTree* tree() const;
  // Nothing but for Python.
  const PythonModule* python() const;
  // The commands that a shell script, a Makefile's recipes or a YAML file's command strings run.
  const std::vector<CommandLineInText>& commands() const;

 private:
  Facts facts_;
  mutable std::once_flag parse_once_;
  mutable std::optional<SyntaxTree> tree_;
  mutable bool gave_up_ = false;
  mutable std::once_flag python_once_;
  mutable std::optional<PythonModule> python_;
  mutable std::once_flag commands_once_;
  mutable std::optional<ShellText> shell_;
};

}  // namespace lockstep
