#include "render/json/merged_trace.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.hpp"
#include "render/json/json_values.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBlock = 1U << 20U;
// beside thread and stream numbers, which are smaller or start elsewhere
constexpr int kStepsRow = 1'000'000;
constexpr int kMarksRow = 1'000'001;
constexpr double kMarkAtLeast = 0.005;  // of a step

class Events {
 public:
  explicit Events(AtomicFile& file) : file_(file) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  }

  void add_text(std::string_view event) {
    if (any_) text_ += ",\n";
    any_ = true;
    text_ += event;
    if (text_.size() > kBlock) flush();
  }
  void add(const Json& event) {
    add_text(event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  Status finish() {
    text_ += "\n]}\n";
    flush();
    return file_.commit();
  }

 private:
  void flush() {
    file_.append(text_);
    text_.clear();
  }

  AtomicFile& file_;
  std::string text_;
  bool any_ = false;
};

// Microseconds with three decimals, exact.
std::string us_text(std::int64_t ns) {
  const bool negative = ns < 0;
  const auto size = static_cast<std::uint64_t>(negative ? -ns : ns);
  std::string fraction = std::to_string(size % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return (negative ? "-" : "") + std::to_string(size / 1000) + "." + fraction;
}

constexpr std::array<std::string_view, 11> kCategories = {
    "cpu_op",          "user_annotation", "python_function",    "cuda_runtime",
    "other",           "kernel",          "gpu_memcpy",         "gpu_memset",
    "mtia_ccp_events", "cuda_sync",       "gpu_user_annotation"};

// One rank's rows. Names are turned into JSON once each.
void add_rows(const RankTrace& trace, std::int64_t offset, Events& events) {
  std::vector<std::string> names(trace.names.size());
  const auto quoted = [&](NameTable::Id id) -> const std::string& {
    if (names[id].empty())
      names[id] =
          Json(std::string(trace.names[id])).dump(-1, ' ', false, Json::error_handler_t::replace);
    return names[id];
  };
  const std::string rank = std::to_string(trace.rank);
  std::string event;
  const auto add = [&](NameTable::Id name, TraceCategory category, const std::string& row,
                       std::int64_t start, std::int64_t duration, std::int64_t correlation) {
    event.clear();
    event += "{\"ph\":\"X\",\"cat\":\"";
    event += kCategories[static_cast<std::size_t>(category)];
    event += "\",\"name\":" + quoted(name) + ",\"pid\":" + rank + ",\"tid\":" + row +
             ",\"ts\":" + us_text(start + offset) + ",\"dur\":" + us_text(duration);
    if (correlation >= 0)
      event += ",\"args\":{\"correlation\":" + std::to_string(correlation) + "}";
    event += "}";
    events.add_text(event);
  };
  for (const HostRow& row : trace.host_rows)
    add(row.name, row.category, std::to_string(row.thread), row.start_ns, row.duration_ns,
        row.correlation);
  std::map<std::pair<int, int>, std::string> streams;
  for (const DeviceRow& row : trace.device_rows) {
    const int stream = row.stream == kNoStream ? row.row_thread : row.stream;
    const auto [entry, is_new] = streams.try_emplace(
        {row.device, stream}, std::to_string(500'000 + static_cast<int>(streams.size())));
    if (is_new)
      events.add(named("thread_name", trace.rank, 500'000 + static_cast<int>(streams.size()) - 1,
                       "GPU " + std::to_string(row.device) + " stream " + std::to_string(stream)));
    add(row.name, row.category, entry->second, row.start_ns, row.duration_ns, row.correlation);
  }
  for (std::size_t i = 0; i < trace.threads.size(); ++i)
    events.add(named("thread_name", trace.rank, static_cast<std::int64_t>(i),
                     "thread " + std::to_string(trace.threads[i].thread)));
}

// Which finding an idle stretch of a part belongs to.
const Finding* finding_about(const Report& report, const StepMark& step, const StepPiece& piece) {
  const auto speaks_of = [&](FindingCode code) {
    switch (code) {
      case FindingCode::input_starved: return piece.part == StepPart::data_wait && !piece.on_device;
      case FindingCode::host_sync_every_step:
        return piece.part == StepPart::sync && !piece.on_device;
      case FindingCode::pageable_copies: return piece.part == StepPart::copy;
      case FindingCode::logging_too_often: return piece.part == StepPart::logging;
      case FindingCode::checkpoint_stall: return piece.part == StepPart::checkpoint;
      case FindingCode::evaluation_stall:
        return piece.part == StepPart::evaluation && !piece.on_device;
      case FindingCode::stopped_by_collector: return piece.part == StepPart::gc;
      case FindingCode::launch_bound:
        return !piece.on_device &&
               (piece.part == StepPart::forward || piece.part == StepPart::backward ||
                piece.part == StepPart::optimizer);
      case FindingCode::straggler_rank:
      case FindingCode::exposed_collectives: return piece.part == StepPart::collective_exposed;
      default: return false;
    }
  };
  for (const Finding& finding : report.findings) {
    const bool of_rank = finding.ranks.empty() || finding.code == FindingCode::straggler_rank ||
                         std::ranges::find(finding.ranks, step.rank) != finding.ranks.end();
    if (of_rank && speaks_of(finding.code)) return &finding;
  }
  return nullptr;
}

void add_steps(const Timeline& timeline, const Report& report, Events& events) {
  std::set<int> ranks;
  const double begin_us = static_cast<double>(timeline.machine.started_unix_ns) / 1e3;
  const auto span = [&](const std::string& name, std::string_view category, int rank, int row,
                        double from_ms, double length_ms) -> Json {
    return {{"ph", "X"},
            {"cat", category},
            {"name", name},
            {"pid", rank},
            {"tid", row},
            {"ts", begin_us + from_ms * 1e3},
            {"dur", length_ms * 1e3}};
  };
  for (const StepAt& entry : timeline.steps) {
    const StepMark& step = entry.step;
    if (ranks.insert(step.rank).second) {
      events.add(named("thread_name", step.rank, kStepsRow, "lockstep: steps"));
      events.add(named("thread_name", step.rank, kMarksRow, "lockstep: findings"));
    }
    const double begin_ms = entry.t_ms - step.duration_ms;
    events.add(span("step " + std::to_string(step.index), "step", step.rank, kStepsRow, begin_ms,
                    step.duration_ms));
    if (!step.detail) continue;
    for (const StepPiece& piece : step.detail->pieces) {
      if (piece.length_ms < kMarkAtLeast * step.duration_ms) continue;
      const Finding* const finding = finding_about(report, step, piece);
      if (finding == nullptr) continue;
      Json mark = span(
          std::string(name_of(finding->code).id) + " " + std::string(name_of(finding->code).name),
          "finding", step.rank, kMarksRow, begin_ms + piece.from_ms, piece.length_ms);
      mark["args"] = {{"what", piece.place->what},
                      {"part", kStepSpanNames[index_of(piece.part)]},
                      {"lost_throughput", finding->lost_throughput}};
      events.add(mark);
    }
  }
}

}  // namespace

Status write_merged_trace(const std::string& path, const std::vector<RankTrace>& traces,
                          const std::vector<std::int64_t>& offsets_ns, const Timeline& timeline,
                          const Report& report) {
  auto file = TRY(AtomicFile::create(path));
  Events events(file);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    events.add(named("process_name", traces[i].rank, 0, "rank " + std::to_string(traces[i].rank)));
    add_rows(traces[i], offsets_ns[i], events);
  }
  add_steps(timeline, report, events);
  return events.finish();
}

}  // namespace lockstep
