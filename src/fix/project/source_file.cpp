#include "fix/project/source_file.hpp"

#include <fmt/format.h>

#include "fix/edit.hpp"

namespace lockstep {
namespace {

std::optional<Language> language_of(FileKind kind) {
  switch (kind) {
    case FileKind::python: return Language::python;
    case FileKind::shell: return Language::bash;
    case FileKind::yaml: return Language::yaml;
    case FileKind::json: return Language::json;
    case FileKind::makefile:
    case FileKind::dockerfile:
    case FileKind::notebook: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

SourceFile::Spot SourceFile::spot(std::size_t offset) const {
  if (const auto found = is_notebook() ? Notebook::spot(facts_.text, offset) : std::nullopt)
    return {fmt::format("{} cell {}", facts_.name, found->cell), found->line};
  return {facts_.name, line_number(facts_.text, offset)};
}

std::optional<std::string> SourceFile::text_of_disk(std::string disk_text) const {
  if (!is_notebook()) return disk_text;
  const auto notebook = Notebook::read(std::move(disk_text));
  return notebook ? std::optional(notebook->code()) : std::nullopt;
}

const SyntaxTree* SourceFile::tree() const {
  std::call_once(parse_once_, [this] {
    if (const auto language = language_of(facts_.kind))
      tree_ = SyntaxTree::parse(*language, facts_.text);
    gave_up_ = !tree_;
  });
  return tree_ ? &*tree_ : nullptr;
}

std::string SourceFile::why_not_read() const {
  const auto language = language_of(facts_.kind);
  if (!language || !gave_up_) return "";
  return SyntaxTree::nests_too_deep(*language, facts_.text)
             ? "it was not read: it nests deeper than its parser can follow"
             : "it was not read: the parser gave up after 3 s of work";
}

const PythonModule* SourceFile::python() const {
  if (facts_.kind != FileKind::python) return nullptr;
  std::call_once(python_once_, [this] {
    if (const SyntaxTree* const parsed = tree()) python_.emplace(*parsed);
  });
  return python_ ? &*python_ : nullptr;
}

const std::vector<CommandLineInText>& SourceFile::commands() const {
  std::call_once(commands_once_, [this] {
    shell_.emplace();
    const bool parsed = facts_.kind == FileKind::shell || facts_.kind == FileKind::yaml;
    const SyntaxTree* const own = parsed ? tree() : nullptr;
    if (facts_.kind == FileKind::makefile)
      shell_ = read_makefile(facts_.text);
    else if (facts_.kind == FileKind::dockerfile)
      shell_ = read_dockerfile(facts_.text);
    else if (own != nullptr && facts_.kind == FileKind::shell)
      shell_ = read_shell(*own);
    else if (own != nullptr)
      shell_ = read_yaml_commands(facts_.text, *own);
  });
  return shell_->commands;
}

}  // namespace lockstep
