// Everything that `lockstep fix` reads: Python, shell, Makefiles, YAML, JSON, requirements, diffs
// and reports. Whatever it is given, a patched text is still one that a parser reads as well as
// before.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "fix/edit.hpp"
#include "fix/engine.hpp"
#include "fix/fix_report.hpp"
#include "fix/project/notebook.hpp"
#include "fix/reported_patches.hpp"
#include "fix/syntax/syntax_tree.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

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

// What comes back from a notebook's code is a notebook with that code.
void read_notebook(const std::string& text) {
  const auto notebook = Notebook::read(text);
  if (!notebook) return;
  if (notebook->with_code(notebook->code()) != text) std::abort();
  std::string code = notebook->code();
  code.insert(line_start(code, code.size() / 2), "import os\n");
  (void)notebook->with_code(code);
  (void)Notebook::spot(code, code.size() / 2);
}

// Files of a project, parted by \x01: which one a grammar's mutation changes.
struct Part {
  std::size_t from = 0;
  std::size_t size = 0;
  Language language = Language::python;
};

std::optional<Part> chosen_part(std::string_view text, std::minstd_rand& random) {
  constexpr std::optional<Language> kLanguages[] = {
      Language::python, Language::bash, std::nullopt, std::nullopt, Language::yaml, Language::json};
  std::vector<Part> parts;
  std::size_t from = 0;
  for (const std::string_view part : split(text, '\x01')) {
    const std::size_t index = parts.size();
    if (index >= std::size(kLanguages)) break;
    parts.push_back({from, part.size(), kLanguages[index].value_or(Language::bash)});
    from += part.size() + 1;
  }
  std::erase_if(parts, [](const Part& part) { return part.size == 0; });
  if (parts.empty()) return std::nullopt;
  return parts[random() % parts.size()];
}

std::vector<Node> named_nodes(const SyntaxTree& tree) {
  std::vector<Node> nodes;
  for (std::uint32_t i = 1; i < tree.size(); ++i)
    if (const Node node = tree.at(i); node.is_named() && node.from() < node.to())
      nodes.push_back(node);
  return nodes;
}

// One node of a text takes the place of another, is left out, or stands there twice: the parser
// still makes sense of most of it, so that rules see shapes that nobody would write.
std::string with_a_node_changed(std::string_view text, Language language, std::string_view donor,
                                std::minstd_rand& random) {
  const auto tree = SyntaxTree::parse(language, text);
  const auto other = SyntaxTree::parse(language, donor);
  if (!tree || !other) return std::string(text);
  const auto nodes = named_nodes(*tree);
  if (nodes.empty()) return std::string(text);
  const Node node = nodes[random() % nodes.size()];
  std::string fresh;
  switch (random() % 4) {
    case 0: break;
    case 1:
      fresh = std::string(node.text()) + (random() % 2 == 0 ? "\n" : ", ") +
              std::string(indentation_at(text, node.from())) + std::string(node.text());
      break;
    default: {
      std::vector<Node> alike;
      for (const Node& candidate : named_nodes(*other))
        if (candidate.kind() == node.kind() || random() % 64 == 0) alike.push_back(candidate);
      if (alike.empty()) return std::string(text);
      fresh = alike[random() % alike.size()].text();
    }
  }
  return edited(text, {{node.from(), node.to(), fresh}});
}

std::size_t mutated(std::uint8_t* data, std::size_t size, std::size_t most, std::string_view donor,
                    std::minstd_rand& random) {
  const std::string_view text(reinterpret_cast<char*>(data) + 1, size - 1);
  const auto part = chosen_part(text, random);
  if (!part) return LLVMFuzzerMutate(data, size, most);
  const auto given = donor.empty() ? std::nullopt : chosen_part(donor, random);
  const std::string_view own = text.substr(part->from, part->size);
  const std::string fresh = with_a_node_changed(
      own, part->language,
      given && given->language == part->language ? donor.substr(given->from, given->size) : own,
      random);
  const std::string whole = edited(text, {{part->from, part->from + part->size, fresh}});
  if (whole.size() + 1 > most) return LLVMFuzzerMutate(data, size, most);
  std::ranges::copy(whole, data + 1);
  return whole.size() + 1;
}

}  // namespace

// Half of the inputs are changed by their grammar, the others byte by byte.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (size < 2 || data[0] % 4 != 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  return mutated(data, size, most, "", random);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t most, unsigned seed) {
  if (first_size < 2 || second_size < 2 || first_size > most) return 0;
  std::copy_n(first, first_size, out);
  if (first[0] % 4 != 0 || second[0] % 4 != 0) return first_size;
  std::minstd_rand random(seed);
  return mutated(out, first_size, most,
                 {reinterpret_cast<const char*>(second) + 1, second_size - 1}, random);
}

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
      read_notebook(text);
      break;
    case 3:
      for (const std::string_view line : split(text, '\n')) (void)requirement(line, "r");
      break;
    default: read_files(text); break;
  }
  return 0;
}
