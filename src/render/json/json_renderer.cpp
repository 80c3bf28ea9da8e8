#include "render/json/json_renderer.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/probe_names.hpp"
#include "render/json/device_json.hpp"
#include "render/json/trace_json.hpp"
#include "render/words/stack_lines.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReportVersion = 1;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Four digits: more are noise, and 0.30000000000000004 helps nobody.
Json number(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return std::round(*value * 1e4) / 1e4;
}

// Bytes and milliwatts are whole.
Json whole(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value) || *value < 0 || *value >= 1.8e19) return nullptr;
  return static_cast<std::uint64_t>(std::llround(*value));
}

const char* name_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::nvml: return "nvml";
    case SourceKind::virtual_gpus: return "virtual";
    case SourceKind::recording: return "recording";
    case SourceKind::trace: return "trace";
    case SourceKind::nvidia_smi: return "nvidia-smi";
    case SourceKind::csv: return "csv";
    case SourceKind::gpustat: return "gpustat";
    case SourceKind::wandb: return "wandb";
    case SourceKind::prometheus: return "prometheus";
    case SourceKind::log: return "log";
    case SourceKind::code: return "code";
    case SourceKind::probe: return "probe";
  }
  return "unknown";
}

const char* name_of(Severity severity) {
  return severity == Severity::info      ? "info"
         : severity == Severity::warning ? "warning"
                                         : "critical";
}

const char* name_of(FixKind kind) {
  switch (kind) {
    case FixKind::command: return "command";
    case FixKind::edit: return "edit";
    case FixKind::environment: return "environment";
    case FixKind::advice: return "advice";
  }
  return "advice";
}

const char* name_of(FixSafety safety) {
  return safety == FixSafety::safe ? "safe" : safety == FixSafety::unsafe ? "unsafe" : "manual";
}

Json verdict_json(const std::optional<Verdict>& verdict) {
  if (!verdict) return nullptr;
  return {{"pattern", kPatternNames[static_cast<std::size_t>(verdict->pattern)]},
          {"confidence", number(verdict->confidence)},
          {"sentence", verdict->sentence}};
}

Json hosts_json(const std::vector<HostGpus>& hosts) {
  Json list = Json::array();
  for (const HostGpus& entry : hosts) list.push_back({{"host", entry.host}, {"gpus", entry.gpus}});
  return list;
}

Json ledger_json(const Ledger& ledger) {
  Json parts = Json::array();
  for (std::size_t i = 0; i < kLedgerPartNames.size(); ++i)
    parts.push_back({{"name", kLedgerPartNames[i]}, {"share", number(ledger.share[i])}});
  return {{"gpu_seconds", number(ledger.gpu_seconds)},
          {"parts", parts},
          {"waiting_is_known", ledger.waiting_is_known},
          {"unread", number(ledger.unread)}};
}

Json job_json(const Job& job) {
  Json json = {{"gpus", job.gpus},
               {"pids", job.pids},
               {"ranks", job.ranks},
               {"verdict", verdict_json(job.verdict)},
               {"ledger", ledger_json(job.ledger)}};
  if (job.held_after_s) json["held_after_s"] = number(*job.held_after_s);
  if (!job.name.empty()) json["name"] = job.name;
  if (!job.hosts.empty()) {
    json["hosts"] = hosts_json(job.hosts);
    json["busy"] = number(job.busy);
  }
  return json;
}

Json fix_json(const Fix& fix) {
  Json json = {{"kind", name_of(fix.kind)},
               {"safety", name_of(fix.safety)},
               {"description", fix.description},
               {"command", fix.command},
               {"diff", or_null(fix.diff)}};
  if (!fix.root.empty()) json["root"] = fix.root;
  if (!fix.effect.empty()) json["effect"] = fix.effect;
  if (!fix.changes.empty()) json["changes"] = fix.changes;
  if (fix.group) json["group"] = *fix.group;
  return json;
}

Json finding_json(const Finding& finding) {
  Json where = Json::array();
  for (const SourceLine& line : finding.where)
    where.push_back({{"file", line.file}, {"line", line.line}});
  Json evidence = Json::array();
  for (const Evidence& item : finding.evidence)
    evidence.push_back({{"signal", item.signal},
                        {"value", number(item.value)},
                        {"threshold", number(item.threshold)},
                        {"unit", item.unit.text()}});
  Json fixes = Json::array();
  for (const Fix& fix : finding.fixes) fixes.push_back(fix_json(fix));
  const FindingName& name = name_of(finding.code);
  Json json = {{"code", name.id},
               {"name", name.name},
               {"severity", name_of(finding.severity)},
               {"confidence", number(finding.confidence)},
               {"lost_throughput", number(finding.lost_throughput)},
               {"lost_hours_a_day", number(24 * finding.lost_throughput)},
               {"lost_gpu_hours_a_day", number(finding.lost_gpu_hours_a_day)},
               {"cause_of", finding.cause_of ? Json(name_of(*finding.cause_of).id) : Json(nullptr)},
               {"gpus", finding.gpus},
               {"pids", finding.pids},
               {"ranks", finding.ranks},
               {"where", where},
               {"evidence", evidence},
               {"fixes", fixes}};
  if (!finding.hosts.empty()) json["hosts"] = hosts_json(finding.hosts);
  if (!finding.reason.empty()) json["reason"] = finding.reason;
  json["rung"] = finding.rung;
  return json;
}

Json gpu_json(const GpuReport& gpu) {
  Json limits = nullptr;
  if (const auto set = gpu.latest.limits.value()) {
    limits = Json::array();
    for (std::size_t i = 0; i < kClockLimitNames.size(); ++i)
      if (set->has(static_cast<ClockLimit>(i))) limits.push_back(kClockLimitNames[i]);
  }
  Json json = {{"index", gpu.info.index},
               {"name", or_null(gpu.info.name)},
               {"uuid", or_null(gpu.info.uuid)},
               {"busy", number(gpu.busy)},
               {"memory_used_bytes", whole(gpu.memory_used_bytes)},
               {"memory_total_bytes", or_null(gpu.info.memory_total_bytes)},
               {"power_mw", whole(gpu.power_mw)},
               {"power_limit_mw", whole(gpu.info.power_limit_mw)},
               {"sm", number(gpu.latest.sm.value())},
               {"tensor", number(gpu.latest.tensor.value())},
               {"dram", number(gpu.latest.dram.value())},
               {"sm_clock_mhz", number(gpu.latest.sm_clock_mhz.value())},
               {"temperature_c", number(gpu.latest.temperature_c.value())},
               {"limits", limits},
               {"lost", gpu.lost}};
  if (gpu.info.mig)
    json["mig"] = {{"parent", gpu.info.mig->parent}, {"instance", gpu.info.mig->instance}};
  if (gpu.info.host) json["host"] = *gpu.info.host;
  if (gpu.info.host_index) json["host_index"] = *gpu.info.host_index;
  if (gpu.info.job) json["job"] = *gpu.info.job;
  return json;
}

Json process_json(const ProcessSample& process) {
  Json gpus = Json::array();
  for (const ProcessOnGpu& gpu : process.gpus)
    gpus.push_back({{"index", gpu.index}, {"memory_bytes", or_null(gpu.memory_bytes)}});
  return {{"pid", process.pid},
          {"gpus", gpus},
          {"command", or_null(process.command)},
          {"rank", or_null(process.rank)},
          {"local_rank", or_null(process.local_rank)},
          {"world_size", or_null(process.world_size)},
          {"launcher", or_null(process.launcher)},
          {"cpu", number(process.cpu)},
          {"state", process.state ? Json(std::string(1, *process.state)) : Json(nullptr)},
          {"user", or_null(process.user)},
          {"parent_pid", or_null(process.parent_pid)},
          {"loader_workers", or_null(process.loader_workers)},
          {"read_bytes", or_null(process.read_bytes)},
          {"write_bytes", or_null(process.write_bytes)},
          {"environment", or_null(process.environment)},
          {"libraries", or_null(process.libraries)}};
}

template <class List, class Convert>
Json list_json(const List& list, Convert convert) {
  Json json = Json::array();
  for (const auto& entry : list) json.push_back(convert(entry));
  return json;
}

// Shares of the looks at a main thread.
Json main_thread_json(const std::optional<MainThreadDoing>& doing) {
  if (!doing) return nullptr;
  Json blocked = Json::object();
  for (std::size_t i = 0; i < doing->blocked.size(); ++i)
    if (doing->blocked[i] > 0) blocked[std::string(kDoingNames[i])] = number(doing->blocked[i]);
  return {{"looks", doing->looks},
          {"running", number(doing->running)},
          {"waiting_for_a_core", number(doing->waiting_for_a_core)},
          {"blocked", blocked}};
}

// The lines that a part's time goes to.
Json where_json(const StepSignals& steps, StepPart part) {
  constexpr double kWorthALine = 0.001;
  Json list = Json::array();
  for (const PlaceSignals& place : steps.places)
    if (place.part == part && !place.place.file.empty() &&
        (place.share >= kWorthALine || place.present > 0.9))
      list.push_back({{"file", place.place.file},
                      {"line", place.place.line},
                      {"what", place.place.what},
                      {"share", number(place.share)},
                      {"hidden_share", number(place.hidden_share)},
                      {"step_p50_ms", number(place.step_p50_ms)},
                      {"step_max_ms", number(place.step_max_ms)},
                      {"present", number(place.present)},
                      {"calls_a_step", number(place.calls_a_step)},
                      {"bytes_a_step", number(place.bytes_a_step)},
                      {"main_thread", main_thread_json(place.main_thread)},
                      {"ranks", place.ranks}});
  return list;
}

Json steps_json(const StepSignals& steps, SourceKind source) {
  Json parts = Json::array();
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
    // A training log tells of few parts, and of the others it does not say that they took no time.
    if (source == SourceKind::log && steps.share[i] == 0) continue;
    parts.push_back({{"name", kStepSpanNames[i]},
                     {"p50_ms", number(steps.p50_ms[i])},
                     {"p95_ms", number(steps.p95_ms[i])},
                     {"max_ms", number(steps.max_ms[i])},
                     {"share", number(steps.share[i])},
                     {"main_thread", main_thread_json(steps.main_thread[i])},
                     {"where", where_json(steps, static_cast<StepPart>(i))}});
  }
  const auto rank_json = [source](const RankSteps& rank) {
    Json shares = Json::object();
    for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
      if (source != SourceKind::log || rank.share[i] != 0)
        shares[std::string(kStepSpanNames[i])] = number(rank.share[i]);
    return Json{{"rank", rank.rank},
                {"count", rank.count},
                {"duration_p50_ms", number(rank.duration_ms)},
                {"shares", shares}};
  };
  Json json = {{"count", steps.count},
               {"duration_p50_ms", number(steps.duration_p50_ms)},
               {"parts", parts},
               {"ranks", list_json(steps.ranks, rank_json)}};
  if (steps.places.empty()) return json;
  if (!steps.modules.empty())
    json["modules"] = list_json(steps.modules, [](const ModuleTime& module) {
      return Json{{"name", module.name},
                  {"class", module.kind},
                  {"count", module.count},
                  {"forward_ms", number(module.forward_ms)},
                  {"backward_ms", number(module.backward_ms)},
                  {"on_gpu", module.on_gpu},
                  {"steps", module.steps}};
    });
  json["wall_ms"] = number(steps.wall_ms);
  if (steps.hooks_ms > 0) json["hooks_ms"] = number(steps.hooks_ms);
  json["gpu_idle_share"] = number(steps.gpu_idle_share);
  json["hidden_data_wait_share"] = number(steps.hidden_data_wait);
  json["passes_a_step"] = number(steps.passes_a_step);
  json["synced_passes_a_step"] = number(steps.synced_passes_a_step);
  return json;
}

Json stacks_json(const StackProfile& profile) {
  return {{"samples", profile.samples},
          {"processes", profile.processes},
          {"lines", list_json(stack_lines(profile), [](const StackLine& line) {
             return Json{{"part", kStepSpanNames[index_of(line.part)]},
                         {"file", line.place.file},
                         {"line", line.place.line},
                         {"what", line.place.what},
                         {"share", number(line.share)}};
           })}};
}

Json loader_json(const LoaderAnswer& answer) {
  const auto trial_json = [](const LoaderTrial& trial) {
    return Json{{"workers", trial.workers},
                {"batches", trial.batches},
                {"first_ms", number(trial.first_ms)},
                {"batch_ms", number(trial.batch_ms)}};
  };
  Json json = {{"alone", trial_json(answer.alone)},
               {"trials", list_json(answer.trials, trial_json)},
               {"step_alone_ms", number(answer.step_alone_ms)},
               {"loading_is_slow", answer.loading_is_slow},
               {"enough_workers", or_null(answer.enough_workers)},
               {"enough_prefetch", or_null(answer.enough_prefetch)},
               {"tried", answer.tried},
               {"sentence", answer.sentence},
               {"warnings", answer.warnings}};
  if (answer.transfer)
    json["transfer"] = {{"bytes", number(answer.transfer->bytes)},
                        {"pageable_ms", number(answer.transfer->pageable_ms)},
                        {"pinned_ms", number(answer.transfer->pinned_ms)}};
  return json;
}

Json verification_json(const Verification& verification) {
  static constexpr std::array<const char*, 4> kBases = {"samples", "batches", "gpu_work",
                                                        "whole_run"};
  Json variants = Json::array();
  for (std::size_t i = 0; i < verification.variants.size(); ++i) {
    const VerifiedVariant& variant = verification.variants[i];
    const Speedup& speedup = verification.speedups[i];
    variants.push_back({{"title", variant.title},
                        {"command", variant.command},
                        {"speeds", variant.speeds},
                        {"seconds", variant.seconds},
                        {"speedup", number(speedup.ratio)},
                        {"low", number(speedup.low)},
                        {"high", number(speedup.high)}});
  }
  return {{"measured_by", kBases[static_cast<std::size_t>(verification.basis)]},
          {"cut_short", verification.cut_short},
          {"variants", std::move(variants)}};
}

Json comparison_json(const Comparison& comparison) {
  Json json = {{"against", comparison.against},
               {"speedup", number(comparison.speedup)},
               {"ideal", number(comparison.ideal)},
               {"efficiency", number(comparison.efficiency)},
               {"measured_by", comparison.measured_by},
               {"missing", list_json(comparison.missing, [](const Comparison::Share& share) {
                  return Json{{"code", share.code}, {"lost", number(share.lost)}};
                })}};
  json["only_here"] = comparison.only_here;
  json["only_there"] = comparison.only_there;
  if (!comparison.changes.empty())
    json["changes"] = list_json(comparison.changes, [](const Comparison::Change& change) {
      return Json{{"what", change.what},
                  {"own", number(change.own)},
                  {"other", number(change.other)},
                  {"unit", change.unit}};
    });
  return json;
}

Json report_json(const Report& report) {
  Json throughput = nullptr;
  if (report.throughput)
    throughput = {{"now", number(report.throughput->now)},
                  {"possible", number(report.throughput->possible)}};
  Json json = {
      {"lockstep_report", kReportVersion},
      {"source", {{"kind", name_of(report.source_kind)}, {"detail", report.source_detail}}},
      {"duration_s", number(report.duration_s)},
      {"jobs", list_json(report.jobs, job_json)},
      {"verdict", verdict_json(report.verdict)},
      {"throughput", throughput},
      {"findings", list_json(report.findings, finding_json)},
      {"gpus", list_json(report.gpus, gpu_json)},
      {"processes", list_json(report.processes, process_json)},
      {"suspicions", list_json(report.suspicions, finding_json)},
      {"events", list_json(report.events,
                           [](const Event& event) {
                             return Json{{"kind", event.kind.text()},
                                         {"gpu", or_null(event.gpu)},
                                         {"detail", event.detail}};
                           })},
      {"not_measured", list_json(report.not_measured, [](const NotMeasured& entry) {
         return Json{{"signal", entry.signal}, {"reason", entry.reason}};
       })}};
  if (!report.clocks.empty())
    json["clocks"] = list_json(report.clocks, [](const HostClock& clock) {
      return Json{{"host", clock.host},
                  {"input", clock.input},
                  {"ahead_ms", number(clock.ahead_ms)},
                  {"error_ms", clock.error_ms ? number(*clock.error_ms) : Json(nullptr)},
                  {"drift_ppm", number(clock.drift_ppm)},
                  {"matched_steps", clock.matched_steps}};
    });
  if (!report.checklist.empty())
    json["checklist"] = list_json(report.checklist, [](const CheckItem& item) {
      return Json{{"question", item.question},
                  {"measured", item.measured},
                  {"yes", item.yes ? Json(*item.yes) : Json(nullptr)}};
    });
  if (report.findings_left_out > 0) json["findings_left_out"] = report.findings_left_out;
  if (report.steps) json["steps"] = steps_json(*report.steps, report.source_kind);
  if (report.steps && report.steps->devices)
    json["steps"]["on_gpus"] = devices_json(*report.steps->devices);
  if (report.stacks) json["stacks"] = stacks_json(*report.stacks);
  if (report.collectives) json["collectives"] = collectives_json(*report.collectives);
  if (report.communicators) json["communicators"] = communicators_json(*report.communicators);
  if (!report.probes.empty())
    json["probes"] = {{"heard", report.probes}, {"rung", rung_of(report.probes)}};
  if (report.loader) json["dataloader"] = loader_json(*report.loader);
  if (report.command)
    json["command"] = {{"command", report.command->command},
                       {"exit_code", or_null(report.command->exit_code)},
                       {"stopped_by_lockstep", report.command->stopped_by_lockstep}};
  if (report.comparison) json["comparison"] = comparison_json(*report.comparison);
  if (!report.no_comparison.empty()) json["no_comparison"] = report.no_comparison;
  if (report.verification) json["verification"] = verification_json(*report.verification);
  if (report.trace) json["trace"] = trace_object(*report.trace);
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json run_json(const MeasuredRun& run) {
  return {{"tokens_per_s", number(run.tokens_per_s)},
          {"command", run.command},
          {"report", report_json(run.report)}};
}

}  // namespace

std::string JsonRenderer::render(const Report& report) const {
  return text_of(report_json(report));
}

std::string before_after_json(const BeforeAfter& runs) {
  Json json = {{"lockstep_demo", 1},
               {"speedup", number(runs.speedup())},
               {"disturbed_by", or_null(runs.disturbed_by)},
               {"before", run_json(runs.before)},
               {"after", run_json(runs.after)}};
  return text_of(json);
}

}  // namespace lockstep
