#include "sources/probe/probe_reader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text.hpp"

namespace lockstep {
namespace {

static_assert(kStepSpanNames.size() <= LOCKSTEP_WIRE_SPANS);
static_assert(kStepSpanNames[LOCKSTEP_SPAN_COLLECTIVE_HIDDEN] == "collective_hidden" &&
                  kStepSpanNames[LOCKSTEP_SPAN_OTHER] == "other",
              "the wire's spans are a recording's, in the same order");

constexpr std::uint64_t kLongestStepNs = 86'400ULL * 1'000'000'000ULL;  // a day: more is damage

// The step of a record; nothing when the numbers make none.
std::optional<StepMark> step_of(const lockstep_step& step) {
  if (step.duration_ns == 0 || step.duration_ns > kLongestStepNs || step.rank < 0)
    return std::nullopt;
  StepMark mark;
  mark.rank = step.rank;
  mark.index = step.index;
  mark.duration_ms = static_cast<double>(step.duration_ns) / 1e6;
  for (std::size_t span = 0; span < kStepSpanNames.size(); ++span) {
    if ((step.spans_known >> span & 1U) == 0) continue;
    if (step.span_ns[span] > kLongestStepNs) return std::nullopt;
    mark.spans_ms[span] = static_cast<double>(step.span_ns[span]) / 1e6;
  }
  return mark;
}

// `name key=value key=value`
std::optional<ProbeFact> fact_of(const lockstep_record& record) {
  const std::string text(record.payload.fact,
                         ::strnlen(record.payload.fact, sizeof record.payload.fact));
  ProbeFact fact;
  for (const std::string_view word : split(text, ' ')) {
    if (fact.name.empty()) {
      fact.name = word;
      continue;
    }
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;  // the last word may be cut
    fact.values.emplace(std::string(word.substr(0, equals)), std::string(word.substr(equals + 1)));
  }
  if (fact.name.empty()) return std::nullopt;
  return fact;
}

double hidden_ms(const ProbeFact& ddp) {
  const auto overlap = ddp.values.find("overlap_ns");
  const auto nanoseconds =
      overlap != ddp.values.end() ? parse_unsigned(overlap->second) : std::nullopt;
  return nanoseconds && *nanoseconds <= kLongestStepNs ? static_cast<double>(*nanoseconds) / 1e6
                                                       : 0;
}

// Whether it only says when the CUDA probe was on.
bool tell_windows(const ProbeFact& fact, DeviceAccountant& device) {
  if (fact.values.contains("stopped")) device.end();
  const auto moment = [&](const char* name) -> std::optional<std::uint64_t> {
    const auto found = fact.values.find(name);
    return found != fact.values.end() ? parse_unsigned(found->second) : std::nullopt;
  };
  if (const auto at_ns = moment("attached")) device.attached(*at_ns);
  if (const auto at_ns = moment("left")) device.left(*at_ns);
  if (const auto at_ns = moment("opened")) device.opened(*at_ns);
  if (const auto at_ns = moment("closed")) device.closed(*at_ns);
  if (const auto until_ns = moment("rested")) device.rested(*until_ns);
  return !fact.values.contains("stopped");
}

// Whose records those are, for a recording to tell it as the live report does.
std::string_view probe_of(std::uint32_t role) {
  switch (role) {
    case LOCKSTEP_ROLE_CUDA: return "cuda";
    case LOCKSTEP_ROLE_NCCL: return "nccl";
    case LOCKSTEP_ROLE_RANK: return "python";
    case LOCKSTEP_ROLE_HOST: return "host";
    default: return "";
  }
}

}  // namespace

Record on_timeline(ProbeRecord record, double offset_ms) {
  const double t_ms = static_cast<double>(record.end_ns) / 1e6 + offset_ms;
  if (auto* step = std::get_if<StepMark>(&record.content)) return {t_ms, std::move(*step)};
  if (auto* fact = std::get_if<ProbeFact>(&record.content)) return {t_ms, std::move(*fact)};
  auto& call = std::get<CollectiveCall>(record.content);
  call.called_ms += offset_ms;
  call.queued_ms += offset_ms;
  if (call.begin_ms) *call.begin_ms += offset_ms;
  if (call.end_ms) *call.end_ms += offset_ms;
  return {t_ms, std::move(call)};
}

void ProbeReader::take(const WireOwner& owner, const lockstep_record& record,
                       std::vector<ProbeRecord>& records) {
  const bool is_first = !heard_[owner.role];
  heard_[owner.role] = true;
  const auto now_ns =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  if (record.kind == LOCKSTEP_RECORD_STEP) {
    const auto mark =
        record.size >= sizeof(lockstep_step) ? step_of(record.payload.step) : std::nullopt;
    if (mark)
      records.push_back({record.payload.step.end_ns, *mark});
    else
      ++damaged_;
    return;
  }
  if (owner.role == LOCKSTEP_ROLE_WORKER) {
    if (record.kind != LOCKSTEP_RECORD_SPAN || record.size < sizeof(lockstep_span_record)) return;
    const lockstep_span_record& span = record.payload.span;
    if (span.end_ns < span.begin_ns || span.end_ns - span.begin_ns > kLongestStepNs) return;
    Fetches& fetches = fetches_[owner.parent_pid];
    const double length = static_cast<double>(span.end_ns - span.begin_ns) / 1e6;
    fetches.count += 1;
    fetches.total_ms += length;
    fetches.longest_ms = std::max(fetches.longest_ms, length);
    fetches.newest_ns = span.end_ns;
    fetches.loader = span.subject;
    return;
  }
  Process& process =
      processes_.try_emplace(owner.pid, Process{0, StepAccountant(device_work_), {}}).first->second;
  if (owner.rank) process.rank = *owner.rank;
  if (is_first)
    if (const std::string_view probe = probe_of(owner.role); !probe.empty())
      records.push_back(
          {now_ns, ProbeFact{owner.pid, process.rank, "heard", {{"probe", std::string(probe)}}}});
  if (record.kind == LOCKSTEP_RECORD_SPAN && record.size >= sizeof(lockstep_span_record)) {
    if (owner.role == LOCKSTEP_ROLE_HOST)
      process.accountant.add_host(record.payload.span);
    else
      process.accountant.add(record.payload.span);
  } else if (record.kind == LOCKSTEP_RECORD_SAMPLE && record.size >= sizeof(lockstep_sample)) {
    process.accountant.add(record.payload.sample);
  } else if (record.kind == LOCKSTEP_RECORD_NAME && record.size >= sizeof(lockstep_name)) {
    process.accountant.device().add(record.payload.name);
  } else if (record.kind == LOCKSTEP_RECORD_DEVICE) {
    const std::size_t rows =
        std::min<std::size_t>(record.size / sizeof(lockstep_device_row), LOCKSTEP_DEVICE_ROWS);
    for (std::size_t i = 0; i < rows; ++i) process.accountant.device().add(record.payload.rows[i]);
  } else if (record.kind == LOCKSTEP_RECORD_COLLECTIVE &&
             record.size >= sizeof(lockstep_collective)) {
    if (!process.collectives.add(record.payload.collective)) ++damaged_;
  } else if (record.kind == LOCKSTEP_RECORD_FACT) {
    if (auto fact = fact_of(record)) {
      fact->pid = owner.pid;
      fact->rank = process.rank;
      if (fact->name == "lost") {
        const auto lost = fact->values.find("records");
        const auto count =
            lost != fact->values.end() ? parse_unsigned(lost->second).value_or(0) : 0;
        (owner.role == LOCKSTEP_ROLE_CUDA ? without_times_ : damaged_) += count;
        return;
      }
      if (fact->name == "cuda_probe" && tell_windows(*fact, process.accountant.device())) return;
      if (fact->name == "ddp") process.hidden_of_a_sync_ms = hidden_ms(*fact);
      if (owner.world_size) fact->values.emplace("world_size", std::to_string(*owner.world_size));
      records.push_back({now_ns, std::move(*fact)});
    }
  }
}

void ProbeReader::take_collectives(StepAccountant::Until until, std::vector<ProbeRecord>& records) {
  const auto now_ns =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  for (auto& [pid, process] : processes_) {
    DeviceAccountant& device = process.accountant.device();
    process.collectives.add(device.take_collectives());
    const auto ms = [](std::uint64_t nanoseconds) {
      return static_cast<double>(nanoseconds) / 1e6;
    };
    for (TimedCollective& one : process.collectives.take(until == StepAccountant::Until::end
                                                             ? CollectiveTimes::Until::end
                                                             : CollectiveTimes::Until::settled,
                                                         device.speaks(), now_ns)) {
      CollectiveCall& call = one.call;
      call.pid = pid;
      call.rank = process.rank;
      call.called_ms = ms(one.called_ns);
      call.queued_ms = ms(one.queued_ns);
      if (one.begin_ns != 0) {
        call.begin_ms = ms(one.begin_ns);
        call.end_ms = ms(one.end_ns);
      }
      records.push_back({one.queued_ns, std::move(call)});
    }
  }
}

std::vector<ProbeRecord> ProbeReader::read(StepAccountant::Until until) {
  std::vector<ProbeRecord> records;
  fetches_.clear();
  wire_.read(
      [&](const WireOwner& owner, const lockstep_record& record) { take(owner, record, records); });
  take_collectives(until, records);
  for (auto& [pid, process] : processes_)
    for (StepAccountant::Step& step : process.accountant.take(until)) {
      step.mark.rank = process.rank;
      if (process.hidden_of_a_sync_ms > 0 && !step.mark.on_devices &&
          step.mark.synced_passes.value_or(0) > 0)
        step.mark.spans_ms[LOCKSTEP_SPAN_COLLECTIVE_HIDDEN] =
            std::min(process.hidden_of_a_sync_ms * *step.mark.synced_passes, step.mark.duration_ms);
      records.push_back({step.end_ns, std::move(step.mark)});
    }
  for (const auto& [pid, fetches] : fetches_) {
    const auto rank = processes_.find(pid);
    ProbeFact fact{pid, rank == processes_.end() ? 0 : rank->second.rank, "fetched", {}};
    fact.values = {{"batches", std::to_string(fetches.count)},
                   {"total_ms", std::to_string(fetches.total_ms)},
                   {"longest_ms", std::to_string(fetches.longest_ms)},
                   {"id", std::to_string(fetches.loader)}};
    records.push_back({fetches.newest_ns, std::move(fact)});
  }
  std::ranges::stable_sort(
      records, [](const ProbeRecord& a, const ProbeRecord& b) { return a.end_ns < b.end_ns; });
  return records;
}

std::vector<ProbeRecord> ProbeReader::read_to_the_end() {
  std::vector<ProbeRecord> records = read(StepAccountant::Until::settled);
  // stores of a writer without barriers are long visible then
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (ProbeRecord& record : read(StepAccountant::Until::end)) records.push_back(std::move(record));
  std::ranges::stable_sort(
      records, [](const ProbeRecord& a, const ProbeRecord& b) { return a.end_ns < b.end_ns; });
  return records;
}

}  // namespace lockstep
