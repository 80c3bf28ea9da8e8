#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "model/known_models.hpp"
#include "plan/emit/emit.hpp"
#include "plan/machine_words.hpp"
#include "plan/make_plan.hpp"
#include "plan/read_model.hpp"
#include "plan/strategy_names.hpp"
#include "render/json/plan_json.hpp"
#include "render/text/plan_text.hpp"
#include "runs/calibrate.hpp"
#include "sources/open_input.hpp"

namespace lockstep {
namespace {

struct PlanFlags {
  MachineWish machine;
  std::string network;
  std::string host_memory;
  std::string model;
  std::string params;
  int pid = 0;
  std::string method = "full";
  std::int64_t lora_rank = 16;
  std::vector<std::string> frozen;
  std::string trainable;
  std::int64_t sequence_length = 0;
  std::string precision = "auto";
  std::string optimizer = "adamw";
  std::string program = "auto";
  std::string strategy;
  std::int64_t micro_batch = 0;
  std::int64_t target_batch = 0;
  std::string tokens_per_update;
  std::string tokens;
  std::string checkpointing;
  bool calibrate = false;
  bool compare = false;
  bool why = false;
  std::string emit;
  std::string launcher = "torchrun";
};

template <class T>
struct NamedChoice {
  std::string_view name;
  T value;
};

template <class T, std::size_t N>
Result<T> chosen(const char* flag, const std::string& typed, const NamedChoice<T> (&choices)[N]) {
  std::vector<std::string> names;
  for (const NamedChoice<T>& choice : choices) {
    if (typed == choice.name) return choice.value;
    names.emplace_back(choice.name);
  }
  const auto near = nearest(typed, names);
  return usage_error(
      fmt::format("{} {}", flag, printable(typed)),
      near ? fmt::format("did you mean {}?", *near) : fmt::format("one of {}", join(names, ", ")));
}

Result<std::optional<double>> count_flag(const char* flag, const std::string& typed) {
  if (typed.empty()) return std::optional<double>();
  const auto count = parse_count(typed);
  if (!count)
    return usage_error(fmt::format("{} {}: no count", flag, printable(typed)),
                       fmt::format("write it so: {} 13B, 350M, 1000000", flag));
  return std::optional(*count);
}

// GPUs of this machine; without any, a core stands for one.
std::vector<GpuInfo> gpus_here(std::vector<std::string>& notes) {
  auto source = open_source("", {});
  if (source && (*source)->kind() == SourceKind::nvml && !(*source)->machine().gpus.empty())
    return (*source)->machine().gpus;
  notes.emplace_back(
      "this machine has no GPU: a core stands for one (--gpus 8xH100-80GB plans for another "
      "machine)");
  std::vector<GpuInfo> cores;
  for (int core = 0; core < usable_cores(); ++core) {
    GpuInfo gpu;
    gpu.index = core;
    gpu.name = "lockstep virtual GPU";
    cores.push_back(std::move(gpu));
  }
  return cores;
}

double host_memory() {
  struct sysinfo facts{};
  return ::sysinfo(&facts) == 0 ? static_cast<double>(facts.totalram) * facts.mem_unit : 0;
}

// Bytes that a process holds on all GPUs of this machine.
Result<double> memory_of_process(int pid) {
  auto source = TRY(open_source("", {}));
  constexpr int kLooks = 30;
  for (int look = 0; look < kLooks; ++look) {
    auto record = TRY(source->next(std::chrono::milliseconds(100)));
    const auto* const read = std::get_if<Record>(&record);
    const auto* const processes =
        read == nullptr ? nullptr : std::get_if<ProcessTick>(&read->content);
    if (processes == nullptr) continue;
    double bytes = 0;
    for (const ProcessSample& process : *processes)
      if (process.pid == pid)
        for (const ProcessOnGpu& gpu : process.gpus)
          bytes += static_cast<double>(gpu.memory_bytes.value_or(0));
    if (bytes > 0) return bytes;
  }
  return Error{
      fmt::format("process {} holds no memory on a GPU of this machine", pid),
      "see `lockstep monitor --once` for those that do, or name the model: --model llama-8b"};
}

// A net of which only its process is known.
Result<Architecture> model_of_process(const PlanFlags& flags, std::vector<std::string>& notes) {
  // of what a training process holds, as a rule; the rest comes and goes with the batch
  constexpr double kStates = 0.7;
  auto bytes = TRY(memory_of_process(flags.pid));
  const double bytes_a_parameter = flags.method == "full" ? 16 : flags.method == "lora" ? 2 : 0.6;
  Architecture net = usual_architecture(kStates * bytes / bytes_a_parameter);
  net.name = fmt::format("process {}", flags.pid);
  notes.push_back(
      fmt::format("process {} holds {} on its GPUs: as a rule 0.7 of that are states, {} bytes a "
                  "parameter ({}); --model says it exactly",
                  flags.pid, format_bytes(bytes), bytes_a_parameter, flags.method));
  return net;
}

Result<Architecture> model_of(const PlanFlags& flags, std::vector<std::string>& notes) {
  if (flags.pid != 0 && (!flags.model.empty() || !flags.params.empty()))
    return usage_error("--pid and --model name two models", "give one of them");
  if (flags.pid != 0) return model_of_process(flags, notes);
  if (!flags.model.empty() && !flags.params.empty())
    return usage_error("--model and --params name two models", "give one of them");
  if (!flags.params.empty()) {
    auto count = TRY(count_flag("--params", flags.params));
    if (*count < 1000)
      return usage_error(fmt::format("--params {}: no net is that small", printable(flags.params)),
                         "write 13B or 350M");
    Architecture net = usual_architecture(*count);
    net.name = flags.params + " parameters";
    notes.push_back(
        fmt::format("a transformer of {} layers and {} channels, as nets of that size have",
                    net.layers, net.hidden));
    return net;
  }
  if (flags.model.empty()) {
    notes.emplace_back("no --model and no --params: gpt2");
    return *known_model("gpt2");
  }
  return read_model(flags.model);
}

Status fill_workload(const PlanFlags& flags, PlanRequest& request) {
  Workload& workload = request.workload;
  const PlannedMachine& machine = request.machine;
  const bool on_cores = is_virtual(machine.gpu);
  auto net = TRY(model_of(flags, request.notes));
  workload.net = std::move(net);
  constexpr NamedChoice<TrainingMethod> kMethods[] = {{"full", TrainingMethod::full},
                                                      {"lora", TrainingMethod::lora},
                                                      {"qlora", TrainingMethod::qlora}};
  auto method = TRY(chosen("--method", flags.method, kMethods));
  workload.method = method;
  if (flags.lora_rank < 1 || flags.lora_rank > 4096)
    return usage_error(fmt::format("--lora-rank {}", flags.lora_rank), "8 to 64 are usual");
  workload.lora_rank = flags.lora_rank;
  for (const std::string& name : flags.frozen) {
    auto frozen = TRY(read_model(name));
    workload.frozen.push_back(std::move(frozen));
  }
  auto trainable = TRY(count_flag("--trainable", flags.trainable));
  workload.extra_trained_parameters = trainable.value_or(0);
  if (flags.sequence_length < 0 || flags.sequence_length > 10'000'000)
    return usage_error(fmt::format("--sequence-length {}: a sample has 1 to 10,000,000 tokens",
                                   flags.sequence_length),
                       "give the tokens of a sample: --sequence-length 2048");
  constexpr std::int64_t kUsualLength = 2048;
  workload.sequence_length =
      flags.sequence_length > 0
          ? flags.sequence_length
          : std::min(kUsualLength, std::max<std::int64_t>(1, workload.net.longest));
  if (workload.net.positions > 0 && workload.sequence_length > workload.net.positions)
    request.notes.push_back(
        fmt::format("{} learnt {} positions: longer samples need a larger table", workload.net.name,
                    workload.net.positions));
  if (flags.sequence_length == 0)
    request.notes.push_back(fmt::format("{} tokens a sample", workload.sequence_length));
  constexpr NamedChoice<NumberFormat> kFormats[] = {{"fp32", NumberFormat::fp32},
                                                    {"tf32", NumberFormat::tf32},
                                                    {"bf16", NumberFormat::bf16},
                                                    {"fp16", NumberFormat::fp16},
                                                    {"auto", NumberFormat::bf16}};
  auto format = TRY(chosen("--precision", flags.precision, kFormats));
  workload.format = format;
  if (flags.precision == "auto")
    workload.format = on_cores               ? NumberFormat::fp32
                      : machine.gpu.has_bf16 ? NumberFormat::bf16
                                             : NumberFormat::fp16;
  if (workload.format == NumberFormat::bf16 && !machine.gpu.has_bf16 && !on_cores)
    return usage_error(
        fmt::format("--precision bf16: a {} has no matrix units for it", machine.gpu.name),
        "use --precision fp16");
  constexpr NamedChoice<OptimizerKind> kOptimizers[] = {{"adamw", OptimizerKind::adamw},
                                                        {"adamw-8bit", OptimizerKind::adamw_8bit},
                                                        {"sgd", OptimizerKind::sgd}};
  auto optimizer = TRY(chosen("--optimizer", flags.optimizer, kOptimizers));
  workload.optimizer = optimizer;
  constexpr NamedChoice<TrainingProgram> kPrograms[] = {
      {"auto", TrainingProgram::pytorch},
      {"pytorch", TrainingProgram::pytorch},
      {"compile", TrainingProgram::pytorch_compiled},
      {"lockstep", TrainingProgram::lockstep_fused}};
  auto program = TRY(chosen("--program", flags.program, kPrograms));
  workload.program = program;
  if (on_cores)
    workload.program = TrainingProgram::lockstep_cpu;
  else if (workload.program == TrainingProgram::lockstep_fused &&
           workload.format != NumberFormat::bf16)
    workload.program = TrainingProgram::lockstep_plain;
  return Done{};
}

Status fill_wishes(const PlanFlags& flags, PlanRequest& request) {
  const auto at_least_one = [](const char* flag, std::int64_t value) {
    return usage_error(fmt::format("{} {}", flag, value), "give a number of 1 or more");
  };
  if (flags.micro_batch < 0) return at_least_one("--micro-batch", flags.micro_batch);
  if (flags.target_batch < 0) return at_least_one("--target-batch", flags.target_batch);
  if (flags.micro_batch > 0) request.micro_batch = flags.micro_batch;
  if (flags.target_batch > 0) request.target_batch = flags.target_batch;
  auto per_update = TRY(count_flag("--tokens-per-update", flags.tokens_per_update));
  if (per_update) {
    // 0.5M is no exact number: what the GPUs can share out in whole samples is meant.
    const double share =
        static_cast<double>(request.workload.sequence_length) * request.machine.gpus();
    const bool is_rounded = !parse_integer(flags.tokens_per_update);
    request.tokens_per_update =
        is_rounded ? std::llround(std::max(1.0, std::round(*per_update / share)) * share)
                   : std::llround(*per_update);
    if (is_rounded)
      request.notes.push_back(
          fmt::format("{} tokens an update, which the GPUs can share out in whole samples",
                      *request.tokens_per_update));
  }
  auto tokens = TRY(count_flag("--tokens", flags.tokens));
  request.tokens = tokens;
  if (!flags.strategy.empty()) {
    request.strategy = strategy_named(flags.strategy);
    if (!request.strategy) {
      std::vector<std::string> names;
      for (const StrategyName& row : strategy_names()) names.emplace_back(row.name);
      const auto near = nearest(flags.strategy, names);
      return usage_error(fmt::format("--strategy {}", printable(flags.strategy)),
                         near ? fmt::format("did you mean {}?", *near)
                              : fmt::format("one of {}", join(names, ", ")));
    }
  }
  if (!flags.checkpointing.empty()) {
    constexpr NamedChoice<bool> kAnswers[] = {{"on", true}, {"off", false}};
    auto answer = TRY(chosen("--activation-checkpointing", flags.checkpointing, kAnswers));
    request.checkpointing = answer;
  }
  return Done{};
}

Result<PlanRequest> request_of(PlanFlags flags) {
  PlanRequest request;
  std::vector<std::string> notes;
  if (!flags.network.empty()) {
    flags.machine.network_gbit_s = parse_count(flags.network);
    if (!flags.machine.network_gbit_s || *flags.machine.network_gbit_s < 0.01 ||
        *flags.machine.network_gbit_s > 1e6)
      return usage_error(fmt::format("--network {}", printable(flags.network)),
                         "give the Gbit/s of a node: --network 100");
  }
  auto memory = TRY(count_flag("--host-memory", flags.host_memory));
  flags.machine.host_memory_bytes = memory;
  const auto here = flags.machine.gpus.empty() ? gpus_here(notes) : std::vector<GpuInfo>{};
  auto machine = TRY(machine_from(flags.machine, here, usable_cores(), host_memory()));
  request.machine = machine.machine;
  request.notes = std::move(notes);
  request.notes.insert(request.notes.end(), machine.notes.begin(), machine.notes.end());
  TRY(fill_workload(flags, request));
  TRY(fill_wishes(flags, request));
  const bool by_lockstep = request.workload.program != TrainingProgram::pytorch &&
                           request.workload.program != TrainingProgram::pytorch_compiled;
  if (by_lockstep) request.allowed = strategies_of_the_trainer();
  return request;
}

EmitInput emit_input(const Plan& plan, const std::vector<std::string>& command,
                     const PlanFlags& flags) {
  EmitInput input{plan};
  input.by_lockstep = flags.launcher == "lockstep";
  if (!command.empty()) {
    input.script = command.front();
    input.arguments.assign(command.begin() + 1, command.end());
  }
  return input;
}

Result<int> run_plan(const RawOptions& raw, const PlanFlags& flags) {
  auto options = TRY(check(raw));
  const Emitter* emitter = nullptr;
  if (!flags.emit.empty()) {
    emitter = emitter_named(flags.emit);
    std::vector<std::string> names;
    for (const Emitter& known : emitters()) names.emplace_back(known.name);
    if (emitter == nullptr) {
      const auto near = nearest(flags.emit, names);
      return usage_error(fmt::format("--emit {}", printable(flags.emit)),
                         near ? fmt::format("did you mean {}?", *near)
                              : fmt::format("one of {}", join(names, ", ")));
    }
    if (options.format == Format::json)
      return usage_error("--emit and --json ask for two different outputs",
                         "leave one of them out");
  }
  if (flags.launcher != "torchrun" && flags.emit != "sbatch")
    return usage_error("--launcher is of --emit sbatch alone",
                       "--emit launch prints the line of lockstep launch");
  auto request = TRY(request_of(flags));
  if (flags.calibrate) {
    auto calibrated = TRY(calibrate(request, options.quiet));
    request.calibration = calibrated;
    request.calibrated = true;
  }
  auto plan = TRY(make_plan(request));
  const int code = plan.choice.fits ? exit_code::kDone : exit_code::kFindings;
  std::string text;
  if (emitter != nullptr) {
    auto emitted = TRY(emitter->emit(emit_input(plan, options.command, flags)));
    text = emitted.text;
    if (!options.quiet)
      for (const std::string& note : emitted.notes) say(fmt::format("lockstep: {}\n", note));
  } else if (options.format == Format::json) {
    text = plan_json(plan);
  } else {
    auto start = emit_torchrun(emit_input(plan, options.command, flags));
    text = plan_text(plan, {options.colors, flags.compare, flags.why,
                            plan.choice.fits && start ? std::string(trim(start->text)) : ""});
  }
  TRY(put_result(options, text));
  return code;
}

}  // namespace

Run configure_plan(CLI::App& app, RawOptions& raw) {
  auto flags = std::make_shared<PlanFlags>();
  app.add_option("--gpus", flags->machine.gpus,
                 "the GPUs of one node: 8xH100-80GB, 2x24GB (default: this machine's)")
      ->type_name("NxKIND");
  app.add_option("--nodes", flags->machine.nodes, "how many such nodes (1)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--links", flags->machine.links,
                 "between the GPUs of a node: nvlink or pcie (by the kind)")
      ->type_name("KIND");
  app.add_option("--network", flags->network, "between nodes, Gbit/s of a node")->type_name("GBIT");
  app.add_option("--cores", flags->machine.cores, "of a node")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--host-memory", flags->host_memory, "of a node, bytes: 512G")->type_name("BYTES");
  app.add_option(
         "--model", flags->model,
         "a known name (gpt2, llama-8b), a config.json, a .safetensors file, or a folder with one")
      ->type_name("MODEL");
  app.add_option("--params", flags->params, "parameters, where no more is known: 13B, 350M")
      ->type_name("N");
  app.add_option("--pid", flags->pid, "a running process: its measured memory stands for the model")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  app.add_option("--method", flags->method, "full, lora or qlora (full)")->type_name("METHOD");
  app.add_option("--lora-rank", flags->lora_rank, "of LoRA's matrices (16)")->type_name("N");
  app.add_option(
         "--frozen", flags->frozen,
         "another model beside it that only runs forward, in half precision; may be given again")
      ->type_name("MODEL")
      ->allow_extra_args(false);
  app.add_option("--trainable", flags->trainable,
                 "parameters of small trained parts beside the models")
      ->type_name("N");
  app.add_option("--sequence-length", flags->sequence_length,
                 "tokens of a sample (the model's, at most 2048)")
      ->type_name("N");
  app.add_option("--precision", flags->precision, "auto, bf16, fp16, tf32 or fp32 (auto)")
      ->type_name("FORMAT");
  app.add_option("--optimizer", flags->optimizer, "adamw, adamw-8bit or sgd (adamw)")
      ->type_name("NAME");
  app.add_option("--program", flags->program,
                 "what trains: pytorch, compile (torch.compile) or lockstep (lockstep train)")
      ->type_name("NAME");
  app.add_option("--strategy", flags->strategy,
                 "take this one: single, ddp, zero1, zero2, fsdp, hybrid-fsdp, hybrid-split, "
                 "offload, model-split")
      ->type_name("NAME");
  app.add_option("--micro-batch", flags->micro_batch, "take this many samples a GPU and pass")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--target-batch", flags->target_batch,
                 "samples an update over all GPUs, to be kept")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--tokens-per-update", flags->tokens_per_update, "the same in tokens: 0.5M")
      ->type_name("N");
  app.add_option("--tokens", flags->tokens, "to train on: 50B; adds days and GPU-hours")
      ->type_name("N");
  app.add_option("--activation-checkpointing", flags->checkpointing, "on or off (as needed)")
      ->type_name("WHEN");
  app.add_flag("--calibrate", flags->calibrate,
               "measure a step of lockstep-train here, and correct the model by it");
  app.add_flag("--compare", flags->compare, "show the best of every other strategy");
  app.add_flag("--why", flags->why, "show how each number comes about");
  app.add_option("--emit", flags->emit,
                 "print this file alone: torchrun, launch, sbatch, accelerate, training-arguments, "
                 "deepspeed, fsdp, pytorchjob, trainjob, azureml")
      ->type_name("NAME");
  app.add_option("--launcher", flags->launcher,
                 "of an sbatch job's ranks: torchrun or lockstep (torchrun)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"torchrun", "lockstep"}));
  add_output_options(app, raw);
  add_common_options(app, raw);
  return [flags, &raw] { return run_plan(raw, *flags); };
}

}  // namespace lockstep
