#include "sources/replay/replay_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace lockstep {

ReplaySource::ReplaySource(RecordingReader reader, std::string name, std::vector<int> gpus)
    : reader_(std::move(reader)),
      name_(std::move(name)),
      gpus_(std::move(gpus)),
      machine_(reader_.machine()) {
  std::erase_if(machine_.gpus, [&](const GpuInfo& gpu) { return !wanted(gpu.index); });
}

bool ReplaySource::wanted(int gpu) const {
  return gpus_.empty() || std::ranges::find(gpus_, gpu) != gpus_.end();
}

Result<NextRecord> ReplaySource::next(std::chrono::milliseconds) {
  while (auto record = reader_.next()) {
    if (!gpus_.empty()) {
      const auto* event = std::get_if<Event>(&record->content);
      if (event != nullptr && event->gpu && !wanted(*event->gpu)) continue;
      keep_wanted(*record);
    }
    return NextRecord(std::move(*record));
  }
  return NextRecord(EndOfInput{});
}

void ReplaySource::keep_wanted(Record& record) const {
  if (auto* tick = std::get_if<GpuTick>(&record.content)) {
    std::erase_if(*tick, [&](const GpuSample& gpu) { return !wanted(gpu.index); });
  } else if (auto* processes = std::get_if<ProcessTick>(&record.content)) {
    for (ProcessSample& process : *processes)
      std::erase_if(process.gpus, [&](const ProcessOnGpu& gpu) { return !wanted(gpu.index); });
    std::erase_if(*processes, [](const ProcessSample& process) { return process.gpus.empty(); });
  }
}

std::optional<std::string> ReplaySource::repair_note() const {
  const ReadLosses losses = reader_.losses();
  if (!losses.any()) return std::nullopt;
  return fmt::format("{}: {}; the rest was read", printable(name_), describe(losses));
}

}  // namespace lockstep
