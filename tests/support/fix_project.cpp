#include "support/fix_project.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace lockstep::testing {

FixProject::FixProject(const std::vector<std::pair<std::string, std::string>>& files)
    : FixProject() {
  for (const auto& [name, text] : files) file(name, text);
}

FixProject& FixProject::file(const std::string& name, const std::string& text) {
  std::filesystem::create_directories(path(name).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
  return *this;
}

FixProject::FixProject() {
  // The machine's own Python and environments are not the test's.
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) ::unsetenv(name);
  ::setenv("PATH", "/nowhere", 1);
}

FixProject& FixProject::transformers(const std::string& version) {
  versions_["transformers"] = {*Version::parse(version), "the test", true};
  return *this;
}

FixProject& FixProject::accelerate(const std::string& version) {
  versions_["accelerate"] = {*Version::parse(version), "the test", true};
  return *this;
}

FixProject& FixProject::wish(Wishes wishes) {
  wishes_ = wishes;
  return *this;
}

FixProject& FixProject::filter(CodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

FixProject& FixProject::only(const std::string& name) {
  only_ = name;
  return *this;
}

Project FixProject::read() const {
  auto project = read_project({path(only_).string()}, versions_);
  if (!project) throw std::runtime_error(project.error().what);
  return std::move(*project);
}

FixPlan FixProject::plan() const {
  FixPlan plan = plan_fixes(read(), wishes_, filter_);
  for (const CodeFinding& finding : plan.findings)
    if (!names_rule(name_of(finding.code), finding.rule))
      throw std::runtime_error("the catalogue's row of " + std::string(name_of(finding.code).id) +
                               " does not name the rule " + std::string(finding.rule));
  return plan;
}

std::vector<std::string> FixProject::findings() const {
  const Project project = read();
  std::vector<std::string> found;
  for (const CodeFinding& finding : plan().findings)
    found.push_back(std::string(name_of(finding.code).id) + " " +
                    place_words(project, finding.where.front()));
  return found;
}

bool FixProject::finds(const std::string& code_and_file) const {
  const auto all = findings();
  return std::ranges::any_of(
      all, [&](const std::string& finding) { return finding.starts_with(code_and_file); });
}

std::optional<FixSafety> FixProject::safety(FindingCode code) const {
  const FixPlan all = plan();
  for (const PatchGroup& group : all.groups)
    for (const std::size_t member : group.findings)
      if (all.findings[member].code == code) return group.safety;
  for (const CodeFinding& finding : all.findings)
    if (finding.code == code) return FixSafety::manual;
  return std::nullopt;
}

std::string FixProject::after(const std::string& name) const {
  const Project project = read();
  const Patched patched = apply_in_memory(project, plan_fixes(project, wishes_, filter_), wishes_,
                                          filter_, Apply::safe_and_unsafe);
  const auto id = project.at(path(name));
  if (!id) throw std::runtime_error("no file " + name);
  const auto found = patched.texts.find(*id);
  return found == patched.texts.end() ? project.file(*id).text() : found->second;
}

std::vector<std::string> FixProject::refusals() const {
  std::vector<std::string> words;
  for (const Refusal& refusal : plan().refusals)
    words.push_back(refusal.name + ": " + refusal.reason);
  return words;
}

std::string trainer_script(const std::string& load_arguments, const std::string& training_arguments,
                           const std::string& more) {
  return "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
         "\n"
         "model = AutoModelForCausalLM.from_pretrained(\"gpt2\"" +
         (load_arguments.empty() ? "" : ", " + load_arguments) + ")\n" + more +
         "args = TrainingArguments(\n    output_dir=\"out\",\n    dataloader_num_workers=4,\n    "
         "bf16=True,\n" +
         (training_arguments.empty() ? "" : "    " + training_arguments + ",\n") +
         ")\ntrainer = Trainer(model=model, args=args, train_dataset=None)\ntrainer.train()\n";
}

}  // namespace lockstep::testing
