#include "advice/advice_table.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace lockstep {
namespace {

struct Remedy {
  FixKind kind;
  FixSafety safety;
  std::string_view description;
  std::string_view command = "";  // words parted by spaces
};

// What does not depend on the job, from the catalogue. Codes whose remedy is a launch line are in
// add_job_fixes().
constexpr std::array kRemedies = {
#define ADVICE(kind, safety, ...) \
  std::optional<Remedy>(Remedy{FixKind::kind, FixSafety::safety, __VA_ARGS__})
#define NO_ADVICE std::optional<Remedy>()
#define FINDING(code, id, name, summary, known_by, kind, part, detector, rules, advice) advice,
#include "lockstep/finding_catalogue.def"
#undef FINDING
#undef NO_ADVICE
#undef ADVICE
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto end = text.find(' ');
    words.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return words;
}

const JobSignals* job_with(const Finding& finding, const Signals& signals) {
  for (const JobSignals& job : signals.jobs)
    if (job.origin == JobOrigin::cluster && !finding.gpus.empty() &&
        std::ranges::find(job.gpus, finding.gpus.front()) != job.gpus.end())
      return &job;
  for (const JobSignals& job : signals.jobs)
    for (const int pid : finding.pids)
      if (std::ranges::find(job.pids, pid) != job.pids.end()) return &job;
  for (const JobSignals& job : signals.jobs)
    if (job.gpus == finding.gpus) return &job;
  return nullptr;
}

// The parts of a split model together: more than one GPU holds?
bool fits_one_gpu(const JobSignals& job, const Signals& signals) {
  constexpr double kHeadroom = 0.9;
  double held = 0;
  double smallest = 1e18;
  for (const GpuInJob& member : job.members) {
    held += member.memory_bytes.value_or(0);
    for (const GpuSignals& gpu : signals.gpus)
      if (gpu.index == member.index && gpu.info.memory_total_bytes)
        smallest = std::min(smallest, static_cast<double>(*gpu.info.memory_total_bytes));
  }
  return held <= kHeadroom * smallest;
}

// A job over several machines: the same line on each of them, with its share of the processes.
std::vector<std::string> over_machines(std::vector<std::string> line, const JobSignals* job,
                                       std::size_t gpus) {
  if (job == nullptr || !job->spread) return line;
  const std::size_t hosts = job->spread->hosts.size();
  std::vector<std::string> whole = {
      line.front(), "--nnodes=" + std::to_string(hosts),
      "--nproc_per_node=" + std::to_string(std::max<std::size_t>(1, gpus / hosts)),
      "--rdzv-backend=c10d", "--rdzv-endpoint=" + job->spread->hosts.front().name + ":29500"};
  // after torchrun --standalone --nproc_per_node
  whole.insert(whole.end(), line.begin() + 3, line.end());
  return whole;
}

void add_launch(Finding& finding, const JobSignals* job, std::size_t gpus,
                std::string description) {
  const ProcessSample* const process =
      job != nullptr && !job->processes.empty() ? &job->processes.front() : nullptr;
  finding.fixes.push_back({FixKind::command, FixSafety::unsafe, std::move(description),
                           over_machines(launch_line(process, gpus), job, gpus), std::nullopt});
}

// One process on each GPU that the finding speaks of, the empty ones among them.
std::size_t processes_meant(const Finding& finding, std::size_t own) {
  double gpus = 0;
  for (const Evidence& item : finding.evidence) {
    if (item.signal == "processes") gpus = item.threshold.value_or(gpus);
    if (item.signal == "idle_gpus" || item.signal == "job_gpus") gpus += item.value;
  }
  // what a machine found itself comes without
  return gpus > 0 ? static_cast<std::size_t>(gpus) : own;
}

// A job that a cluster placed is started by its job file, and over machines.
void add_cluster_fixes(Finding& finding, const JobSignals& job) {
  switch (finding.code) {
    case FindingCode::taking_turns:
    case FindingCode::one_gpu_leads:
      add_launch(finding, &job, job.gpus.size(),
                 "start one process per GPU on every machine, all ranks of one job");
      break;
    case FindingCode::idle_gpus:
      finding.fixes.push_back(
          {FixKind::advice,
           FixSafety::manual,
           "the cluster gave these GPUs to the job, and it never used them: give them back, or "
           "start ranks on them (WORLD_SIZE must count them)",
           {},
           std::nullopt});
      break;
    default: break;
  }
}

// Remedies that start the job differently.
void add_job_fixes(Finding& finding, const Signals& signals) {
  const JobSignals* const job = job_with(finding, signals);
  const std::size_t own =
      job != nullptr ? job->gpus.size() : std::max<std::size_t>(2, finding.gpus.size());
  if (job != nullptr && job->origin == JobOrigin::cluster) return add_cluster_fixes(finding, *job);
  switch (finding.code) {
    case FindingCode::taking_turns:
      add_launch(
          finding, job, own,
          "start one process per GPU: each trains its share of every batch on its own copy of "
          "the model");
      if (job != nullptr && !fits_one_gpu(*job, signals))
        finding.fixes.push_back({FixKind::advice,
                                 FixSafety::manual,
                                 "the parts together hold more than one GPU has: if the model does "
                                 "not fit on one with a smaller batch, use FSDP "
                                 "(accelerate launch --use_fsdp) instead of DDP",
                                 {},
                                 std::nullopt});
      break;
    case FindingCode::one_gpu_leads:
      add_launch(finding, job, own, "start one process per GPU instead of one for all");
      break;
    case FindingCode::idle_gpus:
      add_launch(finding, job, processes_meant(finding, own), "use the empty GPUs too");
      break;
    case FindingCode::world_size_not_set:
      add_launch(finding, job, processes_meant(finding, own),
                 "start the script with a launcher, which sets RANK, LOCAL_RANK and WORLD_SIZE");
      break;
    case FindingCode::unsynchronised_copies:
      add_launch(finding, job, finding.gpus.size(),
                 "start all of them as ranks of one job, so that they train one model");
      break;
    case FindingCode::harmful_environment:
      for (const Evidence& item : finding.evidence) {
        const std::string name = item.signal.substr(0, item.signal.find('='));
        finding.fixes.push_back({FixKind::environment,
                                 FixSafety::safe,
                                 "take " + item.signal + " out of the environment",
                                 {"unset", name},
                                 std::nullopt});
      }
      break;
    default: break;
  }
}

// Workers take cores: no more are recommended than a rank has beside its own. Where there are as
// many already, fewer would make it worse: those that wait for a disk or a server need no core.
std::string workers_for(double cores, int now, const std::string& framework, bool on_gpu) {
  constexpr int kUsual = 4;
  const int workers = std::min(kUsual, static_cast<int>(cores) - 1);
  if (now > 0 && now >= workers)
    return "it has " + std::to_string(now) + (now == 1 ? " worker" : " workers") +
           " and this machine few cores: more of them help where they wait for a disk or a server "
           "(try twice as many: lockstep profile --dataloader --tune), else the batches are to be "
           "made beforehand (tokenized or decoded, on disk)";
  if (workers < 1)
    return "a rank has one core here, and workers would take it from the training: make the "
           "batches beforehand (tokenized or decoded, on disk), or train where there are more";
  const std::string number = std::to_string(workers);
  const std::string setting =
      framework == "transformers"
          ? "TrainingArguments(dataloader_num_workers=" + number +
                ", dataloader_persistent_workers=True, dataloader_prefetch_factor=4)"
          : "DataLoader(..., num_workers=" + number + (workers == kUsual ? " or more" : "") +
                (on_gpu ? ", pin_memory=True" : "") +
                ", persistent_workers=True, prefetch_factor=4)";
  return workers == kUsual ? setting + "; read from local disk"
                           : setting +
                                 ": as many as there are cores for; what they cannot keep up "
                                 "with is to be made beforehand (tokenized or decoded, on disk)";
}

int workers_now(const Finding& finding) {
  for (const Evidence& item : finding.evidence)
    if (item.signal == "loader_workers") return static_cast<int>(item.value);
  return 0;
}

constexpr const char* kForShardedModels =
    "a larger batch per GPU; with fully_shard, reshard_after_forward=False where memory allows, "
    "prefetching of the next layers, or shards within a node and copies between nodes (HSDP)";

// What costs most of a part, as it was called.
std::string_view costliest_call(const JobSignals& job, StepPart part) {
  if (!job.steps) return "";
  for (const PlaceSignals& place : job.steps->places)  // costliest first
    if (place.part == part) return place.place.what;
  return "";
}
bool prints(const JobSignals& job) { return costliest_call(job, StepPart::logging) == "print"; }
bool collects_itself(const JobSignals& job) {
  return costliest_call(job, StepPart::gc) == "gc.collect";
}

std::string on_rank_0(const JobSignals& job) {
  return job.steps && job.steps->ranks.size() > 1 ? ", and on rank 0 only" : "";
}

// The remedy in the words of the program that was seen. Nothing: the usual ones.
std::optional<std::string> suited_words(const Finding& finding, const JobSignals& job) {
  const ProbeSettings& settings = *job.settings;
  const FindingCode code = finding.code;
  const bool loads =
      code == FindingCode::input_starved || code == FindingCode::loader_without_workers;
  if (loads && settings.cores_a_rank)
    return workers_for(*settings.cores_a_rank, workers_now(finding), settings.framework,
                       settings.on_gpu);
  if (code == FindingCode::uneven_work && settings.framework == "transformers")
    return "give all ranks as much work in a step: "
           "TrainingArguments(train_sampling_strategy=\"group_by_length\"), or sequences packed to "
           "one length";
  if (code == FindingCode::straggler_rank && !settings.on_gpu)
    return "look at that rank: other processes on its cores, and the length of its batches";
  if (code == FindingCode::logging_too_often && prints(job))
    return "print every 50 steps" + on_rank_0(job);
  if (code == FindingCode::evaluation_stall && job.steps && job.steps->ranks.size() < 2)
    return "evaluate less often, on fewer batches, or in a job of its own that reads checkpoints";
  if (code == FindingCode::stopped_by_collector && collects_itself(job))
    return "the program calls gc.collect() itself: once an epoch is enough, at the same step on "
           "all ranks";
  if (code == FindingCode::logging_too_often) {
    if (settings.framework == "transformers")
      return "log every 50 steps: TrainingArguments(logging_steps=50)";
    if (settings.framework == "lightning")
      return "log every 50 steps: Trainer(log_every_n_steps=50), and self.log on steps that are "
             "logged";
    if (settings.framework == "none") return "log every 50 steps" + on_rank_0(job);
  }
  return std::nullopt;
}

// Told by an error message that has a remedy of its own, which is nearer to the case.
bool has_its_own_remedy(const Finding& finding) {
  return finding.severity == Severity::critical && !finding.fixes.empty() &&
         std::ranges::any_of(finding.evidence,
                             [](const Evidence& item) { return item.unit == "message"; });
}

bool has_evidence(const Finding& finding, std::string_view signal) {
  return std::ranges::any_of(finding.evidence,
                             [&](const Evidence& item) { return item.signal == signal; });
}

bool one_thread_is_asked_for(const Finding& finding, const Signals& signals) {
  const JobSignals* const job = job_with(finding, signals);
  for (const JobSignals& each : signals.jobs)
    if (each.settings && each.settings->threads_a_rank == 1) return true;
  return job != nullptr && !job->processes.empty() &&
         std::ranges::all_of(job->processes, [](const ProcessSample& process) {
           if (!process.environment) return false;
           const auto threads = process.environment->find("OMP_NUM_THREADS");
           return threads != process.environment->end() && threads->second == "1";
         });
}

void add_fixes(Finding& finding, const Signals& signals) {
  if (has_its_own_remedy(finding)) return;
  add_job_fixes(finding, signals);
  const auto& remedy = kRemedies[static_cast<std::size_t>(finding.code)];
  if (!remedy) return;
  std::optional<std::string> suited;
  for (const JobSignals& job : signals.jobs) {
    if (finding.code == FindingCode::exposed_collectives && job.steps && job.steps->is_sharded())
      suited = kForShardedModels;
    if (job.settings && !suited) suited = suited_words(finding, job);
  }
  std::string words = suited.value_or(std::string(remedy->description));
  if (finding.code == FindingCode::slow_host_code && finding.where.empty())
    words += "; a profile of some steps names the line (lockstep profile -- CMD)";
  if (finding.code == FindingCode::cpu_oversubscribed && one_thread_is_asked_for(finding, signals))
    words = "its processes have one thread each already: others take the cores (top shows who)";
  if (has_evidence(finding, "made_in_a_thread_of_its_own"))
    words =
        "the program's own thread makes the batches too slowly: move that into a Dataset, and " +
        words;
  if (finding.code == FindingCode::input_starved &&
      has_evidence(finding, "made_in_the_training_thread"))
    words = "the training thread makes the batches itself: move that into a Dataset, and " + words;
  finding.fixes.push_back(
      {remedy->kind, remedy->safety, std::move(words), words_of(remedy->command), std::nullopt});
}

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::string> launch_line(const ProcessSample* process, std::size_t gpus) {
  std::vector<std::string> line = {"torchrun", "--standalone",
                                   "--nproc_per_node=" + std::to_string(gpus)};
  // Our own trainer is no script; as a rank of several it takes DDP by itself.
  if (process != nullptr && process->command && !process->command->empty() &&
      file_name_of(process->command->front()) == "lockstep-train") {
    line.emplace_back("--no-python");
    line.emplace_back("lockstep-train");
    for (std::size_t i = 1; i < process->command->size(); ++i) {
      const std::string& word = (*process->command)[i];
      if (word == "--parallel" || word == "--devices")
        ++i;
      else
        line.push_back(word);
    }
    return line;
  }
  const bool is_known = process != nullptr && process->command && process->command->size() > 1 &&
                        file_name_of(process->command->front()).starts_with("python");
  if (!is_known) {
    line.emplace_back("train.py");
    return line;
  }
  const std::vector<std::string>& command = *process->command;
  std::size_t at = 1;
  while (at < command.size() && command[at].starts_with("-") && command[at] != "-m" &&
         command[at] != "-c") {
    if (command[at] == "-X" || command[at] == "-W") ++at;  // have a value
    ++at;
  }
  if (at >= command.size() || command[at] == "-c") {
    line.emplace_back("train.py");
    return line;
  }
  line.insert(line.end(), command.begin() + static_cast<std::ptrdiff_t>(at), command.end());
  return line;
}

void add_advice(Diagnosis& diagnosis, const Signals& signals) {
  for (Finding& finding : diagnosis.findings) add_fixes(finding, signals);
  for (Finding& finding : diagnosis.suspicions) add_fixes(finding, signals);
  // A late rank whose own delay has a name needs no search.
  for (Finding& late : diagnosis.findings)
    if (late.code == FindingCode::straggler_rank && !late.fixes.empty())
      for (const Finding& cause : diagnosis.findings)
        if (cause.cause_of == late.code)
          late.fixes.front().description =
              "mend its cause, " + std::string(name_of(cause.code).id) + " on the same rank";
}

}  // namespace lockstep
