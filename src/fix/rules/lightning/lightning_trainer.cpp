// Finds what Lightning's Trainer is asked for that slows every step, or that it no longer takes: in
// a call, or in Hydra's YAML (`_target_: lightning.pytorch.Trainer`).
//
// Why it matters: Lightning 2.0 took gpus=, strategy="dp" and their like away, and the run ends
// with a TypeError; log_every_n_steps=1 reads every logged value back in each step; anomaly
// detection checks every gradient.
//
// Silent for trial runs (fast_dev_run, overfit_batches) and where a release before 2.0 is pinned.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "fix/facts/lightning_code.hpp"
#include "fix/rules/loops/loop_rules.hpp"
#include "fix/settings/training_settings.hpp"
#include "fix/syntax/yaml_value.hpp"

namespace lockstep {
namespace {

// Gone in 2.0 with nothing to put in their place, or something that is no argument.
struct Gone {
  std::string_view name;
  std::string_view instead;
};
constexpr std::array kGone = {
    Gone{"resume_from_checkpoint", "give it to fit(): trainer.fit(model, ckpt_path=...)"},
    Gone{"progress_bar_refresh_rate", "callbacks=[TQDMProgressBar(refresh_rate=...)]"},
    Gone{"weights_summary", "enable_model_summary, or a ModelSummary callback"},
    Gone{"checkpoint_callback", "enable_checkpointing, or the callback in callbacks=[...]"},
    Gone{"amp_backend", "take it away: torch's own is the only one"},
    Gone{"amp_level", "take it away: it was Apex's"},
    Gone{"flush_logs_every_n_steps", "the logger's own settings"},
    Gone{"terminate_on_nan", "detect_anomaly while searching, or a check in training_step"},
    Gone{"auto_lr_find", "Tuner(trainer).lr_find(model)"},
    Gone{"auto_scale_batch_size", "Tuner(trainer).scale_batch_size(model)"},
    Gone{"track_grad_norm", "log it in on_before_optimizer_step"},
    Gone{"auto_select_gpus", "devices=..., accelerator=\"gpu\""},
    Gone{"tpu_cores", "accelerator=\"tpu\", devices=..."},
    Gone{"num_processes", "accelerator=\"cpu\", devices=..."},
    Gone{"stochastic_weight_avg", "callbacks=[StochasticWeightAveraging(...)]"},
    Gone{"distributed_backend", "strategy=..."}};

// Whether releases from 2.0 on are what is used: certainly, perhaps (nothing says which), or not.
enum class Newer : std::uint8_t { no, perhaps, yes };
struct LightningVersion {
  Newer newer = Newer::perhaps;
  std::string words = "no installed version was found";
};
LightningVersion version_of(const Project& project, FileId file) {
  static const Version two = *Version::parse("2.0");
  const Versions& versions = project.versions_for(file);
  for (const char* package : {"lightning", "pytorch_lightning", "pytorch-lightning"}) {
    const auto found = versions.find(package);
    if (found == versions.end()) continue;
    const KnownVersion& known = found->second;
    const std::string words =
        fmt::format("{}{} by {}", known.exact ? "" : "from ", known.version.text(), known.from);
    if (known.unknown || (known.below && !(two < *known.below)) ||
        (known.exact && known.version < two))
      return {Newer::no, words};
    return {known.version < two ? Newer::perhaps : Newer::yes, words};
  }
  return {};
}

bool is_a_trial(const ArgumentSet& arguments) {
  return (arguments.has("fast_dev_run") && arguments.truth("fast_dev_run") != false) ||
         arguments.has("overfit_batches");
}

class TrainerChecker {
 public:
  TrainerChecker(const RuleInput& input, FileId file, const ArgumentSet& arguments,
                 std::vector<CodeFinding>& findings)
      : file_(file),
        text_(input.project.file(file).text()),
        arguments_(arguments),
        version_(version_of(input.project, file)),
        findings_(findings) {}

  void run() {
    check_gone();
    if (is_a_trial(arguments_)) return;
    check_strategy();
    if (arguments_.number("log_every_n_steps") == 1)
      propose_value("log_every_n_steps", FindingCode::logging_too_often, "10",
                    "log_every_n_steps=1 reads every logged value back in each step, and the host "
                    "waits for the GPU",
                    "log every 10 steps",
                    "less to read and to write for the log; what else reads values in each step (a "
                    "progress bar, .item()) stays",
                    "what is logged: one value in ten; the training itself is the same");
    if (arguments_.truth("detect_anomaly") == true)
      propose_value("detect_anomaly", FindingCode::harmful_environment, "False",
                    "detect_anomaly=True records a traceback for every operator and checks every "
                    "gradient: a tool for an afternoon",
                    "take anomaly detection off", "backward passes of their usual length",
                    "a nan no longer raises where it arises");
  }

 private:
  Place place(std::string_view name) const { return place_of(file_, arguments_.find(name)->whole); }

  void propose_value(std::string_view name, FindingCode code, std::string_view value,
                     std::string reason, std::string description, std::string effect,
                     std::string changes) {
    propose({.code = code,
             .where = {place(name)},
             .reason = std::move(reason),
             .description = std::move(description),
             .effect = std::move(effect),
             .changes = std::move(changes),
             .files = {{file_, arguments_.set(text_, name, value)}}},
            findings_);
  }

  std::string ends_the_run(std::string_view name) const {
    return version_.newer == Newer::yes
               ? fmt::format("Lightning 2.0 took {} away ({}): the run ends with a TypeError", name,
                             version_.words)
               : fmt::format(
                     "Lightning 2.0 took {} away ({}): with it the run ends with a "
                     "TypeError",
                     name, version_.words);
  }
  Severity severity() const {
    return version_.newer == Newer::yes ? Severity::critical : Severity::warning;
  }

  void check_gone() {
    if (version_.newer == Newer::no) return;
    if (arguments_.has("gpus")) check_gpus();
    if (const Setting* const sampler = arguments_.find("replace_sampler_ddp");
        sampler != nullptr && !arguments_.has("use_distributed_sampler"))
      propose({.code = FindingCode::unknown_training_argument,
               .severity = severity(),
               .where = {place("replace_sampler_ddp")},
               .reason = ends_the_run("replace_sampler_ddp"),
               .description = "replace_sampler_ddp is now use_distributed_sampler",
               .effect = "this argument no longer ends the run",
               .changes = "needs Lightning 2.0 or newer",
               .files = {{file_, arguments_.rename(*sampler, "use_distributed_sampler")}}},
              findings_);
    for (const Gone& gone : kGone)
      if (arguments_.has(gone.name))
        propose({.code = FindingCode::unknown_training_argument,
                 .severity = severity(),
                 .safety = FixSafety::manual,
                 .where = {place(gone.name)},
                 .reason = ends_the_run(gone.name),
                 .description = std::string(gone.instead),
                 .effect = "this argument no longer ends the run"},
                findings_);
  }

  // gpus=2 becomes accelerator="gpu", devices=2; the other way round where there is none.
  void check_gpus() {
    const Setting& gpus = *arguments_.find("gpus");
    const std::string_view value = gpus.value.text();
    const bool on_cpu = gpus.number == 0 || value == "None" || value == "null";
    const bool is_literal =
        gpus.number || value.starts_with("[") || value.starts_with("\"") || value.starts_with("'");
    std::vector<Edit> edits;
    const bool is_free = !arguments_.has("devices") && !arguments_.has("accelerator");
    if (on_cpu && is_free) {
      edits = arguments_.rename(gpus, "accelerator");
      for (Edit& edit : arguments_.set(text_, "gpus", "\"cpu\"")) edits.push_back(std::move(edit));
    } else if (is_literal && is_free) {
      edits = arguments_.rename(gpus, "devices");
      for (Edit& edit : arguments_.set(text_, "accelerator", "\"gpu\""))
        edits.push_back(std::move(edit));
    }
    propose({.code = FindingCode::unknown_training_argument,
             .severity = severity(),
             .where = {place("gpus")},
             .reason = ends_the_run("gpus"),
             .description = on_cpu ? "accelerator=\"cpu\" has its place"
                                   : "accelerator=\"gpu\", devices=... have its place",
             .effect = "this argument no longer ends the run",
             .changes = "needs Lightning 1.7 or newer",
             .files = {{file_, in_order(std::move(edits))}}},
            findings_);
  }

  void check_strategy() {
    // accelerator="dp" was its place before 1.5
    for (const char* name : {"strategy", "accelerator"}) {
      const auto word = arguments_.word(name);
      if (!word) continue;
      if (*word == "dp" || *word == "ddp2") {
        propose(
            {.code = FindingCode::one_gpu_leads,
             .safety = *word == "dp" && name == std::string_view("strategy") ? FixSafety::unsafe
                                                                             : FixSafety::manual,
             .where = {place(name)},
             .reason = fmt::format("{}=\"{}\" is nn.DataParallel: one process copies the model "
                                   "to every GPU in each step, and GPU 0 does more (Lightning "
                                   "2.0 took it away)",
                                   name, *word),
             .description = "strategy=\"ddp\": one process per GPU, which Lightning starts",
             .effect = "all GPUs work for the whole step",
             .changes = "every GPU takes the loader's whole batch: the global batch grows with "
                        "the number of GPUs",
             .files = {{file_, name == std::string_view("strategy")
                                   ? arguments_.set(text_, name, "\"ddp\"")
                                   : std::vector<Edit>()}}},
            findings_);
      }
      if (*word == "ddp_find_unused_parameters_true")
        propose({.code = FindingCode::find_unused_parameters,
                 .severity = Severity::info,
                 .safety = FixSafety::manual,
                 .where = {place(name)},
                 .reason = "strategy=\"ddp_find_unused_parameters_true\" walks the whole graph in "
                           "every step",
                 .description = "strategy=\"ddp\" where every parameter gets a gradient",
                 .effect = "no search through the graph in each step",
                 .changes = "DDP ends with an error where a parameter gets none"},
                findings_);
    }
  }

  FileId file_;
  const std::string& text_;
  const ArgumentSet& arguments_;
  LightningVersion version_;
  std::vector<CodeFinding>& findings_;
};

// The key of a YAML mapping that says what Hydra makes of it.
std::string target_of(const ArgumentSet& mapping) { return mapping.word("_target_").value_or(""); }
bool is_lightning_target(std::string_view target) {
  return target.ends_with(".Trainer") &&
         (target.starts_with("lightning.") || target.starts_with("pytorch_lightning."));
}

// More than one device, as far as it is written.
std::optional<int> devices_of(const ArgumentSet& arguments) {
  const Setting* const devices = arguments.find("devices");
  if (devices == nullptr) return std::nullopt;
  if (devices->number)
    return *devices->number > 0 ? std::optional(static_cast<int>(*devices->number)) : std::nullopt;
  const std::string_view text = devices->value.text();
  if (!text.starts_with("[") || text.find('*') != std::string_view::npos) return std::nullopt;
  return static_cast<int>(std::ranges::count(text, ',')) + 1;
}

// The processes of a launch line and the devices of the one Trainer that it leads to.
struct Meeting {
  const Launch& launch;
  const CallAt& trainer;
  int devices = 0;
};

void propose_devices(const RuleInput& input, const Meeting& meeting, FindingCode code, int count,
                     FixSafety safety, std::string reason, std::string description,
                     std::vector<CodeFinding>& findings) {
  const ArgumentSet arguments = ArgumentSet::of_call(*meeting.trainer.call);
  std::vector<Edit> edits;
  if (safety != FixSafety::manual)
    edits = arguments.set(input.project.file(meeting.trainer.file).text(), "devices",
                          std::to_string(count));
  propose({.code = code,
           .severity = code == FindingCode::idle_gpus ? Severity::warning : Severity::critical,
           .safety = safety,
           .where = {place_of(meeting.trainer.file, arguments.find("devices")->whole)},
           .reason = std::move(reason),
           .description = std::move(description),
           .effect = code == FindingCode::idle_gpus ? "all GPUs work" : "the run starts",
           .changes = "the global batch goes with the number of processes",
           .files = {{meeting.trainer.file, std::move(edits)}}},
          findings);
}

void check_meeting(const RuleInput& input, const Meeting& meeting,
                   std::vector<CodeFinding>& findings) {
  const std::string line =
      place_words(input.project,
                  {meeting.launch.file, meeting.launch.line->words[meeting.launch.first_word].from,
                   meeting.launch.line->words[meeting.launch.first_word].to});
  const std::string& text = input.project.file(meeting.launch.file).text();
  if (meeting.launch.launcher == Launcher::torchrun) {
    const auto machines = option_among(meeting.launch.options, {"--nnodes"});
    if (!meeting.launch.processes || *meeting.launch.processes == meeting.devices ||
        (machines && *machines != "1"))
      return;
    const bool more = *meeting.launch.processes > meeting.devices;
    propose_devices(input, meeting,
                    more ? FindingCode::more_ranks_than_gpus : FindingCode::ranks_missing,
                    *meeting.launch.processes, FixSafety::unsafe,
                    fmt::format("{} starts {} processes, and the Trainer counts on {}: it ends "
                                "with a ValueError, or waits for ranks that never come",
                                line, *meeting.launch.processes, meeting.devices),
                    fmt::format("devices={}", *meeting.launch.processes), findings);
    return;
  }
  if (meeting.launch.launcher != Launcher::python) return;
  const auto tasks = sbatch_value(text, {"--ntasks-per-node"});
  const auto nodes = sbatch_value(text, {"--nodes", "-N"});
  const int started = tasks ? static_cast<int>(parse_integer(*tasks).value_or(0)) : 1;
  const VisibleGpus visible = visible_gpus(input.project, meeting.launch);
  if (meeting.launch.under_srun && started > 0 && started != meeting.devices) {
    const bool is_a_task_each = visible.count == started;
    propose_devices(
        input, meeting,
        started > meeting.devices ? FindingCode::more_ranks_than_gpus : FindingCode::ranks_missing,
        started, is_a_task_each ? FixSafety::unsafe : FixSafety::manual,
        fmt::format("srun at {} starts {} task{} a node, and the Trainer counts on {}: it waits "
                    "for ranks that never come, or ends with a ValueError",
                    line, started, started == 1 ? "" : "s", meeting.devices),
        is_a_task_each
            ? fmt::format("devices={}, a task for each GPU of {}", started, visible.from)
            : fmt::format("#SBATCH --ntasks-per-node={}, as many as devices", meeting.devices),
        findings);
    return;
  }
  if (!meeting.launch.under_srun && tasks && started > 1) {
    propose_devices(input, meeting, FindingCode::ranks_missing, started, FixSafety::manual,
                    fmt::format("the job has {} tasks a node and {} starts one without srun: "
                                "Lightning takes SLURM for its launcher and waits for ranks that "
                                "never come",
                                started, line),
                    "start it by srun: srun python ...", findings);
    return;
  }
  if (meeting.launch.under_srun || (nodes && *nodes != "1")) return;
  if (!visible.count || *visible.count < 1 || *visible.count == meeting.devices) return;
  const bool more = meeting.devices > *visible.count;
  if (!more && meeting.devices != 1) return;
  propose_devices(input, meeting, more ? FindingCode::more_ranks_than_gpus : FindingCode::idle_gpus,
                  *visible.count, more ? FixSafety::unsafe : FixSafety::manual,
                  fmt::format("devices={} for the {} GPU{} of {} ({})", meeting.devices,
                              *visible.count, *visible.count == 1 ? "" : "s", visible.from, line),
                  fmt::format("devices={}", *visible.count), findings);
}

}  // namespace

void lightning_trainer(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for (const PythonCall& call : module_of(input, file).calls()) {
    if (is_lightning_trainer(call)) {
      const ArgumentSet arguments = ArgumentSet::of_call(call);
      TrainerChecker(input, file, arguments, findings).run();
    }
    const PythonArgument* const searches = call.argument("find_unused_parameters");
    if ((call.last_name() == "DDPStrategy" || call.last_name() == "DDPPlugin") &&
        searches != nullptr && bool_value(searches->value) == true)
      propose({.code = FindingCode::find_unused_parameters,
               .severity = Severity::info,
               .safety = FixSafety::manual,
               .where = {place_of(file, searches->whole)},
               .reason = "find_unused_parameters=True walks the whole graph in every step",
               .description = "take it away where every parameter gets a gradient",
               .effect = "no search through the graph in each step",
               .changes = "DDP ends with an error where a parameter gets none"},
              findings);
  }
}

void lightning_trainer_of_hydra(const RuleInput& input, FileId file,
                                std::vector<CodeFinding>& findings) {
  const SourceFile& source = input.project.file(file);
  if (source.kind() != FileKind::yaml || source.text().find("_target_") == std::string::npos ||
      !speaks_of_lightning(source.text()) || source.tree() == nullptr)
    return;
  for (const Node& mapping : source.tree()->root().descendants("block_mapping")) {
    const ArgumentSet arguments = ArgumentSet::of_yaml(mapping);
    if (is_lightning_target(target_of(arguments)))
      TrainerChecker(input, file, arguments, findings).run();
  }
}

void lightning_devices(const RuleInput& input, const ScriptFacts& script,
                       std::vector<CodeFinding>& findings) {
  std::vector<CallAt> trainers;
  for (const CallAt& item : script.code.all)
    if (is_lightning_trainer(*item.call)) trainers.push_back(item);
  if (trainers.size() != 1) return;
  const ArgumentSet arguments = ArgumentSet::of_call(*trainers.front().call);
  const auto devices = devices_of(arguments);
  const auto accelerator = arguments.word("accelerator");
  if (!devices || arguments.is_open() || arguments.has("num_nodes") ||
      (accelerator && *accelerator != "gpu" && *accelerator != "cuda" && *accelerator != "auto"))
    return;
  for (const Launch& launch : script.launches)
    if (launch.line->style == WordStyle::shell)
      check_meeting(input, {launch, trainers.front(), *devices}, findings);
}

}  // namespace lockstep
