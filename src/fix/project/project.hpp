// The files of a project, read once and never changed; a patched project is another one that shares
// what is the same.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fix/project/installed_versions.hpp"
#include "fix/project/source_file.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

using FileId = std::size_t;

// A file that was looked at and will not be edited, with the reason.
struct Refusal {
  std::string name;
  std::string reason;
};

class Project {
 public:
  struct Contents {
    std::vector<std::shared_ptr<const SourceFile>> files;
    std::vector<Refusal> refusals;
    std::filesystem::path root;  // names are shown from here
    Versions versions;           // that are the same for all files: assumed, installed
    // by folder: those, then what its requirements and those above ask for
    std::map<std::filesystem::path, Versions> required;
  };
  explicit Project(Contents contents);

  std::size_t size() const { return contents_.files.size(); }
  const SourceFile& file(FileId id) const { return *contents_.files[id]; }
  const std::vector<Refusal>& refusals() const { return contents_.refusals; }
  const std::filesystem::path& root() const { return contents_.root; }
  // What a file runs with: what is installed, else what the requirements nearest to it ask for.
  const Versions& versions_for(FileId file) const;

  // The file at a path, when the project has it.
  std::optional<FileId> at(const std::filesystem::path& path) const;
  // The Python file that an import within `from` means, when it is one of the project's.
  std::optional<FileId> module(FileId from, std::string_view name) const;
  // The file that a command within `from` starts by this name: from the folder that a `cd` went to;
  // without one from the script's own, the root or the one above; an absolute name (a container's
  // /workspace/train.py) and one after an unknown `cd` by its last part, when only one file has it.
  std::optional<FileId> script(FileId from, const std::optional<std::string>& folder,
                               std::string_view name) const;
  // The file and all files of the project that it imports, directly or not.
  std::vector<FileId> with_imports(FileId file) const;

  // The same project with other texts in these files.
  Project with(const std::map<FileId, std::string>& texts) const;

 private:
  struct Index {
    std::map<std::string, FileId> by_path;
    std::multimap<std::string, FileId> by_name;
  };
  // Which files of the project each one imports, found when first asked for.
  struct Imports {
    explicit Imports(std::size_t files) : once(files), of(files) {}
    std::vector<std::once_flag> once;
    std::vector<std::vector<FileId>> of;
  };
  Project(Contents contents, std::shared_ptr<const Index> index, std::shared_ptr<Imports> imports)
      : contents_(std::move(contents)), index_(std::move(index)), imports_(std::move(imports)) {}
  const std::vector<FileId>& imports_of(FileId file) const;

  Contents contents_;
  // A patched project has the same files, and no patch imports one of them.
  std::shared_ptr<const Index> index_;
  std::shared_ptr<Imports> imports_;
};

// Reads files and folders. Hidden folders, virtual environments, caches, other people's packages,
// what .gitignore names, and `exclude`, patterns alike, are passed over; what is named is read.
enum class Neighbours : std::uint8_t { context, editable };  // of a file that is named alone
// `more`: files that are not on the disk, such as the command that the user typed, as a launch
// line.
Result<Project> read_project(const std::vector<std::string>& paths,
                             const std::optional<Versions>& assumed,
                             Neighbours neighbours = Neighbours::context,
                             std::vector<SourceFile::Facts> more = {},
                             const std::vector<std::string>& exclude = {});

// A text that is not on the disk, or not yet, under the name that it has or will have there: an
// editor's buffer. Its neighbours are read to understand it.
Result<Project> read_text_as_file(const std::string& name, std::string text,
                                  const std::optional<Versions>& assumed);

}  // namespace lockstep
