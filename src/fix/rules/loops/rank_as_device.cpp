// Finds the global rank where the number of a GPU is meant.
//
// Why it matters: RANK counts over all machines, a GPU's number within one. On the second machine
// of two with four GPUs rank 5 asks for GPU 5, and the run ends with "invalid device ordinal". On
// one machine both are the same, so that nobody notices.
//
// Silent for rank % torch.cuda.device_count(), for ranks that mp.spawn hands over, and for names of
// which not every way is known.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

enum class RankKind : std::uint8_t { unknown, global };

// A value that is the global rank on every way that leads to it.
RankKind kind_of(const ScriptFacts& script, FileId file, Node expression) {
  const Origins origins = script.origins->of(file, expression);
  if (!origins.complete || origins.all.empty()) return RankKind::unknown;
  const bool global = std::ranges::all_of(origins.all, [](const Origin& origin) {
    const auto variables = environment_read_in(origin.expression);
    const std::string_view text = origin.expression.text();
    if (text.find('%') != std::string_view::npos || text.find("local") != std::string_view::npos ||
        text.find("LOCAL") != std::string_view::npos)
      return false;
    return variables.contains("RANK") || variables.contains("SLURM_PROCID") ||
           text.ends_with("get_rank()");
  });
  return global ? RankKind::global : RankKind::unknown;
}

// The expression that stands for a GPU's number in a call: set_device(x), .cuda(x),
// device(f"cuda:{x}"), DDP(device_ids=[x]).
std::vector<Node> device_numbers(const PythonCall& call) {
  const std::string_view name = call.last_name();
  const PythonArgument* const first = call.positional(0);
  std::vector<Node> found;
  const auto add = [&](Node value) {
    if (value.is("identifier") || value.is("attribute") || value.is("call")) found.push_back(value);
  };
  if (name == "set_device" && first != nullptr) add(first->value);
  if (name == "cuda" && first != nullptr && call.callee.find('.') != std::string::npos)
    add(first->value);
  if ((name == "device" || name == "to") && first != nullptr) {
    if (name == "device" && string_value(first->value) == "cuda" && call.positional(1) != nullptr)
      add(call.positional(1)->value);
    else if (name == "to" && first->value.is("identifier"))
      add(first->value);
  }
  if (name == "device" && first != nullptr && string_value(first->value) == "cuda" &&
      call.positional(1) != nullptr)
    add(call.positional(1)->value);
  for (const char* list : {"device_ids", "output_device"})
    if (const PythonArgument* const argument = call.argument(list); argument != nullptr)
      add(argument->value.is("list") ? argument->value.child(0) : argument->value);
  return found;
}

// As the rank itself is read: by SLURM's name or torchrun's, with a default or without.
std::string local_rank(const Origins& ways, char quote) {
  bool slurm = false;
  bool has_default = false;
  for (const Origin& origin : ways.all) {
    slurm = slurm || environment_read_in(origin.expression).contains("SLURM_PROCID");
    for (const Node& call : origin.expression.descendants("call"))
      has_default = has_default || (environment_read_in(call).contains("RANK") &&
                                    call.field("arguments").children().size() == 2);
  }
  const char* const name = slurm ? "SLURM_LOCALID" : "LOCAL_RANK";
  return has_default ? fmt::format("int(os.environ.get({0}{1}{0}, 0))", quote, name)
                     : fmt::format("int(os.environ[{0}{1}{0}])", quote, name);
}

}  // namespace

void rank_as_device(const RuleInput& input, const ScriptFacts& script,
                    std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script) || !script.code.starts_itself.empty()) return;
  std::map<FileId, std::vector<Edit>> edits;
  std::vector<Place> where;
  bool possible = true;
  for (const CallAt& item : script.code.all)
    for (const Node& number : device_numbers(*item.call)) {
      if (kind_of(script, item.file, number) != RankKind::global) continue;
      where.push_back(place_of(item.file, number));
      const PythonModule& module = module_of(input, item.file);
      const bool in_string = number.parent().is("interpolation");
      possible = possible && can_import(module, "os", number);
      // Quotes of the other kind within an f-string: before Python 3.12 the same kind ends it.
      const char quote =
          in_string && number.enclosing("string").text().find('"') != std::string_view::npos ? '\''
                                                                                             : '"';
      auto& list = edits[item.file];
      list.push_back(
          {number.from(), number.to(), local_rank(script.origins->of(item.file, number), quote)});
      for (Edit& edit : needed_import(module, "os")) list.push_back(std::move(edit));
    }
  // device = f"cuda:{rank}", wherever it stands; what is put together in other ways is not
  // followed.
  for (const FileId file : files_of(script))
    for (const Node& text : module_of(input, file).tree().root().descendants("string")) {
      for (const Node& part : text.descendants("interpolation")) {
        const Node number = part.child(0);
        if (kind_of(script, file, number) != RankKind::global) continue;
        const std::string_view before = text.text().substr(0, part.from() - text.from());
        // f"{device}:{rank}": what else follows the rank would no longer agree
        if (before.ends_with("}:")) possible = false;
        if (!before.ends_with("cuda:")) continue;
        const PythonModule& module = module_of(input, file);
        possible = possible && can_import(module, "os", number);
        where.push_back(place_of(file, number));
        const char quote = text.text().find('"') != std::string_view::npos ? '\'' : '"';
        edits[file].push_back(
            {number.from(), number.to(), local_rank(script.origins->of(file, number), quote)});
        for (Edit& edit : needed_import(module, "os")) edits[file].push_back(std::move(edit));
      }
      // "cuda:{}".format(rank)
      if (text.parent().is("attribute") || text.parent().is("binary_operator")) possible = false;
    }
  if (where.empty()) return;
  const bool several_machines = std::ranges::any_of(script.launches, [](const Launch& launch) {
    const auto nodes = option_among(launch.options, {"--nnodes"});
    return nodes && *nodes != "1" && *nodes != "1:1";
  });
  std::vector<Change> files;
  if (possible)
    for (auto& [file, list] : edits) files.push_back({file, in_order(std::move(list))});
  propose({.code = FindingCode::rank_as_device,
           .severity = several_machines ? Severity::critical : Severity::warning,
           .confidence = 0.9,
           .where = std::move(where),
           .reason = "the global rank is used as the number of a GPU: from the second machine on "
                     "there is no such GPU",
           .description = "use the rank within the machine: LOCAL_RANK as torchrun sets it "
                          "(SLURM_LOCALID under srun)",
           .effect = "the script runs on several machines",
           .changes = "nothing on one machine; a launcher that does not set LOCAL_RANK is refused",
           .files = std::move(files)},
          findings);
}

}  // namespace lockstep
