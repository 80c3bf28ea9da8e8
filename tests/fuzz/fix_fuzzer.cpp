// Everything that `lockstep fix` reads: Python, shell, Makefiles, YAML, JSON, requirements, diffs
// and reports. Whatever it is given, a patched text is still one that a parser reads as well as
// before.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.hpp"
#include "fix/edit.hpp"
#include "fix/engine.hpp"
#include "fix/fix_report.hpp"
#include "fix/reported_patches.hpp"

using namespace lockstep;

namespace {

void read_files(const std::string& text) {
  constexpr std::pair<const char*, FileKind> kFiles[] = {
      {"train.py", FileKind::python},   {"run.sh", FileKind::shell},
      {"Makefile", FileKind::makefile}, {"Dockerfile", FileKind::dockerfile},
      {"job.yaml", FileKind::yaml},     {"args.json", FileKind::json}};
  Project::Contents contents;
  contents.root = "/p";
  std::size_t next = 0;
  for (const std::string_view part : split(text, '\x01')) {
    if (next >= std::size(kFiles)) break;
    const auto& [name, kind] = kFiles[next++];
    contents.files.push_back(std::make_shared<SourceFile>(SourceFile::Facts{
        name, std::filesystem::path("/p") / name, kind, std::string(part), "", true}));
  }
  const Project project(std::move(contents));
  Wishes wishes;
  wishes.gpus = 2;  // loops are converted
  wishes.short_of_memory = FindingCode::out_of_memory;
  const FixPlan plan = plan_fixes(project, wishes, {});
  (void)report_of_plan(project, plan);
  const Patched patched = apply_in_memory(project, plan, wishes, {}, Apply::safe_and_unsafe);
  const Project after = project.with(patched.texts);
  for (const auto& [file, unused] : patched.texts)
    if (project.file(file).tree() != nullptr &&
        (after.file(file).tree() == nullptr ||
         after.file(file).tree()->errors().size() > project.file(file).tree()->errors().size()))
      std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 1:
      for (const FileDiff& file : files_of_diff(text))
        if (const auto edits = edits_of_diff(text, file.hunks)) (void)edited(text, *edits);
      break;
    case 2:
      (void)patches_of_report(text, "report");
      (void)code_of_notebook(text);
      break;
    case 3:
      for (const std::string_view line : split(text, '\n')) (void)requirement(line, "r");
      break;
    default: read_files(text); break;
  }
  return 0;
}
