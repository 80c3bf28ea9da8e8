// Finds `python -m torch.distributed.launch`.
//
// Why it matters: it is deprecated since torch 1.9 in favour of torchrun, and it passes
// --local-rank to the script, under a name that changed with torch 2.0 (it was --local_rank), so
// that scripts broke. torchrun sets LOCAL_RANK instead; a script that takes its rank from the
// argument alone has to read the variable, which makes line and script one group.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "fix/rule.hpp"
#include "fix/settings/argument_set.hpp"

namespace lockstep {
namespace {

struct LocalRank {
  FileId file = 0;
  const PythonCall* declared = nullptr;  // add_argument("--local_rank", ...)
  bool by_library = false;               // Trainer and Accelerate read LOCAL_RANK themselves
  bool by_variable = false;              // the script does
  bool spoken_of = false;                // its text names local_rank at all
};

LocalRank local_rank_of(const Project& project, const TrainingCode& code) {
  LocalRank rank;
  rank.by_library = !code.accelerators.empty() || !code.arguments.empty() || !code.trainers.empty();
  rank.by_variable = code.environment.contains("LOCAL_RANK");
  const std::string& text = project.file(code.script).text();
  rank.spoken_of =
      text.find("local_rank") != std::string::npos || text.find("local-rank") != std::string::npos;
  for (const CallAt& item : code.all) {
    if (item.call->last_name() != "add_argument") continue;
    for (const PythonArgument& argument : item.call->arguments)
      if (const auto name = argument.name.empty() ? string_value(argument.value) : std::nullopt;
          name == "--local_rank" || name == "--local-rank") {
        rank.declared = item.call;
        rank.file = item.file;
      }
  }
  return rank;
}

// Only the words that change are replaced: a continuation between options stays where it is.
std::vector<Edit> to_torchrun(const std::string& text, const Launch& launch) {
  const auto& words = launch.line->words;
  std::size_t module = launch.first_word + 1;
  while (module < launch.script_word && words[module].value != "torch.distributed.launch") ++module;
  const std::string& python = words[launch.first_word].raw;
  const bool bare = python == "python" || python == "python3";
  std::vector<Edit> edits =
      launch.line->replace(text, launch.first_word, module + 1,
                           bare ? std::vector<std::string>{"torchrun"}
                                : std::vector<std::string>{python, "-m", "torch.distributed.run"});
  for (std::size_t i = module + 1; i < launch.script_word; ++i)
    if (words[i].raw == "--use_env" || words[i].raw == "--use-env") {
      std::size_t to = words[i].to;
      while (to < text.size() && text[to] == ' ') ++to;
      const std::size_t start = line_start(text, words[i].from);
      const bool alone =
          trim(std::string_view(text).substr(start, words[i].from - start)).empty() &&
          to + 1 < text.size() && text[to] == '\\' &&
          (text[to + 1] == '\n' || text[to + 1] == '\r');
      if (alone)
        edits.push_back({start, line_end(text, to), ""});  // with its line
      else
        edits.push_back({words[i].from, to, ""});
    }
  return in_order(std::move(edits));
}

// Lets the script's own argument take its default from LOCAL_RANK.
void teach(const RuleInput& input, const LocalRank& rank, Way& way) {
  const PythonArgument* const fallback = rank.declared->argument("default");
  const PythonModule& module = *input.project.file(rank.file).python();
  const std::string old_value = fallback == nullptr ? "-1" : std::string(fallback->value.text());
  // None stays None: scripts ask `local_rank is None` to tell one process from many.
  const std::string value =
      fallback != nullptr && is_none(fallback->value)
          ? R"(int(os.environ["LOCAL_RANK"]) if "LOCAL_RANK" in os.environ else None)"
          : fmt::format("int(os.environ.get(\"LOCAL_RANK\", {}))", old_value);
  Change change{rank.file, ArgumentSet::of_call(*rank.declared)
                               .set(input.project.file(rank.file).text(), "default", value)};
  // A required argument has no use for a default.
  const bool possible = !change.edits.empty() && rank.declared->argument("required") == nullptr &&
                        can_import(module, "os", rank.declared->node);
  way.safety = possible ? FixSafety::unsafe : FixSafety::manual;
  way.changes = "the rank comes from LOCAL_RANK";
  way.description =
      fmt::format("start with torchrun, and let {} read LOCAL_RANK",
                  place_words(input.project, place_of(rank.file, rank.declared->node)));
  for (Edit& edit : needed_import(module, "os")) change.edits.push_back(std::move(edit));
  if (possible) way.files.push_back(std::move(change));
}

}  // namespace

void legacy_launcher(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for (const Launch& launch : launches_in(input.project, file)) {
    if (launch.launcher != Launcher::torch_distributed_launch ||
        launch.line->style != WordStyle::shell)
      continue;
    const std::string& text = input.project.file(file).text();
    const bool by_variable = std::ranges::any_of(launch.options, [](const std::string& option) {
      return option == "--use_env" || option == "--use-env";
    });
    CodeFinding finding;
    finding.code = FindingCode::legacy_launcher;
    finding.severity = Severity::warning;
    finding.reason =
        "torch.distributed.launch is deprecated; torchrun is the same launcher and gives the rank "
        "as LOCAL_RANK";
    finding.where = {{file, launch.line->words[launch.first_word].from,
                      launch.line->words[launch.script_word].to}};
    Way way;
    way.description = "start with torchrun";
    way.effect = "the same processes, without the deprecated --local-rank argument";
    way.files.push_back({file, to_torchrun(text, launch)});
    const auto script = launch.script ? input.scripts.find(*launch.script) : input.scripts.end();
    if (by_variable) {
      way.safety = FixSafety::safe;
    } else if (script == input.scripts.end()) {
      way.safety = FixSafety::manual;
      way.changes =
          "a script that takes --local_rank must read LOCAL_RANK from the environment; the script "
          "was not found to look";
    } else {
      const LocalRank rank = local_rank_of(input.project, script->second.code);
      if (rank.declared != nullptr &&
          environment_read_in(rank.declared->node).contains("LOCAL_RANK")) {
        way.safety = FixSafety::safe;
      } else if (rank.declared != nullptr) {
        teach(input, rank, way);
      } else if (rank.by_library && !rank.spoken_of) {
        way.safety = FixSafety::safe;
      } else if (rank.by_variable && !rank.spoken_of) {
        way.safety = FixSafety::safe;
      } else {
        // Nothing shows that the rank comes from LOCAL_RANK; without one all ranks would take GPU
        // 0.
        way.safety = rank.by_variable || rank.by_library ? FixSafety::unsafe : FixSafety::manual;
        way.changes =
            "the script no longer gets --local-rank among its arguments: see that its rank comes "
            "from LOCAL_RANK";
      }
    }
    // torchrun came with torch 1.10; TrainingArguments reads LOCAL_RANK since Transformers 4.6.
    if (is_older(input.project, file, "torch", "1.10") ||
        is_older(input.project, file, "transformers", "4.6"))
      continue;
    if (!input.project.versions_for(file).contains("torch")) {
      way.safety = std::max(way.safety, FixSafety::unsafe);
      way.changes +=
          std::string(way.changes.empty() ? "" : "; ") + "torchrun came with PyTorch 1.10";
    }
    finding.ways.push_back(std::move(way));
    findings.push_back(std::move(finding));
  }
}

}  // namespace lockstep
