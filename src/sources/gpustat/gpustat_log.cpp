#include "sources/gpustat/gpustat_log.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/redact.hpp"
#include "sources/parsed/cells.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// Whole objects, one after the other; a last one that was cut is left out.
std::vector<std::string_view> objects_in(std::string_view text) {
  std::vector<std::string_view> objects;
  std::size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      if (depth++ == 0) begin = i;
    } else if (c == '}' && depth > 0 && --depth == 0) {
      objects.push_back(text.substr(begin, i - begin + 1));
    }
  }
  return objects;
}

std::optional<double> number_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
}

std::string text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<ProcessSample> process_of(const Json& entry, int gpu) {
  const auto pid = number_field(entry, "pid");
  if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF) return std::nullopt;
  ProcessSample process;
  process.pid = static_cast<int>(*pid);
  ProcessOnGpu use{gpu, std::nullopt};
  if (const auto memory = number_field(entry, "gpu_memory_usage");
      memory && *memory >= 0 && *memory < 1e9)
    use.memory_bytes = static_cast<std::uint64_t>(*memory * 1048576);
  process.gpus = {use};
  if (const auto cpu = number_field(entry, "cpu_percent"); cpu && *cpu >= 0)
    process.cpu = *cpu / 100;
  if (const std::string user = text_field(entry, "username"); !user.empty()) process.user = user;
  const auto command = entry.find("full_command");
  if (command != entry.end() && command->is_array()) {
    std::vector<std::string> words;
    for (const Json& word : *command)
      if (word.is_string()) words.push_back(word.get<std::string>());
    if (!words.empty()) process.command = redact_command(std::move(words));
  }
  return process;
}

void add_query(const Json& query, LogBuilder& builder) {
  const auto time = parse_time(text_field(query, "query_time"));
  for (const Json& gpu : query.at("gpus")) {
    if (!gpu.is_object()) continue;
    LogRow row;
    row.time_s = time;
    const auto index = number_field(gpu, "index");
    if (!index || *index < 0 || *index > 1023) continue;
    row.gpu = static_cast<int>(*index);
    row.name = text_field(gpu, "name");
    row.uuid = text_field(gpu, "uuid");
    if (const auto busy = number_field(gpu, "utilization.gpu")) row.busy = *busy / 100;
    if (const auto used = number_field(gpu, "memory.used")) row.memory_used_bytes = *used * 1048576;
    if (const auto total = number_field(gpu, "memory.total"))
      row.memory_total_bytes = *total * 1048576;
    if (const auto power = number_field(gpu, "power.draw")) row.power_mw = *power * 1e3;
    if (const auto limit = number_field(gpu, "enforced.power.limit"))
      row.power_limit_mw = *limit * 1e3;
    row.temperature_c = number_field(gpu, "temperature.gpu");
    const int at = row.gpu;
    builder.add(std::move(row));
    const auto processes = gpu.find("processes");
    ProcessTick listed;
    if (processes != gpu.end() && processes->is_array())
      for (const Json& entry : *processes)
        if (entry.is_object())
          if (auto process = process_of(entry, at)) listed.push_back(std::move(*process));
    builder.add_processes(time, std::move(listed));
  }
  builder.end_tick();
}

}  // namespace

std::optional<ParsedLog> parse_gpustat_log(const std::string& text) {
  if (text.find("\"gpus\"") == std::string::npos) return std::nullopt;
  LogBuilder builder(SourceKind::gpustat, ProcessCoverage::all);
  std::size_t queries = 0;
  for (const std::string_view object : objects_in(text)) {
    const Json query = Json::parse(object, nullptr, false);
    const auto gpus = query.is_object() ? query.find("gpus") : query.end();
    if (!query.is_object() || gpus == query.end() || !gpus->is_array()) continue;
    ++queries;
    add_query(query, builder);
  }
  auto log = queries > 0 ? builder.build() : std::nullopt;
  // In a container the lists are empty though GPUs are in use: then they say nothing.
  const bool any_process = log && std::ranges::any_of(log->records, [](const Record& record) {
                             const auto* processes = std::get_if<ProcessTick>(&record.content);
                             return processes != nullptr && !processes->empty();
                           });
  if (log && !any_process) {
    log->machine.process_coverage = ProcessCoverage::none;
    std::erase_if(log->records, [](const Record& record) {
      return std::holds_alternative<ProcessTick>(record.content);
    });
  }
  return log;
}

}  // namespace lockstep
