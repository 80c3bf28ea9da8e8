#include "render/json/trace_writer.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.hpp"
#include "render/json/json_values.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStepsThread = 1;
constexpr int kPiecesRow = 2;
constexpr int kFirstStreamRow = 1000;  // a GPU's streams
constexpr int kRowsOfADevice = 100'000;

Json span(const std::string& name, std::string_view category, int rank, int row, double from_ms,
          double length_ms) {
  return {{"name", name},        {"cat", category},       {"ph", "X"}, {"pid", rank}, {"tid", row},
          {"ts", from_ms * 1e3}, {"dur", length_ms * 1e3}};
}

}  // namespace

std::string trace_json(const Timeline& timeline) {
  Json events = Json::array();
  std::set<int> ranks;
  std::set<std::pair<int, int>> streams;
  for (const StepAt& entry : timeline.steps) {
    const StepMark& step = entry.step;
    if (ranks.insert(step.rank).second) {
      events.push_back(named("process_name", step.rank, 0, "rank " + std::to_string(step.rank)));
      events.push_back(named("thread_name", step.rank, kStepsThread, "steps"));
      events.push_back(named("thread_name", step.rank, kPiecesRow, "training thread"));
    }
    const double begin_ms = entry.t_ms - step.duration_ms;
    events.push_back(span("step " + std::to_string(step.index), "step", step.rank, kStepsThread,
                          begin_ms, step.duration_ms));
    if (step.on_devices)
      for (const DeviceWork& work : step.on_devices->work) {
        const int row = kFirstStreamRow + work.device * kRowsOfADevice + work.stream;
        if (streams.emplace(step.rank, row).second)
          events.push_back(named(
              "thread_name", step.rank, row,
              "GPU " + std::to_string(work.device) + ", stream " + std::to_string(work.stream)));
        events.push_back(span(*work.name,
                              work.name->starts_with("Memcpy")   ? "gpu_memcpy"
                              : work.name->starts_with("Memset") ? "gpu_memset"
                                                                 : "kernel",
                              step.rank, row, begin_ms + work.from_ms, work.length_ms));
        events.back()["args"] = {{"device", work.device}, {"stream", work.stream}};
      }
    if (!step.detail) continue;
    for (const StepPiece& piece : step.detail->pieces) {
      const std::string_view part = kStepSpanNames[index_of(piece.part)];
      Json event = span(piece.place->what.empty() ? std::string(part) : piece.place->what, part,
                        step.rank, kPiecesRow, begin_ms + piece.from_ms, piece.length_ms);
      if (!piece.place->file.empty())
        event["args"] = {{"part", part},
                         {"where", piece.place->file + ":" + std::to_string(piece.place->line)},
                         {"calls", piece.count},
                         {"own_ms", piece.own_ms}};
      events.push_back(std::move(event));
    }
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump(
             -1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

Status write_trace(const std::string& path, const Timeline& timeline) {
  return write_file_atomically(path, trace_json(timeline));
}

}  // namespace lockstep
